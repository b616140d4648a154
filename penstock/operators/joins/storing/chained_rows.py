"""The rows of one input that are in its window, with an index for each key by which other inputs look for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.key_table import KeyTable, grown
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.masks import Mask
from penstock.operators.joins.storing.pieces import Piece, PieceStore, mapped

#: More segments than this are merged: gathering results costs more the more there are.
MOST_SEGMENTS = 8
#: A few dead rows are not worth a rewrite.
SPARE_ROWS = 1024


class Window(PieceStore[Piece]):
    """Rows of one input, numbered from 0 in the order they came; forgetting rows numbers the others anew.

    A row is valid for a span of time, and probes say what span they look at; therefore rows may be inserted before others
    have probed, and may stay after they have left the window.

    Parameters
    ----------
    length
        A row takes part while nothing is more than this newer; `FOREVER` for no bound.
    keys
        Columns by which rows are looked for, a tuple for each index.
    """

    def __init__(self, name: str, schema: pa.Schema, length: int, keys: Sequence[Sequence[str]]) -> None:
        super().__init__(f"{name}-", MOST_SEGMENTS, 0)
        self.schema, self.length = schema, length
        self.indexes = {tuple(key): KeyTable(key) for key in keys}
        self._dead = 0
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
        return self.total - self._dead

    @property
    def num_bytes(self) -> int:
        """In memory: rows that have not been spilled, and of all of them times, positions and indexes."""
        return super().num_bytes + self.total * 16 * (1 + len(self.indexes))

    # -- rows ---------------------------------------------------------------------------------------------------------

    def insert(self, batch: Batch) -> tuple[Int64s, int]:
        """Add rows, best in order of time; their numbers, and how many lack a key."""
        start = self.total
        nulls = self._index(batch)
        self._pieces.append(Piece(self._new_name(), batch))
        self._merge_small()
        return np.arange(start, self.total), nulls

    def _merge(self, places: Sequence[int]) -> None:
        # They are neighbours, as rows are spilled in the order they came: their numbers stay.
        whole = Batch.concat([self._pieces[at].batch for at in places])
        self._put(places, [Piece(self._new_name(), whole)])

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
        if len(self._pieces) == 1:
            whole: Any = self._pieces[0].batch.rows.select(wanted)
            columns: list[pa.Array] = whole.take(pa.array(rows)).columns
            return columns
        parts = [piece.batch.rows.select(wanted) for piece in self._pieces]
        table = pa.Table.from_batches(parts, pa.schema([self.schema.field(name) for name in wanted]))
        return [column.combine_chunks() for column in table.take(pa.array(rows)).columns]

    # -- expiry -------------------------------------------------------------------------------------------------------

    def begin(self, horizon: int) -> int:
        """Time from which on rows are in the window at `horizon`; FOREVER where it has no rows any more."""
        if horizon == FOREVER:
            return FOREVER
        return NEVER if self.length == FOREVER else max(horizon - self.length, NEVER)

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
        """Drop rows that have left, of spilled pieces only where that is most of them; what is left of these is spilled again."""
        kept, stop = [], 0
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            start, stop = stop, stop + piece.num_rows
            mine = alive[start:stop]
            if piece.is_spilled and np.count_nonzero(mine) * 4 > piece.num_rows:
                mine = np.ones(piece.num_rows, np.bool_)
            kept.append(start + np.flatnonzero(mine))
            if mine.all():
                self._pieces.append(piece)
            elif mine.any():
                left = Piece(self._new_name(), piece.batch.filter(mine))
                self._pieces.append(self._spilled(left, self._directory) if piece.is_spilled and self._directory else left)
        rows = np.concatenate(kept)
        if len(rows) < self.total:
            self._dead, self.total = self._dead - (self.total - len(rows)), len(rows)
            self._ts, self._pos = self._ts[rows], self._pos[rows]
            for index in self.indexes.values():
                index.keep(rows)

    # -- state --------------------------------------------------------------------------------------------------------

    def _piece(self, name: str, batch: Batch) -> Piece:
        return Piece(name, batch)

    def _spilled(self, piece: Piece, directory: Path) -> Piece:
        return Piece(piece.id, Batch.restored(mapped(piece.batch.stored(), directory)), is_spilled=True)

    def snapshot(self) -> State:
        state = super().snapshot()
        meta = {**state.meta, "dead": self._dead, "oldest": self._oldest}
        # Numbers are enough, as all names begin alike.
        meta["segments"], meta["spilled"] = (
            [int(name.removeprefix(self.name)) for name in names] for names in (meta.pop("runs"), meta["spilled"])
        )
        return State(meta, state.segments)

    def restore(self, state: State, directory: Path | None = None) -> None:
        runs, spilled = ([f"{self.name}{number}" for number in state.meta[kind]] for kind in ("segments", "spilled"))
        super().restore(State({**state.meta, "runs": runs, "spilled": spilled}, state.segments), directory)
        self.total = 0
        for index in self.indexes.values():
            index.keep(np.empty(0, np.int64))
        for piece in self._pieces:
            self._index(piece.batch)
        self._dead, self._oldest = state.meta["dead"], state.meta["oldest"]
