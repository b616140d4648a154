"""The driver's part of all adaptive filters of a job: it hears what shards tell, and decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.lowering.filters import FilterRecipe
from penstock.lowering.stages import Job
from penstock.model.elements import Control
from penstock.operators.filtering.reports import ShardReport

#: For each operator what its shards tell about a micro-batch.
Told = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class FilterStanding:
    """How an adaptive filter stands.

    Parameters
    ----------
    order
        Names of the conditions by position; where shards differ, the order most of them have.
    orders
        Number of different orders among the shards.
    current, greedy, optimal
        Estimated seconds per row in this order, in the one the greedy rule would choose, and in the best; None where the
        profile does not tell.

    Examples
    --------
    >>> print(FilterStanding("AdaptiveFilter1", ("a", "b"), 3, 1, 2e-6, 1e-6, 1e-6))
    AdaptiveFilter1: 1. a  2. b; 3 re-orderings; 2 µs per row, greedy 1 µs, best 1 µs
    """

    operator: str
    order: tuple[str, ...]
    reorderings: int
    orders: int = 1
    current: float | None = None
    greedy: float | None = None
    optimal: float | None = None

    def __str__(self) -> str:
        order = "  ".join(f"{place}. {name}" for place, name in enumerate(self.order, 1))
        changes = f"{self.reorderings} re-ordering{'' if self.reorderings == 1 else 's'}"
        differ = f" in {self.orders} ways among shards" if self.orders > 1 else ""
        return f"{self.operator}: {order}{differ}; {changes}{self._costs()}"

    def _costs(self) -> str:
        if self.current is None or self.greedy is None:
            return ""
        best = f", best {micros_text(self.optimal)}" if self.optimal is not None else ""
        return f"; {micros_text(self.current)} per row, greedy {micros_text(self.greedy)}{best}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def micros_text(seconds: float) -> str:
    """A time per row.

    Examples
    --------
    >>> micros_text(1.2345e-6), micros_text(3.0)
    ('1.23 µs', '3e+06 µs')
    """
    return f"{seconds * 1e6:.3g} µs"


class Steering:
    """Hears the shards of all adaptive filters of a job and decides about their orders.

    Filters whose shards decide for themselves, or whose order is fixed, are only described.
    """

    def __init__(self, job: Job) -> None:
        recipes = [node.make for stage in job.stages for node in stage.graph.nodes if isinstance(node.make, FilterRecipe)]
        self._recipes = {recipe.label: recipe for recipe in recipes}
        self._orderers = {recipe.label: recipe.orderer() for recipe in recipes if recipe.settings.mode == "global"}
        self._told: dict[str, list[Mapping[str, Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._recipes)

    @property
    def has_decisions(self) -> bool:
        """Whether there is anything to decide."""
        return any(recipe.is_steered for recipe in self._recipes.values())

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
            standings = [shard["standing"] for shard in each if "standing" in shard]
            if standings:
                self._told[label] = standings
        return decisions

    def standings(self) -> tuple[FilterStanding, ...]:
        """How all filters stand, in the order rows pass them."""
        return tuple(self._standing(label) for label in self._recipes)

    def _standing(self, label: str) -> FilterStanding:
        if label in self._orderers:
            return _standing(label, [self._orderers[label].describe()])
        return _standing(label, self._told.get(label) or [self._recipes[label]().describe()])

    def snapshot(self) -> dict[str, Any]:
        """JSON values, to be stored beside the job's progress."""
        return {label: orderer.snapshot() for label, orderer in self._orderers.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for label, orderer in self._orderers.items():
            if label in state:
                orderer.restore(state[label])


def _standing(label: str, shards: Sequence[Mapping[str, Any]]) -> FilterStanding:
    counted = Counter(tuple(shard["order"]) for shard in shards)
    order = counted.most_common(1)[0][0]
    costs = [shard["estimated"] for shard in shards if tuple(shard["order"]) == order and shard["estimated"] is not None]
    changes = sum(shard["reorderings"] for shard in shards)
    return FilterStanding(label, order, changes, len(counted), **(costs[0] if costs else {}))
