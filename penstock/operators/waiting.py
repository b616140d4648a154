"""Rows that wait until no earlier row can come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import Defect
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER
from penstock.model.punctuation import Punctuation
from penstock.operators.segments import SegmentLog

#: More pieces than this are joined into one.
_MOST_SEGMENTS = 16


def check_promise(batch: Batch, frontier: int) -> int:
    """Least time of some rows, none of which may be older than was promised.

    Raises
    ------
    Defect
        One is older than the frontier.
    """
    oldest = int(batch.ts.min())
    if oldest < frontier:
        raise Defect(f"a row of time {oldest} came after the promise that none is older than {frontier}")
    return oldest


class Waiting:
    """Reorders a stream: rows go in as they come and leave by time and position, once the frontier has passed them.

    What leaves, and in which order, depends on the rows and the frontier alone and not on batching: operators for which
    order matters (row windows, duplicate elimination) put it in front.

    Examples
    --------
    >>> waiting = Waiting(pa.schema({"x": pa.int64()}))
    >>> rows = pa.RecordBatch.from_pydict({"x": [1, 2, 3]})
    >>> waiting.add(Batch(rows, np.array([7, 5, 9]), np.array([0, 1, 2])))
    >>> waiting.release(9).column("x").to_pylist()
    [2, 1]
    """

    def __init__(self, schema: pa.Schema, name: str = "waiting") -> None:
        self.schema = schema
        self.log = SegmentLog(name)
        self._pieces: dict[int, Batch] = {}

    def add(self, batch: Batch) -> None:
        if batch.num_rows:
            self._pieces[self.log.add(batch.stored())] = batch
            if len(self.log) > _MOST_SEGMENTS:
                self._keep([Batch.concat(self._drop(list(self.log)))])

    def release(self, frontier: int) -> Batch:
        """Remove and return the rows older than the frontier; all rows when it is `FOREVER`."""
        touched = [number for number, piece in self._pieces.items() if piece.ts.min() < frontier or frontier == FOREVER]
        ready, rest = [], []
        for piece in self._drop(touched):
            passed = piece.ts < frontier if frontier != FOREVER else np.ones(piece.num_rows, np.bool_)
            ready.append(piece.filter(passed))
            if ready[-1] is piece:
                continue
            rest.append(piece.filter(~passed))
        self._keep([Batch.concat(rest)] if rest else [])
        return Batch.concat(ready).in_order() if ready else Batch.empty(self.schema)

    def _drop(self, numbers: Sequence[int]) -> list[Batch]:
        for number in numbers:
            self.log.drop(number)
        return [self._pieces.pop(number) for number in numbers]

    def _keep(self, pieces: Sequence[Batch]) -> None:
        for piece in pieces:
            if piece.num_rows:
                self._pieces[self.log.add(piece.stored())] = piece

    def holds_match(self, mark: Punctuation) -> bool:
        """Whether a waiting row matches the punctuation, which must then wait too."""
        return any(mark.matches_batch(piece.rows).any() for piece in self._pieces.values())

    @property
    def oldest(self) -> int:
        """Least timestamp that waits; `FOREVER` when none does."""
        return min((int(piece.ts.min()) for piece in self._pieces.values()), default=FOREVER)

    def reload(self, next_number: int, segments: Mapping[str, pa.RecordBatch]) -> None:
        self.log.reload(next_number, segments)
        self._pieces = {number: self._without_more(Batch.restored(self.log[number])) for number in self.log}

    def _without_more(self, piece: Batch) -> Batch:
        """The columns that are wanted now: whoever stored the rows may have needed more."""
        names = self.schema.names
        return piece if piece.schema.names == names else piece.with_rows(piece.rows.select(names))

    def snapshot(self) -> tuple[int, Mapping[str, Any]]:
        return self.log.next, self.log.stored()
