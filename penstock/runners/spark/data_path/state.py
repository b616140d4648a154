"""A kernel's state in Spark's state store: a map from names to bytes, written incrementally.

Values are kept below a few megabytes: larger ones are stored in pieces.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import StateUnwritable
from penstock.kernel.contracts import State
from penstock.kernel.segments import SPILLED, decode_meta, decode_segment, encode_meta
from penstock.runners.spark.data_path.bundles import LARGE_BYTES, Stored, StoredSegment, change

PIECE_BYTES = 4 << 20
#: Of a state that is larger, large segments are read one by one when the kernel asks for them: all of it may not fit into memory.
EAGER_BYTES = 64 << 20
#: Names of what is no piece: those contain a number sign.
_VERSION, _RECORD = "version", "record"


class ShardStore:
    """State of one shard of one stage. Each call is a round trip to the JVM, so there are few."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def _read(self, name: str) -> bytes | None:
        found = self._state.getValue((name,))
        return None if found is None else bytes(found[0])

    def _piece(self, name: str) -> bytes:
        found = self._read(name)
        if found is None:
            raise KeyError(name)
        return found

    def _write(self, name: str, body: bytes) -> None:
        self._state.updateValue((name,), (body,))

    def version(self) -> str:
        """Name of what is stored; empty before the first write. A live kernel is valid only if it has this version."""
        found = self._read(_VERSION)
        return "" if found is None else found.decode()

    def load(self, fingerprint: str, known: Mapping[str, StoredSegment]) -> tuple[State, Stored]:
        """The state, and how it is stored.

        Parameters
        ----------
        known
            Segments this worker has seen; those that are still stored are not read again.
        """
        text = self._read(_RECORD)
        assert text is not None
        meta, _, index = text.partition(b"\n")
        record = decode_meta(meta.decode(), fingerprint)
        stored = _read_index(index.decode())
        rows = {name: held for name, item in stored.segments.items() if (held := _held(known.get(name), item.written)) is not None}
        missing = {name: item for name, item in stored.segments.items() if name not in rows}
        is_small = sum(item.size for item in missing.values()) <= EAGER_BYTES
        later = {} if is_small else {name: item for name, item in missing.items() if item.size >= LARGE_BYTES}
        soon = {name: item for name, item in missing.items() if name not in later}
        bodies = dict(self._bodies({item.blob for item in soon.values()}, stored.blobs))
        for name, item in soon.items():
            rows[name] = decode_segment(bodies[item.blob][item.start : item.start + item.size])
        segments = {
            name: StoredSegment(item.written, item.blob, item.start, item.size, _kept(rows[name]) if name in rows else None)
            for name, item in stored.segments.items()
        }

        def read(name: str) -> pa.RecordBatch:
            blob = later[name].blob
            ((_, body),) = self._bodies({blob}, {blob: stored.blobs[blob]})
            return decode_segment(body)

        return State(record, _Segments(rows, later, read)), Stored(segments, stored.blobs)

    def save(self, state: State, fingerprint: str, stored: Stored) -> tuple[str, Stored, int]:
        """Write what is new and the record, remove what is dead; returns version, what is stored now, bytes written."""
        try:
            return self._save(state, fingerprint, stored)
        except (EOFError, ConnectionError) as found:
            # The JVM's end of the connection dies of an error of its file system without a word to this end.
            raise StateUnwritable(
                "Spark's state store hung up while state was saved, as it does when the disk of the checkpoint is full; nothing is "
                "lost: free space and start again with the same checkpoint (the executor's log has the cause)"
            ) from found

    def _save(self, state: State, fingerprint: str, stored: Stored) -> tuple[str, Stored, int]:
        # Every write has a name of its own: a repeated micro-batch must never take the other attempt's kernel for its own.
        version = uuid.uuid4().hex[:20]
        found = change(state.segments, stored, version)
        for key in found.removed:
            for piece in _pieces(key, stored.blobs[key]):
                self._state.removeKey((piece,))
        for key, body in found.written.items():
            for piece, start in zip(_pieces(key, len(body)), _starts(len(body)), strict=True):
                self._write(piece, body[start : start + PIECE_BYTES])
        record = f"{encode_meta(state.meta, fingerprint)}\n{_index(found.stored)}".encode()
        self._write(_RECORD, record)
        self._write(_VERSION, version.encode())
        return version, found.stored, sum(map(len, found.written.values())) + len(record)

    def _bodies(self, wanted: set[str], blobs: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Bytes of blobs: a few are asked for one by one, all of them are read in one go."""
        is_all = len(wanted) == len(blobs) > 1
        known = {name: bytes(body) for (name,), (body,) in self._state.iterator()} if is_all else {}
        for key in wanted:
            parts = [known[piece] if is_all else self._piece(piece) for piece in _pieces(key, blobs[key])]
            yield key, parts[0] if len(parts) == 1 else b"".join(parts)


class _Segments(Mapping[str, pa.RecordBatch]):
    """Segments that are there, and large ones that are read each time they are asked for."""

    def __init__(self, rows: Mapping[str, pa.RecordBatch], later: Collection[str], read: Callable[[str], pa.RecordBatch]) -> None:
        self._rows, self._later, self._read = rows, later, read

    def __getitem__(self, name: str) -> pa.RecordBatch:
        return self._read(name) if name in self._later else self._rows[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._rows
        yield from self._later

    def __len__(self) -> int:
        return len(self._rows) + len(self._later)


def _index(stored: Stored) -> str:
    """Where everything stands, as text; numbers of blobs instead of their names."""
    places = {key: place for place, key in enumerate(stored.blobs)}
    segments = {name: (item.written, places[item.blob], item.start, item.size) for name, item in stored.segments.items()}
    return json.dumps({"blobs": dict(stored.blobs), "segments": segments}, separators=(",", ":"))


def _read_index(text: str) -> Stored:
    found = json.loads(text)
    keys = list(found["blobs"])
    segments = {
        name: StoredSegment(version, keys[place], start, size) for name, (version, place, start, size) in found["segments"].items()
    }
    return Stored(segments, found["blobs"])


def _held(segment: StoredSegment | None, written: str) -> pa.RecordBatch | None:
    return segment.rows if segment is not None and segment.written == written else None


def _kept(rows: pa.RecordBatch) -> pa.RecordBatch | None:
    return None if SPILLED in (rows.schema.metadata or {}) else rows


def _starts(size: int) -> Iterable[int]:
    return range(0, max(size, 1), PIECE_BYTES)


def _pieces(key: str, size: int) -> list[str]:
    return [f"{key}#{number}" for number, _ in enumerate(_starts(size))]
