"""Which segment is served, by hand: memory-optimal, greedy, and at most two per path."""

from __future__ import annotations

import pytest

from penstock.qos.scheduling.greedy_segment import GreedySegment
from penstock.qos.scheduling.segment import Segment
from penstock.qos.scheduling.simple_segment import SimpleSegment
from penstock.qos.scheduling.stretches import ServesStretches
from penstock.testing.scheduling import UNIT_NS, drained, line, per_unit, picked, plan_of, waiting
from penstock.testing.scheduling_simulator import Arrival, Simulation

#: G4. Greedy: {1} 8, {2, 3} 11/29, {4} 1/2. The others: {1} 8, {2, 3, 4} 20/47.
G4 = line("p", *[per_unit(*numbers) for numbers in [(10, 0.2), (1, 0.9), (2, 0.5), (0.5, 1.0)]])
#: Alone in its segment: 0.4, between 11/29 and 20/47.
OTHER = line("r", per_unit(0.4))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Segment(), ["p1", "p4", "p3", "p2", "r1"]),
        (SimpleSegment(), ["p1", "p4", "p3", "p2", "r1"]),
        (GreedySegment(), ["p1", "p4", "r1", "p3", "p2"]),
    ],
)
def test_the_segment_that_releases_fastest_is_served_from_its_end(policy: ServesStretches, expected: list[str]) -> None:
    plan = plan_of(*G4, *OTHER)
    policy.plan(plan)
    assert drained(policy, waiting(plan, r1=1, p1=1, p2=1, p3=1, p4=1)) == expected


def test_simple_segments_join_what_segments_divide() -> None:
    """G5: {1} 8, {2} 1/2, {3, 4} 1/6, and with two segments {1} 8, {2, 3, 4} 1/4."""
    path = line("p", *[per_unit(*numbers) for numbers in [(10, 0.2), (1, 0.5), (0.5, 0.8), (0.2, 1.0)]])
    plan = plan_of(*path, *line("r", per_unit(0.2)), *line("s", per_unit(0.3)))
    for policy, expected in ((Segment(), ["p2", "s1", "r1", "p4", "p3"]), (SimpleSegment(), ["s1", "p4", "p3", "p2", "r1"])):
        policy.plan(plan)
        assert drained(policy, waiting(plan, s1=1, r1=1, p4=1, p3=1, p2=1)) == expected


def test_what_arrives_for_a_better_segment_goes_first_at_the_next_slice() -> None:
    plan = plan_of(*line("p", per_unit(1.0, 1.0), per_unit(1.0)), *line("q", per_unit(2.0)))
    found = Simulation(Segment(), plan)
    found.run([Arrival(0, "p1", 2), Arrival(UNIT_NS // 2, "q1", 2)])
    assert [(one.at_ns // UNIT_NS, one.operator) for one in found.served] == [(0, "p1"), (1, "q1"), (2, "p2"), (3, "p1"), (4, "p2")]


def test_nothing_is_picked_when_nothing_waits() -> None:
    for policy in (Segment(), SimpleSegment(), GreedySegment()):
        assert picked(policy, plan_of(*G4)) is None
