"""Before queries start: would every promise that must be kept be kept, by what earlier micro-batches have cost?"""

from __future__ import annotations

from penstock.errors import NotAdmitted
from penstock.lowering.capacity import planned_application
from penstock.lowering.jobs import Job
from penstock.model.durations import micros_of
from penstock.model.elements import STATISTICS
from penstock.model.qos import Priority, QoSSpecification
from penstock.plan.catalog import Catalog
from penstock.qos.capacity.planning import CapacityPlan, Machine, Outcome, Verdict
from penstock.runners.costs import RECORD
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint


def refuse_unfit(job: Job, catalog: Catalog, checkpoint: Checkpoint, cores: int, trigger: str | None) -> None:
    """Refuse queries whose contracts cannot be kept at the rates that were measured; what nobody has measured is not judged.

    Parameters
    ----------
    catalog
        The application as it would run.
    trigger
        Time between micro-batches; None: they follow each other at once.

    Raises
    ------
    NotAdmitted
        With what is predicted, what is promised, and up to which rates it would be kept.
    """
    contracts = {query.name: must for query in catalog.queries.values() if (must := _must(query.contract)) is not None}
    costs = checkpoint.recall(RECORD)
    if not contracts or costs is None:
        return
    told = [detail for kind, detail in checkpoint.control.read(0, len(checkpoint.control)) if kind == STATISTICS]
    application = planned_application(job, catalog.name, told, costs)
    if not any(application.rates.values()):
        return
    plan = CapacityPlan(application, Machine(cores, micros_of(trigger, "trigger") / 1e6 if trigger else 0.0), contracts)
    broken = [verdict for verdict in plan.verdicts() if verdict.outcome in (Outcome.VIOLATES, Outcome.OVERLOADED)]
    if broken:
        raise NotAdmitted(_reason(plan, broken), f"application '{catalog.name}'")


def _must(contract: QoSSpecification | None) -> QoSSpecification | None:
    """What must be kept of a contract; None: nothing."""
    if contract is None:
        return None
    items = tuple(item for item in contract.expectations if item.priority is Priority.MUST_SATISFY)
    # A contract that allows loss sheds rows instead.
    return QoSSpecification(items) if items and not contract.max_relative_error else None


def _reason(plan: CapacityPlan, broken: list[Verdict]) -> str:
    rates = ", ".join(f"{stream}={rate:,.0f}/s" for stream, rate in plan.application.rates.items())
    lines = [f"at the rates that were measured ({rates}) contracts could not be kept:"]
    for verdict in broken:
        if verdict.predicted is None:
            found = "more rows come than can be processed"
        else:
            found = f"{verdict.predicted:.3g} predicted, {verdict.bound:.3g} promised"
        kept = f"it would be kept up to {verdict.up_to:.2f} times these rates"
        lines.append(f"  {verdict.what} of '{verdict.query}': {found}; {kept}")
    lines.append(
        f"the highest rate on {plan.machine.cores} cores is {plan.highest_factor:.2f} times as much. Give more cores or a "
        "longer bound, or allow LOSS; `penstock plan` shows more, --force (force=True) starts all the same"
    )
    return "\n".join(lines)
