"""All rows of several inputs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.metadata.alignment import Alignment
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import NEVER, Control, Elements, End, Heartbeat, Metadata
from penstock.model.punctuation import Punctuation


def input_of(positions: Int64s, inputs: int) -> Int64s:
    """Which input of a union that renumbers the rows at some positions came from."""
    result: Int64s = positions % inputs
    return result


class Union:
    """Pass all rows on; a promise holds for the union when every input has made it.

    Parameters
    ----------
    renumber
        Give rows of different inputs different positions; those of one input keep their order. What follows has no use for
        punctuations then, so they end here.
    """

    passes_rows = True

    def __init__(self, inputs: int, output_schema: pa.Schema, renumber: bool = False) -> None:
        self.output_schema = output_schema
        self._renumber = renumber
        self._frontiers = [NEVER] * inputs
        self._sent = NEVER
        self._alignment = Alignment(range(inputs))

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if self._renumber:
            batch = Batch(batch.rows, batch.ts, batch.pos * len(self._frontiers) + port)
        if batch.schema.names == self.output_schema.names:
            return (batch,)
        return (batch.with_rows(batch.rows.rename_columns(self.output_schema.names)),)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, End):
            return ()
        if isinstance(mark, Heartbeat):
            return self._progress(port, mark.ts)
        if isinstance(mark, Punctuation):
            if self._renumber:
                return ()
            named = Punctuation(tuple(self.output_schema.names), mark.patterns, mark.ts, mark.pos)
            return tuple(self._alignment.announce(port, named))
        return (mark,)

    def _progress(self, port: int, ts: int) -> Elements:
        self._frontiers[port] = max(self._frontiers[port], ts)
        least = min(self._frontiers)
        if least <= self._sent:
            return ()
        self._sent = least
        return (Heartbeat(least),)

    def on_control(self, decision: Control) -> Elements:
        return ()

    def snapshot(self) -> State:
        return State({"frontiers": list(self._frontiers), "sent": self._sent, "alignment": self._alignment.to_json()})

    def restore(self, state: State) -> None:
        self._frontiers = list(state.meta["frontiers"])
        self._sent = state.meta["sent"]
        self._alignment = Alignment.from_json(state.meta["alignment"])

    def counters(self) -> Mapping[str, int]:
        return {"state_rows": 0, "state_bytes": 0}
