"""What keeps anything from waiting for ever, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.kernel.contracts import Policy
from penstock.kernel.work import Item, WaitingWork, WorkPlan
from penstock.model.elements import Heartbeat
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.starvation import StarvationFree, boosted, urgencies
from penstock.qos.scheduling.table import make_policy
from penstock.testing.scheduling import UNIT_NS, line, operator, per_unit, plan_of, rows
from penstock.testing.scheduling_simulator import Arrival, Simulation

#: 4.11 of the specification: H takes 0.1 s and gets 12 a second, L takes 1 s and gets one in 20 s.
OVERLOADED = plan_of(*line("H", per_unit(10.0)), *line("L", per_unit(1.0)))


def under_overload(policy: Policy, seconds: int = 400) -> tuple[int, float]:
    """How many of L are served in time, and how long they have waited at most, in seconds."""
    found = Simulation(policy, OVERLOADED, quantum_ns=UNIT_NS // 10)
    arrivals = [Arrival(at * UNIT_NS // 12, "H1", 1) for at in range(12 * seconds)]
    arrivals += [Arrival((20 * at + 10) * UNIT_NS, "L1", 1) for at in range(seconds // 20)]
    found.run(arrivals)
    in_time = [one for one in found.answered if one.query == "L" and one.at_ns <= seconds * UNIT_NS]
    return len(in_time), max((one.latency_ns / UNIT_NS for one in in_time), default=0.0)


def test_without_help_and_by_dynamic_priorities_the_slow_path_starves() -> None:
    assert under_overload(PathCapacity())[0] == 0
    assert under_overload(PathCapacity(dynamic=True))[0] == 0


def test_picking_the_oldest_now_and_then_serves_it() -> None:
    count, wait = under_overload(StarvationFree(PathCapacity(), oldest_every=50))
    assert count >= 13
    assert wait < 100


def test_a_limit_of_age_serves_it() -> None:
    count, wait = under_overload(StarvationFree(PathCapacity(), max_age_ns=30 * UNIT_NS))
    assert count >= 15
    assert wait < 80


def told(**parameters: Any) -> tuple[StarvationFree, WaitingWork]:
    policy = StarvationFree(PathCapacity(), **parameters)
    policy.plan(OVERLOADED)
    work = WaitingWork(OVERLOADED)
    work.add("L1", Item(0, rows(9), 0, 0))
    work.add("H1", Item(0, rows(9), 5 * UNIT_NS, 1))
    return policy, work


def picks(policy: Policy, work: WaitingWork, count: int) -> str:
    found = [policy.pick(work) for _ in range(count)]
    return "".join(choice.operator[0] for choice in found if choice)


def test_each_so_many_picks_one_goes_to_the_oldest() -> None:
    assert picks(*told(oldest_every=3), 7) == "HHLHHLH"
    assert picks(*told(oldest_every=1), 2) == "LL"
    assert picks(*told(), 9) == "H" * 9


def test_what_is_older_than_the_limit_goes_first_oldest_first() -> None:
    policy, work = told(max_age_ns=10 * UNIT_NS)
    seen = {}
    for second in (10, 11, 16):
        work.now_ns = second * UNIT_NS
        seen[second] = picks(policy, work, 1)
    assert seen == {10: "H", 11: "L", 16: "L"}
    work.drop("L1")
    assert picks(policy, work, 1) == "H"
    assert policy.pick(WaitingWork(OVERLOADED)) is None


def test_a_replay_goes_on_where_the_policy_stood() -> None:
    (policy, work), (again, _) = told(oldest_every=3), told(oldest_every=3)
    picks(policy, work, 2)
    again.restore(policy.snapshot())
    assert picks(again, work, 4) == picks(policy, work, 4) == "LHHL"


def test_picks_for_the_oldest_bound_no_wait_by_the_number_of_paths() -> None:
    """Y6 of the specification says `p x number of paths`: a path whose backlog is older takes all these picks until it is gone."""
    every, backlog, paths = 5, 20, 3
    plan = plan_of(*line("H", per_unit(10.0)), *line("L", per_unit(1.0)), *line("M", per_unit(1.1)))
    policy, work = StarvationFree(PathCapacity(), oldest_every=every), WaitingWork(plan)
    policy.plan(plan)
    for number in range(backlog):
        work.add("L1", Item(0, rows(1), number, number))
    work.add("M1", Item(0, rows(1), backlog, backlog))
    served = 0
    while served < every * (backlog + 2):
        served += 1
        work.add("H1", Item(0, rows(1), backlog + served, backlog + served))
        choice = policy.pick(work)
        assert choice is not None
        work.take(choice)
        if choice.operator == "M1":
            break
    assert served == every * (backlog + 1) > every * paths


class Hears(PathCapacity):
    """Counts what comes in."""

    heard = 0

    def on_arrival(self, operator: str, item: Item, now_ns: int) -> None:
        self.heard += 1


def test_arrivals_are_told_to_who_wants_to_know() -> None:
    hears = Hears()
    for policy in (StarvationFree(hears), StarvationFree(PathCapacity())):
        policy.on_arrival("H1", Item(0, Heartbeat(1)), 0)
    assert hears.heard == 1


def test_it_says_what_it_goes_by() -> None:
    policy = make_policy("path_capacity", {"max_age": "90 seconds"})
    policy.plan(OVERLOADED)
    assert isinstance(policy, StarvationFree)
    assert policy.explained()[-2:] == [
        "1 of 50 picks goes to what has waited longest",
        "what has waited longer than 90 seconds goes first",
    ]


def test_urgency_is_age_times_memory_relative_to_the_largest() -> None:
    _, work = told()
    work.add("L1", Item(0, rows(9), 8 * UNIT_NS, 2))
    work.now_ns = 10 * UNIT_NS
    assert urgencies(work, {"L1": "L", "H1": "H"}) == {"L": 1.0, "H": 0.5 * 0.5}
    work.now_ns = -UNIT_NS
    assert urgencies(work, {"L1": "L", "H1": "H"}) == {"L": 1.0, "H": 0.5}


def test_a_negative_priority_does_not_sink_with_urgency() -> None:
    assert boosted(4, 0.5) == 2
    assert boosted(-4, 0.75) > boosted(-4, 0.5)


@pytest.mark.parametrize(
    "name", ["path_capacity", "path_answers", "segment", "simple_segment", "greedy_segment", "chain", "greedy"]
)
def test_dynamic_priorities_prefer_what_is_old_and_large(name: str) -> None:
    plan: WorkPlan = plan_of(
        operator("a", per_unit(1.2), entrances=(0,), answers="q"), operator("b", per_unit(1.0), entrances=(0,), answers="q")
    )
    policy = make_policy(name, {"dynamic": True, "oldest_every": 0})
    policy.plan(plan)
    for counts, since, expected in [
        ((5, 5), (0, 0), "a"),
        ((5, 9), (0, 0), "b"),
        ((5, 5), (5, 0), "b"),
        ((8, 7), (5, 0), "b"),
        ((9, 3), (5, 0), "a"),
    ]:
        work = WaitingWork(plan)
        for name_, count, second in zip("ab", counts, since, strict=True):
            work.add(name_, Item(0, rows(count), second * UNIT_NS))
        work.now_ns = 10 * UNIT_NS
        choice = policy.pick(work)
        assert choice is not None
        assert choice.operator == expected, (counts, since)
