"""Paths while there is memory, segments while there is little."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.work import Item, WaitingWork
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.segment import Segment
from penstock.qos.scheduling.threshold import MeanMemory, Threshold, thresholds
from penstock.testing.scheduling import UNIT_NS, line, per_unit, plan_of, rows
from penstock.testing.scheduling_simulator import Arrival, Simulation

MINUTE_NS = 60 * UNIT_NS
#: By capacity the path b comes first, by segments a1; by answers c.
PLAN = plan_of(
    *line("a", per_unit(4.0, 0.1), per_unit(0.1)),
    *line("b", per_unit(2.0, 0.9), per_unit(2.0)),
    *line("c", per_unit(0.9, 9.0)),
)


def told(**parameters: Any) -> Threshold:
    policy = Threshold(**{"memory": 100, **parameters})
    policy.plan(PLAN)
    return policy


def looks(policy: Threshold, memory: int, now_ns: int = 0) -> tuple[str, str]:
    """The mode when so much waits, and what is picked."""
    work = WaitingWork(PLAN)
    work.now_ns = now_ns
    for name, share in [("a1", memory - 2), ("b1", 1), ("c1", 1)]:
        work.add(name, Item(0, rows(share)))
    choice = policy.pick(work)
    assert choice is not None
    return policy.mode, choice.operator


@pytest.mark.parametrize(
    ("memory", "mean", "upper", "lower"),
    [
        ("20", "4", "12", "4"),
        ("20", "18", "18", "16.2"),
        ("100", "0", "50", "0"),
        ("10", "12", "9", "8.1"),
        ("12.5", "7.5", "10", "7.5"),
    ],
)
def test_g9_thresholds(memory: str, mean: str, upper: str, lower: str) -> None:
    exact: Any = Fraction
    assert thresholds(exact(memory), exact(mean), exact("0.9")) == (exact(upper), exact(lower))


def test_the_mode_decides_who_picks() -> None:
    policy = told(upper=50, lower=20)
    assert looks(policy, 10) == ("normal", "b1")
    assert looks(policy, 60) == ("saving", "a1")
    assert looks(told(upper=50, lower=20, normal="path_answers"), 10) == ("normal", "c1")


def test_between_the_thresholds_the_mode_stays() -> None:
    policy = told(upper=50, lower=20)
    modes = [looks(policy, memory)[0] for memory in (49, 50, 49, 21, 20, 21, 49, 90, 30)]
    assert modes == ["normal", "saving", "saving", "saving", "normal", "normal", "normal", "saving", "saving"]


@settings(deadline=None)
@given(st.lists(st.integers(2, 120), max_size=60), st.integers(3, 99), st.data())
def test_the_mode_changes_at_the_thresholds_only(trace: list[int], upper: int, data: st.DataObject) -> None:
    lower = data.draw(st.integers(2, upper - 1))
    policy, mode = told(upper=upper, lower=lower), "normal"
    for memory in trace:
        before, (mode, _) = mode, looks(policy, memory)
        if before != mode:
            assert memory >= upper if mode == "saving" else memory <= lower
        else:
            assert memory < upper if mode == "normal" else memory > lower


def test_thresholds_follow_the_mean_after_the_first_minute() -> None:
    policy = told()
    assert policy.thresholds() == (50, 25)
    looks(policy, 30)
    looks(policy, 30, MINUTE_NS // 2)
    assert policy.thresholds() == pytest.approx((65, 32.5))
    looks(policy, 30, MINUTE_NS)
    assert policy.thresholds() == pytest.approx((65, 30))
    assert told(upper=70).thresholds() == (70, 35)
    assert told(upper=70, lower=3).thresholds() == (70, 3)


def test_it_leaves_saving_in_the_first_minute_although_the_mean_is_near_nothing() -> None:
    policy = told()
    assert looks(policy, 50)[0] == "saving"
    assert looks(policy, 26)[0] == "saving"
    assert looks(policy, 25)[0] == "normal"


def test_a_mean_above_the_memory_leaves_the_upper_threshold_at_its_part_of_it() -> None:
    policy = told()
    looks(policy, 300)
    looks(policy, 300, 2 * MINUTE_NS)
    assert policy.thresholds() == (90, 81)


def test_the_mean_forgets_what_is_long_past() -> None:
    mean = MeanMemory()
    for now, memory in [(0, 100), (10, 0), (20, 0)]:
        mean.observe(memory, now * MINUTE_NS)
    assert mean.bytes == pytest.approx(100 / 3)
    mean.observe(0, 1000 * MINUTE_NS)
    assert mean.bytes < 1


def test_for_the_mean_time_stands_still_until_it_has_come_as_far_again() -> None:
    mean, other = MeanMemory(), MeanMemory()
    for now in (0, 5, 2, 5, 9):
        mean.observe(now, now * MINUTE_NS)
    for now in (0, 5, 9):
        other.observe(now, now * MINUTE_NS)
    assert mean.bytes == other.bytes


def test_a_replay_goes_on_where_the_policy_stood() -> None:
    policy, again = told(), told()
    for now, memory in [(0, 10), (30, 60), (70, 40)]:
        looks(policy, memory, now * UNIT_NS)
    again.restore(policy.snapshot())
    assert again.mode == "saving"
    assert again.thresholds() == policy.thresholds()
    for now, memory in [(80, 45), (90, 12), (95, 80)]:
        assert looks(policy, memory, now * UNIT_NS) == looks(again, memory, now * UNIT_NS)


arrivals = st.builds(
    Arrival, st.integers(0, 9 * UNIT_NS), st.sampled_from(["a1", "b1", "c1"]), st.integers(1, 6), port=st.just(0), ts=st.just(0)
)


@settings(deadline=None)
@given(st.lists(arrivals, max_size=8))
def test_below_the_upper_threshold_it_is_path_capacity_and_above_the_lower_one_it_is_segment(coming: list[Arrival]) -> None:
    def served(policy: Any) -> list[Any]:
        simulation = Simulation(policy, PLAN)
        simulation.run(coming)
        return simulation.served

    assert served(told(memory=10**9)) == served(PathCapacity())
    assert served(told(memory=10**9, normal="path_answers")) == served(PathAnswers())
    saving = told(memory=10**9, upper=1, lower=0)
    assert served(saving) == served(Segment())


def test_it_says_what_it_goes_by() -> None:
    lines = told(memory=200_000_000, upper=150_000_000, lower=100_000_000).explained()
    assert lines[0] == "normal: of 200.0 MB, saving begins at 150.0 MB and ends at 100.0 MB; mean 0 B"
    assert lines[1] == "normal:"
    assert lines[2].startswith("  1. path 'b1', 'b2': 1.053 rows/s")
    assert "saving:" in lines
