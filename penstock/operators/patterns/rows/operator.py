"""Row patterns as an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expressions.row_queries import RowQuery, output_of, stored_columns
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER, Elements
from penstock.model.schema import Schema
from penstock.operators.patterns._events import Horizon
from penstock.operators.patterns.by_time import SearchByTime
from penstock.operators.patterns.pattern_engine import trace_codes
from penstock.operators.patterns.rows.numbers import MatchNumbers
from penstock.operators.patterns.rows.output import RowOutput
from penstock.operators.patterns.rows.row_pattern_engine import RowMatches, RowPatternEngine, RowSearchOutcome
from penstock.operators.segments import SegmentLog, sizes_of, stored_in
from penstock.operators.waiting import Waiting, check_promise

#: What a kept row serves for.
_ROLES = "_roles"


class RowPatternMatch(SearchByTime):
    """Matches of a row pattern, as `MATCH_RECOGNIZE` of SQL defines them, once they are decided.

    Rows wait until the frontier has passed them, and join their partition in the order of time, ties by position. From each
    start the preferred match is sought by backtracking; while later rows could still change it, the partition waits. A
    repetition that may go on is decided by the first row that does not fit, or when the window is over.

    Parameters
    ----------
    query
        Pattern, conditions, where to go on, and what is shown.
    input_schema
        Columns of the rows.

    Notes
    -----
    State holds rows from the first undecided start of each partition on, as many before them as `PREV` may read, and a count
    per partition where matches are numbered. A partial match is not stored: it is sought anew when its partition goes on.
    Where no condition depends on the rows taken before, a place that has failed once is not tried again, so the search
    is linear in the rows; otherwise it may go through all ways to take them, up to `most_steps`.

    A match carries the time at which it is decided: of the last row that was looked at, or of the end of the window. What an
    earlier start of the partition leaves open keeps later ones waiting. Punctuations end here.

    References
    ----------
    [iso2016] ISO/IEC TR 19075-5:2016, Row Pattern Recognition in SQL.

    Examples
    --------
    >>> from penstock.expressions.nodes import Column
    >>> from penstock.expressions.row_references import FIRST, RowReference
    >>> from penstock.model.elements import Heartbeat
    >>> from penstock.model.row_pattern_text import parse_row_pattern
    >>> first = RowReference("a", "x", FIRST)
    >>> query = RowQuery(parse_row_pattern("a{2}"), ("k",), "t", measures=(("x", Column(str(first))),), references=(first,))
    >>> rows = pa.RecordBatch.from_pydict({"k": [7, 7, 7], "x": [5, 6, 8], "t": [1, 2, 3]})
    >>> search = RowPatternMatch(query, rows.schema)
    >>> search.on_batch(0, Batch(rows, np.array([1, 2, 3]), np.array([0, 1, 2])))
    ()
    >>> found, _ = search.on_metadata(0, Heartbeat(5))
    >>> found.rows.to_pylist()
    [{'k': 7, 'x': 5}]
    """

    def __init__(self, query: RowQuery, input_schema: pa.Schema) -> None:
        self.query = query
        given = Schema.from_arrow(input_schema, "the stream")
        schema = given.select(stored_columns(query, given))
        self._engine = RowPatternEngine(query, schema)
        self._rows = RowOutput(query, schema, output_of(query, given))
        self.output_schema = self._rows.output_schema
        self._columns = list(schema.names)
        self._stored_schema = pa.schema([*schema.arrow, pa.field(_ROLES, pa.int8())])
        self._waiting = Waiting(schema.arrow)
        self._log = SegmentLog("kept")
        self._numbers = MatchNumbers([schema.arrow.field(schema.index(name)) for name in query.key])
        self._kept, self._due = Batch.empty(self._stored_schema), np.zeros(0, np.int64)
        self._frontier = NEVER
        self._totals = {"matches": 0}

    # -- rows -------------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        check_promise(batch, self._frontier)
        columns = [batch.column(name) for name in self._columns]
        self._waiting.add(batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._waiting.schema)))
        return ()

    def _advance(self, frontier: int) -> list[Batch]:
        horizon, self._frontier = Horizon(self._frontier, frontier), frontier
        released, held = self._waiting.release(frontier), self._kept.num_rows
        is_due = self._due < frontier if frontier != FOREVER else np.ones(held, np.bool_)
        if not released.num_rows and not is_due.any():
            return []
        everything = Batch.concat([self._kept, self._fresh(released)])
        codes, number = trace_codes(everything, self.query.key)
        concerned = np.zeros(number, np.bool_)
        concerned[codes[held:]] = True
        concerned[codes[:held][is_due]] = True
        chosen = np.flatnonzero(concerned[codes])
        stored = everything if len(chosen) == everything.num_rows else everything.take(chosen)
        roles = stored.column(_ROLES).to_numpy(zero_copy_only=False)
        outcome = self._engine.search(stored, codes[chosen], number, roles, horizon)
        self._keep(np.flatnonzero(~concerned[codes[:held]]), stored, outcome)
        return self._results(outcome.matches, stored)

    def _fresh(self, released: Batch) -> Batch:
        columns = [*released.rows.columns, pa.array(np.zeros(released.num_rows, np.int8))]
        return released.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._stored_schema))

    def _keep(self, idle: Int64s, stored: Batch, outcome: RowSearchOutcome) -> None:
        """Remember the rows of partitions that were not looked at, and of the others what later matches need."""
        rows = np.flatnonzero(outcome.keep)
        taken = stored.take(rows)
        marked = taken.rows.set_column(len(self._columns), self._stored_schema.field(_ROLES), pa.array(outcome.roles[rows]))
        before = self._kept.num_rows
        self._due = np.concatenate([self._due[idle], outcome.due[rows]])
        self._kept = Batch.concat([self._kept.take(idle), taken.with_rows(marked)])
        if before or self._kept.num_rows:
            self._log.clear()
            if self._kept.num_rows:
                self._log.add(self._kept.stored())

    def _results(self, matches: RowMatches, stored: Batch) -> list[Batch]:
        if not matches.number:
            return []
        real = np.flatnonzero(~matches.is_unmatched)
        self._totals["matches"] += len(real)
        #: A row that is in no match has no number.
        numbers = np.zeros(matches.number, np.int64)
        if self.query.numbers_matches:
            first = pa.array(matches.order[matches.places[matches.starts[real]]])
            keys = [stored.column(name).take(first) for name in self.query.key]
            numbers[real] = self._numbers.numbered(keys, len(real))
        order = np.lexsort((matches.ids, matches.decided))
        return [self._rows.rows(matches.take(order), stored, numbers[order])]

    # -- state ------------------------------------------------------------------------------------------------------------

    @property
    def _logs(self) -> tuple[SegmentLog, ...]:
        return (self._waiting.log, self._log, self._numbers.log)

    def snapshot(self) -> State:
        meta = {"frontier": self._frontier, "totals": dict(self._totals), "next": [log.next for log in self._logs]}
        return State(meta, stored_in(self._logs))

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier, self._totals = meta["frontier"], dict(meta["totals"])
        self._waiting.reload(meta["next"][0], state.segments)
        self._log.reload(meta["next"][1], state.segments)
        self._numbers.log.reload(meta["next"][2], state.segments)
        self._kept = Batch.restored(self._log.whole(self._stored_schema)) if len(self._log) else Batch.empty(self._stored_schema)
        # When a match becomes due is derived: looking at every partition once more changes nothing and tells.
        self._due = np.full(self._kept.num_rows, NEVER, np.int64)

    def counters(self) -> Mapping[str, int]:
        return {**sizes_of(self._logs), **self._totals}
