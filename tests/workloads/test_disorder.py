"""Faults stay within what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption
from penstock.workloads.coins import happens, hashes, integers, uniforms
from penstock.workloads.disorder import Disorder

INDEX = np.arange(20_000)
ARRIVALS = INDEX * 1_000


@settings(max_examples=30, deadline=None)
@given(bound_us=st.integers(0, 2**32 - 1), seed=st.integers(0, 1000))
def test_no_row_is_more_than_the_bound_older_than_the_newest_before_it(bound_us: int, seed: int) -> None:
    times = Disorder(bound_us=bound_us, seed=seed).event_times(ARRIVALS, INDEX)
    assert (np.maximum.accumulate(times) - times <= bound_us).all()
    assert (times <= ARRIVALS).all()
    assert (times >= 0).all()


def test_disorder_does_mix_the_event_times() -> None:
    times = Disorder(bound_us=50_000, seed=1).event_times(ARRIVALS, INDEX)
    assert (np.diff(times) < 0).mean() > 0.4


def test_late_rows_come_in_the_given_share_and_are_later_than_the_bound() -> None:
    disorder = Disorder(bound_us=2_000, late_fraction=0.05, late_us=100_000, seed=4)
    times = disorder.event_times(ARRIVALS, INDEX)
    lateness = np.maximum.accumulate(times) - times
    settled = slice(400, None)  # before that the start of the stream cuts the delay
    late = lateness[settled] > 2_000
    assert late.mean() == pytest.approx(0.05, abs=0.01)
    assert np.array_equal(late, happens(4, "late", INDEX, 0.05)[settled])


def test_a_duplicate_repeats_the_row_before_it_which_shows_itself() -> None:
    index = INDEX * 3 + 1
    originals = Disorder(duplicate_fraction=0.3, seed=2).originals(index, 3, np.zeros(len(index), np.bool_))
    repeats = np.flatnonzero(originals != index)
    assert 0.15 < len(repeats) / len(index) < 0.3
    assert np.array_equal(originals[repeats], index[repeats - 1])
    assert np.array_equal(originals[repeats - 1], index[repeats - 1])


@pytest.mark.parametrize("name", ["late_fraction", "duplicate_fraction", "null_fraction", "bad_fraction"])
def test_a_share_above_one_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="between 0 and 1"):
        Disorder(**{name: 1.5})


def test_coins_are_uniform_and_independent_of_each_other() -> None:
    index = np.arange(200_000)
    draws = uniforms(1, "a", index)
    assert draws.mean() == pytest.approx(0.5, abs=0.005)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(draws, uniforms(1, "b", index))[0, 1]) < 0.01
    assert abs(np.corrcoef(draws, uniforms(2, "a", index))[0, 1]) < 0.01
    counts = np.bincount(integers(1, "a", index, 10), minlength=10)
    assert counts.min() > 19_300
    assert counts.max() < 20_700
    assert len(np.unique(hashes(1, "a", index))) == len(index)
