"""Operators take turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.kernel.work import Choice, WaitingWork, WorkPlan


class RoundRobin:
    """Visit operators cyclically and skip those without input.

    Choose it when no statistics exist or no operator may ever wait long: it never starves anybody.

    Parameters
    ----------
    slices
        What a visit serves at most.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 6.2.

    Examples
    --------
    >>> from penstock.kernel.work import Item, PlannedOperator
    >>> from penstock.model.elements import Heartbeat
    >>> plan = WorkPlan((PlannedOperator("a"), PlannedOperator("b")))
    >>> policy, work = RoundRobin(), WaitingWork(plan)
    >>> policy.plan(plan)
    >>> for name in "ab":
    ...     work.add(name, Item(0, Heartbeat(1)))
    >>> [policy.pick(work).operator for _ in range(3)]
    ['a', 'b', 'a']
    """

    def __init__(self, slices: int = 1) -> None:
        self._slices = slices
        self._places: dict[str, int] = {}
        self._last = ""
        #: Slices that the last operator has had.
        self._served = 0

    def plan(self, plan: WorkPlan) -> None:
        self._places = {operator.id: place for place, operator in enumerate(plan.operators)}

    def pick(self, work: WaitingWork) -> Choice | None:
        if not work.waiting:
            return None
        if self._served >= self._slices or self._last not in work.waiting:
            places, after = self._places, self._places.get(self._last, -1) + 1
            self._last = min(work.waiting, key=lambda operator: (places[operator] < after, places[operator]))
            self._served = 0
        self._served += 1
        return Choice(self._last)

    def snapshot(self) -> Mapping[str, Any]:
        return {"last": self._last, "served": self._served}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._last, self._served = state.get("last", ""), state.get("served", self._slices)
