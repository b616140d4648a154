"""The published target plan of five operators between fifteen others that keep the processor busy (golden example 8)."""

from __future__ import annotations

from penstock.qos.capacity.plans import ModelPlan, PlanInput, PlanOperator

FILLERS = tuple(f"f{number}" for number in range(15))
TARGET = ("O1", "O2", "O3", "O4", "O5")
HIERARCHICAL = (*TARGET, *FILLERS)
GLOBAL = tuple(name for at, operator in enumerate(TARGET) for name in (operator, *FILLERS[3 * at : 3 * at + 3]))


def target_plan(fill: bool = True) -> ModelPlan:
    operators = (
        PlanOperator("O1", (PlanInput("s1", 1 / 41684.7, 0.24288),), 4.8044e-5),
        PlanOperator("O2", (PlanInput("s2", 1 / 21861, 0.487534),), 1.9599e-5),
        PlanOperator("O3", (PlanInput("O1", 1 / 5285.81, 0.30703), PlanInput("O2", 1 / 5285.81, 0.300177)), 6.9477e-4),
        PlanOperator("O4", (PlanInput("s3", 1 / 28461.9, 0.36534),), 1.1502e-5),
        PlanOperator("O5", (PlanInput("O3", 1 / 5894.1, 0.308514), PlanInput("O4", 1 / 5894.1, 0.307712)), 7.4224e-4),
    )
    fillers = tuple(PlanOperator(name, (PlanInput(f"s{name}", 0.56383220e-3),), 2.2e-3) for name in FILLERS) if fill else ()
    rates = {"s1": 100.0, "s2": 100.0, "s3": 100.0} | ({f"s{name}": 100.0 for name in FILLERS} if fill else {})
    return ModelPlan((*operators, *fillers), rates, {"target": "O5"} | ({name: name for name in FILLERS} if fill else {}))
