"""Narrow columns hold what the wide ones held."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.columnar.narrow import narrow, widened
from penstock.kernel.segments import decode_segment, encode_segment
from penstock.model.schema import TIMESTAMP

LEAST, MOST = -(2**63), 2**63 - 1


@given(low=st.integers(LEAST, MOST), span=st.integers(0, 2**33), seed=st.integers(0, 9), is_clock=st.booleans())
@example(low=LEAST, span=2**32 - 1, seed=0, is_clock=False)
@example(low=LEAST, span=255, seed=0, is_clock=True)
@example(low=MOST, span=0, seed=0, is_clock=False)
@settings(max_examples=60, deadline=None)
def test_rows_are_the_same_on_the_other_side(low: int, span: int, seed: int, is_clock: bool) -> None:
    high = min(low + span, MOST)
    dice = np.random.default_rng(seed)
    numbers = np.concatenate([[low, high], dice.integers(low, high, 400, endpoint=True)])
    kind = TIMESTAMP if is_clock else pa.int64()
    rows = pa.RecordBatch.from_pydict({
        "a": pa.array(numbers, pa.int64()).view(kind),
        "text": ["x"] * len(numbers),
        "some": pa.array([None, 2] * (len(numbers) // 2)),
        "real": dice.random(len(numbers)),
    })  # fmt: skip
    for each in (rows, rows.slice(3, 390), rows.slice(0, 0), rows.slice(5, 10)):
        sent = decode_segment(encode_segment(narrow(each)))
        found = widened(sent)
        found.validate(full=True)
        assert found.equals(each)
        assert found.schema == each.schema


@pytest.mark.parametrize(
    ("span", "kind"), [(255, "uint8"), (256, "uint16"), (65_536, "uint32"), (2**32 - 1, "uint32"), (2**32, "int64")]
)
def test_a_column_takes_as_many_bytes_as_its_values_need(span: int, kind: str) -> None:
    rows = pa.RecordBatch.from_pydict({"a": [7, 7 + span] * 500})
    assert str(narrow(rows).column(0).type) == kind


def test_metadata_of_the_schema_stay() -> None:
    rows = pa.RecordBatch.from_pydict({"a": list(range(1000))}).replace_schema_metadata({"who": "me"})
    assert widened(narrow(rows)).schema.metadata == {b"who": b"me"}
