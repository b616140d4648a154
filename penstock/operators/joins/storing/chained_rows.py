"""The rows of one input that are in its window, with an index for each key by which other inputs look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.key_table import KeyTable, grown
from penstock.columnar.matching import shifted
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.masks import Mask
from penstock.operators.joins.storing.row_store import smallest_neighbours
from penstock.operators.joins.storing.spilling import is_mapped, mapped

#: More segments than this are merged: gathering results costs more the more there are.
MOST_SEGMENTS = 8
#: A few dead rows are not worth a rewrite.
SPARE_ROWS = 1024


class Window:
    """Rows of one input, numbered from 0 in the order they came; forgetting rows numbers the others anew.

    A row is valid for a span of time, and probes say what span they look at; therefore rows may be inserted before others
    have probed, and may stay after they have left the window.

    Parameters
    ----------
    name
        Distinguishes the inputs of a join in its snapshot.
    length
        A row takes part while nothing is more than this newer; `FOREVER` for no bound.
    keys
        Columns by which rows are looked for, a tuple for each index.
    """

    def __init__(self, name: str, schema: pa.Schema, length: int, keys: Sequence[Sequence[str]]) -> None:
        self.name, self.schema, self.length = name, schema, length
        self.indexes = {tuple(key): KeyTable(key) for key in keys}
        self._segments: list[tuple[int, Batch]] = []
        self._next = 0
        self._horizon = NEVER
        self._dead = 0
        self.expired = 0
        self._ts: Int64s = np.empty(0, np.int64)
        self._pos: Int64s = np.empty(0, np.int64)
        self.total = 0
        self._oldest = FOREVER

    @property
    def ts(self) -> Int64s:
        return self._ts[: self.total]

    @property
    def pos(self) -> Int64s:
        return self._pos[: self.total]

    @property
    def num_rows(self) -> int:
        """Rows that may still be in a result."""
        return self.total - self._dead

    @property
    def num_bytes(self) -> int:
        """In memory: rows that have not been spilled, and of all of them times, positions and indexes."""
        return self.spillable_bytes + self.total * 16 * (1 + len(self.indexes))

    @property
    def spillable_bytes(self) -> int:
        return sum(batch.rows.nbytes for _, batch in self._segments if not is_mapped(batch.stored()))

    @property
    def spilled_bytes(self) -> int:
        return sum(batch.rows.nbytes for _, batch in self._segments if is_mapped(batch.stored()))

    def spill(self, directory: Path) -> bool:
        """Move the columns of all rows into files; whether there was anything to move."""
        found = self.spillable_bytes > 0
        self._segments = [(number, self._spilled(batch, directory)) for number, batch in self._segments]
        return found

    @staticmethod
    def _spilled(batch: Batch, directory: Path) -> Batch:
        return batch if is_mapped(batch.stored()) else Batch.restored(mapped(batch.stored(), directory))

    def useful_until(self, ts: Int64s) -> Int64s:
        return shifted(ts, self.length)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def insert(self, batch: Batch) -> tuple[Int64s, int]:
        """Add rows, best in order of time; their numbers, and how many lack a key."""
        start = self.total
        nulls = self._index(batch)
        self._segments.append((self._next, batch))
        self._next += 1
        while (at := self._to_merge()) is not None:
            merged = Batch.concat([part for _, part in self._segments[at : at + 2]])
            self._segments[at : at + 2] = [(self._next, merged)]
            self._next += 1
        return np.arange(start, self.total), nulls

    def _to_merge(self) -> int | None:
        rows = [None if is_mapped(part.stored()) else part.num_rows for _, part in self._segments]
        return smallest_neighbours(rows, MOST_SEGMENTS, 0)

    def _index(self, batch: Batch) -> int:
        start, stop = self.total, self.total + batch.num_rows
        self._ts, self._pos = (grown(array, stop, start) for array in (self._ts, self._pos))
        self._ts[start:stop], self._pos[start:stop] = batch.ts, batch.pos
        self.total = stop
        self._oldest = min(self._oldest, int(batch.ts.min()))
        absent = [nulls for index in self.indexes.values() if (nulls := index.insert(batch, start)) is not None]
        return int(np.count_nonzero(np.logical_or.reduce(absent))) if absent else 0

    def take(self, rows: Int64s, names: Sequence[str] | None = None) -> list[pa.Array]:
        """Columns of some rows."""
        wanted = self.schema.names if names is None else names
        if len(self._segments) == 1:
            whole: Any = self._segments[0][1].rows.select(wanted)
            columns: list[pa.Array] = whole.take(pa.array(rows)).columns
            return columns
        parts = [batch.rows.select(wanted) for _, batch in self._segments]
        table = pa.Table.from_batches(parts, pa.schema([self.schema.field(name) for name in wanted]))
        return [column.combine_chunks() for column in table.take(pa.array(rows)).columns]

    # -- expiry -------------------------------------------------------------------------------------------------------

    def begin(self, horizon: int) -> int:
        """Time from which on rows are in the window at `horizon`; FOREVER where it has no rows any more."""
        if horizon == FOREVER:
            return FOREVER
        return NEVER if self.length == FOREVER else max(horizon - self.length, NEVER)

    def leaving(self, horizon: int) -> Int64s:
        """Rows that are in the window up to now and not at `horizon` any more; none if it has no end."""
        begin = self.begin(horizon)
        if self.length == FOREVER or self._oldest >= begin:
            return np.empty(0, np.int64)
        rows: Int64s = np.flatnonzero((self.ts >= self.begin(self._horizon)) & (self.ts < begin))
        return rows

    def expire(self, horizon: int) -> None:
        """Forget rows that no row at `horizon` or later can be joined with; `FOREVER` is the end of all other inputs."""
        if horizon <= self._horizon:
            return
        self._horizon = horizon
        begin = self.begin(horizon)
        if self._oldest >= begin and begin != FOREVER:
            return
        alive = self.ts >= begin if begin != FOREVER else np.zeros(self.total, np.bool_)
        kept = int(np.count_nonzero(alive))
        self.expired += self.total - kept - self._dead
        self._dead = self.total - kept
        self._oldest = int(self.ts[alive].min()) if kept else FOREVER
        if self._dead and (not kept or self._dead > kept + SPARE_ROWS):
            self._forget(alive)

    def _forget(self, alive: Mask) -> None:
        parts, start = [], 0
        for number, batch in self._segments:
            mine = alive[start : start + batch.num_rows]
            start += batch.num_rows
            if mine.all():
                parts.append((number, batch))
            elif mine.any():
                parts.append((self._next, batch.filter(mine)))
                self._next += 1
        rows = np.flatnonzero(alive)
        self._segments, self._dead, self.total = parts, 0, len(rows)
        self._ts, self._pos = self._ts[rows], self._pos[rows]
        for index in self.indexes.values():
            index.keep(rows)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        meta: dict[str, Any] = {"next": self._next, "horizon": self._horizon, "dead": self._dead, "expired": self.expired}
        meta["oldest"] = self._oldest
        meta["segments"] = [number for number, _ in self._segments]
        meta["spilled"] = [number for number, batch in self._segments if is_mapped(batch.stored())]
        return State(meta, {f"{self.name}-{number}": batch.stored() for number, batch in self._segments})

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch], directory: Path | None = None) -> None:
        self._next, self._horizon = meta["next"], meta["horizon"]
        self._dead, self.expired = meta["dead"], meta["expired"]
        self._segments = []
        for number in meta["segments"]:
            batch = Batch.restored(segments[f"{self.name}-{number}"])
            is_spilled = directory is not None and number in meta["spilled"]
            self._segments.append((number, self._spilled(batch, directory) if is_spilled and directory is not None else batch))
        self.total = 0
        for index in self.indexes.values():
            index.keep(np.empty(0, np.int64))
        for _, batch in self._segments:
            self._index(batch)
        self._oldest = meta["oldest"]
