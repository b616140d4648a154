"""Where batches end: the worked example, and that it does not matter how rows are handed in."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from penstock.qos.scheduling.batching import Batching, FixedInterval, FixedLength, IntelligentBatching

EXAMPLE = np.array([0, 100, 300, 800, 1_100, 1_500, 1_900, 2_300, 2_650])

KINDS: list[Callable[[], Batching]] = [
    lambda: IntelligentBatching(laxity_us=20, gap_us=1),
    lambda: IntelligentBatching(laxity_us=50),
    lambda: FixedLength(3),
    lambda: FixedLength(),
    lambda: FixedInterval(7),
]


def test_a_gap_and_then_the_span_end_batches_of_the_worked_example() -> None:
    """Limits 1.8 and 0.4 s: {0, 0.1, 0.3}, a gap of 0.5, {0.8 .. 2.3}, a span of 1.85, {2.65}."""
    assert IntelligentBatching(laxity_us=2_000, gap_us=100).cut(EXAMPLE) == [3, 8]


def test_at_the_limit_a_row_stays_in_the_batch() -> None:
    batching = IntelligentBatching(laxity_us=20, gap_us=1)
    assert batching.waits_us == 18
    assert batching.cut(np.array([0, 4, 8, 12, 16, 18, 19])) == [6]
    assert IntelligentBatching(laxity_us=20, gap_us=1).cut(np.array([0, 4, 9])) == [2]


def test_long_gaps_are_those_longer_than_the_ones_before() -> None:
    """Gaps of 2, 2 and 9: more than four times 2. Then of 12: not more than four times 25 / 4."""
    assert IntelligentBatching(laxity_us=1_000).cut(np.array([0, 2, 4, 13, 25])) == [3]


def test_a_row_that_is_older_than_the_one_before_ends_no_batch() -> None:
    assert IntelligentBatching(laxity_us=20, gap_us=1).cut(np.array([5, 2, 8, 7, 11])) == []


def test_a_closed_batch_is_not_continued() -> None:
    batching = IntelligentBatching(laxity_us=10, gap_us=100)
    assert batching.cut(np.array([0, 8])) == []
    batching.close()
    assert batching.cut(np.array([10, 19, 20])) == [2]


def test_more_laxity_makes_longer_batches() -> None:
    batching = IntelligentBatching(laxity_us=10, gap_us=100)
    assert batching.cut(np.array([0, 10])) == [1]
    batching.laxity_us = 100
    assert batching.cut(np.array([100, 101])) == [1]


@pytest.mark.parametrize("make", KINDS)
@given(gaps=st.lists(st.integers(-3, 30), min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_batches_do_not_depend_on_the_pieces_in_which_rows_come_nor_on_restarts(
    make: Callable[[], Batching], gaps: list[int], cuts: list[int]
) -> None:
    ts = np.cumsum(np.array(gaps, np.int64))
    whole = make().cut(ts)
    assert whole == sorted(set(whole))
    pieces = sorted({0, len(ts), *(cut for cut in cuts if cut < len(ts))})
    found, batching = [], make()
    for begin, end in pairwise(pieces):
        found += [begin + position for position in batching.cut(ts[begin:end])]
        other = make()
        other.restore(json.loads(json.dumps(batching.snapshot())))
        batching = other
    assert found == whole
    assert batching.cut(ts[:0]) == []
