"""Simple punctuations read many at a time say what they say read one by one."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings

from penstock.metadata.embedded import read_punctuation
from penstock.metadata.listed import read_listed
from penstock.model.schema import Schema
from penstock.model.value_sets import constant

SCHEMA = Schema.of(k=pa.int32(), S=pa.string(), x=pa.float64(), ts=pa.timestamp("us", tz="UTC"))

values = st.one_of(
    st.integers(-3, 9), st.sampled_from([2**31 - 1, 2**31, 10**18, -(10**18)]), st.text(alphabet='ab"\\\n é*', max_size=3),
    st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False), st.just([1, 2]), st.just({"range": [1, 2]}),
)  # fmt: skip
objects = st.dictionaries(st.sampled_from(["k", "K", "s", "x", "ts", "unknown"]), values, max_size=2)
texts = st.one_of(
    objects.map(json.dumps),
    st.builds(json.dumps, objects, separators=st.just((",", ":"))),
    st.sampled_from(['{"k": 07}', "", "{}"]),
)


@given(st.lists(texts, max_size=8))
@settings(max_examples=200, deadline=None)
@example(['{"k": 1}', '{"k":2}', '{"S": "1"}', '{"s": ""}', '{"K": 2147483648}'])
def test_what_is_read_in_columns_is_what_each_text_says(written: list[str]) -> None:
    positions = np.arange(10, 10 + len(written))[::-1].copy()
    found, is_read = read_listed(pa.array(written, pa.string()), positions, SCHEMA)
    said = {
        (item.column, value, at) for item in found for value, at in zip(item.values.to_pylist(), item.pos.tolist(), strict=True)
    }
    expected = set()
    for text, at, was_read in zip(written, positions.tolist(), is_read.tolist(), strict=True):
        if was_read:
            mark = read_punctuation(text, SCHEMA, "here")
            ((name, pattern),) = mark.restricted.items()
            expected.add((name, pattern.value, at))
    assert said == expected
    assert all(np.all(np.diff(item.pos) >= 0) for item in found)


def test_numbers_and_texts_of_the_simple_form_are_all_read_in_columns() -> None:
    written = ['{"k": 5}', '{"k":-7}', '{"s": "tea"}', '{"S": ""}', '{"k": "5"}', '{"s": 5}', '{"x": 5}', '{"k": 0}']
    found, is_read = read_listed(pa.array(written), np.arange(8), SCHEMA)
    assert is_read.tolist() == [True, True, True, True, False, False, False, True]
    assert {item.column: item.values.to_pylist() for item in found if item.column == "k"} == {"k": [5, -7, 0]}


def test_a_row_is_judged_by_the_first_punctuation_of_its_value() -> None:
    found, _ = read_listed(pa.array(['{"k": 5}', '{"k": 5}', '{"k": 7}']), np.array([3, 9, 4]), SCHEMA)
    (listed,) = found
    wrong = listed.precede(pa.array([5, 5, 7, 7, None, 8], pa.int32()), np.array([2, 4, 4, 5, 99, 99]))
    assert wrong.tolist() == [False, True, False, True, False, False]
    assert listed.punctuation("k").pos == 9
    assert constant(5).issubset(listed.punctuation("k").pattern("k"))


def test_a_number_too_large_for_its_column_is_left_to_the_other_reader() -> None:
    _, is_read = read_listed(pa.array(['{"k": 2147483648}']), np.arange(1), SCHEMA)
    assert not is_read.any()
