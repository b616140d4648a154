"""The rows of one input that are in its window, with an index for each key by which other inputs look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.hashing import hash_columns
from penstock.columnar.matching import shifted
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.masks import Mask
from penstock.operators.joins.mjoin._loops import NONE, NULL_KEY, WIDTH, chain_pairs, first_matches, insert_rows, move_entries

#: More segments than this are merged: gathering results costs more the more there are.
MOST_SEGMENTS = 8
#: A few dead rows are not worth a rewrite.
SPARE_ROWS = 1024

_FEWEST_ENTRIES = 1024


class KeyIndex:
    """Finds the rows of a window by the hash of some columns.

    Equal hashes are candidates only; whoever builds results compares the keys unless their hash is one-to-one.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.clear()

    def clear(self) -> None:
        self.hashes: Int64s = np.empty(0, np.int64)
        self.links: Int64s = np.empty(0, np.int64)
        self._table = _empty_table(_FEWEST_ENTRIES)
        self._used = 0

    def insert(self, batch: Batch, ts: Int64s, start: int) -> int:
        """Add the rows of a batch, which are the window's rows from `start` on; how many of them have no key."""
        columns = [batch.column(name) for name in self.columns]
        stop = start + batch.num_rows
        self.hashes, self.links = (grown(array, len(ts), start) for array in (self.hashes, self.links))
        self.hashes[start:stop] = hash_columns(columns, batch.num_rows).view(np.int64)
        self.links[start:stop] = NONE
        for column in columns:
            if column.null_count:
                self.links[start:stop][column.is_null().to_numpy(zero_copy_only=False)] = NULL_KEY
        self._make_room(batch.num_rows)
        self._used += insert_rows(self._table, self.links, ts, self.hashes, start, stop)
        return int(np.count_nonzero(self.links[start:stop] == NULL_KEY)) if any(c.null_count for c in columns) else 0

    def _make_room(self, rows: int) -> None:
        entries = len(self._table)
        while 2 * (self._used + rows) > entries:
            entries *= 2
        if entries > len(self._table):
            old, self._table = self._table, _empty_table(entries)
            move_entries(old, self._table)

    def keys_of(self, rows: Int64s) -> tuple[Int64s, Mask]:
        """Hashes of some rows' own keys, and which of them have none."""
        return self.hashes[rows], self.links[rows] == NULL_KEY

    def first(self, ts: Int64s, keys: tuple[Int64s, Mask], low: Int64s, high: Int64s) -> Int64s:
        """For each key one row within the bounds of time, -1 where there is none."""
        hashes, absent = keys
        found: Int64s = first_matches(self._table, self.links, ts, hashes, absent, low, high)
        return found

    def rest(self, ts: Int64s, first: Int64s, low: Int64s) -> tuple[Int64s, Int64s]:
        """All rows to which `first` found one: (number of the key, row) pairs, without looking keys up again."""
        owners, rows = chain_pairs(first, self.links, ts, low)
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
        self._reset()

    def _reset(self) -> None:
        self._ts: Int64s = np.empty(0, np.int64)
        self._pos: Int64s = np.empty(0, np.int64)
        self.total = 0
        for index in self.indexes.values():
            index.clear()

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
        rows: int = sum(batch.rows.nbytes for _, batch in self._segments)
        return rows + self.total * 16 * (1 + len(self.indexes))

    def useful_until(self, ts: Int64s) -> Int64s:
        return shifted(ts, self.length)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def insert(self, batch: Batch) -> tuple[Int64s, int]:
        """Add rows, best in order of time; their numbers, and how many lack a key."""
        start = self.total
        nulls = self._index(batch)
        self._segments.append((self._next, batch))
        self._next += 1
        while len(self._segments) > MOST_SEGMENTS:
            sizes = [a.num_rows + b.num_rows for (_, a), (_, b) in zip(self._segments, self._segments[1:], strict=False)]
            at = int(np.argmin(sizes))
            merged = Batch.concat([part for _, part in self._segments[at : at + 2]])
            self._segments[at : at + 2] = [(self._next, merged)]
            self._next += 1
        return np.arange(start, self.total), nulls

    def _index(self, batch: Batch) -> int:
        start, stop = self.total, self.total + batch.num_rows
        self._ts, self._pos = (grown(array, stop, start) for array in (self._ts, self._pos))
        self._ts[start:stop], self._pos[start:stop] = batch.ts, batch.pos
        nulls = [index.insert(batch, self._ts, start) for index in self.indexes.values()]
        self.total = stop
        return max(nulls, default=0)

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

    def leaving(self, horizon: int) -> Int64s:
        """Rows that are in the window up to now and not at `horizon` any more."""
        until = self.useful_until(self.ts)
        rows: Int64s = np.flatnonzero((until >= self._horizon) & ((until < horizon) | (horizon == FOREVER)) & (until != FOREVER))
        return rows

    def expire(self, horizon: int) -> None:
        """Forget rows that no row at `horizon` or later can be joined with; `FOREVER` is the end of all other inputs."""
        if horizon <= self._horizon:
            return
        self._horizon = horizon
        alive = self.useful_until(self.ts) >= horizon if horizon != FOREVER else np.zeros(self.total, np.bool_)
        dead = self.total - int(np.count_nonzero(alive))
        self.expired += dead - self._dead
        self._dead = dead
        if dead and (dead == self.total or self.total > 2 * (self.total - dead) + SPARE_ROWS):
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
        self._segments, self._dead = parts, 0
        self._reset()
        for _, batch in parts:
            self._index(batch)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        meta: dict[str, Any] = {"next": self._next, "horizon": self._horizon, "dead": self._dead, "expired": self.expired}
        meta["segments"] = [number for number, _ in self._segments]
        return State(meta, {f"{self.name}-{number}": batch.stored() for number, batch in self._segments})

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        self._next, self._horizon = meta["next"], meta["horizon"]
        self._dead, self.expired = meta["dead"], meta["expired"]
        self._segments = [(number, Batch.restored(segments[f"{self.name}-{number}"])) for number in meta["segments"]]
        self._reset()
        for _, batch in self._segments:
            self._index(batch)


def _empty_table(entries: int) -> npt.NDArray[np.int64]:
    return np.full((entries, WIDTH), NONE, np.int64)


def grown(array: Int64s, needed: int, used: int) -> Int64s:
    """The array, or a longer copy of its used part if it is too short."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), np.int64)
    larger[:used] = array[:used]
    return larger
