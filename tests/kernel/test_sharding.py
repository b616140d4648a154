"""Which shard owns a value, and which values a shard will never see."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.kernel.sharding import foreign_run, shard_of


@given(value=st.integers(-(2**63), 2**63 - 1), shards=st.integers(2, 5))
@settings(max_examples=60, deadline=None)
@example(value=2**63 - 1, shards=2)
@example(value=2**63 - 2, shards=3)
def test_all_values_of_a_foreign_run_belong_to_other_shards(value: int, shards: int) -> None:
    for shard in range(shards):
        last = int(foreign_run(pa.int64(), shard, shards)(np.array([value]))[0])
        between = list(range(value + 1, last + 1))
        assert last >= value
        assert shard not in shard_of([pa.array(between, pa.int64())], len(between), shards).tolist()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint32(), pa.uint64()], ids=str)
def test_a_run_ends_with_the_type(kind: pa.DataType) -> None:
    greatest = min(np.iinfo(kind.to_pandas_dtype()).max, 2**63 - 1)
    for shard in (0, 1):
        assert foreign_run(kind, shard, 2)(np.array([greatest, greatest - 1])).max() <= greatest


def test_every_row_has_one_shard_and_no_columns_mean_the_first() -> None:
    assert set(shard_of([pa.array(range(100))], 100, 4).tolist()) == {0, 1, 2, 3}
    assert shard_of([], 3, 4).tolist() == [0, 0, 0]
