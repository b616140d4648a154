"""Plans that are refused, in words for the person who declared them."""

from __future__ import annotations

import pytest
from driving import operator, plan_of, within

from penstock.errors import InvalidDeclaration
from penstock.kernel.work import Terms, WorkPlan
from penstock.qos.scheduling.checks import check_plan, check_validity, repeated_places

A = operator("a", to="b", entrances=(0,))
B = operator("b", answers=["q"])


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (plan_of(A, B, q=Terms(weight=0)), "query 'q' has weight 0"),
        (plan_of(A, B, q=Terms(weight=-1)), "query 'q' has weight -1"),
        (plan_of(A, B, q=Terms(weight=float("nan"))), "query 'q' has weight nan"),
        (plan_of(A, B, q=Terms(weight=float("inf"))), "query 'q' has weight inf"),
        (plan_of(A, B, q=Terms(after_event_us=0)), "validity of 0 µs"),
        (plan_of(A, B, q=Terms(after_arrival_us=-5)), "validity of -5 µs"),
        (plan_of(A, operator("b", to="a", answers=["q"])), "the operators form a circle"),
        (plan_of(A, operator("b")), "nobody reads what 'b' makes"),
        (plan_of(A, B, operator("c", answers=["q"])), "no row can reach 'c'"),
    ],
)
def test_terms_and_graphs_without_meaning_are_refused(plan: WorkPlan, text: str) -> None:
    with pytest.raises(InvalidDeclaration, match=text):
        check_plan(plan)


def test_strategies_with_deadlines_need_one() -> None:
    check_plan(plan_of(A, B))
    check_validity("deadline", [Terms(weight=3), within(5)])
    with pytest.raises(InvalidDeclaration, match="'deadline' goes by deadlines, but no query says"):
        check_validity("deadline", [Terms(weight=3)])


def test_operators_reached_on_two_ways_are_named() -> None:
    assert repeated_places(plan_of(A, B)) == []
    assert repeated_places(
        plan_of(operator("a", to="bc", entrances=(0,)), operator("b", to="c"), operator("c", answers=["q"]))
    ) == ["c"]
