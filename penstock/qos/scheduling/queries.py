"""Which queries wait for what an operator does."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernel.work import WorkPlan


def served_queries(plan: WorkPlan) -> Mapping[str, tuple[str, ...]]:
    """For each operator the queries whose answers leave there or behind it, in order of name.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator
    >>> served_queries(WorkPlan((PlannedOperator("a", consumers=(("b", 0),)), PlannedOperator("b", answers=("q",)))))
    {'b': ('q',), 'a': ('q',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for operator in reversed(plan.operators):
        behind = {query for consumer, _ in operator.consumers for query in found.get(consumer, ())}
        found[operator.id] = tuple(sorted({*operator.answers, *behind}))
    return found
