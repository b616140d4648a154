"""Round robin takes turns and never starves anybody."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidDeclaration
from penstock.kernel.contracts import OperatorView
from penstock.qos.scheduling.round_robin import RoundRobin
from penstock.qos.scheduling.table import POLICIES, make_policy


def views(**waiting: int) -> list[OperatorView]:
    return [OperatorView(name, rows, rows, (), True) for name, rows in waiting.items()]


def test_operators_take_turns_and_empty_ones_are_skipped() -> None:
    policy = RoundRobin()
    assert [policy.pick(views(a=9, b=0, c=9)) for _ in range(4)] == ["a", "c", "a", "c"]


def test_an_operator_with_metadata_only_gets_its_turn() -> None:
    assert RoundRobin().pick([OperatorView("a", 0, 0, (), True), OperatorView("b", 0, 1, (), False)]) == "b"


def test_nothing_is_picked_when_nothing_waits() -> None:
    assert RoundRobin().pick(views(a=0)) is None
    assert RoundRobin().pick([]) is None


def test_a_replay_goes_on_where_the_policy_stood() -> None:
    policy = RoundRobin()
    policy.pick(views(a=1, b=1, c=1))
    again = RoundRobin()
    again.restore(policy.snapshot())
    assert again.pick(views(a=1, b=1, c=1)) == policy.pick(views(a=1, b=1, c=1)) == "b"


def test_an_operator_that_was_removed_is_not_missed() -> None:
    policy = RoundRobin()
    policy.pick(views(a=1, b=1))
    assert policy.pick(views(b=1, c=1)) == "b"


def test_policies_are_found_by_name_and_a_wrong_name_says_which_exist() -> None:
    assert {type(make_policy(name)).__name__ for name in POLICIES} == {"RoundRobin", "PathCapacity"}
    with pytest.raises(InvalidDeclaration, match="Did you mean 'round_robin'"):
        make_policy("round-robin")
