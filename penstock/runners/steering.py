"""The driver's part of all adaptive filters of a job: it hears what shards tell, and decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.lowering.jobs import Job
from penstock.model.elements import Control
from penstock.operators.filtering.reports import ShardReport
from penstock.operators.filtering.status import FilterStatus, filter_status

#: For each operator what its shards tell about a micro-batch.
Told = Mapping[str, Sequence[Mapping[str, Any]]]


class Steering:
    """Hears the shards of all adaptive filters of a job and decides about their orders.

    Filters whose shards decide for themselves, or whose order is fixed, are only described.
    """

    def __init__(self, job: Job) -> None:
        self._recipes = job.filters
        self._orderers = {label: recipe.orderer() for label, recipe in self._recipes.items() if recipe.settings.has_driver}
        self._told: dict[str, list[Mapping[str, Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._recipes)

    def hear(self, batch: int, told: Told) -> list[Control]:
        """Take in what shards tell about a micro-batch; returns what they shall know from the next one on."""
        decisions = []
        for label, orderer in self._orderers.items():
            reports = [ShardReport.from_json(each["report"]) for each in told.get(label, ())]
            orderer.absorb(batch, reports)
            decision = orderer.decide() if self._recipes[label].is_steered else None
            if decision is not None:
                decisions.append(decision)
        for label, each in told.items():
            statuses = [shard["standing"] for shard in each if "standing" in shard]
            if statuses:
                self._told[label] = statuses
        return decisions

    def statuses(self) -> tuple[FilterStatus, ...]:
        """How all filters stand, in the order rows pass them."""
        return tuple(self._status(label) for label in self._recipes)

    def _status(self, label: str) -> FilterStatus:
        if label in self._orderers:
            return filter_status(label, [self._orderers[label].describe()])
        return filter_status(label, self._told.get(label) or [self._recipes[label]().describe()])

    def snapshot(self) -> dict[str, Any]:
        """JSON values, to be stored beside the job's progress."""
        return {label: orderer.snapshot() for label, orderer in self._orderers.items()}

    def untold(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The present state, but with nothing told since `before`: who is restored from it decides again."""
        told = ("told", "told_costs")
        return {label: {**state, **{part: before[label][part] for part in told}} for label, state in self.snapshot().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for label, orderer in self._orderers.items():
            if label in state:
                orderer.restore(state[label])
