"""Rows of a join outside of memory: written to a file, mapped back, and used like any others.

The system reads pages of the file when they are asked for and gives them up at will, so code that looks for partners does not
know where rows are. A file is a cache of what snapshots hold: after a restart it is written anew.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

import pyarrow as pa

from penstock.errors import StateUnwritable
from penstock.kernel.segments import SPILLED


@dataclass(slots=True)
class MemoryLimit:
    """Most bytes of rows in memory: what the query says, and the share of a limit for all of them; None: no limit."""

    own: int | None = None
    share: int | None = None

    @property
    def limit(self) -> int | None:
        """The smaller one of both."""
        if self.own is None or self.share is None:
            return self.share if self.own is None else self.own
        return min(self.own, self.share)

    def to_json(self) -> list[int | None]:
        """The arguments that make it again."""
        return [self.own, self.share]


def mapped(rows: pa.RecordBatch, directory: Path) -> pa.RecordBatch:
    """The same rows, in a file, which their schema says.

    The file loses its name as soon as it is mapped, so nothing is left behind, however the process ends.

    Parameters
    ----------
    directory
        On a disk: pages of a file system in memory cannot be given up.

    Examples
    --------
    >>> import tempfile
    >>> rows = mapped(pa.RecordBatch.from_pydict({"x": [1, 2]}), Path(tempfile.mkdtemp()))
    >>> rows.column("x").to_pylist(), SPILLED in rows.schema.metadata
    ([1, 2], True)
    """
    marked = rows.replace_schema_metadata({**(rows.schema.metadata or {}), SPILLED: b""})
    try:
        handle, path = mkstemp(".rows", "spilled-", directory)
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, marked.schema) as writer:
                writer.write_batch(marked)
            with pa.memory_map(path) as source:
                body = source.read_buffer()
        finally:
            os.unlink(path)
    except OSError as found:
        text = f"{rows.nbytes} bytes cannot be spilled to '{directory}': {found}; free space there"
        raise StateUnwritable(text) from found
    (found_rows,) = pa.ipc.open_stream(body)
    return found_rows
