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


#: Positions of the rows of a stream begin at its number times this.
APART = 1 << 40


def plain_rows(ts: Int64s, pos: Int64s) -> Batch:
    """Rows that have a time and a position, and nothing else."""
    return Batch(_NO_COLUMNS, ts, pos)


class Passing(Stateless):
    """Lets an exact share of the rows of each port through; of shares above 1, as many copies as make up for it.

    Which rows pass depends on how many of the same stream have come on the port before. These keep their order, so no schedule
    changes which rows pass, not even behind joins, where rows of two streams mix.

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
        #: Rows so far, by port and stream.
        self._seen: dict[tuple[int, int], int] = {}

    def on_batch(self, port: int, batch: Batch) -> Elements:
        rows = batch.num_rows
        if not rows:
            return ()
        source = port, int(batch.pos[0]) // APART
        seen = self._seen.get(source, 0)
        self._seen[source] = seen + rows
        share, ahead = self._shares[port], self._ahead[port]
        made = floor((seen + rows) * share + ahead) - floor(seen * share + ahead)
        if made == rows and share <= 1.0:
            return (batch,)
        if not made:
            return ()
        reached = np.floor(np.arange(seen, seen + rows + 1) * share + ahead).astype(np.int64)
        copies = np.diff(reached)
        return (plain_rows(np.repeat(batch.ts, copies), np.repeat(batch.pos, copies)),)

    def snapshot(self) -> State:
        return State({"seen": [[*source, rows] for source, rows in self._seen.items()]})

    def restore(self, state: State) -> None:
        self._seen = {(port, stream): rows for port, stream, rows in state.meta["seen"]}
