"""A columnar piece of a stream: rows with their event time and position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]

#: Columns that carry a batch's system values when it is stored or shipped.
TS, POS = "_ts", "_pos"


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one stream.

    Parameters
    ----------
    rows
        The user's columns.
    ts
        Event time: microseconds for clock time, the raw value for any other monotone attribute.
    pos
        Position in the stream, fixed before any exchange: it orders ties, seeds coins and names a row. For rows an operator
        makes, a hash of the positions they were made of.
    """

    rows: pa.RecordBatch
    ts: Int64s
    pos: Int64s
    #: What `stored` has made.
    _stored: list[pa.RecordBatch] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def num_rows(self) -> int:
        return len(self.ts)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def column(self, name: str) -> pa.Array:
        return self.rows.column(name)

    def take(self, indices: npt.NDArray[Any]) -> Batch:
        return Batch(self.rows.take(pa.array(indices)), self.ts[indices], self.pos[indices])

    def filter(self, mask: npt.NDArray[np.bool_]) -> Batch:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, length: int) -> Batch:
        return Batch(self.rows.slice(start, length), self.ts[start : start + length], self.pos[start : start + length])

    def in_order(self) -> Batch:
        """Rows by event time, ties by position: the order every order-dependent operator uses."""
        if (self.ts[1:] > self.ts[:-1]).all():
            return self
        order = np.lexsort((self.pos, self.ts))
        return self if np.array_equal(order, np.arange(len(order))) else self.take(order)

    def with_rows(self, rows: pa.RecordBatch) -> Batch:
        """Other columns for the same rows."""
        return Batch(rows, self.ts, self.pos)

    def stored(self) -> pa.RecordBatch:
        """One record batch that holds everything, for segments and packets; made once, as snapshots ask again and again."""
        if not self._stored:
            self._stored.append(self._as_stored())
        return self._stored[0]

    def _as_stored(self) -> pa.RecordBatch:
        arrays = [*self.rows.columns, pa.array(self.ts, pa.int64()), pa.array(self.pos, pa.int64())]
        fields = [*self.rows.schema, pa.field(TS, pa.int64()), pa.field(POS, pa.int64())]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    @classmethod
    def restored(cls, stored: pa.RecordBatch) -> Batch:
        """Inverse of `stored`."""
        width = stored.num_columns - 2
        rows = pa.RecordBatch.from_arrays(stored.columns[:width], schema=pa.schema(list(stored.schema)[:width]))
        batch = cls(rows, int64s(stored.column(width)), int64s(stored.column(width + 1)))
        batch._stored.append(stored)
        return batch

    @classmethod
    def empty(cls, schema: pa.Schema) -> Batch:
        none = np.empty(0, np.int64)
        return cls(pa.RecordBatch.from_arrays([pa.array([], item.type) for item in schema], schema=schema), none, none)

    @classmethod
    def concat(cls, batches: Sequence[Batch]) -> Batch:
        if len(batches) == 1:
            return batches[0]
        rows = pa.concat_batches([batch.rows for batch in batches])
        return cls(rows, np.concatenate([b.ts for b in batches]), np.concatenate([b.pos for b in batches]))


def int64s(array: pa.Array) -> Int64s:
    """A non-null integer or timestamp array as NumPy, without a copy where memory allows."""
    if array.type != pa.int64():
        if pa.types.is_uint64(array.type):
            array = array.cast(pa.int64())  # which refuses what is too large
        elif pa.types.is_integer(array.type):
            widened: Int64s = array.to_numpy(zero_copy_only=False).astype(np.int64)
            return widened
        else:
            array = array.view(pa.int64())
    result: Int64s = array.to_numpy(zero_copy_only=False)
    return result
