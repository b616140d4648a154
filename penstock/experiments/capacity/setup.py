"""Plans, loads and arrivals of the experiments on the capacity model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from penstock.experiments.capacity.simulation import Polling, Served, at_random
from penstock.experiments.contracts import Floats, Settings, statements
from penstock.experiments.parallel import side_by_side
from penstock.qos.capacity.plans import ModelPlan, PlanInput, PlanOperator
from penstock.qos.capacity.polled_plans import PolledPlan, push_up
from penstock.workloads.arrivals import MICROS, RateSchedule
from penstock.workloads.query_sets import published_queries
from penstock.workloads.self_similar import SelfSimilar

STATEMENTS = statements(Path(__file__).parent)

#: Operators of the target plan, and those of other queries that keep the processor busy.
TARGET = ("O1", "O2", "O3", "O4", "O5")
_FILLERS = tuple(f"f{number}" for number in range(15))
#: Each operator behind its child, then the others; and each operator followed by three others.
HIERARCHICAL = (*TARGET, *_FILLERS)
GLOBAL = tuple(name for at, operator in enumerate(TARGET) for name in (operator, *_FILLERS[3 * at : 3 * at + 3]))

#: Mean setup of the 116 operators, in seconds, and the rows that are not counted, in seconds of stream.
_SETUP_S, _WARM_UP_S = 3e-4, 100.0

_RATE = 100.0
#: Service rates, selectivities and setups of the target plan, as published.
_INPUTS: Mapping[str, tuple[tuple[str, float, float], ...]] = {
    "O1": (("s1", 41684.7, 0.24288),),
    "O2": (("s2", 21861.0, 0.487534),),
    "O3": (("O1", 5285.81, 0.30703), ("O2", 5285.81, 0.300177)),
    "O4": (("s3", 28461.9, 0.36534),),
    "O5": (("O3", 5894.1, 0.308514), ("O4", 5894.1, 0.307712)),
}
_SETUPS = {"O1": 4.8044e-5, "O2": 1.9599e-5, "O3": 6.9477e-4, "O4": 1.1502e-5, "O5": 7.4224e-4}


def target_plan(load: float = 0.88) -> ModelPlan:
    """The published target plan at 100 rows per second and stream, and 15 others that make up the load."""
    operators = tuple(
        PlanOperator(name, tuple(PlanInput(source, 1 / rate, passing) for source, rate, passing in inputs), _SETUPS[name])
        for name, inputs in _INPUTS.items()
    )
    rates = {"s1": _RATE, "s2": _RATE, "s3": _RATE}
    alone = ModelPlan(operators, rates, {"target": "O5"})
    service = (load - alone.load) / len(_FILLERS) / _RATE
    fillers = tuple(PlanOperator(name, (PlanInput(f"s{name}", service),), 2.2e-3) for name in _FILLERS)
    return ModelPlan(
        (*operators, *fillers),
        rates | {f"s{name}": _RATE for name in _FILLERS},
        {"target": "O5"} | {name: name for name in _FILLERS},
    )


@cache
def many_queries(load: float) -> ModelPlan:
    """Sixteen queries with 116 operators on five streams, at a load."""
    sketch = published_queries()
    drawn = np.random.default_rng(5).uniform(0.5, 1.5, len(sketch.operators))
    setups = {operator.id: _SETUP_S * float(share) for operator, share in zip(sketch.operators, drawn, strict=True)}
    return ModelPlan.from_sketch(sketch, sketch.rates(load), setups)


@cache
def modelled(load: float) -> PolledPlan:
    """The same with turns that push rows up."""
    plan = many_queries(load)
    return PolledPlan(plan, push_up(plan))


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation.

    Parameters
    ----------
    shortest_s
        Of the bursts and pauses of self-similar streams; 0: rows come at random.
    """

    plan: ModelPlan
    turns: tuple[str, ...]
    seed: int
    seconds: float
    shortest_s: float = 0.0
    is_exhaustive: bool = False

    def arrivals(self) -> dict[str, Floats]:
        if not self.shortest_s:
            return at_random(self.plan, self.seconds, self.seed)
        return {
            stream: SelfSimilar(RateSchedule(rate), seed=100 * self.seed + number, shortest_s=self.shortest_s).times(
                round(rate * self.seconds)
            )
            / MICROS
            for number, (stream, rate) in enumerate(self.plan.rates.items())
        }


def simulated(run: Run) -> Served:
    """Serve the rows of one run."""
    polling = Polling(run.plan, run.turns, run.is_exhaustive)
    return polling.run(run.arrivals(), run.seconds, run.seed, min(_WARM_UP_S, run.seconds / 10))


def all_simulated(runs: Sequence[Run], settings: Settings) -> list[Served]:
    """Runs side by side, in order."""
    return side_by_side(simulated, runs, settings)


def sweep(loads: Sequence[float], settings: Settings, seconds: float, shortest_s: float = 0.0) -> list[list[Served]]:
    """The 116 operators at several loads, on all seeds."""
    runs = [
        Run(modelled(load).plan, modelled(load).turns, seed, seconds, shortest_s)
        for load in loads
        for seed in settings.seed_numbers()
    ]
    found, each = all_simulated(runs, settings), len(settings.seed_numbers())
    return [found[at * each : (at + 1) * each] for at in range(len(loads))]


def off(found: float, expected: float) -> float:
    """By which part of what was expected something is away from it."""
    return found / expected - 1
