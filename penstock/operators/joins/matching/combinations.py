"""Rows found for each other, and results handed on piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import UInt64s
from penstock.columnar.matching import newest_and_place
from penstock.model.batch import Batch, Int64s

#: Results are handed on in pieces of about this many rows, so that one batch cannot exhaust memory.
OUTPUT_ROWS = 1 << 20
#: Combinations of several runs are put together up to this number.
_FEW_ROWS = 1 << 13
#: Results of fewer rows are put together: behind a join of several inputs each piece costs more than its rows.
_SMALL_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Combination:
    """Rows found so far: for each input already joined, a batch and the row numbers in it; the first has the keys of all."""

    parts: Mapping[int, tuple[Batch, Int64s]]
    keys: tuple[pa.Array, ...]
    hashes: UInt64s

    @property
    def num_rows(self) -> int:
        return len(self.hashes)

    @property
    def key_rows(self) -> Int64s:
        return next(iter(self.parts.values()))[1]

    def times(self) -> dict[int, Int64s]:
        return {port: batch.ts[rows] for port, (batch, rows) in self.parts.items()}

    def chosen(self, rows: Int64s) -> dict[int, tuple[Batch, Int64s]]:
        return {port: (batch, mine[rows]) for port, (batch, mine) in self.parts.items()}

    def subset(self, rows: Int64s) -> Combination:
        return Combination(self.chosen(rows), self.keys, self.hashes[rows])


def stamps(parts: Iterable[tuple[Int64s, Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    """Newest time of combined rows, and a position that names them whichever came last; of each input times, positions and rows."""
    (ts, pos, rows), *others = parts
    ts, pos = ts[rows], pos[rows]
    for other_ts, other_pos, other_rows in others:
        newest_and_place(ts, pos, other_ts, other_pos, other_rows)
    return ts, pos


def merged_where_few(pieces: Iterable[Combination], port: int) -> Iterator[Combination]:
    """Combinations that differ in the run of one input, as one where they are few: a step costs as much for a row as for many."""
    few: list[Combination] = []
    rows = 0
    for piece in pieces:
        if not few and piece.num_rows > _FEW_ROWS:
            yield piece
            continue
        rows += piece.num_rows
        few.append(piece)
        if rows > _FEW_ROWS:
            yield from few
            few, rows = [], 0
    if few:
        yield _merged(few, port)


def _merged(pieces: list[Combination], port: int) -> Combination:
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    rows = {other: np.concatenate([piece.parts[other][1] for piece in pieces]) for other in first.parts}
    parts = {other: (batch, rows[other]) for other, (batch, _) in first.parts.items()}
    taken = Batch.concat([batch.take(mine) for batch, mine in (piece.parts[port] for piece in pieces)])
    parts[port] = (taken, np.arange(taken.num_rows))
    hashes = np.concatenate([piece.hashes for piece in pieces])
    # Each piece ascends by hash, as the search for the next input wants it; one behind the other they do not.
    return Combination(parts, first.keys, hashes).subset(np.argsort(hashes, kind="stable"))


def in_pieces(results: Iterator[Batch]) -> Iterable[Batch]:
    """A list where all results fit into one piece, of as few batches as may be; otherwise what `piecewise` does."""
    found: Any = piecewise(results)
    return _gathered(found) if isinstance(found, list) else found


def piecewise(elements: Iterator[Any]) -> Iterable[Any]:
    """A list where all results fit into one piece; otherwise one element after the other, made when it is asked for."""
    first: list[Any] = []
    rows = 0
    for element in elements:
        first.append(element)
        rows += element.num_rows if isinstance(element, Batch) else 0
        if rows > OUTPUT_ROWS:
            return chain(first, elements)
    return first


def _gathered(results: list[Batch]) -> list[Batch]:
    """The same rows in one batch, if there are few of them in each."""
    if len(results) < 2 or sum(result.num_rows for result in results) > _SMALL_ROWS * len(results):
        return results
    return [Batch.concat(results)]
