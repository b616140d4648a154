"""Texts numbered by a known list."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.columnar.known_texts import KnownTexts

#: Few letters and lengths around one and two words, so that texts often agree in parts.
TEXTS = st.one_of(
    st.text("ab", max_size=9),
    st.builds(lambda head, middle: head * 8 + middle + "b" * 8, st.sampled_from("aé"), st.text("ab", max_size=3)),
)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@given(names=st.lists(TEXTS, max_size=8, unique=True), values=st.lists(st.none() | TEXTS, max_size=30), skipped=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_each_text_gets_its_place_in_the_list(kind, names, values, skipped):
    place = {name: number for number, name in enumerate(names)}
    values = values + names
    column = pa.array(values, kind).slice(min(skipped, len(values)))
    expected = [place.get(value, len(names)) for value in values[skipped:]]
    assert KnownTexts(names).numbers(column).tolist() == expected


def test_columns_of_texts_are_covered_and_encoded_ones_are_not():
    assert KnownTexts.covers(pa.string())
    assert not KnownTexts.covers(pa.dictionary(pa.int32(), pa.string()))
