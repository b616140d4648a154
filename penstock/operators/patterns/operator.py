"""Event patterns as an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools, validity
from penstock.errors import Defect
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, NEVER, Control, Elements, End, Heartbeat, Metadata, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.operators.patterns._events import Horizon
from penstock.operators.patterns.engine import CLASS, MatchSet, PatternEngine, trace_codes
from penstock.operators.patterns.output import MatchRows
from penstock.operators.patterns.tables import NAMED
from penstock.operators.segments import SegmentLog
from penstock.operators.waiting import Waiting

_NO_KEY = "an event without key belongs to no trace"
_NO_TIME = "event times count from 0"


class PatternMatch:
    """Every match of an event query, once it is decided.

    Rows are reduced to their class and the columns that are needed, and wait until the frontier has passed them, because
    an earlier one may still come. Then the traces they belong to are searched; what later matches may need is kept, and
    nothing that is older than the window. A match is decided by its last event; one that ends with an absence, or with the
    longest run, when no event can change it any more. The output's time is that moment.

    Parameters
    ----------
    query
        Pattern, key, conditions and rules of the search.
    input_schema
        Columns of the events.
    output
        What is shown of a match.
    time_type
        Type of the times of a match in the output.

    Notes
    -----
    State holds events, no partial matches: stacks and runs are derived and made anew for the traces that go on. Punctuations
    end here, because the columns of a match are not those of an event.

    References
    ----------
    [wu2006] Wu, Diao, Rizvi. High-Performance Complex Event Processing over Streams. SIGMOD 2006.
    [agrawal2008] Agrawal, Diao, Gyllstrom, Immerman. Efficient Pattern Matching over Event Streams. SIGMOD 2008.

    Examples
    --------
    >>> from penstock.model.event_patterns import seq
    >>> events = pa.RecordBatch.from_pydict({"type": ["A", "B", "B"], "id": [7, 7, 8]})
    >>> search = PatternMatch(EventQuery(seq("A", "B"), ("id",), within=10), events.schema)
    >>> search.on_batch(0, Batch(events, np.array([1, 2, 3]), np.array([0, 1, 2])))
    ()
    >>> found, _ = search.on_metadata(0, Heartbeat(5))
    >>> found.rows.select(["id", "match_start", "match_end"]).to_pylist()
    [{'id': 7, 'match_start': 1, 'match_end': 2}]
    """

    def __init__(
        self,
        query: EventQuery,
        input_schema: pa.Schema,
        output: MatchOutput | None = None,
        time_type: pa.DataType | None = None,
    ) -> None:
        self.query = query
        self._engine = PatternEngine(query, input_schema)
        self._rows = MatchRows(query, output or MatchOutput(), self._engine.schema, time_type or pa.int64())
        self.output_schema = self._rows.output_schema
        self._columns = self._needed_columns()
        own = [input_schema.field(input_schema.get_field_index(name)) for name in self._columns]
        self._stored_schema = pa.schema([*own, *self._engine.extra_fields])
        self._waiting = Waiting(self._stored_schema)
        self._log = SegmentLog("kept")
        self._kept, self._due = Batch.empty(self._stored_schema), np.zeros(0, np.int64)
        self._frontier = NEVER
        self._totals = {"matches": 0, "null_keys": 0, "bad_times": 0, "passed_over": 0, "expired": 0}

    def _needed_columns(self) -> list[str]:
        """Columns of a row that output, key or a condition on complete matches need."""
        across = [self._engine.conditions.across[number] for number in self._engine.residual]
        residual = {name for each in across for name in self._rows.attributes_of(each.expr)}
        wanted = {name.lower() for name in (*self._rows.needed, *residual)}
        return [name for name in self._engine.schema.names if name.lower() in wanted]

    # -- rows -------------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        oldest = int(batch.ts.min())
        if oldest < self._frontier:
            raise Defect(f"a row of time {oldest} came after the promise that none is older than {self._frontier}")
        batch, refused = self._accepted(batch)
        classes = self._engine.classify(batch.rows)
        relevant = self._engine.is_relevant(classes)
        self._totals["passed_over"] += int(np.count_nonzero(~relevant))
        if not relevant.all():
            batch, classes = batch.filter(relevant), classes[relevant]
        if batch.num_rows:
            own = [batch.column(name) for name in self._columns]
            columns = [*own, *self._engine.extra_columns(batch.rows, classes)]
            self._waiting.add(batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._stored_schema)))
        return refused

    def _accepted(self, batch: Batch) -> tuple[Batch, tuple[Quarantined, ...]]:
        keyed: Bools = np.ones(batch.num_rows, np.bool_)
        for name in self.query.key:
            if batch.column(name).null_count:
                keyed &= validity(batch.column(name))
        timed = batch.ts >= 0
        self._totals["null_keys"] += int(np.count_nonzero(~keyed))
        self._totals["bad_times"] += int(np.count_nonzero(keyed & ~timed))
        refused = ((~keyed, "null_key", _NO_KEY), (keyed & ~timed, "bad_timestamp", _NO_TIME))
        return batch.filter(keyed & timed), tuple(
            Quarantined(batch.filter(mask), reason, text) for mask, reason, text in refused if mask.any()
        )

    # -- time -------------------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return [*self._advance(mark.ts), mark] if mark.ts > self._frontier else ()
        if isinstance(mark, End):
            return self._advance(FOREVER) if self._frontier < FOREVER else ()
        return () if isinstance(mark, Punctuation) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        return ()

    def _advance(self, frontier: int) -> list[Batch]:
        horizon, self._frontier = Horizon(self._frontier, frontier), frontier
        released = self._waiting.release(frontier)
        held = self._kept.num_rows
        if not released.num_rows and not (self._due < frontier).any():
            self._forget_old(frontier)
            return []
        everything = Batch.concat([self._kept, released]) if held else released
        codes, number = trace_codes(everything, self.query.key)
        concerned = np.zeros(number, np.bool_)
        concerned[codes[held:]] = True
        concerned[codes[:held][self._due < frontier]] = True
        chosen = np.flatnonzero(concerned[codes])
        stored = everything if len(chosen) == everything.num_rows else everything.take(chosen)
        outcome = self._engine.search(stored, codes[chosen], number, horizon)
        self._keep(~concerned[codes[:held]], stored, outcome.keep, outcome.due)
        self._forget_old(frontier)
        return self._results(outcome.matches, stored)

    def _keep(self, idle: Bools, stored: Batch, keep: Int64s, due: Int64s) -> None:
        """Remember the events of traces that were not looked at, and of the others what was asked for."""
        rows = np.flatnonzero(keep)
        classes = int64s(stored.column(CLASS))[rows] & (keep[rows] | NAMED)
        column = stored.rows.schema.get_field_index(CLASS)
        taken = stored.take(rows)
        kept = taken.with_rows(taken.rows.set_column(column, self._stored_schema.field(column), pa.array(classes)))
        before = self._kept.num_rows
        self._due = np.concatenate([self._due[idle], due[rows]])
        self._kept = Batch.concat([self._kept.filter(idle), kept]) if idle.any() else kept
        if before or self._kept.num_rows:
            self._write()

    def _forget_old(self, frontier: int) -> None:
        """Drop events that no later match can reach back to."""
        if self.query.within is None or self.query.trace_ttl is not None or not self._kept.num_rows:
            return
        alive = self._kept.ts >= frontier - self.query.within
        if not alive.all():
            self._totals["expired"] += int(np.count_nonzero(~alive))
            self._kept, self._due = self._kept.filter(alive), self._due[alive]
            self._write()

    def _write(self) -> None:
        self._log.clear()
        if self._kept.num_rows:
            self._log.add(self._kept.stored())

    def _results(self, matches: MatchSet, stored: Batch) -> list[Batch]:
        for number in self._engine.residual:
            matches = matches.take(self._rows.truth(self._engine.conditions.across[number].expr, matches, stored))
        self._totals["matches"] += matches.number
        return [self._rows.rows(matches, stored)] if matches.number else []

    # -- state ------------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        meta = {
            "frontier": self._frontier,
            "totals": dict(self._totals),
            "next": [self._waiting.log.next, self._log.next],
        }
        return State(meta, {**self._waiting.log.stored(), **self._log.stored()})

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier, self._totals = meta["frontier"], dict(meta["totals"])
        self._waiting.reload(meta["next"][0], state.segments)
        self._log.reload(meta["next"][1], state.segments)
        self._kept = Batch.restored(self._log.whole(self._stored_schema)) if len(self._log) else Batch.empty(self._stored_schema)
        # When matches become due is derived: looking at every trace once more changes nothing and tells.
        self._due = np.full(self._kept.num_rows, NEVER, np.int64)

    def counters(self) -> Mapping[str, int]:
        logs = (self._waiting.log, self._log)
        return {
            "state_rows": sum(log.num_rows for log in logs),
            "state_bytes": sum(log.num_bytes for log in logs),
            "segments": sum(map(len, logs)),
            **self._totals,
        }
