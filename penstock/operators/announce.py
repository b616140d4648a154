"""Punctuations as rows that people and sinks can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.metadata.embedded import write_punctuation
from penstock.model.batch import Batch
from penstock.model.elements import NEVER, Control, Elements, End, Heartbeat, Metadata
from penstock.model.punctuation import Punctuation
from penstock.operators.base import Stateless


class Hush(Stateless):
    """Let metadata pass and no rows."""

    def on_batch(self, port: int, batch: Batch) -> Elements:
        return ()


class Announce:
    """A row for each punctuation: what it closes, in the form in which sources embed punctuations, and the event time by then.

    The rows have no punctuations themselves.
    """

    def __init__(self, output_schema: pa.Schema) -> None:
        self.output_schema = output_schema
        self._frontier = NEVER
        self._count = 0

    def on_batch(self, port: int, batch: Batch) -> Elements:
        return ()

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            self._frontier = max(self._frontier, mark.ts)
            return (mark,)
        if isinstance(mark, Punctuation):
            return (self._row(mark),)
        return () if isinstance(mark, End) else (mark,)

    def _row(self, mark: Punctuation) -> Batch:
        known_at = pa.array([None if self._frontier == NEVER else self._frontier], pa.int64())
        columns = [pa.array([write_punctuation(mark)]), known_at.cast(self.output_schema.field(1).type)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.output_schema)
        self._count += 1
        return Batch(rows, np.array([self._frontier]), np.array([self._count]))

    def on_control(self, decision: Control) -> Elements:
        return ()

    def snapshot(self) -> State:
        return State({"frontier": self._frontier, "count": self._count})

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier, self._count = meta["frontier"], meta["count"]

    def counters(self) -> Mapping[str, int]:
        return {"state_rows": 0, "state_bytes": 0, "announced": self._count}
