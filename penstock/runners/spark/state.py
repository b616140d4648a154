"""A kernel's state in Spark's state store: segments in a map, the record in a value, written incrementally.

Values are kept below a few megabytes: a larger segment is stored in pieces.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import StateUnwritable
from penstock.kernel.contracts import State
from penstock.kernel.segments import SPILLED, decode_meta, decode_segment, encode_meta, encode_segment
from penstock.runners.spark.stateful import Variables

PIECE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment as it stands in the store.

    Parameters
    ----------
    written
        Version of the write that stored it: two attempts of a micro-batch may store different rows under one name.
    rows
        Its rows, which the kernel holds too; None for what it has spilled.
    """

    written: str
    pieces: int
    rows: pa.RecordBatch | None


Segments = Mapping[str, StoredSegment]


class ShardStore:
    """State of one shard of one stage. Each call is a round trip to the JVM, so there are few."""

    def __init__(self, variables: Variables) -> None:
        self._version, self._record, self._pieces = variables

    def version(self) -> str:
        """Name of what is stored; empty before the first write. A live kernel is valid only if it has this version."""
        found = self._version.get()
        return "" if found is None else str(found[0])

    def load(self, fingerprint: str, known: Segments) -> tuple[State, dict[str, StoredSegment]]:
        """The state, and how it is stored.

        Parameters
        ----------
        known
            Segments this worker has seen; those that are still stored are not read again.
        """
        meta, index = self._record.get()
        record = decode_meta(meta, fingerprint)
        written: dict[str, tuple[str, int]] = {name: (text, count) for name, (text, count) in json.loads(index).items()}
        rows = {name: held for name, (text, _) in written.items() if (held := _held(known.get(name), text)) is not None}
        missing = {name: item for name, item in written.items() if name not in rows}
        for name, body in self._bodies(missing, is_all=not rows):
            rows[name] = decode_segment(body)
        return State(record, rows), {name: StoredSegment(*item, _kept(rows[name])) for name, item in written.items()}

    def save(self, state: State, fingerprint: str, stored: Segments) -> tuple[str, dict[str, StoredSegment], int]:
        """Write new segments and the record, remove dead segments; returns version, what is stored now, bytes written."""
        try:
            return self._save(state, fingerprint, stored)
        except (EOFError, ConnectionError) as found:
            # The JVM's end of the connection dies of an error of its file system without a word to this end.
            raise StateUnwritable(
                "Spark's state store hung up while state was saved, as it does when the disk of the checkpoint is full; nothing is "
                "lost: free space and start again with the same checkpoint (the executor's log has the cause)"
            ) from found

    def _save(self, state: State, fingerprint: str, stored: Segments) -> tuple[str, dict[str, StoredSegment], int]:
        for name in stored.keys() - state.segments.keys():
            for number in range(stored[name].pieces):
                self._pieces.removeKey(_piece(name, number))
        # Every write has a name of its own: a repeated micro-batch must never take the other attempt's kernel for its own.
        version = uuid.uuid4().hex
        now: dict[str, StoredSegment] = {}
        size = 0
        for name in state.segments:
            if name in stored:
                now[name] = stored[name]
                continue
            rows = state.segments[name]
            body = encode_segment(rows)
            size += len(body)
            now[name] = StoredSegment(version, self._write(name, body), _kept(rows))
        meta = encode_meta(state.meta, fingerprint)
        index = json.dumps({name: (item.written, item.pieces) for name, item in now.items()}, separators=(",", ":"))
        self._record.update((meta, index))
        self._version.update((version,))
        return version, now, size + len(meta) + len(index)

    def _write(self, name: str, body: bytes) -> int:
        starts = range(0, max(len(body), 1), PIECE_BYTES)
        for number, start in enumerate(starts):
            self._pieces.updateValue(_piece(name, number), (body[start : start + PIECE_BYTES],))
        return len(starts)

    def _bodies(self, missing: Mapping[str, tuple[str, int]], is_all: bool) -> Iterator[tuple[str, bytes]]:
        """Bytes of the segments: those of a few names are asked for one by one, those of all names read in one go."""
        if is_all and missing:
            pieces = {key: bytes(body) for (key,), (body,) in self._pieces.iterator()}
        for name, (_, count) in missing.items():
            keys = [_piece(name, number) for number in range(count)]
            parts = [pieces[key[0]] if is_all else bytes(self._pieces.getValue(key)[0]) for key in keys]
            yield name, parts[0] if count == 1 else b"".join(parts)


def _held(segment: StoredSegment | None, written: str) -> pa.RecordBatch | None:
    return segment.rows if segment is not None and segment.written == written else None


def _kept(rows: pa.RecordBatch) -> pa.RecordBatch | None:
    return None if SPILLED in (rows.schema.metadata or {}) else rows


def _piece(name: str, number: int) -> tuple[str]:
    return (f"{name}#{number}",)
