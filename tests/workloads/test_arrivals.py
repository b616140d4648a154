"""Arrival processes: the same for every cut, at the rate asked for, with the shape of their distribution."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption
from penstock.workloads.arrivals import BLOCK, MICROS, Arrivals, RateSchedule, parse_schedule

SCHEDULES = [(), ((0.0, 2.0),), ((0.5, 3.0), (1.0, 0.0), (2.0, 1.0)), ((1.0, 0.25), (3.0, 0.0), (4.0, 10.0))]

processes = st.builds(
    Arrivals,
    st.builds(RateSchedule, st.sampled_from([0.5, 100.0, 2500.0, 3e6]), st.sampled_from(SCHEDULES)),
    is_poisson=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=60, deadline=None)
@given(process=processes, cuts=st.lists(st.integers(0, 3 * BLOCK), max_size=5))
def test_times_do_not_depend_on_how_a_range_is_cut(process: Arrivals, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 3 * BLOCK]
    pieces = [process.times(start, stop) for start, stop in pairwise(edges)]
    whole = process.times(0, 3 * BLOCK)
    assert np.array_equal(np.concatenate(pieces), whole)
    assert (np.diff(whole) >= 0).all()
    assert whole[0] >= 0


@settings(max_examples=60, deadline=None)
@given(process=processes, elapsed_us=st.integers(-5, 6 * MICROS))
def test_rows_due_are_the_rows_that_arrived_by_then(process: Arrivals, elapsed_us: int) -> None:
    due = process.due(elapsed_us)
    if due:
        assert process.times(due - 1, due)[0] <= elapsed_us
    assert process.times(due, due + 1)[0] > elapsed_us


def test_no_row_arrives_in_a_pause_and_a_burst_triples_the_rate() -> None:
    process = Arrivals(RateSchedule(1000.0, ((10.0, 3.0), (20.0, 0.0), (30.0, 1.0))), is_poisson=True, seed=3)
    per_second = np.bincount(process.times(0, 45_000) // MICROS, minlength=40)
    assert per_second[20:30].sum() == 0
    assert abs(per_second[:10].mean() - 1000) < 40
    assert abs(per_second[10:20].mean() - 3000) < 80
    assert abs(per_second[30:34].mean() - 1000) < 60


@pytest.mark.parametrize("is_poisson", [False, True])
def test_the_realised_rate_is_the_rate_asked_for(is_poisson: bool) -> None:
    process = Arrivals(RateSchedule(5000.0), is_poisson, seed=9)
    first, last = process.at(np.array([0, 50 * BLOCK]))
    assert 50 * BLOCK * MICROS / (last - first) == pytest.approx(5000.0, rel=1e-3)
    assert process.due(100 * MICROS) == pytest.approx(500_000, rel=1e-3)


def test_poisson_gaps_are_exponential_and_short_counts_have_poisson_variance() -> None:
    times = Arrivals(RateSchedule(1000.0), is_poisson=True, seed=5).times(0, 100 * BLOCK)
    gaps = np.diff(times) / 1000.0
    assert gaps.mean() == pytest.approx(1.0, rel=0.01)
    assert gaps.std() == pytest.approx(1.0, rel=0.02)
    assert np.quantile(gaps, 0.5) == pytest.approx(np.log(2), rel=0.03)
    counts = np.bincount(times // 40_000)[:-1]  # 40 expected: a hundredth of a block
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.08)


def test_different_seeds_give_different_poisson_times() -> None:
    one, two = (Arrivals(RateSchedule(1000.0), is_poisson=True, seed=seed).times(0, 100) for seed in (1, 2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("rate", "schedule"),
    [(0.0, ""), (-1.0, ""), (float("nan"), ""), (1.0, "5:0"), (1.0, "5:1,4:2"), (1.0, "1:-1"), (1.0, "5"), (1.0, "a:b")],
)
def test_rates_and_schedules_that_cannot_be_played_are_refused(rate: float, schedule: str) -> None:
    with pytest.raises(InvalidOption):
        RateSchedule(rate, parse_schedule(schedule))
