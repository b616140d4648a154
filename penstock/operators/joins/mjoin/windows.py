"""The rows of one input that are in its window, with an index for each key by which other inputs look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, fixed_words, hash_columns
from penstock.columnar.matching import is_one_to_one, shifted
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.masks import Mask
from penstock.operators.joins.mjoin._loops import NONE, NULL_KEY, WIDTH, chain_pairs, first_matches, insert_rows, move_entries
from penstock.operators.joins.row_store import smallest_neighbours
from penstock.operators.joins.spilling import is_mapped, mapped

#: More segments than this are merged: gathering results costs more the more there are.
MOST_SEGMENTS = 8
#: A few dead rows are not worth a rewrite.
SPARE_ROWS = 1024

_FEWEST_ENTRIES = 1024


class KeyIndex:
    """Finds the rows of a window by some columns.

    A key of one column of fixed width is that value; others are hashes, and whoever builds results compares the columns. Rows
    are put into chains when somebody looks for them, so that rows that leave before cost nothing.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.keys: Int64s = np.empty(0, np.int64)
        self.links: Int64s = np.empty(0, np.int64)
        self.table = _empty_table(_FEWEST_ENTRIES)
        self.stamp = 1
        self._used = self._chained = 0
        self.has_nulls = False

    def insert(self, batch: Batch, start: int) -> Mask | None:
        """Add the rows of a batch, which are the window's rows from `start` on; which of them have no key, None if all have."""
        columns = [batch.column(name) for name in self.columns]
        stop = start + batch.num_rows
        self.keys, self.links = (grown(array, stop, start) for array in (self.keys, self.links))
        self.keys[start:stop] = self._words(columns, batch.num_rows).view(np.int64)
        self.links[start:stop] = NONE
        nulls = [column.is_null().to_numpy(zero_copy_only=False) for column in columns if column.null_count]
        if not nulls:
            return None
        absent: Mask = np.logical_or.reduce(nulls)
        self.has_nulls = True
        self.links[start:stop][absent] = NULL_KEY
        return absent

    @staticmethod
    def _words(columns: Sequence[pa.Array], rows: int) -> UInt64s:
        words = fixed_words(columns[0]) if is_one_to_one(columns) else None
        return hash_columns(columns, rows) if words is None else words

    def keep(self, rows: Int64s) -> None:
        """Forget all other rows; those kept are numbered anew."""
        self.keys = self.keys[rows]
        self.links = np.where(self.links[rows] == NULL_KEY, NULL_KEY, NONE)
        self.has_nulls = bool((self.links == NULL_KEY).any())
        self.stamp += 1
        self._used = self._chained = 0
        if len(self.table) > 16 * max(len(rows), _FEWEST_ENTRIES):
            self.table = _empty_table(_FEWEST_ENTRIES)

    def chain(self, ts: Int64s) -> None:
        """Put all rows into their chains."""
        new = len(ts) - self._chained
        if not new:
            return
        entries = len(self.table)
        while 2 * (self._used + new) > entries:
            entries *= 2
        if entries > len(self.table):
            old, self.table = self.table, _empty_table(entries)
            if self._used:
                move_entries(old, self.stamp, self.table)
        self._used += insert_rows(self.table, self.stamp, self.links, ts, self.keys, self._chained, len(ts))
        self._chained = len(ts)

    def first(self, ts: Int64s, other: KeyIndex, rows: Int64s, at: Int64s, before: int, after: int) -> Int64s:
        """For each of some rows of another index one partner within a span of time, -1 where there is none."""
        self.chain(ts)
        found: Int64s = first_matches(self.table, self.stamp, self.links, ts, other.keys, other.links, rows, at, before, after)
        return found

    def rest(self, ts: Int64s, first: Int64s, at: Int64s, before: int) -> tuple[Int64s, Int64s]:
        """All partners of which `first` found one: (number, row) pairs, without looking keys up again."""
        owners, rows = chain_pairs(first, self.links, ts, at, before)
        return owners, rows


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
        self.indexes = {tuple(key): KeyIndex(key) for key in keys}
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


def _empty_table(entries: int) -> npt.NDArray[np.int64]:
    """Stamps begin with 1, so that zeros are no entries."""
    return np.zeros((entries, WIDTH), np.int64)


def grown(array: Int64s, needed: int, used: int) -> Int64s:
    """The array, or a longer copy of its used part if it is too short."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), np.int64)
    larger[:used] = array[:used]
    return larger
