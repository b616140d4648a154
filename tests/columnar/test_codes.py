"""Codes against a dictionary of Python values."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.columnar.codes import group_codes, integer_codes, order_codes

NAN = float("nan")
COLUMNS = {
    pa.int64(): st.one_of(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), None]), st.integers(-(2**63), 2**63 - 1)),
    pa.int8(): st.sampled_from([0, -128, 127, None]),
    pa.float64(): st.sampled_from([0.0, -0.0, NAN, -NAN, float("inf"), 1.5, None]),
    pa.float32(): st.sampled_from([0.0, -0.0, NAN, 0.5, None]),
    pa.string(): st.sampled_from(["", "a", "b", "ä", None]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"a", None]),
    pa.bool_(): st.sampled_from([True, False, None]),
    pa.timestamp("us", tz="UTC"): st.sampled_from([0, 1, -1, None]),
    pa.date32(): st.sampled_from([0, 1, None]),
    pa.decimal128(5, 2): st.sampled_from([0, 1, None]),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "b", None]),
    pa.list_(pa.int64()): st.sampled_from([[], [1], [1, None], None]),
    pa.null(): st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Array]:
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    length = draw(st.integers(0, 30))
    return [pa.array(draw(st.lists(COLUMNS[kind], min_size=length, max_size=length)), kind) for kind in kinds]


def same(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return repr(value)


def slow_codes(columns: list[pa.Array]) -> tuple[list[int], list[int]]:
    seen: dict[tuple[object, ...], int] = {}
    first, codes = [], []
    for row, values in enumerate(zip(*[column.to_pylist() for column in columns], strict=True)):
        key = tuple(map(same, values))
        if key not in seen:
            seen[key] = len(seen)
            first.append(row)
        codes.append(seen[key])
    return codes, first


@settings(max_examples=150, deadline=None)
@given(tables())
def test_codes_equal_those_of_a_dictionary(columns):
    codes, first, number = group_codes(columns)
    assert (codes.tolist(), first.tolist()) == slow_codes(columns)
    assert number == len(first)


@pytest.mark.parametrize("step", [1, 1_000_003, 2**40])
def test_many_keys_are_numbered_as_first_seen_by_address_and_by_hash(step):
    values = np.random.default_rng(7).integers(0, 5000, 20_000) * step
    codes, first, number = integer_codes(values)
    assert number == len(np.unique(values))
    assert np.array_equal(values[first][codes], values)
    assert np.all(np.diff(first) > 0)


def test_without_columns_every_row_is_in_one_group():
    assert group_codes([], 3).codes.tolist() == [0, 0, 0]
    assert group_codes([], 0).number == 0


def test_a_slice_is_numbered_like_its_copy():
    column = pa.array(["x", "a", "b", None, "a"])[1:]
    assert group_codes([column]).codes.tolist() == [0, 1, 2, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.floats(), st.none()), max_size=20))
def test_order_codes_order_doubles_with_nan_above_all(values):
    codes, valid = order_codes(pa.array(values, pa.float64()))
    kept = [value for value in values if value is not None]
    by_code = [value for _, value in sorted(zip(codes[valid].tolist(), kept, strict=True), key=lambda pair: pair[0])]
    expected = sorted(kept, key=lambda value: (value != value, 0.0 if value != value else value))
    assert list(map(same, by_code)) == list(map(same, expected))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abä\U0001f600\ue000", max_size=3), max_size=20))
def test_order_codes_order_strings_by_their_bytes(values):
    codes, _ = order_codes(pa.array(values, pa.string()))
    assert [values[at] for at in np.argsort(codes, kind="stable")] == sorted(values, key=lambda text: text.encode())
