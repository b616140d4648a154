"""max_by and min_by: parts merge to the whole, and the whole is what sorting finds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.columnar.aggregate import aggregate_for

Offer = tuple[Any, Any, Any]
TYPE = pa.struct([("v0", pa.string()), ("v1", pa.int64()), ("v2", pa.float64())])
offers = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from([-(2**63), -1, 0, 5, 2**63 - 1, None]),
        st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf"), None]),
    ),
    max_size=12,
)


def column(rows: list[Offer], kind: pa.StructType = TYPE) -> pa.Array:
    columns = [pa.array([row[at] for row in rows], item.type) for at, item in enumerate(kind)]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def computed(function: str, parts: list[list[Offer]], kind: pa.StructType = TYPE) -> object:
    chosen = aggregate_for(function, kind)
    cells = [chosen.accumulator.partial(column(part, kind), np.zeros(len(part), np.int64), 1) for part in parts]
    assert all(cell.type == chosen.accumulator.type for cell in cells)
    merged = chosen.accumulator.merge(pa.concat_arrays(cells), np.zeros(len(cells), np.int64), 1)
    (result,) = chosen.read(merged).to_pylist()
    return result


def rank(value: Any) -> tuple[bool, bool, Any]:
    """Spark's order: NULL, numbers, NaN."""
    is_nan = isinstance(value, float) and value != value
    return value is not None, is_nan, 0 if is_nan or value is None else value


def by_sorting(function: str, rows: list[Offer]) -> object:
    found = sorted((row for row in rows if row[1] is not None), key=lambda row: [rank(row[at]) for at in (1, 2, 0)])
    return found[-1 if function == "max_by" else 0][0] if found else None


@settings(max_examples=150, deadline=None)
@given(offers, st.lists(st.integers(0, 12), max_size=3), st.sampled_from(["max_by", "min_by"]), st.randoms())
def test_the_chosen_row_is_what_sorting_finds_for_every_order_and_partition(rows, cuts, function, random):
    shuffled = random.sample(rows, len(rows))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    assert computed(function, [shuffled[start:stop] for start, stop in pairwise(bounds)]) == by_sorting(function, rows)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 4)), max_size=20))
def test_each_group_has_its_own_best(rows):
    chosen = aggregate_for("max_by", pa.struct([("v0", pa.int64()), ("v1", pa.int64())]))
    codes = np.array([group for group, _, _ in rows], np.int64)
    cells = chosen.accumulator.partial(column([row[1:] for row in rows], chosen.accumulator.type), codes, 4)
    best = [max(((price, bidder) for g, bidder, price in rows if g == group), default=(None, None))[1] for group in range(4)]
    assert chosen.read(cells).to_pylist() == best


@pytest.mark.parametrize(
    ("function", "winner"),
    [("max_by", "late"), ("min_by", "early")],
)
def test_the_second_column_of_order_decides_between_equal_firsts(function, winner):
    assert computed(function, [[("early", 7, 1.0)], [("late", 7, 2.0)]]) == winner


def test_a_row_without_order_does_not_count_but_its_value_may_be_null():
    assert computed("max_by", [[("a", None, 1.0)]]) is None
    assert computed("max_by", [[("a", 1, None), (None, 2, None)]]) is None
    assert computed("min_by", [[("a", 1, None), (None, 2, None)], []]) == "a"
