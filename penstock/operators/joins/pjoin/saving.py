"""Snapshot of a join: rows as segments that are written once, and a small record of what changes.

Rows carry their arrival time. Which rows of a segment are still stored, which are in a purge buffer, and which constants are
pending is a segment of its own that is replaced when it changes. Keys, buckets, chains and the punctuation index are derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.masks import Mask
from penstock.operators.joins.pjoin import layout
from penstock.operators.joins.pjoin.engine import Engine
from penstock.operators.joins.pjoin.payload import Payload, Piece

Segments: TypeAlias = Mapping[str, pa.RecordBatch]

_LIVE = pa.schema({"piece": pa.string(), "live": pa.binary()})
_BUFFER = pa.schema({"row": pa.int64(), "dts": pa.int64()})


class Saving:
    """Turns the state of a join into segments and back."""

    def __init__(self, engine: Engine, payload: Payload) -> None:
        self.engine = engine
        self.payload = payload
        self._written: dict[str, pa.RecordBatch] = {}
        self._version = 0

    # -- to a snapshot ------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        changing = {"live": self._live(), "buffer": self._buffer(), "pending0": self._pending(0), "pending1": self._pending(1)}
        names: dict[str, str] = {}
        segments = self.payload.segments()
        for kind, rows in changing.items():
            if rows.num_rows:
                names[kind] = self._named(kind, rows)
                segments[names[kind]] = rows
        meta = {"engine": self.engine.snapshot(), "payload": self.payload.snapshot(), "names": names, "version": self._version}
        return State(meta, segments)

    def _named(self, kind: str, rows: pa.RecordBatch) -> str:
        """The identifier of unchanged content, or a new one."""
        known = next((name for name in self._written if name.startswith(f"{kind}-")), None)
        if known is not None and self._written[known].equals(rows):
            return known
        self._written.pop(known or "", None)
        self._version += 1
        name = f"{kind}-{self._version}"
        self._written[name] = rows
        return name

    def _pieces(self) -> list[Piece]:
        return [piece for side in (0, 1) for piece in self.payload.pieces(side)]

    def _live(self) -> pa.RecordBatch:
        """Bits of the pieces that have rows which are not stored."""
        masks = {piece.id: self.payload.is_live(piece) for piece in self._pieces()}
        partly = {name: np.packbits(live).tobytes() for name, live in masks.items() if not live.all()}
        return pa.RecordBatch.from_arrays(
            [pa.array(list(partly), pa.string()), pa.array(list(partly.values()), pa.binary())], schema=_LIVE
        )

    def _buffer(self) -> pa.RecordBatch:
        slots = self.engine.core.slots
        chosen = np.flatnonzero(slots.home >= layout.BUFFER)
        chosen = chosen[np.argsort(slots.row[chosen])]
        return pa.RecordBatch.from_arrays([pa.array(slots.row[chosen]), pa.array(slots.dts[chosen])], schema=_BUFFER)

    def _pending(self, side: int) -> pa.RecordBatch:
        kids, seqs = self.engine.pending[side].keys
        columns = self.engine.core.keys.take(kids)
        names = [*(f"key{at}" for at in range(len(columns))), "seq"]
        return pa.RecordBatch.from_arrays([*columns, pa.array(seqs, pa.int64())], names=names)

    # -- from a snapshot ----------------------------------------------------------------------------------------------

    def restore(self, state: State) -> None:
        meta, segments = state.meta, state.segments
        self._version = meta["version"]
        self._written = {name: segments[name] for name in meta["names"].values()}
        changing = {kind: segments[name] for kind, name in meta["names"].items()}
        self.engine.recycles_keys = False
        self.engine.restore(meta["engine"])
        self._place(meta["payload"], segments, changing)
        constants = [self._constants(changing.get(f"pending{side}")) for side in (0, 1)]
        self.engine.restore_index(meta["engine"], constants)
        self.engine.recycles_keys = True

    def _place(
        self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch], changing: Mapping[str, pa.RecordBatch]
    ) -> None:
        """Put the stored rows of all pieces back into the core, all at once and in their order."""
        partly: dict[str, bytes] = {}
        if "live" in changing:
            partly = dict(zip(*(column.to_pylist() for column in changing["live"].columns), strict=True))
        pieces, lives, parts = list[Piece](), list[Mask](), list[tuple[Int64s, ...]]()
        for piece, batch, dts in self.payload.restored(meta, segments):
            live = _unpacked(partly.get(piece.id), piece.num_rows)
            pieces.append(piece)
            lives.append(live)
            parts.append(self._tuples(piece, batch, dts, live))
        if not pieces:
            return
        kids, rows, ats, dts, homes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        self._buffered(changing.get("buffer"), rows, dts, homes)
        placed = self.engine.core.place(kids, rows, ats, dts, homes)
        start = 0
        for piece, live in zip(pieces, lives, strict=True):
            slots = np.full(piece.num_rows, -1, np.int64)
            count = int(np.count_nonzero(live))
            slots[live] = placed[start : start + count]
            start += count
            self.payload.put_back(piece, slots)

    def _tuples(self, piece: Piece, batch: Batch, dts: Int64s, live: Mask) -> tuple[Int64s, ...]:
        chosen = np.flatnonzero(live)
        rows = pa.array(chosen)
        kids = self.engine.intern([batch.column(name).take(rows) for name in self.engine.keys[piece.side]])
        home = (layout.DISK if piece.is_on_disk else layout.MEMORY) + piece.side
        return kids, piece.start + chosen, piece.ats[chosen], dts[chosen], np.full(len(chosen), home)

    def _buffered(self, buffer: pa.RecordBatch | None, rows: Int64s, dts: Int64s, homes: Int64s) -> None:
        """Rows that were in a purge buffer go back there."""
        if buffer is None:
            return
        wanted, left = int64s(buffer.column("row")), int64s(buffer.column("dts"))
        place = np.searchsorted(wanted, rows)
        found = (place < len(wanted)) & (wanted[np.minimum(place, len(wanted) - 1)] == rows)
        dts[found] = left[place[found]]
        homes[found] = layout.BUFFER + (homes[found] & 1)

    def _constants(self, pending: pa.RecordBatch | None) -> tuple[Int64s, Int64s]:
        if pending is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return self.engine.intern(pending.columns[:-1]), int64s(pending.column("seq")).copy()


def _unpacked(bits: bytes | None, rows: int) -> Mask:
    if bits is None:
        return np.ones(rows, np.bool_)
    live: Mask = np.unpackbits(np.frombuffer(bits, np.uint8), count=rows).astype(np.bool_)
    return live
