"""Close values when event time has passed the end that another stream tells for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import group_codes
from penstock.errors import PunctuationViolated
from penstock.kernel.contracts import State
from penstock.metadata.closed_set import ClosedSet
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.declarations import RowPolicy
from penstock.model.elements import NEVER, Control, Elements, End, Heartbeat, Metadata, Quarantined
from penstock.model.masks import booleans
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import one_of_array
from penstock.operators.segments import SegmentLog

_STORED = ("value", "end")


class ClosingTimes:
    """Pass the rows of a stream on, and a punctuation for each value whose time is over.

    Port 0 is the stream, port 1 the reference: rows that tell for a value when it ends. A value is closed when it is known
    to end before the frontier of the stream: rows at its end may still come, later ones may not. Nothing is closed whose
    reference row has not come.

    Parameters
    ----------
    schema
        Of the stream.
    column
        The attribute whose values end.
    key, time
        Columns of the reference: the value and its end, in the unit of event time. If a value is told twice, the later
        end counts.
    on_violation
        What happens to rows of a value that was closed.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 32.4.
    """

    def __init__(
        self, schema: pa.Schema, column: str, key: str, time: str, stream: str = "", on_violation: RowPolicy = RowPolicy.ERROR
    ) -> None:
        self.names = tuple(schema.names)
        self.column, self.key, self.time = column, key, time
        self.stream, self.on_violation = stream, on_violation
        self._kind = schema.field(column).type
        self._closed = ClosedSet.over(Schema.from_arrow(schema), [column])
        self._log = SegmentLog("ends")
        self._frontier = NEVER
        self._counts = {"violating": 0, "closed": 0}

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        return self._learn(batch) if port else self._pass(batch)

    def _pass(self, batch: Batch) -> Elements:
        wrong = self._closed.contains_array(batch.column(self.column))
        if not wrong.any():
            return (batch,)
        count = int(np.count_nonzero(wrong))
        self._counts["violating"] += count
        if self.on_violation is RowPolicy.TRUST:
            return (batch,)
        text = f"{count} rows of stream '{self.stream}' come after the end of their {self.column}"
        refused = batch.filter(wrong)
        if self.on_violation is RowPolicy.ERROR:
            advice = "repair the source, or declare ON VIOLATION QUARANTINE or TRUST"
            raise PunctuationViolated(
                f"{text}, first {refused.rows.slice(0, 1).to_pylist()[0]}; {advice}", f"stream '{self.stream}'"
            )
        return (batch.filter(~wrong), Quarantined(refused, "punctuation-violated", text, self.stream))

    def _learn(self, batch: Batch) -> Elements:
        known = booleans(batch.column(self.key).is_valid()) & booleans(batch.column(self.time).is_valid())
        told = batch.filter(known)
        if told.num_rows:
            value, end = told.column(self.key).cast(self._kind), int64s(told.column(self.time))
            self._log.add(pa.RecordBatch.from_arrays([value, pa.array(end)], names=list(_STORED)))
        return self._close()

    # -- time ---------------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if port:
            return ()  # what is known of the reference says nothing about the stream
        if isinstance(mark, Heartbeat):
            self._frontier = max(self._frontier, mark.ts)
            return [*self._close(), mark]
        return () if isinstance(mark, End) else (mark,)

    def _close(self) -> list[Punctuation]:
        """Values that have ended, in one punctuation; they are forgotten."""
        if not len(self._log) or self._frontier == NEVER:
            return []
        numbers = list(self._log)
        if all(self._ends(number).min() >= self._frontier for number in numbers):
            return []
        values, ends = self._latest(pa.concat_batches([self._log[number] for number in numbers]))
        over = ends < self._frontier
        for number in numbers:
            self._log.drop(number)
        if not over.all():
            self._log.add(pa.RecordBatch.from_arrays([values.filter(pa.array(~over)), pa.array(ends[~over])], names=list(_STORED)))
        pattern = one_of_array(values.filter(pa.array(over)))
        mark = Punctuation((self.column,), (pattern,), 0, 2**63 - 1).extend(self.names)
        if pattern.is_empty or not self._closed.add(mark):
            return []
        self._counts["closed"] += len(pattern.values)
        return [mark]

    def _ends(self, number: int) -> Int64s:
        return int64s(self._log[number].column("end"))

    def _latest(self, told: pa.RecordBatch) -> tuple[pa.Array, Int64s]:
        """Each value once, with its latest end."""
        codes = group_codes([told.column("value")])
        ends = np.full(codes.number, NEVER)
        np.maximum.at(ends, codes.codes, int64s(told.column("end")))
        return told.column("value").take(pa.array(codes.first_row)), ends

    def on_control(self, decision: Control) -> Elements:
        return ()

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        meta: dict[str, Any] = {"next": self._log.next, "frontier": self._frontier, "counts": dict(self._counts)}
        return State({**meta, "known": self._closed.to_json()}, self._log.stored())

    def restore(self, state: State) -> None:
        self._log.reload(state.meta["next"], state.segments)
        self._frontier, self._counts = state.meta["frontier"], dict(state.meta["counts"])
        self._closed = ClosedSet.from_json(state.meta["known"], self._closed.fields)

    def counters(self) -> Mapping[str, int]:
        return {
            "state_rows": self._log.num_rows,
            "state_bytes": self._log.num_bytes,
            "closed_entries": len(self._closed),
            **self._counts,
        }
