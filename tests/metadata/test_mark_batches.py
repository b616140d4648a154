"""Many punctuations at once say what they say one by one."""

from __future__ import annotations

from itertools import product

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.metadata.batches import follows_its_punctuation, merged
from penstock.model.batch import Batch
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import Pattern, between, constant, one_of

NAMES = ("k", "v")
VALUES = range(-3, 16)
bounds = st.one_of(st.none(), st.integers(-2, 12))


def ranged(low: int | None, high: int | None) -> Pattern:
    if low is not None and high is not None and low > high:
        low, high = high, low
    return between(low, high)


patterns = st.one_of(
    st.builds(ranged, bounds, bounds),
    st.builds(constant, st.integers(-2, 12)),
    st.builds(one_of, st.lists(st.integers(-2, 12), min_size=2, max_size=4)),
    st.builds(between, st.integers(-2, 5), st.integers(6, 12), st.booleans(), st.booleans()),
)


@st.composite
def announcements(draw: st.DrawFn) -> list[Punctuation]:
    found = []
    for pos, pattern in enumerate(draw(st.lists(patterns, max_size=8))):
        other = {"v": constant(1)} if draw(st.integers(0, 5)) == 0 else {}
        mark = Punctuation.of(NAMES, 0, 2 * pos, k=pattern, **other)
        found.append(Punctuation(mark.names, mark.patterns, 0, mark.pos, draw(st.booleans())))
    return found


def closed_from(marks: list[Punctuation], value: int, other: int, is_global: bool) -> float:
    """Position behind which no row with these values comes."""
    row = {"k": value, "v": other}
    return min((mark.pos for mark in marks if mark.is_global == is_global and mark.matches(row)), default=float("inf"))


@settings(max_examples=150, deadline=None)
@given(announcements())
def test_merged_punctuations_close_the_same_rows_and_none_earlier(marks):
    few = merged(marks)
    assert len(few) <= len(marks)
    for value, other, is_global in product(VALUES, (1, 2), (False, True)):
        before, after = (closed_from(some, value, other, is_global) for some in (marks, few))
        assert before <= after
        assert (before == float("inf")) == (after == float("inf"))


@settings(max_examples=150, deadline=None)
@given(announcements(), st.lists(st.tuples(st.one_of(st.none(), st.integers(-3, 15)), st.integers(0, 17)), max_size=12))
@example([Punctuation.of(NAMES, 0, 4, k=between(None, 3))], [(2**63 - 1, 5), (-(2**63), 5), (3, 4), (3, 5), (4, 5)])
def test_a_row_follows_its_punctuation_when_an_earlier_one_matches_it(marks, rows):
    columns = [pa.array([key for key, _ in rows], pa.int64()), pa.array([1 + pos % 2 for _, pos in rows], pa.int64())]
    positions = np.array([pos for _, pos in rows], np.int64)
    batch = Batch(pa.RecordBatch.from_arrays(columns, list(NAMES)), np.zeros(len(rows), np.int64), positions)
    expected = [any(mark.pos < pos and mark.matches({"k": key, "v": 1 + pos % 2}) for mark in marks) for key, pos in rows]
    assert follows_its_punctuation(batch, marks).tolist() == expected


@pytest.mark.parametrize("kind", [pa.float64(), pa.int8(), pa.timestamp("us", tz="UTC")])
def test_ranges_of_numbers_hold_for_every_type_of_column(kind):
    column = pa.array([1, 5, 6, None], pa.int64()).cast(kind)
    batch = Batch(pa.RecordBatch.from_arrays([column], ["k"]), np.zeros(4, np.int64), np.arange(1, 5))
    low, high = (1.0, 5.0) if pa.types.is_floating(kind) else (1, 5)
    assert follows_its_punctuation(batch, [Punctuation.of(("k",), 0, 1, k=between(low, high))]).tolist() == [
        False,
        True,
        False,
        False,
    ]


def test_a_run_of_neighbouring_ranges_becomes_one_with_the_last_position():
    (one,) = merged([Punctuation.of(NAMES, 0, pos, k=between(10 * pos, 10 * pos + 9)) for pos in range(1, 6)])
    assert str(one) == "⟨k=[10,59], v=*⟩"
    assert one.pos == 5
