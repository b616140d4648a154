"""Round robin takes turns and never starves anybody."""

from __future__ import annotations

from penstock.kernel.work import Item, WaitingWork
from penstock.model.elements import Heartbeat
from penstock.qos.scheduling.round_robin import RoundRobin
from penstock.testing.scheduling import operator, per_unit, picked, plan_of, waiting

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


#: Paths a1 → j → end and b1 → b2 → j → end.
PATHS = plan_of(
    operator("a1", to="j.0", entrances=(0,)),
    operator("b1", to="b2", entrances=(0,)),
    operator("b2", to="j.1"),
    operator("j", per_unit(1.0), per_unit(1.0), to="end", answers="early"),
    operator("end", answers="late"),
    operator("nobody"),
)


def test_paths_take_turns_and_serve_what_is_nearest_to_their_end() -> None:
    policy = RoundRobin(over="paths")
    policy.plan(PATHS)
    work = waiting(PATHS, nobody=1, b1=1, b2=1, a1=1)
    assert [served(policy, work) for _ in range(4)] == ["a1", "b2", "nobody", "b1"]
    assert policy.explained() == ["'a1.0': 'end', 'j', 'a1'", "'b1.0': 'end', 'j', 'b2', 'b1'", "'nobody.0': 'nobody'"]


def test_a_visit_of_a_path_may_serve_several_operators() -> None:
    policy = RoundRobin(over="paths", slices=2)
    policy.plan(PATHS)
    work = waiting(PATHS, j=1, a1=1, b1=1, b2=1)
    assert [served(policy, work) for _ in range(4)] == ["j", "a1", "b2", "b1"]


def test_queries_take_turns() -> None:
    policy = RoundRobin(over="queries")
    policy.plan(PATHS)
    work = waiting(PATHS, nobody=1, end=1, j=1, b2=1, a1=1)
    assert [served(policy, work) for _ in range(5)] == ["j", "end", "nobody", "b2", "a1"]
    assert policy.explained()[0] == "'early': 'j', 'b2', 'b1', 'a1'"


def served(policy: RoundRobin, work: WaitingWork) -> str:
    choice = policy.pick(work)
    assert choice is not None
    work.take(choice)
    return choice.operator
