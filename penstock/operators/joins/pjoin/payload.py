"""The rows behind the tuples of a join: Arrow batches in memory, encoded chunks on disk, under addresses.

A piece is a batch whose rows have consecutive addresses; a tuple's row number is such an address. Pieces are immutable:
rows that are not stored any more stay until pieces are merged or rewritten, which gives the others new addresses.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.masks import Mask
from penstock.operators.joins.pjoin import _loops, layout
from penstock.operators.joins.pjoin.core import Core
from penstock.operators.joins.pjoin.spill import SpillStore

#: More batches of a side than this are merged: each costs a result batch of its own.
MOST_PIECES = 8
#: A new batch is kept as it is when at least this share of its rows is stored.
_DENSE = 0.9
_ATS, _DTS = "_ats", "_dts"


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows with the addresses from `start` on; `slots` tells where the core keeps each, `batch` is None on disk."""

    id: str
    side: int
    start: int
    slots: Int64s
    batch: Batch | None
    ats: Int64s
    bucket: int = -1

    @property
    def num_rows(self) -> int:
        return len(self.slots)

    @property
    def is_on_disk(self) -> bool:
        return self.batch is None


def _start(piece: Piece) -> int:
    return piece.start


class Payload:
    """Rows of both sides.

    Parameters
    ----------
    core
        Owner of the tuples; their row numbers follow when rows move.
    store
        Keeper of spilled chunks.
    """

    def __init__(self, core: Core, store: SpillStore) -> None:
        self.core = core
        self.store = store
        self._pieces: tuple[list[Piece], list[Piece]] = ([], [])
        #: First addresses of the pieces, when they are known.
        self._starts: list[Int64s | None] = [None, None]
        self._next_row = 0
        self._next_id = 0

    # -- levels -------------------------------------------------------------------------------------------------------

    def pieces(self, side: int) -> list[Piece]:
        return list(self._pieces[side])

    @property
    def num_bytes(self) -> int:
        """Bytes in memory, and of the chunks as they are stored."""
        held = [piece.batch for side in (0, 1) for piece in self._pieces[side] if piece.batch is not None]
        in_memory: int = sum(batch.rows.nbytes + 16 * batch.num_rows for batch in held)
        return in_memory + self.store.num_bytes

    def is_live(self, piece: Piece) -> Mask:
        """Which rows of a piece are stored."""
        addresses = np.arange(piece.start, piece.start + piece.num_rows)
        live: Mask = (piece.slots >= 0) & (self.core.slots.row[piece.slots] == addresses)
        return live

    # -- changes ------------------------------------------------------------------------------------------------------

    def open(self, side: int, batch: Batch) -> Piece:
        """Give the rows of a new batch addresses, before it is known which are stored."""
        empty = np.full(batch.num_rows, -1, np.int64)
        return self._add(side, batch, empty, empty)

    def close(self, piece: Piece, placed: Int64s) -> None:
        """Keep of a new batch what is stored."""
        self._remove(piece)
        assert piece.batch is not None
        ats = np.where(placed >= 0, self.core.slots.ats[placed], 0)
        settled = Piece(piece.id, piece.side, piece.start, placed, piece.batch, ats)
        live = self.is_live(settled)
        count = int(np.count_nonzero(live))
        if count >= _DENSE * len(placed):
            self._insert(settled)
        elif count:
            self._rewrite([(settled, live)])
        self._merge(piece.side)

    def _add(self, side: int, batch: Batch, slots: Int64s, ats: Int64s) -> Piece:
        piece = Piece(self._new_id(side), side, self._next_row, slots, batch, ats)
        self._next_row += batch.num_rows
        self._insert(piece)
        return piece

    def _new_id(self, side: int) -> str:
        self._next_id += 1
        return f"{side}-{self._next_id}"

    def _insert(self, piece: Piece) -> None:
        insort(self._pieces[piece.side], piece, key=_start)
        self._starts[piece.side] = None

    def _remove(self, piece: Piece) -> None:
        del self._pieces[piece.side][bisect_left(self._pieces[piece.side], piece.start, key=_start)]
        self._starts[piece.side] = None

    def _rewrite(self, parts: Sequence[tuple[Piece, Mask]]) -> None:
        """One batch of the live rows of some batches."""
        batches = [piece.batch.filter(live) for piece, live in parts if piece.batch is not None]
        slots = np.concatenate([piece.slots[live] for piece, live in parts])
        ats = np.concatenate([piece.ats[live] for piece, live in parts])
        if len(slots):
            piece = self._add(parts[0][0].side, Batch.concat(batches), slots, ats)
            self._readdress(piece)

    def _readdress(self, piece: Piece) -> None:
        self.core.slots.row[piece.slots] = np.arange(piece.start, piece.start + piece.num_rows)

    def _merge(self, side: int) -> None:
        """Keep few batches by merging the two smallest; each row is rewritten a logarithmic number of times."""
        held = [piece for piece in self._pieces[side] if not piece.is_on_disk]
        while len(held) > MOST_PIECES:
            pair = sorted(held, key=lambda piece: (piece.num_rows, piece.start))[:2]
            for piece in pair:
                self._remove(piece)
            self._rewrite([(piece, self.is_live(piece)) for piece in pair])
            held = [piece for piece in self._pieces[side] if not piece.is_on_disk]

    def tidy(self) -> None:
        """Rewrite batches of which less than half is stored, when more than half of all rows is dead."""
        for side in (0, 1):
            held = [piece for piece in self._pieces[side] if not piece.is_on_disk]
            rows = sum(piece.num_rows for piece in held)
            stored = int(self.core.sizes(layout.MEMORY)[side].sum() + self.core.sizes(layout.BUFFER)[side].sum())
            if rows > 2 * stored:
                for piece in held:
                    live = self.is_live(piece)
                    if 2 * np.count_nonzero(live) < piece.num_rows:
                        self._remove(piece)
                        self._rewrite([(piece, live)])

    # -- disk ---------------------------------------------------------------------------------------------------------

    def spill(self, side: int, slots: Int64s) -> None:
        """Write the rows of tuples that have left memory as one chunk; their batches may then forget them."""
        bucket = int(self.core.keys.records.bucket[self.core.slots.kid[slots[0]]])
        self._write(side, bucket, self.take(side, self.core.slots.row[slots]), slots)

    def _write(self, side: int, bucket: int, batch: Batch, slots: Int64s) -> None:
        ats, dts = self.core.slots.ats[slots], self.core.slots.dts[slots]
        name = f"spill{self._new_id(side)}"
        self.store.put(name, with_columns(batch.stored(), {_ATS: ats, _DTS: dts}))
        piece = Piece(name, side, self._next_row, slots, None, ats, bucket)
        self._next_row += len(slots)
        self._insert(piece)
        self._readdress(piece)

    def fetch(self, side: int, slots: Int64s) -> None:
        """Rows of tuples that have come back to memory become a batch; chunks nobody needs any more are dropped."""
        rows = self.core.slots.row[slots]
        chunks = [piece for piece, _ in self.groups(side, rows)]
        piece = self._add(side, self.take(side, rows), slots, self.core.slots.ats[slots])
        self._readdress(piece)
        for chunk in chunks:
            if not self.is_live(chunk).any():
                self._remove(chunk)
                self.store.drop(chunk.id)
        self._merge(side)

    def settle(self, bucket: int, most: int = 1) -> None:
        """After a disk join: drop chunks nobody needs, make one of more than `most`, or of some that are half empty."""
        for side in (0, 1):
            chunks = [piece for piece in self._pieces[side] if piece.bucket == bucket]
            lives = [self.is_live(piece) for piece in chunks]
            rows, live_rows = sum(piece.num_rows for piece in chunks), sum(map(np.count_nonzero, lives))
            if len(chunks) <= most and 2 * live_rows >= rows > 0:
                continue
            batches = [self._rows(piece).filter(live) for piece, live in zip(chunks, lives, strict=True) if live.any()]
            slots = [piece.slots[live] for piece, live in zip(chunks, lives, strict=True)]
            if batches:
                self._write(side, bucket, Batch.concat(batches), np.concatenate(slots))
            for piece in chunks:
                self._remove(piece)
                self.store.drop(piece.id)

    def _rows(self, piece: Piece) -> Batch:
        if piece.batch is not None:
            return piece.batch
        rows = self.store.get(piece.id)
        return Batch.restored(rows.select(rows.schema.names[:-2]))

    # -- reading ------------------------------------------------------------------------------------------------------

    def groups(self, side: int, rows: Int64s) -> list[tuple[Piece, Int64s]]:
        """The pieces some addresses are in, each with the places of its addresses in the list."""
        starts = self._starts[side]
        if starts is None:
            starts = self._starts[side] = np.array([piece.start for piece in self._pieces[side]], np.int64)
        order, bounds = _loops.split_by_segment(starts, rows)
        present = np.flatnonzero(np.diff(bounds)).tolist()
        return [(self._pieces[side][at], order[bounds[at] : bounds[at + 1]]) for at in present]

    def take(self, side: int, rows: Int64s) -> Batch:
        """The rows with these addresses."""
        source, offsets = self.gather(side, rows)
        return source.take(offsets)

    def gather(self, side: int, rows: Int64s, groups: Sequence[tuple[Piece, Int64s]] | None = None) -> tuple[Batch, Int64s]:
        """A batch and where in it the rows are; needed rows of several pieces are put together first."""
        found = self.groups(side, rows) if groups is None else groups
        if len(found) == 1:
            piece = found[0][0]
            return self._rows(piece), rows - piece.start
        parts, offsets, start = [], np.empty(len(rows), np.int64), 0
        for piece, places in found:
            wanted, back = np.unique(rows[places], return_inverse=True)
            parts.append(self._rows(piece).take(wanted - piece.start))
            offsets[places] = start + back
            start += len(wanted)
        return Batch.concat(parts), offsets

    # -- state --------------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything."""
        for side in (0, 1):
            self._pieces[side].clear()
            self._starts[side] = None
        self.store.clear()

    def segments(self) -> dict[str, pa.RecordBatch]:
        """Pieces as a snapshot keeps them."""
        held = [piece for side in (0, 1) for piece in self._pieces[side]]
        rows = {piece.id: with_columns(piece.batch.stored(), {_ATS: piece.ats}) for piece in held if piece.batch is not None}
        return rows | dict(self.store.segments())

    def snapshot(self) -> dict[str, Any]:
        pieces = [[piece.id, piece.side, piece.start, piece.bucket] for side in (0, 1) for piece in self._pieces[side]]
        return {"pieces": pieces, "next": [self._next_row, self._next_id]}

    def restored(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> Iterator[tuple[Piece, Batch, Int64s]]:
        """Pieces with their rows and, for chunks, DTS; one chunk is decoded at a time. `put_back` takes each with its slots."""
        self.clear()
        self._next_row, self._next_id = meta["next"]
        for name, side, start, bucket in meta["pieces"]:
            is_chunk = bucket >= 0
            if is_chunk:
                self.store.load(name, segments[name])
            rows = self.store.get(name) if is_chunk else segments[name]
            width = rows.num_columns - (2 if is_chunk else 1)
            batch, ats = Batch.restored(rows.select(rows.schema.names[:width])), int64s(rows.column(_ATS))
            piece = Piece(name, side, start, np.full(len(ats), -1, np.int64), None if is_chunk else batch, ats, bucket)
            yield piece, batch, int64s(rows.column(_DTS)) if is_chunk else np.full(len(ats), layout.NEVER_LEFT)

    def put_back(self, piece: Piece, slots: Int64s) -> None:
        """A restored piece, now that its tuples have slots."""
        self._insert(replace(piece, slots=slots))


def with_columns(rows: pa.RecordBatch, columns: Mapping[str, Int64s]) -> pa.RecordBatch:
    """Rows with further integer columns at the end."""
    arrays = [*rows.columns, *(pa.array(values, pa.int64()) for values in columns.values())]
    fields = [*rows.schema, *(pa.field(name, pa.int64()) for name in columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
