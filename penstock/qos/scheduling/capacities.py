"""Capacities of paths and segments: how fast they take in rows, make answers, release memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.trees import Step, trees

#: Finite, so that it can be multiplied by nothing.
_VERY_MANY = 1e18


def paths(plan: WorkPlan) -> list[Step]:
    """A tree for every entrance, and one for every port from which rows come although nothing is expected to come there.

    Behind an operator that lets nothing pass nothing is reckoned; should rows or promises wait there, they are on a path of
    their own. So each operator is on a path.
    """
    found = trees(plan)
    known = {step.operator for tree in found for step in tree.walk()}
    for operator in plan.operators:
        if operator.id not in known:
            opened = replace(operator, entrances=tuple(range(len(operator.prices))))
            alone = [opened if other is operator else replace(other, entrances=()) for other in plan.operators]
            more = trees(WorkPlan(tuple(alone), plan.terms))
            known |= {operator.id} | {step.operator for tree in more for step in tree.walk()}
            found += more
    return found


def per_ns(amount: float, time_ns: float) -> float:
    """What a nanosecond brings; what takes no time brings very much."""
    return amount / time_ns if time_ns > 0 else amount * _VERY_MANY


def time_ns(steps: Iterable[Step]) -> float:
    """Spent in these steps for a row that enters their tree."""
    return sum(step.time_ns for step in steps)


def path_capacity(tree: Step) -> float:
    """Rows that can enter in a nanosecond if nothing else is done: (6.2), and (6.4) where paths branch."""
    return per_ns(1, time_ns(tree.walk()))


def release_capacity(steps: Iterable[Step]) -> float:
    """Bytes freed in a nanosecond spent in these steps of one tree: (6.1), (6.6) and (6.7)."""
    found = list(steps)
    return per_ns(sum(step.released for step in found), time_ns(found))


def bottom_up(tree: Step) -> list[Step]:
    """Steps by layers, as seen from the entrance; in a layer the fastest operator first."""
    return sorted(tree.walk(), key=lambda step: (step.depth, step.price.share_ns))
