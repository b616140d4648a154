"""The driver's part of all adaptive filters of a job: it hears what shards tell, and decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.lowering.jobs import Job
from penstock.model.elements import Control
from penstock.operators.filtering.reports import ShardReport
from penstock.operators.filtering.status import FilterStatus, filter_status

#: For each operator what its shards tell about a micro-batch.
DriverReports = Mapping[str, Sequence[Mapping[str, Any]]]


class Steering:
    """Hears the shards of all adaptive filters of a job and decides about their orders.

    Filters whose shards decide for themselves, or whose order is fixed, are only described.
    """

    def __init__(self, job: Job) -> None:
        self._recipes = job.filters
        self._orderers = {label: recipe.orderer() for label, recipe in self._recipes.items() if recipe.settings.has_driver}
        self._described: dict[str, list[Mapping[str, Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._recipes)

    def hear(self, batch: int, reports: DriverReports) -> list[Control]:
        """Take in what shards tell about a micro-batch; returns what they shall know from the next one on."""
        decisions = []
        for label, orderer in self._orderers.items():
            orderer.absorb(batch, [ShardReport.from_json(each["report"]) for each in reports.get(label, ())])
            decision = orderer.decide() if self._recipes[label].is_steered else None
            if decision is not None:
                decisions.append(decision)
        for label, each in reports.items():
            described = [shard["standing"] for shard in each if "standing" in shard]
            if described:
                self._described[label] = described
        return decisions

    def statuses(self) -> tuple[FilterStatus, ...]:
        """How all filters stand, in the order rows pass them."""
        return tuple(self._status(label) for label in self._recipes)

    def _status(self, label: str) -> FilterStatus:
        if label in self._orderers:
            return filter_status(label, [self._orderers[label].describe()])
        return filter_status(label, self._described.get(label) or [self._recipes[label]().describe()])

    def snapshot(self) -> dict[str, Any]:
        """JSON values, to be stored beside the job's progress."""
        return {label: orderer.snapshot() for label, orderer in self._orderers.items()}

    def without_decisions_since(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The present state, but with nothing decided since `before`: who is restored from it decides again."""
        sent = ("told", "told_costs")
        return {label: {**state, **{part: before[label][part] for part in sent}} for label, state in self.snapshot().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for label, orderer in self._orderers.items():
            if label in state:
                orderer.restore(state[label])
