"""Where spilled rows are: encoded, outside of the rows a join works on.

A chunk is written once, when a bucket leaves memory, read when a disk join needs it, and dropped or replaced afterwards. In
a snapshot it is one segment with the encoded bytes as its only cell, so a host stores it once, in the batch that spilled it,
and nobody decodes it on the way. A host that has a disk says so (`Spilling`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import StateUnwritable
from penstock.kernel.segments import SPILLED

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_BODY = pa.schema({"body": pa.large_binary()}, metadata={SPILLED: b""})


class SpillStore(Protocol):
    """Encoded chunks by name; a name is never used again."""

    def put(self, name: str, rows: pa.RecordBatch) -> None: ...

    def get(self, name: str) -> pa.RecordBatch: ...

    def drop(self, name: str) -> None: ...

    def segments(self) -> Mapping[str, pa.RecordBatch]:
        """Every chunk in the form of a snapshot."""
        ...

    def load(self, name: str, segment: pa.RecordBatch) -> None:
        """Take a chunk over from a snapshot."""
        ...

    def clear(self) -> None: ...

    @property
    def num_bytes(self) -> int:
        """Bytes of all chunks as they are stored."""
        ...


def encode(rows: pa.RecordBatch) -> pa.Buffer:
    """Rows as compressed bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def decode(body: pa.Buffer) -> pa.RecordBatch:
    (rows,) = pa.ipc.open_stream(body)
    return rows


def as_segment(body: pa.Buffer) -> pa.RecordBatch:
    """One cell that refers to the bytes, without copying them."""
    offsets = pa.py_buffer(np.array([0, body.size], np.int64))
    cell = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, body])
    return pa.RecordBatch.from_arrays([cell], schema=_BODY)


def body_of(segment: pa.RecordBatch) -> pa.Buffer:
    """Inverse of `as_segment`."""
    buffer: pa.Buffer = segment.column(0)[0].as_buffer()
    return buffer


class EncodedStore:
    """Chunks as compressed bytes in this process: small, though not gone. The default, since an operator opens no files.

    Examples
    --------
    >>> store = EncodedStore()
    >>> store.put("a", pa.RecordBatch.from_pydict({"x": [1, 2]}))
    >>> store.get("a").column("x").to_pylist()
    [1, 2]
    """

    def __init__(self) -> None:
        self._bodies: dict[str, pa.Buffer] = {}

    def put(self, name: str, rows: pa.RecordBatch) -> None:
        self._bodies[name] = encode(rows)

    def get(self, name: str) -> pa.RecordBatch:
        return decode(self._bodies[name])

    def drop(self, name: str) -> None:
        del self._bodies[name]

    def segments(self) -> Mapping[str, pa.RecordBatch]:
        return {name: as_segment(body) for name, body in self._bodies.items()}

    def load(self, name: str, segment: pa.RecordBatch) -> None:
        self._bodies[name] = body_of(segment)

    def clear(self) -> None:
        self._bodies.clear()

    @property
    def num_bytes(self) -> int:
        return sum(body.size for body in self._bodies.values())


class FileStore:
    """Chunks as files, mapped into memory: the system reads their pages when they are asked for and gives them up at will.

    A file loses its name as soon as it is mapped, so nothing is left behind, however the process ends. Files are a cache of
    what snapshots hold: they are written anew from a snapshot after a restart.

    Parameters
    ----------
    directory
        On a disk: pages of a file system in memory cannot be given up.

    Examples
    --------
    >>> import tempfile
    >>> store = FileStore(Path(tempfile.mkdtemp()))
    >>> store.put("a", pa.RecordBatch.from_pydict({"x": [1, 2]}))
    >>> store.get("a").column("x").to_pylist(), store.num_bytes > 0
    ([1, 2], True)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bodies: dict[str, pa.Buffer] = {}

    def put(self, name: str, rows: pa.RecordBatch) -> None:
        self._bodies[name] = self._written(encode(rows))

    def _written(self, body: pa.Buffer) -> pa.Buffer:
        """The same bytes, in a file without a name."""
        try:
            handle, path = mkstemp(".chunk", "spilled-", self._directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(body)
                with pa.memory_map(path) as mapped:
                    return mapped.read_buffer()
            finally:
                os.unlink(path)
        except OSError as found:
            text = f"{body.size} bytes cannot be spilled to '{self._directory}': {found}; free space there"
            raise StateUnwritable(text) from found

    def get(self, name: str) -> pa.RecordBatch:
        return decode(self._bodies[name])

    def drop(self, name: str) -> None:
        del self._bodies[name]

    def segments(self) -> Mapping[str, pa.RecordBatch]:
        return {name: as_segment(body) for name, body in self._bodies.items()}

    def load(self, name: str, segment: pa.RecordBatch) -> None:
        self._bodies[name] = self._written(body_of(segment))

    def clear(self) -> None:
        self._bodies.clear()

    @property
    def num_bytes(self) -> int:
        return sum(body.size for body in self._bodies.values())
