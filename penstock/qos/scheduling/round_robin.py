"""Operators, paths or queries take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.kernel.work import Choice, WaitingWork, WorkPlan
from penstock.qos.scheduling.capacities import paths
from penstock.qos.scheduling.explanation import operators_text
from penstock.qos.scheduling.queries import served_queries
from penstock.qos.scheduling.stretches import serving_order

#: Who takes a turn: a name, and its operators in the order in which they are served.
Turn = tuple[str, Sequence[str]]


class RoundRobin:
    """Visit operators, paths or queries cyclically and skip those without input.

    Choose it when no statistics exist or nothing may ever wait long: it never starves anybody. Among paths and queries
    answers come sooner than among operators, because what was begun is nearer to its end.

    Parameters
    ----------
    slices
        What a visit serves at most.
    over
        Who takes turns: `operators`, `paths` or `queries`. Inside a path or query what is nearest to its end is served first;
        an operator of several of them is served at each of their turns.

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

    def __init__(self, slices: int = 1, over: str = "operators") -> None:
        self._slices, self._turns_of = slices, TURNS[over]
        self._names: list[str] = []
        self._orders: list[dict[str, int]] = []
        #: Of each operator: the places of its turns.
        self._places: dict[str, list[int]] = {}
        #: Whose turn it is, and the slices it has had.
        self._last: str | None = None
        self._last_place = -1
        self._served = 0

    def plan(self, plan: WorkPlan) -> None:
        turns = list(self._turns_of(plan))
        self._names = [name for name, _ in turns]
        self._orders = [{operator: rank for rank, operator in enumerate(order)} for _, order in turns]
        self._places = {}
        for place, order in enumerate(self._orders):
            for operator in order:
                self._places.setdefault(operator, []).append(place)
        self._find_last()

    def _find_last(self) -> None:
        self._last_place = self._names.index(self._last) if self._last in self._names else -1

    def pick(self, work: WaitingWork) -> Choice | None:
        waiting = work.waiting
        if not waiting:
            return None
        place = self._last_place
        if self._served >= self._slices or place < 0 or self._orders[place].keys().isdisjoint(waiting):
            self._last_place = place = self._next(waiting)
            self._last, self._served = self._names[place], 0
        self._served += 1
        order = self._orders[place]
        if len(order) == 1:
            return Choice(next(iter(order)))
        return Choice(min((operator for operator in waiting if operator in order), key=order.__getitem__))

    def _next(self, waiting: Iterable[str]) -> int:
        last = self._last_place
        places = [place for operator in waiting for place in self._places[operator]]
        return min([place for place in places if place > last] or places)

    def snapshot(self) -> Mapping[str, Any]:
        return {"last": self._last, "served": self._served}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._last, self._served = state.get("last"), state.get("served", self._slices)
        self._find_last()

    def explained(self) -> Sequence[str]:
        return [f"'{name}': {operators_text(order)}" for name, order in zip(self._names, self._orders, strict=True)]


def _operators(plan: WorkPlan) -> Iterable[Turn]:
    return ((operator.id, [operator.id]) for operator in plan.operators)


def _paths(plan: WorkPlan) -> Iterable[Turn]:
    """By the port where they begin."""
    return ((f"{tree.operator}.{tree.port}", serving_order(tree.walk())) for tree in paths(plan))


def _queries(plan: WorkPlan) -> Iterable[Turn]:
    """In order of name; what works for no query comes last."""
    served = {operator: queries or ("",) for operator, queries in served_queries(plan).items()}
    names = sorted({query for queries in served.values() for query in queries}, key=lambda query: (not query, query))
    # What is served for a query was listed from its end on.
    return ((name, [operator for operator, queries in served.items() if name in queries]) for name in names)


TURNS: Mapping[str, Callable[[WorkPlan], Iterable[Turn]]] = {"operators": _operators, "paths": _paths, "queries": _queries}
