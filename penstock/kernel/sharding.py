"""Which shard a row belongs to, and what that says about values a shard will never see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import hash_columns
from penstock.metadata.attribute_set import Widen
from penstock.model.batch import Int64s


def shard_of(columns: Sequence[pa.Array], rows: int, shards: int) -> Int64s:
    """Shard of each row; the upper bits are used because join segments are sorted by the whole hash."""
    result: Int64s = ((hash_columns(columns, rows) >> np.uint64(33)) % np.uint64(shards)).astype(np.int64)
    return result


def foreign_run(kind: pa.DataType, shard: int, shards: int) -> Widen:
    """The last of the consecutive values after each given one that all belong to other shards.

    A shard sees only its share of dense keys, so closed keys would cost it one interval each. Values of other shards cannot
    come here; counted as closed, they make the intervals meet again, and memory follows the keys still open.
    """
    steps = np.arange(1, 8 * shards + 1)
    # Beyond this the values after a number do not all exist.
    last_widened = (
        min(np.iinfo(kind.to_pandas_dtype()).max, np.iinfo(np.int64).max) - len(steps) if pa.types.is_integer(kind) else 0
    )

    def last_foreign(numbers: Int64s) -> Int64s:
        following = (np.minimum(numbers, last_widened)[:, None] + steps).astype(kind.to_pandas_dtype())
        mine = shard_of([pa.array(following.ravel(), kind)], following.size, shards).reshape(following.shape) == shard
        first_own = np.where(mine.any(axis=1), mine.argmax(axis=1), len(steps))
        result: Int64s = numbers + np.where(numbers <= last_widened, first_own, 0)
        return result

    return last_foreign
