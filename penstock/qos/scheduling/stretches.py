"""Strategies that serve several operators as one: a path, or a segment of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.kernel.work import Choice, Queue, WaitingWork, WorkPlan
from penstock.qos.scheduling.explanation import arriving_text, step_text
from penstock.qos.scheduling.ranked import levels_of, mean
from penstock.qos.scheduling.starvation import boosted, urgencies
from penstock.qos.scheduling.trees import Step


@dataclass(frozen=True, slots=True)
class Stretch:
    """Operators that are served as one: a whole path or a segment.

    Parameters
    ----------
    steps
        Of the tree it was cut from; of several trees, if they share its operators.
    priority
        More is served first.
    figures
        What it is and where its priority comes from, for people.
    """

    steps: tuple[Step, ...]
    priority: float
    figures: Callable[[], str]
    #: Rows that enter its path each second; 0: nobody knows.
    rate: float = 0.0
    #: What it was merged of.
    parts: tuple[Stretch, ...] = ()

    @property
    def operators(self) -> frozenset[str]:
        return frozenset(step.operator for step in self.steps)


def serving_order(steps: Iterable[Step]) -> list[str]:
    """Operators of a path or segment in the order in which they are served: what is nearest to its end, then what is fastest.

    Slice by slice this serves from the entrance upwards, and what was left inside by another strategy leaves first.
    """
    ranked = sorted(steps, key=lambda step: (-step.depth, step.price.share_ns))
    return list(dict.fromkeys(step.operator for step in ranked))


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stretches of the same operators, reached from several entrances, become one with the mean of their priorities.

    An entrance counts by the rows that arrive there; all count the same where nobody knows.
    """
    same: dict[frozenset[str], list[Stretch]] = {}
    for stretch in stretches:
        same.setdefault(stretch.operators, []).append(stretch)
    return [_mean(found) for found in same.values()]


def _mean(found: list[Stretch]) -> Stretch:
    if len(found) == 1:
        return found[0]
    steps = tuple(step for stretch in found for step in stretch.steps)
    priority = mean((stretch.priority, stretch.rate) for stretch in found)
    return Stretch(steps, priority, found[0].figures, sum(stretch.rate for stretch in found), tuple(found))


class ServesStretches:
    """Base of strategies that serve the best stretch any operator of which has something waiting.

    The running stretch goes on as long as no better one has input; among equal ones the first of the plan is begun. An
    operator of several stretches is served with the best of them, and its queue in order, whatever path things came on.

    Parameters
    ----------
    dynamic
        Whether priorities are multiplied by age and size of what waits; see `starvation`.
    """

    def __init__(self, dynamic: bool = False) -> None:
        self._is_dynamic = dynamic
        self._stretches: list[Stretch] = []
        #: Of each stretch: its operators with their ranks, and how many better priorities there are.
        self._orders: list[dict[str, int]] = []
        self._levels: list[int] = []
        #: Of each operator: its best stretch.
        self._best: dict[str, int] = {}
        self._running: frozenset[str] = frozenset()
        self._running_at = 0

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        """All that can be served, in the order of the plan; each operator is in at least one."""
        raise NotImplementedError

    def plan(self, plan: WorkPlan) -> None:
        if self._orders:
            self._running = frozenset(self._orders[self._running_at])
        self._stretches = sorted(self.stretches(plan), key=lambda stretch: stretch.priority, reverse=True)
        orders = [serving_order(stretch.steps) for stretch in self._stretches]
        self._orders = [{operator: rank for rank, operator in enumerate(order)} for order in orders]
        self._levels = levels_of([stretch.priority for stretch in self._stretches])
        self._best = {}
        for at, order in enumerate(self._orders):
            for operator in order:
                self._best.setdefault(operator, at)
        self._find_running()

    def _find_running(self) -> None:
        found = (at for at, stretch in enumerate(self._stretches) if stretch.operators == self._running)
        self._running_at = next(found, 0)

    def pick(self, work: WaitingWork) -> Choice | None:
        waiting = work.waiting
        if not waiting:
            return None
        self._running_at = at = self._most_urgent(work) if self._is_dynamic else self._best_of(waiting)
        order = self._orders[at]
        return Choice(min((operator for operator in waiting if operator in order), key=order.__getitem__))

    def _best_of(self, waiting: Mapping[str, Queue]) -> int:
        best, running = min(map(self._best.__getitem__, waiting)), self._running_at
        is_equal = best != running and self._levels[best] == self._levels[running]
        return running if is_equal and not self._orders[running].keys().isdisjoint(waiting) else best

    def _most_urgent(self, work: WaitingWork) -> int:
        scores = {at: boosted(self._stretches[at].priority, urgency) for at, urgency in urgencies(work, self._best).items()}
        return max(scores, key=lambda at: (scores[at], at == self._running_at, -at))

    @property
    def serving(self) -> tuple[str, object]:
        return "", self._running_at

    def snapshot(self) -> Mapping[str, Any]:
        return {"running": sorted(self._orders[self._running_at]) if self._orders else []}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._running = frozenset(state.get("running", ()))
        self._find_running()

    def explained(self) -> Sequence[str]:
        return [line for at, stretch in enumerate(self._stretches, 1) for line in _lines(at, stretch)]


def _lines(at: int, stretch: Stretch) -> Iterable[str]:
    if stretch.parts:
        yield f"{at}. on {len(stretch.parts)} paths, by the mean of"
        for part in stretch.parts:
            yield f"   {part.figures()}{arriving_text(part.rate)}"
            yield from (f"     {step_text(step)}" for step in part.steps)
    else:
        yield f"{at}. {stretch.figures()}"
        yield from (f"   {step_text(step)}" for step in stretch.steps)
