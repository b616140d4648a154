"""First come, first served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.kernel.work import Choice, Queue, WaitingWork, WorkPlan


class Fifo:
    """Run what has waited longest through to the end, then what came next.

    Choose it when the longest waiting time counts more than the mean: no strategy has a shorter tail. It needs no prices. In
    bursts its queues grow longest.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6.

    Examples
    --------
    >>> from penstock.kernel.work import Item, PlannedOperator
    >>> from penstock.model.elements import Heartbeat
    >>> plan = WorkPlan((PlannedOperator("a"), PlannedOperator("b")))
    >>> policy, work = Fifo(), WaitingWork(plan)
    >>> policy.plan(plan)
    >>> work.add("a", Item(0, Heartbeat(1), number=2))
    >>> work.add("b", Item(0, Heartbeat(1), number=1))
    >>> policy.pick(work)
    Choice(operator='b', position=0)
    """

    def __init__(self) -> None:
        self._oldest = OldestHead()

    def plan(self, plan: WorkPlan) -> None:
        self._oldest.plan(plan)

    def pick(self, work: WaitingWork) -> Choice | None:
        return Choice(self._oldest.operator(work)) if work.waiting else None

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Everything is in the queues."""


class OldestHead:
    """Finds the operator with the item that has waited longest; of one arrival, what has come furthest in the plan."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def plan(self, plan: WorkPlan) -> None:
        self._places = {operator.id: -place for place, operator in enumerate(plan.operators)}

    def operator(self, work: WaitingWork) -> str:
        return min(work.waiting.values(), key=self._age).operator

    def _age(self, queue: Queue) -> tuple[int, int, int]:
        head = queue.items[0]
        return head.since_ns, head.number, self._places[queue.operator]
