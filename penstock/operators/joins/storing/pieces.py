"""Rows of one join input in immutable pieces: each is a segment of state, in memory or in a file that is mapped.

Both stores of the joins are made of them: `RowStore` sorts the rows of a piece and finds them by its order, `Window` leaves them
as they came and finds them by tables of keys.

The system reads pages of a file when they are asked for and gives them up at will, so code that looks for partners does not know
where rows are. A file is a cache of what snapshots hold: after a restart it is written anew.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import mkstemp
from typing import Generic, TypeVar

import pyarrow as pa

from penstock.errors import StateUnwritable
from penstock.kernel.contracts import State
from penstock.kernel.segments import SPILLED
from penstock.model.batch import Batch
from penstock.model.elements import NEVER


@dataclass(frozen=True)
class Piece:
    """Rows under a name that is never used again: a host stores what a name stands for once."""

    id: str
    batch: Batch
    is_spilled: bool = field(default=False, kw_only=True)

    @cached_property
    def num_rows(self) -> int:
        return self.batch.num_rows

    @cached_property
    def column_bytes(self) -> int:
        """Of the rows, wherever they are."""
        size: int = self.batch.rows.nbytes
        return size

    @property
    def memory_bytes(self) -> int:
        return 0 if self.is_spilled else self.column_bytes


PieceT = TypeVar("PieceT", bound=Piece)


class PieceStore(ABC, Generic[PieceT]):
    """The rows of one input, and how far the other inputs have come.

    Parameters
    ----------
    name
        Distinguishes the inputs of a join in its snapshot.
    most_pieces, few_rows
        Neighbours are merged if there are more pieces in memory, or if both have no more rows together.
    """

    def __init__(self, name: str, most_pieces: int, few_rows: int) -> None:
        self.name = name
        self._most_pieces, self._few_rows = most_pieces, few_rows
        self._pieces: list[PieceT] = []
        self._next = 0
        self._horizon = NEVER
        self._directory: Path | None = None
        self.expired = 0

    def __iter__(self) -> Iterator[PieceT]:
        return iter(self._pieces)

    # -- what each store does in its own way --------------------------------------------------------------------------

    @abstractmethod
    def _piece(self, name: str, batch: Batch) -> PieceT:
        """Rows that have been stored before."""

    @abstractmethod
    def _spilled(self, piece: PieceT, directory: Path) -> PieceT:
        """The same piece in a file."""

    @abstractmethod
    def _merge(self, places: Sequence[int]) -> None:
        """Make one piece of some that are in memory, without what is useless."""

    # -- sizes --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows that may still be in a result."""

    @property
    def num_bytes(self) -> int:
        """In memory."""
        return sum(piece.memory_bytes for piece in self._pieces)

    @property
    def spillable_bytes(self) -> int:
        return sum(piece.memory_bytes for piece in self._pieces if not piece.is_spilled)

    @property
    def spilled_rows(self) -> int:
        return sum(piece.num_rows for piece in self._pieces if piece.is_spilled)

    @property
    def spilled_bytes(self) -> int:
        return sum(piece.column_bytes for piece in self._pieces if piece.is_spilled)

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _new_name(self) -> str:
        self._next += 1
        return f"{self.name}{self._next - 1}"

    def _merge_small(self) -> None:
        """Keep few pieces by merging the two smallest neighbours; each row is rewritten a logarithmic number of times.

        Spilled pieces stay as they are: they are large, and merging them would bring them back into memory.
        """
        while len(self._pieces) > 1:
            rows = [None if piece.is_spilled else piece.num_rows for piece in self._pieces]
            if (at := smallest_neighbours(rows, self._most_pieces, self._few_rows)) is None:
                return
            self._merge([at, at + 1])

    def _put(self, places: Collection[int], made: Sequence[PieceT]) -> None:
        """Put pieces in the place of others, where the first of them was."""
        first = min(places)
        behind = [piece for at, piece in enumerate(self._pieces) if at > first and at not in places]
        self._pieces[first:] = [*made, *behind]

    def spill(self, directory: Path) -> bool:
        """Move everything that is in memory into as few files as may be; whether there was anything."""
        self._directory = directory
        found = self._in_memory()
        if len(found) > 1:
            self._merge(found)
        for at in self._in_memory():
            self._pieces[at] = self._spilled(self._pieces[at], directory)
        return bool(found)

    def _in_memory(self) -> list[int]:
        return [at for at, piece in enumerate(self._pieces) if not piece.is_spilled]

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        names = [piece.id for piece in self._pieces]
        spilled = [piece.id for piece in self._pieces if piece.is_spilled]
        meta = {"next": self._next, "horizon": self._horizon, "expired": self.expired, "runs": names, "spilled": spilled}
        return State(meta, {piece.id: piece.batch.stored() for piece in self._pieces})

    def restore(self, state: State, directory: Path | None = None) -> None:
        """Take a snapshot over; piece by piece, since together they may be more than memory holds."""
        meta = state.meta
        self._next, self._horizon, self.expired = meta["next"], meta["horizon"], meta["expired"]
        self._pieces, self._directory = [], directory
        for name in meta["runs"]:
            piece = self._piece(name, Batch.restored(state.segments[name]))
            # Without a place for files all rows stay in memory.
            self._pieces.append(self._spilled(piece, directory) if directory and name in meta["spilled"] else piece)


def smallest_neighbours(rows: Sequence[int | None], most: int, few_rows: int) -> int | None:
    """Where two neighbours stand that are to be merged, by their numbers of rows; None of one: it is left alone.

    Parameters
    ----------
    most, few_rows
        They are merged if there are more than so many pieces, or if both have no more rows together.

    Examples
    --------
    >>> smallest_neighbours([None, 5_000, 600, 200], 8, 1024), smallest_neighbours([5_000, 600, None, 200], 8, 1024)
    (2, None)
    """
    together = [None if one is None or other is None else one + other for one, other in pairwise(rows)]
    least = min((count for count in together if count is not None), default=None)
    if least is None or (least > few_rows and len(rows) - rows.count(None) <= most):
        return None
    return together.index(least)


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
