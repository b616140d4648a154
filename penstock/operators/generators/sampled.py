"""Announce for the next rows what the last ones had, with the probability that this was right so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernel.contracts import State
from penstock.model.batch import Batch
from penstock.model.elements import Control, Element, Elements, End, Metadata
from penstock.model.masks import comparable
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import plain
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation
from penstock.model.value_sets import Pattern, between
from penstock.operators.segments import SegmentLog


class Sampled:
    """Pass rows through; after every `rows` of them say which values the next ones will probably have.

    The range is that of the last rows without their extremes. Its confidence is the share of rows that kept to earlier
    announcements, so it is calibrated by the stream itself: 0.85 means that 85 of 100 rows were as announced. It is never
    1, and what follows from it is a hint unless a query accepts loss.

    Parameters
    ----------
    column
        The attribute announcements speak about.
    rows
        Rows between announcements, and rows each speaks about.
    trim
        Share of the rows left out at either end of the range.

    Examples
    --------
    >>> from penstock.model.scoped import scoped_from_herald
    >>> sampled = Sampled(pa.schema({"k": pa.int64()}), "k", rows=4)
    >>> rows = Batch(pa.RecordBatch.from_pydict({"k": [3, 1, 3, 2]}), np.zeros(4, np.int64), np.arange(4))
    >>> _, herald = sampled.on_batch(0, rows)
    >>> print(scoped_from_herald(herald))
    ⟨next 4: k=[1,3] (50%)⟩
    """

    def __init__(self, schema: pa.Schema, column: str, rows: int, trim: float = 0.01) -> None:
        self.column, self.rows, self.trim = column, rows, trim
        self._field = Schema.from_arrow(schema)[column]
        self._log = SegmentLog("block")
        self._announced: Pattern | None = None
        self._kept = self._judged = 0

    def on_batch(self, port: int, batch: Batch) -> Elements:
        return list(self._pieces(batch)) if batch.num_rows else ()

    def _pieces(self, batch: Batch) -> Iterator[Element]:
        """The rows, cut where a block is full, and the announcement there."""
        start = 0
        while start < batch.num_rows:
            stop = min(start + self.rows - self._log.num_rows, batch.num_rows)
            piece = batch.slice(start, stop - start)
            self._log.add(pa.RecordBatch.from_arrays([piece.column(self.column)], names=["value"]))
            yield piece
            if self._log.num_rows == self.rows:
                yield from self._announce()
            start = stop

    def _announce(self) -> Iterator[Element]:
        block = pa.concat_batches([self._log[number] for number in self._log]).column("value").drop_null()
        self._log.clear()
        if self._announced is not None:
            self._kept += int(np.count_nonzero(self._announced.matches_array(block)))
            self._judged += len(block)
        self._announced = self._range(block)
        if self._announced is not None:
            pattern = Punctuation((self.column,), (self._announced,))
            yield ScopedPunctuation.next_rows(self.rows, pattern, confidence=self.confidence).to_herald()

    @property
    def confidence(self) -> float:
        """Share of rows that were as announced; a half before anything is known, and never quite 1."""
        return (self._kept + 1) / (self._judged + 2)

    def _range(self, block: pa.Array) -> Pattern | None:
        if not len(block):
            return None
        values = comparable(block)
        ordered = values.take(pc.sort_indices(values))
        skipped = int(len(ordered) * self.trim)
        low, high = plain(ordered[skipped]), plain(ordered[len(ordered) - 1 - skipped])
        return between(low, high).normalised(self._field.type)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        return () if isinstance(mark, End) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        return ()

    def snapshot(self) -> State:
        announced = None if self._announced is None else self._announced.to_json()
        return State({"next": self._log.next, "announced": announced, "judged": [self._kept, self._judged]}, self._log.stored())

    def restore(self, state: State) -> None:
        self._log.reload(state.meta["next"], state.segments)
        self._announced = None if state.meta["announced"] is None else Pattern.from_json(state.meta["announced"])
        self._kept, self._judged = state.meta["judged"]

    def counters(self) -> Mapping[str, int]:
        return {
            "state_rows": self._log.num_rows,
            "state_bytes": self._log.num_bytes,
            "rows_as_announced": self._kept,
            "rows_announced": self._judged,
        }
