"""Masks that say nothing go, everything else stays."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columnar.masks import without_idle_masks


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5))), st.integers(0, 3), st.integers(0, 3))
def test_values_stay_whatever_part_of_a_column_they_are(values: list[int | None], skipped: int, more: int) -> None:
    numbers = pa.array(values, pa.int64())[skipped : skipped + more]
    texts = pa.array([None if value is None else str(value) for value in values], pa.string())[skipped : skipped + more]
    rows = pa.record_batch({"number": numbers, "text": texts})
    assert without_idle_masks(rows).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.bool_(), pa.binary()])
def test_a_column_without_null_loses_its_mask(kind: pa.DataType) -> None:
    column = pa.array([1, 0, None]).cast(pa.string() if kind == pa.binary() else kind).cast(kind)[:2]
    assert column.buffers()[0] is not None
    assert without_idle_masks(pa.record_batch({"a": column})).column(0).buffers()[0] is None


@pytest.mark.parametrize("column", [pa.array([[1], None, [2]]), pa.array(["a", None]).dictionary_encode(), pa.nulls(3)])
def test_nested_columns_and_columns_of_nothing_stay_as_they_are(column: pa.Array) -> None:
    assert without_idle_masks(pa.record_batch({"a": column})).column(0).equals(column)
