"""Round robin takes turns and never starves anybody."""

from __future__ import annotations

from penstock.kernel.work import Item, WaitingWork
from penstock.model.elements import Heartbeat
from penstock.qos.scheduling.round_robin import RoundRobin
from penstock.testing.scheduling import operator, picked, plan_of, waiting

ABC = plan_of(operator("a"), operator("b"), operator("c"))


def told(policy: RoundRobin) -> RoundRobin:
    policy.plan(ABC)
    return policy


def picks(policy: RoundRobin, work: WaitingWork, count: int) -> str:
    found = [policy.pick(work) for _ in range(count)]
    return "".join(choice.operator for choice in found if choice)


def test_operators_take_turns_and_empty_ones_are_skipped() -> None:
    assert picks(told(RoundRobin()), waiting(ABC, c=9, a=9), 4) == "acac"


def test_a_visit_may_serve_several_slices() -> None:
    policy = told(RoundRobin(slices=2))
    assert picks(policy, waiting(ABC, a=9, b=9), 5) == "aabba"
    assert picks(policy, waiting(ABC, b=9, c=9), 3) == "bbc"


def test_an_operator_with_metadata_only_gets_its_turn() -> None:
    work = WaitingWork(ABC)
    work.add("b", Item(0, Heartbeat(1)))
    assert picks(told(RoundRobin()), work, 1) == "b"


def test_nothing_is_picked_when_nothing_waits() -> None:
    assert picked(RoundRobin(), ABC) is None
    assert picked(RoundRobin(), plan_of()) is None


def test_a_replay_goes_on_where_the_policy_stood() -> None:
    policy, again, work = told(RoundRobin(slices=2)), told(RoundRobin(slices=2)), waiting(ABC, a=1, b=1, c=1)
    assert picks(policy, work, 3) == "aab"
    again.restore(policy.snapshot())
    assert picks(again, work, 3) == picks(policy, work, 3) == "bcc"


def test_an_operator_that_was_removed_is_not_missed() -> None:
    policy = told(RoundRobin())
    assert picks(policy, waiting(ABC, a=1, b=1), 1) == "a"
    assert picked(policy, plan_of(operator("b"), operator("c")), b=1, c=1) == "b"
