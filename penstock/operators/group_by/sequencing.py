"""Positions of rows: where in its windows a row stands.

Windows of time need nothing but the timestamp. Windows of rows need sequence numbers, which exist only once no earlier
row can come: rows wait for the frontier, and are numbered by time and position. Numbers are therefore the same for
every batching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.codes import group_codes
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.operators.segments import SegmentLog
from penstock.operators.waiting import Waiting

Windows = Int64s | int

#: Logged as the number of a partition that was closed.
_GONE = -1
_MOST_SEGMENTS = 16


class TimePositions:
    """Position = time since the begin; windows close when the frontier passes their end."""

    def __init__(self, window: Framed | Unbounded, life: Lifespan) -> None:
        self._window, self._life = window, life
        self._least = 0 if isinstance(window, Unbounded) else window.least_number(life)
        self._before = self._after = self._least
        self._newest = self._least - 1
        #: When the last row of the streams came, of all shards; `NEVER` before their end, and where nobody tells.
        self.ended_at = NEVER
        #: Windows below this number end within the life of the query; later ones never complete.
        self.completable = self._ended(life.end)

    @property
    def least(self) -> int:
        """Number of the first window."""
        return self._least

    def _ended(self, time: int) -> int:
        if isinstance(self._window, Unbounded):
            return 0
        return self._window.closed_before(time - self._life.origin, self._least)

    def arrive(self, rows: Batch) -> tuple[Batch, Int64s, Int64s]:
        if isinstance(self._window, Unbounded):
            zeros = np.zeros(rows.num_rows, np.int64)
            return rows, zeros, zeros
        first, last = self._window.windows_of(rows.ts - self._life.origin, self._least)
        inside = first <= last
        self._newest = max(self._newest, int(first[inside].max(initial=self._newest)))
        return rows, first, last

    def advance(self, frontier: int) -> tuple[Batch, Int64s, Int64s]:
        self._before = self._after
        self._after = max(self._after, self._ended(min(frontier, self._life.end)))
        if isinstance(self._window, Framed) and self._window.is_landmark and frontier == FOREVER == self._life.end:
            # Without an end there would be no last window; those after the last row repeat one answer. Rows of this shard
            # alone must not decide which that is.
            newest = self._newest if self.ended_at == NEVER else self._ended(self.ended_at)
            self._after = max(self._before, newest + 1)
        return _nothing()

    def closed(self, partitions: Sequence[pa.Array]) -> tuple[Windows, Windows]:
        return self._before, self._after

    def newest(self, partitions: Sequence[pa.Array]) -> Windows:
        # Only the first window that the end of the query cuts off is of interest: later ones would hold the same rows.
        return self._newest if self._life.end == FOREVER else self.completable

    def snapshot(self) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        return {"closed": self._after, "newest": self._newest, "ended_at": self.ended_at}, {}

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        self._before = self._after = meta["closed"]
        self._newest, self.ended_at = meta["newest"], meta["ended_at"]


class RowPositions:
    """Position = sequence number, counted for each value of the partition columns.

    Parameters
    ----------
    schema
        Of the rows that wait.
    partition_by
        Their partition columns; none: one sequence for all.
    """

    #: Number of the first window.
    least = 0

    def __init__(self, window: Framed, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._window, self._partition_by = window, tuple(partition_by)
        self.waiting = Waiting(schema)
        self._log = SegmentLog("count")
        self._schema = pa.schema([schema.field(name) for name in partition_by] + [pa.field("number", pa.int64())])
        self._values = [pa.array([], schema.field(name).type) for name in partition_by]
        # Without partitions there is exactly one counter.
        self._counts = np.zeros(0 if partition_by else 1, np.int64)
        self._before = self._counts

    @property
    def num_counters(self) -> int:
        return len(self._counts) if self._partition_by else 0

    def arrive(self, rows: Batch) -> tuple[Batch, Int64s, Int64s]:
        self.waiting.add(rows)
        return _nothing()

    def advance(self, frontier: int) -> tuple[Batch, Int64s, Int64s]:
        rows = self.waiting.release(frontier)
        positions = self._numbered(rows)
        return rows, *self._window.windows_of(positions)

    def _numbered(self, rows: Batch) -> Int64s:
        if not self._partition_by:
            start = int(self._counts[0])
            self._before, self._counts = self._counts, self._counts + rows.num_rows
            return np.arange(start, start + rows.num_rows, dtype=np.int64)
        codes, first, number = self._codes([rows.rows.column(name) for name in self._partition_by])
        known, added = len(self._counts), codes[len(self._counts) :]
        counts = np.concatenate([self._counts, np.zeros(number - known, np.int64)])
        order = np.argsort(added, kind="stable")
        starts = np.searchsorted(added[order], added[order])
        positions = np.empty(len(added), np.int64)
        positions[order] = counts[added[order]] + np.arange(len(added)) - starts
        self._before, self._counts = counts, counts + np.bincount(added, minlength=number)
        fresh = pa.array(first[known:] - known)
        self._values = [
            pa.concat_arrays([old, rows.rows.column(name).take(fresh)])
            for old, name in zip(self._values, self._partition_by, strict=True)
        ]
        self._log_counts(np.unique(added))
        return positions

    def _codes(self, columns: Sequence[pa.Array]) -> tuple[Int64s, Int64s, int]:
        """Codes of the known partitions, then of the given rows: a known partition's code is its place."""
        pairs = zip(self._values, columns, strict=True)
        return group_codes([pa.concat_arrays([known, new]) for known, new in pairs])

    def _log_counts(self, changed: Int64s) -> None:
        """Append the new numbers; the youngest entry of a partition counts."""
        if len(self._log) >= _MOST_SEGMENTS:
            self._log.clear()
            changed = np.arange(len(self._counts))
        if len(changed):
            places = pa.array(changed)
            columns = [values.take(places) for values in self._values]
            numbers = pa.array(self._counts[changed])
            self._log.add(pa.RecordBatch.from_arrays([*columns, numbers], schema=self._schema))

    def closed(self, partitions: Sequence[pa.Array]) -> tuple[Windows, Windows]:
        if not self._partition_by:
            return int(self._complete(self._before)[0]), int(self._complete(self._counts)[0])
        codes = self._codes(partitions)[0][len(self._counts) :]
        return self._complete(self._before)[codes], self._complete(self._counts)[codes]

    def newest(self, partitions: Sequence[pa.Array]) -> Windows:
        newest = self._window.windows_of(np.maximum(self._counts - 1, 0))[0]
        if not self._partition_by:
            return int(newest[0])
        return newest[self._codes(partitions)[0][len(self._counts) :]]

    def _complete(self, counts: Int64s) -> Int64s:
        """`Framed.closed_before` for many counters. A window is complete with its last row, it needs no next one."""
        window = self._window
        if not window.move_end:
            return (counts >= window.size).astype(np.int64)
        return np.where(counts < window.size, 0, (counts - window.size) // window.move_end + 1)

    def forget(self, mark: Punctuation) -> None:
        """Drop the counters of partitions that will have no more rows."""
        table = pa.RecordBatch.from_arrays(self._values, names=list(self._partition_by))
        gone = mark.matches_batch(table)
        if gone.any():
            removed, kept = np.flatnonzero(gone), np.flatnonzero(~gone)
            self._counts = np.where(gone, _GONE, self._counts)
            self._log_counts(removed)
            self._values = [values.take(pa.array(kept)) for values in self._values]
            self._counts, self._before = self._counts[kept], self._before[kept]

    def finish(self) -> None:
        """Drop all counters of partitions: no row will ask for a number."""
        if self._partition_by:
            self._values = [values.slice(0, 0) for values in self._values]
            self._counts = self._before = np.zeros(0, np.int64)
            self._log.clear()

    def snapshot(self) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        number = 0 if self._partition_by else int(self._counts[0])
        meta = {"next": [self.waiting.log.next, self._log.next], "number": number}
        return meta, {**self.waiting.log.stored(), **self._log.stored()}

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        self.waiting.reload(meta["next"][0], segments)
        self._log.reload(meta["next"][1], segments)
        self._counts = self._before = np.array([meta["number"]])
        if self._partition_by:
            logged = self._log.whole(self._schema)
            *values, numbers = logged.columns
            # Groups are numbered as first seen, so counting from the end finds the youngest entries.
            backward = pa.array(np.arange(logged.num_rows)[::-1])
            youngest = pa.array(np.sort(logged.num_rows - 1 - group_codes([v.take(backward) for v in values])[1]))
            youngest = youngest.filter(pc.not_equal(numbers.take(youngest), _GONE))
            self._values = [column.take(youngest) for column in values]
            self._counts = self._before = int64s(numbers.take(youngest))


def _nothing() -> tuple[Batch, Int64s, Int64s]:
    none = np.empty(0, np.int64)
    return Batch(pa.RecordBatch.from_arrays([], schema=pa.schema([])), none, none), none, none
