"""Visits in proportion to weights, evenly."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.work import Terms, WaitingWork
from penstock.qos.scheduling.weighted_round_robin import WeightedRoundRobin
from penstock.testing.scheduling import operator, plan_of, waiting

ABC = [operator(name, answers=name) for name in "abc"]


def picks(policy: WeightedRoundRobin, work: WaitingWork, count: int) -> str:
    found = [policy.pick(work) for _ in range(count)]
    return "".join(choice.operator for choice in found if choice)


def told(weights: dict[str, float] | None, **terms: float) -> WeightedRoundRobin:
    policy = WeightedRoundRobin(weights)
    policy.plan(plan_of(*ABC, terms={name: Terms(weight) for name, weight in terms.items()}))
    return policy


def test_visits_interleave() -> None:
    work = waiting(plan_of(*ABC), c=1, b=1, a=1)
    assert picks(told({"a": 5, "b": 1, "c": 1}), work, 14) == "aabacaa" * 2
    assert picks(told(None), work, 6) == "abcabc"


def test_weights_are_those_of_the_terms_unless_given() -> None:
    work = waiting(plan_of(*ABC), a=1, b=1)
    assert picks(told(None, a=1, b=3), work, 4) == "babb"
    assert picks(told({"b": 1}, a=1, b=3), work, 4) == "abab"


def test_an_operator_has_the_weights_of_all_queries_it_works_for() -> None:
    plan = plan_of(operator("shared", to="a b"), *ABC[:2], operator("nobody"))
    policy = WeightedRoundRobin({"a": 2, "b": 3})
    policy.plan(plan)
    assert policy.explained() == [
        "'shared': weight 5, as it works for 'a', 'b'",
        "'a': weight 2, as it works for 'a'",
        "'b': weight 3, as it works for 'b'",
        "'nobody': weight 1, as it works for no query",
    ]


def test_who_has_nothing_waiting_neither_gains_nor_loses() -> None:
    policy = told({"a": 1, "b": 1, "c": 1})
    assert picks(policy, waiting(plan_of(*ABC), a=1, b=1), 2) == "ab"
    assert picks(policy, waiting(plan_of(*ABC), a=1), 50) == "a" * 50
    assert picks(policy, waiting(plan_of(*ABC), a=1, b=1), 4) == "abab"


def test_a_replay_goes_on_where_the_policy_stood() -> None:
    policy, again = told({"a": 5, "b": 2, "c": 1}), told({"a": 5, "b": 2, "c": 1})
    work = waiting(plan_of(*ABC), a=1, b=1, c=1)
    picks(policy, work, 3)
    again.restore(policy.snapshot())
    assert picks(policy, work, 9) == picks(again, work, 9)


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_cycle_visits_each_by_its_weight_and_no_visit_is_late_by_more_than_its_share(weights: list[int]) -> None:
    plan = plan_of(*(operator(f"o{at}", answers=f"o{at}") for at in range(len(weights))))
    policy = WeightedRoundRobin({f"o{at}": weight for at, weight in enumerate(weights)})
    policy.plan(plan)
    work = waiting(plan, **{f"o{at}": 1 for at in range(len(weights))})
    total, seen = sum(weights), Counter[str]()
    for visit in range(1, 2 * total + 1):
        choice = policy.pick(work)
        assert choice is not None
        seen[choice.operator] += 1
        assert all(seen[f"o{at}"] >= visit * weight / total - len(weights) for at, weight in enumerate(weights))
        if visit % total == 0:
            assert seen == {f"o{at}": weight * visit // total for at, weight in enumerate(weights)}
