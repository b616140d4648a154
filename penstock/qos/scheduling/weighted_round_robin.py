"""Operators take turns, some of them more often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.kernel.work import Choice, WaitingWork, WorkPlan
from penstock.qos.scheduling.explanation import number_text, operators_text
from penstock.qos.scheduling.queries import served_queries


class WeightedRoundRobin:
    """Visit operators in proportion to their weights, as evenly as can be; each visit serves one slice.

    With each visit all operators that have input gain their weight; the one that has gained most is visited and pays what all
    have gained. It never starves anybody. Choose it when some queries matter more and no statistics exist.

    Parameters
    ----------
    weights
        Of queries, whose names are compared without case; others have the weight of their terms. An operator has the
        weights of all queries it works for.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6.

    Examples
    --------
    >>> from penstock.kernel.work import Item, PlannedOperator
    >>> from penstock.model.elements import Heartbeat
    >>> plan = WorkPlan((PlannedOperator("a", answers=("alerts",)), PlannedOperator("b", answers=("report",))))
    >>> policy, work = WeightedRoundRobin({"alerts": 2.0}), WaitingWork(plan)
    >>> policy.plan(plan)
    >>> for name in "ab":
    ...     work.add(name, Item(0, Heartbeat(1)))
    >>> [policy.pick(work).operator for _ in range(6)]
    ['a', 'b', 'a', 'a', 'b', 'a']
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._given = {query.lower(): weight for query, weight in (weights or {}).items()}
        self._weights: dict[str, float] = {}
        self._queries: Mapping[str, tuple[str, ...]] = {}
        self._places: dict[str, int] = {}
        #: What each operator has gained and not yet paid.
        self._gained: dict[str, float] = {}

    def plan(self, plan: WorkPlan) -> None:
        self._queries = served_queries(plan)
        self._places = {operator.id: place for place, operator in enumerate(plan.operators)}
        self._weights = {name: self._weight(plan, self._queries[name]) for name in self._places}
        self._gained = {name: gained for name, gained in self._gained.items() if name in self._places}

    def _weight(self, plan: WorkPlan, queries: tuple[str, ...]) -> float:
        """Who works for nobody is visited like who works for one."""
        return sum(self._given.get(query.lower(), plan.terms_of(query).weight) for query in queries) or 1.0

    def pick(self, work: WaitingWork) -> Choice | None:
        if not work.waiting:
            return None
        gained, weights, places = self._gained, self._weights, self._places
        # In the order of the plan, because a sum of doubles depends on it.
        waiting = sorted(work.waiting, key=places.__getitem__)
        for name in waiting:
            gained[name] = gained.get(name, 0.0) + weights[name]
        found = max(waiting, key=gained.__getitem__)
        gained[found] -= sum(map(weights.__getitem__, waiting))
        return Choice(found)

    def snapshot(self) -> Mapping[str, Any]:
        return {"gained": dict(sorted(self._gained.items()))}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._gained = dict(state.get("gained", {}))

    def explained(self) -> Sequence[str]:
        return [
            f"'{name}': weight {number_text(weight)}, as it works for {operators_text(self._queries[name]) or 'no query'}"
            for name, weight in self._weights.items()
        ]
