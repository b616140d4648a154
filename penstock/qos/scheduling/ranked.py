"""Strategies that rank single operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.kernel.work import Choice, WaitingWork, WorkPlan
from penstock.qos.scheduling.explanation import arriving_text
from penstock.qos.scheduling.starvation import boosted, urgencies


@dataclass(frozen=True, slots=True)
class Priority:
    """What an operator is worth.

    Parameters
    ----------
    value
        More is served first.
    figures
        Where it comes from, for people.
    rate
        Rows that enter its path each second; 0: nobody knows.
    """

    operator: str
    value: float
    figures: Callable[[], str]
    rate: float = 0.0


def levels_of(values: Sequence[float]) -> list[int]:
    """Of each value how many different ones are larger.

    Examples
    --------
    >>> levels_of([5.0, 9.0, 5.0, 1.0])
    [1, 0, 1, 2]
    """
    level = {value: at for at, value in enumerate(sorted(set(values), reverse=True))}
    return [level[value] for value in values]


def mean(values: Iterable[tuple[float, float]]) -> float:
    """Of values on several paths, by the rows that enter each path per second; where nobody knows (0), by the mean of the others.

    Summed in order of size, so that the order of paths does not show in the last digit.

    Examples
    --------
    >>> mean([(10.0, 300), (2.0, 100)]), mean([(10.0, 0), (2.0, 0)]), mean([(9.0, 300), (3.0, 100), (2.0, 0)])
    (8.0, 6.0, 5.666666666666667)
    """
    found = sorted(values)
    known = [rate for _, rate in found if rate > 0]
    usual = sum(sorted(known)) / len(known) if known else 1.0
    if all(value == found[0][0] for value, _ in found):
        return found[0][0]
    rates = [rate if rate > 0 else usual for _, rate in found]
    return sum(value * rate for (value, _), rate in zip(found, rates, strict=True)) / sum(rates)


class ServesOperators:
    """Base of strategies that serve the operator with the largest priority.

    Among equal ones what has waited longest is served, and of one arrival what has come furthest.

    Parameters
    ----------
    dynamic
        Whether priorities are multiplied by age and size of what waits; see `starvation`.
    """

    def __init__(self, dynamic: bool = False) -> None:
        self._is_dynamic = dynamic
        self._priorities: dict[str, Priority] = {}
        #: Of each operator: how many better priorities there are, and its place counted from the end of the plan.
        self._levels: dict[str, int] = {}
        self._places: dict[str, int] = {}

    def priorities(self, plan: WorkPlan) -> Iterable[Priority]:
        """Of all operators; several of one operator are taken at their mean, by rates of arrival."""
        raise NotImplementedError

    def plan(self, plan: WorkPlan) -> None:
        self._priorities = _means(self.priorities(plan))
        levels = levels_of([priority.value for priority in self._priorities.values()])
        self._levels = dict(zip(self._priorities, levels, strict=True))
        self._places = {operator.id: -place for place, operator in enumerate(plan.operators)}

    def pick(self, work: WaitingWork) -> Choice | None:
        if not work.waiting:
            return None
        waiting, places = work.waiting, self._places
        levels: Mapping[str, float] = self._urgent_levels(work) if self._is_dynamic else self._levels
        best = min(map(levels.__getitem__, waiting))
        equal = [name for name in waiting if levels[name] == best]
        if len(equal) == 1:
            return Choice(equal[0])
        return Choice(min(equal, key=lambda name: (waiting[name].items[0].age_key, places[name])))

    def _urgent_levels(self, work: WaitingWork) -> dict[str, float]:
        found = urgencies(work, {name: name for name in work.waiting})
        return {name: -boosted(self._priorities[name].value, urgency) for name, urgency in found.items()}

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Everything is in the queues."""

    def explained(self) -> Sequence[str]:
        ranked = sorted(self._priorities.values(), key=lambda priority: -priority.value)
        return [f"{at}. '{priority.operator}': {priority.figures()}" for at, priority in enumerate(ranked, 1)]


def _means(priorities: Iterable[Priority]) -> dict[str, Priority]:
    found: dict[str, list[Priority]] = {}
    for priority in priorities:
        found.setdefault(priority.operator, []).append(priority)
    return {name: _merged(same) for name, same in found.items()}


def _merged(same: list[Priority]) -> Priority:
    if len(same) == 1:
        return same[0]
    return Priority(same[0].operator, mean((priority.value, priority.rate) for priority in same), lambda: _mean_text(same))


def _mean_text(same: list[Priority]) -> str:
    return f"the mean of {' and '.join(f'{priority.figures()}{arriving_text(priority.rate)}' for priority in same)}"
