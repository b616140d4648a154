"""Path capacity with capacities computed by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from penstock.kernel.work import PlannedOperator
from penstock.qos.scheduling.capacities import path_capacity, paths
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.testing.scheduling import UNIT_NS, drained, line, operator, per_unit, picked, plan_of, waiting


def fraction(capacity: str, selectivity: str = "1", size: str = "1") -> dict[str, Fraction]:
    return {"capacity": Fraction(capacity), "selectivity": Fraction(selectivity), "size": Fraction(size)}


#: G8 of the scheduling specification: A → B → {C | D → E}.
G8 = [
    operator("A", per_unit(**fraction("10", "1/2", "4")), to="B", entrances=(0,)),
    operator("B", per_unit(**fraction("5", "4/5", "4")), to="C D"),
    operator("C", per_unit(**fraction("2", "1/2", "2")), answers="c"),
    operator("D", per_unit(**fraction("20", "1/10", "2")), to="E"),
    operator("E", per_unit(**fraction("1", "1/2", "2")), answers="e"),
]


def capacities(*operators: PlannedOperator) -> list[float]:
    """Of all paths, per unit of time."""
    return [path_capacity(tree) * UNIT_NS for tree in paths(plan_of(*operators))]


def test_the_capacity_of_a_simple_path_is_one_over_the_time_a_row_needs() -> None:
    path = line("p", per_unit(**fraction("4", "1/2")), per_unit(**fraction("2")))
    assert capacities(*path) == [1 / (Fraction(1, 4) + Fraction(1, 2) / 2)]


def test_g8_a_branching_path_counts_every_selectivity_of_its_shared_part() -> None:
    assert capacities(*G8) == [Fraction(50, 23)]


def test_the_share_of_a_call_counts() -> None:
    from penstock.kernel.work import Price

    plan = plan_of(operator("a", Price(call_ns=1000, row_ns=90, call_rows=100), entrances=(0,)))
    assert [path_capacity(tree) for tree in paths(plan)] == [1 / 100]


def test_the_faster_path_is_served_first_and_inside_it_what_is_nearest_to_the_answer() -> None:
    plan = plan_of(*line("slow", per_unit(1.0), per_unit(1.0)), *line("fast", per_unit(8.0), per_unit(8.0)))
    policy = PathCapacity()
    policy.plan(plan)
    assert drained(policy, waiting(plan, slow1=1, fast1=1, slow2=1, fast2=1)) == ["fast2", "fast1", "slow2", "slow1"]


def test_inside_a_path_the_faster_branch_comes_first() -> None:
    plan = plan_of(*G8)
    policy = PathCapacity()
    policy.plan(plan)
    assert drained(policy, waiting(plan, A=1, B=1, C=1, D=1, E=1)) == ["E", "D", "C", "B", "A"]


def test_among_equal_paths_the_running_one_goes_on() -> None:
    plan = plan_of(*line("a", per_unit(1.0)), *line("b", per_unit(1.0)), *line("c", per_unit(2.0)))
    policy = PathCapacity()
    policy.plan(plan)
    for waits, expected in [(("b1",), "b1"), (("a1", "b1"), "b1"), (("a1",), "a1"), (("a1", "b1"), "a1"), (("a1", "c1"), "c1")]:
        work = waiting(plan, **dict.fromkeys(waits, 1))
        assert [choice.operator for choice in [policy.pick(work)] if choice] == [expected]


def test_the_running_path_is_remembered_by_a_replay_and_over_a_change_of_the_plan() -> None:
    a, b = line("a", per_unit(1.0)), line("b", per_unit(1.0))
    policy, again = PathCapacity(), PathCapacity()
    policy.plan(plan_of(*a, *b))
    assert picked(policy, plan_of(*a, *b), b1=1) == "b1"
    again.plan(plan_of(*a, *b))
    again.restore(policy.snapshot())
    assert picked(again, plan_of(*a, *b), a1=1, b1=1) == "b1"
    for one in (policy, again):
        assert picked(one, plan_of(*a, *line("c", per_unit(1.0)), *b), a1=1, b1=1) == "b1"
        assert picked(one, plan_of(*a), a1=1) == "a1"
        assert picked(one, plan_of(*b, *a), a1=1, b1=1) == "a1"


def test_a_shared_operator_belongs_to_the_best_of_its_paths_with_the_prices_of_the_port() -> None:
    plan = plan_of(
        operator("slow", per_unit(1.0), to="j.0", entrances=(0,)),
        operator("fast", per_unit(100.0), to="j.1", entrances=(0,)),
        operator("j", per_unit(10.0), per_unit(20.0), answers="q"),
    )
    assert capacities(*plan.operators) == pytest.approx([1 / 1.1, 1 / 0.06])
    policy = PathCapacity()
    policy.plan(plan)
    assert drained(policy, waiting(plan, slow=1, fast=1, j=1)) == ["j", "fast", "slow"]


def test_operators_that_ended_are_no_longer_counted() -> None:
    assert capacities(*G8[:4]) == [1 / (Fraction(1, 5) + Fraction(2, 5) * (Fraction(1, 2) + Fraction(1, 20)))]


def test_what_waits_behind_an_operator_that_lets_nothing_pass_is_on_a_path_of_its_own() -> None:
    plan = plan_of(*line("a", per_unit(1.0, 0.0), per_unit(4.0), per_unit(4.0)), *line("b", per_unit(3.0)))
    assert capacities(*plan.operators) == pytest.approx([1, 3, 2])
    policy = PathCapacity()
    policy.plan(plan)
    assert drained(policy, waiting(plan, a1=1, a2=1, a3=1, b1=1)) == ["b1", "a3", "a2", "a1"]


def test_nothing_is_picked_when_nothing_waits() -> None:
    assert picked(PathCapacity(), plan_of(*G8)) is None
    assert picked(PathCapacity(), plan_of()) is None


def test_it_says_what_it_goes_by() -> None:
    policy = PathCapacity()
    policy.plan(plan_of(*line("p", per_unit(1000.0, 0.5, 40), per_unit(250.0))))
    assert policy.explained() == [
        "1. path 'p1', 'p2': 333.3 rows/s, as a row takes 3 ms",
        "   'p1': 1 ms and 40 B per row, selectivity 0.5; rows that reach it: 1 per row that enters",
        "   'p2': 4 ms and 1 B per row, selectivity 1; rows that reach it: 0.5 per row that enters",
    ]
