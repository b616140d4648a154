"""Combinations of row numbers turned into rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import mix_positions
from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.model.batch import Batch
from penstock.operators.joins.matching.combinations import OUTPUT_ROWS, stamps
from penstock.operators.joins.matching.multiway.search import Combos
from penstock.operators.joins.storing.chained_rows import Window


class Results:
    """Collects the rows of a join's answer.

    Parameters
    ----------
    tells_change
        Whether the last column tells appearing from disappearing; results are then handed on in the order of time, at equal
        times what disappears first.
    """

    def __init__(self, windows: Sequence[Window], schema: pa.Schema, residual: Expr | None, tells_change: bool) -> None:
        self._windows, self._schema, self._residual, self._tells_change = windows, schema, residual, tells_change
        self._pieces: list[Batch] = []
        #: Rows that nobody has taken yet.
        self.waiting_rows = 0
        self.count = 0

    def add(self, combos: Combos, change: int) -> None:
        """Make rows of combinations that appear (+1) or disappear (-1)."""
        for start in range(0, combos.size, OUTPUT_ROWS):
            piece = self._made(combos, slice(start, start + OUTPUT_ROWS), change)
            if self._residual is not None:
                piece = piece.filter(mask(self._residual, piece.rows))
            if piece.num_rows:
                self._pieces.append(piece)
                self.count += piece.num_rows
                self.waiting_rows += piece.num_rows

    def _made(self, combos: Combos, part: slice, change: int) -> Batch:
        chosen = [(window, combos.rows[port][part]) for port, window in enumerate(self._windows)]
        columns = [column for window, rows in chosen for column in window.take(rows)]
        ts, pos = stamps((window.ts, window.pos, rows) for window, rows in chosen)
        if self._tells_change:
            columns.append(pa.array(np.full(len(ts), change, np.int8)))
            ts = np.maximum(ts, combos.at[part])
        if change < 0:
            pos = mix_positions(pos, np.full(len(pos), change))
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self._schema), ts, pos)

    def taken(self, not_before: int) -> list[Batch]:
        """What has been collected; no row is older than a promise that was made before."""
        pieces, self._pieces, self.waiting_rows = self._pieces, [], 0
        if pieces and self._tells_change:
            pieces = list(_by_time(Batch.concat(pieces), self._schema.names[-1]))
        return [Batch(piece.rows, np.maximum(piece.ts, not_before), piece.pos) for piece in pieces]


def _by_time(whole: Batch, change: str) -> Iterator[Batch]:
    order = np.lexsort((whole.pos, whole.column(change).to_numpy(), whole.ts))
    whole = whole.take(order)
    for start in range(0, whole.num_rows, OUTPUT_ROWS):
        yield whole.slice(start, min(OUTPUT_ROWS, whole.num_rows - start))
