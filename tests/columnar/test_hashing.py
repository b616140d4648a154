"""The key hash: equal values hash equal whatever their layout, others do not by construction."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.columnar.hashing import byte_layout, fixed_words, hash_columns, mix_positions

MASK = 2**64 - 1


def mixed(x: int) -> int:
    """The finishing step of splitmix64, in plain integers."""
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def plain_hash(*columns: int | str | None) -> int:
    """The slow twin: one row of integers, texts and NULLs."""
    out = 0
    for value in columns:
        if value is None:
            out = (out * 31 + 0x9E3779B97F4A7C15) & MASK
        elif isinstance(value, int):
            out = mixed((out * 31 + mixed((value + 0x9E3779B97F4A7C15) & MASK)) & MASK)
        else:
            word = 0xCBF29CE484222325
            for byte in value.encode():
                word = (word ^ byte) * 0x100000001B3 & MASK
            out = mixed((out * 31 + mixed(word)) & MASK)
    return out


integers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
texts = st.one_of(st.none(), st.text(max_size=5))


@given(rows=st.lists(st.tuples(integers, texts), max_size=8))
@settings(max_examples=60, deadline=None)
@example(rows=[(None, None), (None, ""), (0, None)])
def test_the_fast_hash_equals_the_plain_one(rows: list[tuple[int | None, str | None]]) -> None:
    columns = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())]
    assert hash_columns(columns, len(rows)).tolist() == [plain_hash(*row) for row in rows]
    assert hash_columns(columns[1:], len(rows)).tolist() == [plain_hash(row[1]) for row in rows]


@given(values=st.lists(texts, max_size=6), start=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_layout_and_slices_do_not_matter(values: list[str | None], start: int) -> None:
    plain = pa.array(values, pa.string())
    expected = hash_columns([plain], len(values)).tolist()
    layouts = [plain.cast(pa.large_string()), plain.dictionary_encode(), plain.cast(pa.string_view())]
    for layout in (plain, *layouts):
        assert hash_columns([layout], len(values)).tolist() == expected
        part = layout.slice(start)
        assert hash_columns([part], len(part)).tolist() == expected[start:]


def test_numbers_that_sql_calls_equal_hash_equal() -> None:
    floats = pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.5])
    zero, minus_zero, nan, other_nan, other = hash_columns([floats], 5).tolist()
    assert zero == minus_zero
    assert nan == other_nan
    assert len({zero, nan, other}) == 3
    assert hash_columns([floats.cast(pa.float32())], 5).tolist() == hash_columns([floats], 5).tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, None], pa.int8()),
        pa.array([1, 2, None], pa.uint64()),
        pa.array([True, False, None]),
        pa.array([dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]),
        pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        pa.array([b"a", b"", None]),
        pa.array([b"a", b"b", None], pa.binary(1)),
        pa.array([1, 2, None], pa.decimal128(9, 2)),
        pa.array([1.5, 2.5, None], pa.float32()),
        pa.array([1, 2, None], pa.time64("us")),
        pa.array([1, 2, None], pa.duration("us")),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_key_can_be_hashed(column: pa.Array) -> None:
    first, second, null = hash_columns([column], 3).tolist()
    assert len({first, second, null}) == 3
    assert hash_columns([column.slice(0, 0)], 0).tolist() == []
    assert hash_columns([pa.nulls(2, column.type)], 2).tolist() == [null, null]


def test_integers_of_any_width_hash_alike_and_a_clock_time_like_its_microseconds() -> None:
    expected = hash_columns([pa.array([7])], 1).tolist()
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.timestamp("us", "UTC")):
        assert hash_columns([pa.array([7], kind)], 1).tolist() == expected


def test_no_columns_hash_to_zero() -> None:
    assert hash_columns([], 3).tolist() == [0, 0, 0]


def test_one_fixed_width_column_is_hashed_one_to_one() -> None:
    values = np.concatenate([np.arange(-50_000, 50_000), np.arange(-50_000, 50_000) << 33])
    hashes = hash_columns([pa.array(values)], len(values))
    assert len(np.unique(hashes)) == len(np.unique(values))


def test_shards_get_about_equal_parts_of_consecutive_keys() -> None:
    shards = (hash_columns([pa.array(np.arange(30_000))], 30_000) >> np.uint64(33)) % np.uint64(3)
    counts = np.bincount(shards.astype(np.int64))
    assert counts.min() > 9_500


@given(left=st.integers(-(2**63), 2**63 - 1), right=st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=40, deadline=None)
def test_the_position_of_a_pair_is_not_negative_and_knows_left_from_right(left: int, right: int) -> None:
    one = int(mix_positions(np.array([left]), np.array([right]))[0])
    other = int(mix_positions(np.array([right]), np.array([left]))[0])
    assert one >= 0
    assert (one == other) == (left == right)


def test_words_and_bytes_show_the_values(recwarn: Any) -> None:
    assert fixed_words(pa.array(["a"])) is None
    offsets, data = byte_layout(pa.array(["ab", "", "c"]).slice(1))
    assert [bytes(data[a:b]).decode() for a, b in pairwise(offsets)] == ["", "c"]
    assert len(recwarn) == 0
