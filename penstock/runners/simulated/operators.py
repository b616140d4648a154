"""Operators that do nothing but let rows through."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from zlib import crc32

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Elements
from penstock.operators.base import Stateless

#: Rows without columns: times and positions are all a simulation needs.
_NO_COLUMNS = pa.RecordBatch.from_arrays([], schema=pa.schema([]))


def plain_rows(ts: Int64s, pos: Int64s) -> Batch:
    """Rows that have a time and a position, and nothing else."""
    return Batch(_NO_COLUMNS, ts, pos)


class Passing(Stateless):
    """Lets an exact share of the rows of each port through; of shares above 1, as many copies as make up for it.

    Which rows pass depends on how many have come on the port before, so that no schedule changes it.

    Examples
    --------
    >>> half = Passing("a", (0.5,))
    >>> sum(batch.num_rows for at in range(10) for batch in half.on_batch(0, plain_rows(np.array([at]), np.array([at]))))
    5
    """

    def __init__(self, id: str, shares: Sequence[float]) -> None:
        self._shares = tuple(shares)
        # Operators that are alike should not all wait for the same row.
        self._ahead = tuple(crc32(f"{id}/{port}".encode()) / 2**32 for port in range(len(self._shares)))
        self._seen = [0] * len(self._shares)
        #: Rows made of the last batch.
        self.made = 0

    def on_batch(self, port: int, batch: Batch) -> Elements:
        seen, rows = self._seen[port], batch.num_rows
        self._seen[port] = seen + rows
        share, ahead = self._shares[port], self._ahead[port]
        self.made = floor((seen + rows) * share + ahead) - floor(seen * share + ahead)
        if self.made == rows and share <= 1.0:
            return (batch,)
        if not self.made:
            return ()
        reached = np.floor(np.arange(seen, seen + rows + 1) * share + ahead).astype(np.int64)
        copies = np.diff(reached)
        return (plain_rows(np.repeat(batch.ts, copies), np.repeat(batch.pos, copies)),)

    def snapshot(self) -> State:
        return State({"seen": list(self._seen)})

    def restore(self, state: State) -> None:
        self._seen = list(state.meta["seen"])
