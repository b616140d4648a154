"""Numbers for windows of rows: how many rows of each input came before a row, counted in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER, Control, Elements, End, Heartbeat, Metadata, Routed
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import between
from penstock.model.windows import Lifespan
from penstock.operators.segments import stored_in
from penstock.operators.waiting import Waiting


class Sequencer:
    """Writes to each row how many rows of every input came before it, in the order (time, input, position).

    A window of the last C rows spans all keys, so a join that is partitioned by key cannot count by itself. This operator
    runs before the exchange, sees all rows, and hands them on, each input to its own output. Rows wait until all inputs
    have passed them, because the order decides. Punctuations on the new columns tell how far counting has come, also to
    partitions that get no rows.

    Parameters
    ----------
    schemas
        Of the inputs.
    outputs
        Names of the outputs, one per input.
    ranks
        Names of the columns it adds, one per input: `PWJoin(…, ranks=…)` reads them.
    life
        Rows outside the query's life are not counted, and go no further.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 7.5 (count-based windows).

    Examples
    --------
    >>> schema = pa.schema({"k": pa.int64()})
    >>> sequencer = Sequencer([schema, schema], ["a", "b"], ["_a", "_b"])
    >>> rows = Batch(pa.RecordBatch.from_pydict({"k": [7, 8]}), np.array([5, 1]), np.array([0, 1]))
    >>> [*sequencer.on_batch(0, rows), *sequencer.on_batch(1, rows.take(np.array([0]))), *sequencer.on_metadata(0, Heartbeat(9))]
    []
    >>> [item.element.rows.to_pylist() for item in sequencer.on_metadata(1, Heartbeat(9))[:2]]
    [[{'k': 8, '_a': 0, '_b': 0}, {'k': 7, '_a': 1, '_b': 0}], [{'k': 7, '_a': 2, '_b': 0}]]
    """

    def __init__(
        self, schemas: Sequence[pa.Schema], outputs: Sequence[str], ranks: Sequence[str], life: Lifespan | None = None
    ) -> None:
        self.outputs = tuple(outputs)
        self.ranks = tuple(ranks)
        self._schemas = [pa.schema([*schema, *(pa.field(name, pa.int64()) for name in ranks)]) for schema in schemas]
        self._life = life or Lifespan()
        self._outside_life = 0
        self._waiting = [Waiting(schema, f"waiting{port}") for port, schema in enumerate(schemas)]
        self._newest = [NEVER for _ in schemas]
        #: Punctuations that wait for the rows before them: input, time of the newest of these rows. Delaying one is always safe,
        #: as rows that come after it do not match it.
        self._marks: list[tuple[int, int, Punctuation]] = []
        self._frontiers = [NEVER for _ in schemas]
        self._sent = NEVER
        self._counts: Int64s = np.zeros(len(schemas), np.int64)

    def on_batch(self, port: int, batch: Batch) -> Elements:
        alive = self._life.holds(batch.ts)
        self._outside_life += int(np.count_nonzero(~alive))
        batch = batch.filter(alive)
        if batch.num_rows:
            self._waiting[port].add(batch)
            self._newest[port] = max(self._newest[port], int(batch.ts.max()))
        return ()

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return self._progress(port, mark.ts)
        if isinstance(mark, Punctuation):
            if self._waiting[port].oldest == FOREVER:
                return (self._routed(port, mark),)
            self._marks.append((port, self._newest[port], mark))
            return ()
        return () if isinstance(mark, End) else (Routed(self.outputs[port], mark),)

    def _progress(self, port: int, ts: int) -> Elements:
        self._frontiers[port] = max(self._frontiers[port], ts)
        least = min(self._frontiers)
        if least <= self._sent:
            return ()
        self._sent = least
        released = [(stream, waiting.release(least)) for stream, waiting in enumerate(self._waiting)]
        out: list[Any] = self._numbered([(stream, batch) for stream, batch in released if batch.num_rows])
        # Counts go first: whoever hears the heartbeat knows them then.
        if least != FOREVER:
            seen = [stream for stream, count in enumerate(self._counts) if count]
            out += [Routed(output, self._counted(stream)) for output in self.outputs for stream in seen]
        passed = least + (least == FOREVER)
        out += [self._routed(marked, mark) for marked, newest, mark in self._marks if newest < passed]
        self._marks = [entry for entry in self._marks if entry[1] >= passed]
        return [*out, Heartbeat(least)]

    def _routed(self, port: int, mark: Punctuation) -> Routed:
        return Routed(self.outputs[port], mark.extend((*mark.names, *self.ranks)))

    def _counted(self, stream: int) -> Punctuation:
        """No row will have fewer rows of this stream before it."""
        return Punctuation((self.ranks[stream],), (between(None, int(self._counts[stream]), hi_inclusive=False),))

    def _numbered(self, parts: Sequence[tuple[int, Batch]]) -> list[Routed]:
        if not parts:
            return []
        ports = np.repeat([port for port, _ in parts], [batch.num_rows for _, batch in parts])
        ts, pos = (np.concatenate([getattr(batch, name) for _, batch in parts]) for name in ("ts", "pos"))
        order = np.lexsort((pos, ports, ts))
        ranks = np.empty((len(ports), len(self._counts)), np.int64)
        ranks[order] = ranks_before(ports[order], self._counts)
        routed, start = [], 0
        for port, batch in parts:
            mine = ranks[start : start + batch.num_rows]
            columns = [*batch.rows.columns, *(pa.array(column) for column in mine.T.copy())]
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schemas[port])
            routed.append(Routed(self.outputs[port], batch.with_rows(rows)))
            start += batch.num_rows
        self._counts = self._counts + np.bincount(ports, minlength=len(self._counts))
        return routed

    def on_control(self, decision: Control) -> Elements:
        return ()

    def snapshot(self) -> State:
        marks = [[port, newest, mark.to_json()] for port, newest, mark in self._marks]
        waiting = {"next": [waiting.log.next for waiting in self._waiting], "newest": list(self._newest), "marks": marks}
        counts = self._counts.tolist()
        own = {"frontiers": list(self._frontiers), "sent": self._sent, "counts": counts, "outside_life": self._outside_life}
        return State({"waiting": waiting, **own}, stored_in(waiting.log for waiting in self._waiting))

    def restore(self, state: State) -> None:
        coded = state.meta["waiting"]
        for waiting, number in zip(self._waiting, coded["next"], strict=True):
            waiting.reload(number, state.segments)
        self._newest = list(coded["newest"])
        self._marks = [(port, newest, Punctuation.from_json(mark)) for port, newest, mark in coded["marks"]]
        self._frontiers, self._sent = list(state.meta["frontiers"]), state.meta["sent"]
        self._counts = np.array(state.meta["counts"], np.int64)
        self._outside_life = state.meta["outside_life"]

    def counters(self) -> Mapping[str, int]:
        logs = [waiting.log for waiting in self._waiting]
        waiting = {"state_rows": sum(log.num_rows for log in logs), "state_bytes": sum(log.num_bytes for log in logs)}
        return {**waiting, "numbered": int(self._counts.sum()), "outside_life": self._outside_life}


def ranks_before(streams: Int64s, counts: Int64s) -> Int64s:
    """For rows in order: how many rows of every stream came before each; `counts` before the first.

    The row with number n of a stream, counted from 1, is among its last C for a row of rank r there if r - C < n ≤ r.

    Examples
    --------
    >>> ranks_before(np.array([0, 1, 0]), np.array([4, 0])).tolist()
    [[4, 0], [5, 0], [5, 1]]
    """
    own: Int64s = (streams[:, None] == np.arange(len(counts))).astype(np.int64)
    before: Int64s = counts + np.cumsum(own, axis=0) - own
    return before
