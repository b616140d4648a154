"""Event patterns as an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools, group_codes, shared, validity
from penstock.errors import Defect
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput
from penstock.kernel.contracts import State
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import OnStaticUnsat
from penstock.metadata.constraints.registration import Registration
from penstock.metadata.constraints.supervision import ViolationPolicy
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, NEVER, Control, Elements, End, Heartbeat, Metadata, Quarantined
from penstock.model.event_patterns import Strategy
from penstock.model.punctuation import Punctuation
from penstock.operators.patterns._events import Horizon
from penstock.operators.patterns._traces import HOPELESS, MOVED, UNMATCHED
from penstock.operators.patterns.engine import CLASS, MatchSet, PatternEngine
from penstock.operators.patterns.output import MatchRows
from penstock.operators.patterns.tables import NAMED, TERMINAL, WATCHED
from penstock.operators.patterns.watching import KnownKeys, Sight, TraceWatch
from penstock.operators.segments import SegmentLog
from penstock.operators.waiting import Waiting

#: Columns of waiting rows under constraints: number of the type; in the shadow, bits of the class that would have been lost.
KIND, MASKED = pa.field("_kind", pa.int16()), pa.field("_masked", pa.int64())
_NO_KEY = "an event without key belongs to no trace"
_NO_TIME = "event times count from 0"
_NO_SLOTS = np.zeros(0, np.int64)


class _Codes(NamedTuple):
    """Numbers below `number` that tell traces apart, of kept and of new rows."""

    old: Int64s
    new: Int64s
    number: int


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
    constraints
        What the traces obey, by their process. Traces that cannot match (any more) are given up; the answer is the same.
    on_violation
        What happens when events do not: written down, refused with the batch, or only watched, giving nothing up.
    options, on_static_unsat
        How constraints are compiled, and whether a query that can never match is refused or has an empty answer.

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
        constraints: ConstraintSet | None = None,
        on_violation: ViolationPolicy = ViolationPolicy.RECORD,
        options: ConditionOptions | None = None,
        on_static_unsat: OnStaticUnsat = "error",
    ) -> None:
        self.query = query
        self._watch: TraceWatch | None = None
        if constraints is not None and query.key:
            keys = [input_schema.field(name) for name in query.key]
            self._watch = TraceWatch(query, constraints, on_violation, keys, options, on_static_unsat)
        self._engine = PatternEngine(query, input_schema, None if self._watch is None else self._watch.watched)
        self._rows = MatchRows(query, output or MatchOutput(), self._engine.schema, time_type or pa.int64())
        self.output_schema = self._rows.output_schema
        self._columns = self._needed_columns()
        own = [input_schema.field(input_schema.get_field_index(name)) for name in self._columns]
        if self._watch is not None:
            self._watch.shown = self._columns
        self._stored_schema = pa.schema([*own, *self._engine.extra_fields, *([MASKED] if self._is_shadow else [])])
        self._waiting = Waiting(pa.schema([*self._stored_schema, *([KIND] if self._watch is not None else [])]))
        self._log, self._traces = SegmentLog("kept"), SegmentLog("traces")
        self._kept, self._due = Batch.empty(self._stored_schema), np.zeros(0, np.int64)
        #: Slot of the trace of each kept row under constraints; the rows' codes too, where each trace that lasts has its rows.
        self._slots = self._kept_codes = _NO_SLOTS
        self._has_slots = self._watch is not None and not self._watch.forgets_by_silence
        self._has_slots = self._has_slots and query.strategy in (Strategy.ANY, Strategy.NEXT)
        self._frontier, self._is_written = NEVER, True
        self._totals = {"matches": 0, "null_keys": 0, "bad_times": 0, "passed_over": 0, "expired": 0}
        if self._watch is not None:
            self._totals["lost"] = 0

    @property
    def _is_shadow(self) -> bool:
        return self._watch is not None and self._watch.is_shadow

    @property
    def registration(self) -> Registration | None:
        """What was concluded from the constraints, for people."""
        return None if self._watch is None else self._watch.registration

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
        if self._watch is not None and self._watch.is_empty:
            return refused
        classes, kinds = self._engine.classify(batch.rows)
        relevant = self._engine.is_relevant(classes)
        self._totals["passed_over"] += int(np.count_nonzero(~relevant))
        if not relevant.all():
            batch, classes, kinds = batch.filter(relevant), classes[relevant], kinds[relevant]
        if batch.num_rows:
            columns = [*(batch.column(name) for name in self._columns), *self._engine.extra_columns(batch.rows, classes)]
            if self._watch is not None:
                nothing = [pa.array(np.zeros(batch.num_rows, np.int64))] if self._watch.is_shadow else []
                columns += [*nothing, pa.array(kinds.astype(np.int16))]
            self._waiting.add(batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._waiting.schema)))
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

    def _advance(self, frontier: int) -> list[Batch | Quarantined]:
        horizon, self._frontier = Horizon(self._frontier, frontier), frontier
        released = self._waiting.release(frontier)
        is_silent = self._watch is not None and self._watch.has_silent(frontier)
        if not released.num_rows and not is_silent and not (self._due < frontier).any():
            self._forget_old(frontier)
            return []
        if self._watch is not None:
            return self._search_under_watch(self._watch, released, horizon)
        codes, number = self._codes(released)
        held = self._kept.num_rows
        return self._search(released, _Codes(codes[:held], codes[held:], number), horizon)

    def _codes(self, released: Batch, *between: list[pa.Array]) -> tuple[Int64s, int]:
        """A number for the key of each row kept, of what stands between, and of each row released."""
        rows = self._kept.num_rows + released.num_rows
        parts = [[self._kept.column(name), released.column(name)] for name in self.query.key]
        for keys in between:
            parts = [[old, key, new] for (old, new), key in zip(parts, keys, strict=True)]
        codes, _, number = group_codes([pa.concat_arrays(part) for part in parts], rows)
        return codes, number

    def _search(self, released: Batch, codes: _Codes, horizon: Horizon, sight: Sight | None = None) -> list[Batch | Quarantined]:
        """Look through the traces of released rows and those that are due."""
        concerned = np.zeros(codes.number, np.bool_)
        concerned[codes.new] = True
        concerned[codes.old[self._due < horizon.new]] = True
        active, outlook, slots = concerned[codes.old], None, _NO_SLOTS
        idle = ~active
        if sight is not None and self._watch is not None:
            told = sight.told[self._slots]
            stays = told & HOPELESS == 0
            active |= told & MOVED != 0
            active, idle = active & stays, ~active & stays
            slots = np.concatenate([self._slots[active], sight.slots])
            outlook = self._watch.outlook(sight, slots)
        stored = Batch.concat([self._kept.filter(active), released]) if active.any() else released
        if not stored.num_rows:
            self._retain(idle)
            self._forget_old(horizon.new)
            return []
        traces = np.concatenate([codes.old[active], codes.new])
        outcome = self._engine.search(stored, traces, codes.number, horizon, outlook)
        self._keep(idle, stored, outcome.keep, outcome.due, slots)
        self._forget_old(horizon.new)
        return self._results(outcome.matches, stored)

    # -- constraints ------------------------------------------------------------------------------------------------------

    def _search_under_watch(self, watch: TraceWatch, released: Batch, horizon: Horizon) -> list[Batch | Quarantined]:
        """The same for what constraints leave over."""
        classes, kinds = int64s(released.column(CLASS)) & ~WATCHED, shared(int64s(released.column(KIND.name)))
        # A row of no trace has no slot: keys are compared from then on.
        self._has_slots = self._has_slots and (not len(kinds) or bool(kinds.min() >= 0))
        keys = None if self._has_slots else self._known_keys(watch, released)
        sight = watch.observe(released, classes, kinds, horizon.new, keys)
        self._is_written = False
        old, new = (self._slots, sight.slots) if keys is None else (self._kept_codes, keys.codes)
        codes = _Codes(old, new, watch.table.size if keys is None else len(keys.slots))
        if watch.is_shadow:
            released = _with_values(released, self._stored_schema, {CLASS: classes, MASKED.name: sight.masked})
            found = self._search(released, codes, horizon, sight)
        else:
            found = self._search_needed(released, classes & ~sight.masked, codes, horizon, sight)
        moved = watch.table.compacted()
        if moved is not None:
            self._slots = moved[self._slots]
        return [*found, *sight.refused]

    def _known_keys(self, watch: TraceWatch, released: Batch) -> KnownKeys:
        """Numbers for the keys of released rows; kept rows get theirs, and the slots of their traces."""
        held, (traces, of_traces) = self._kept.num_rows, watch.table.living()
        codes, number = self._codes(released, of_traces)
        slots = np.full(number, -1, np.int64)
        slots[codes[held : held + len(traces)]] = traces
        self._kept_codes = codes[:held]
        self._slots = slots[self._kept_codes]
        return KnownKeys(codes[held + len(traces) :], slots)

    def _search_needed(
        self, released: Batch, classes: Int64s, codes: _Codes, horizon: Horizon, sight: Sight
    ) -> list[Batch | Quarantined]:
        """Search rows that are of use; those of traces that cannot have matched yet are only kept where a leaf can take them."""
        told = sight.told[sight.slots]
        needed = self._engine.is_relevant(classes) & (told & HOPELESS == 0)
        resting = _NO_SLOTS
        if self._engine.may_rest:
            is_unmatched = told & UNMATCHED != 0
            useful = classes & ~(sight.early | NAMED | TERMINAL)
            resting = np.flatnonzero(needed & is_unmatched & (useful != 0))
            needed &= ~is_unmatched
        chosen = np.flatnonzero(needed)
        searched = _with_values(released.take(chosen), self._stored_schema, {CLASS: classes[chosen]})
        codes = codes._replace(new=codes.new[chosen])
        found = self._search(searched, codes, horizon, replace(sight, slots=sight.slots[chosen]))
        if len(resting):
            values = {CLASS: (classes & ~sight.early)[resting]}
            rows = _with_values(released.take(resting), self._stored_schema, values)
            self._kept = Batch.concat([self._kept, rows]) if self._kept.num_rows else rows
            self._due = np.concatenate([self._due, np.full(len(resting), FOREVER, np.int64)])
            self._slots = np.concatenate([self._slots, sight.slots[resting]])
        return found

    # -- what is kept -----------------------------------------------------------------------------------------------------

    def _keep(self, idle: Bools, stored: Batch, keep: Int64s, due: Int64s, slots: Int64s) -> None:
        """Remember the events of traces that were not looked at, and of the others what was asked for."""
        rows = np.flatnonzero(keep)
        classes = int64s(stored.column(CLASS))[rows] & (keep[rows] | NAMED)
        column = stored.rows.schema.get_field_index(CLASS)
        taken = stored.take(rows)
        kept = taken.with_rows(taken.rows.set_column(column, self._stored_schema.field(column), pa.array(classes)))
        self._due = np.concatenate([self._due[idle], due[rows]])
        if self._watch is not None:
            self._slots = np.concatenate([self._slots[idle], slots[rows]])
        self._kept = Batch.concat([self._kept.filter(idle), kept]) if idle.any() else kept
        self._is_written = False

    def _retain(self, chosen: Bools) -> None:
        if not chosen.all():
            self._kept, self._due, self._is_written = self._kept.filter(chosen), self._due[chosen], False
            self._slots = self._slots[chosen] if self._watch is not None else self._slots

    def _forget_old(self, frontier: int) -> None:
        """Drop events that no later match can reach back to."""
        if self.query.within is None or self.query.trace_ttl is not None or not self._kept.num_rows:
            return
        alive = self._kept.ts >= frontier - self._engine.reach
        self._totals["expired"] += int(np.count_nonzero(~alive))
        self._retain(alive)

    def _write(self) -> None:
        """Bring the segments up to date, once before they are read and not after every step."""
        if self._is_written:
            return
        self._is_written = True
        self._log.clear()
        if self._kept.num_rows:
            self._log.add(self._kept.stored())
        self._traces.clear()
        if self._watch is not None and len(self._watch.table):
            self._traces.add(self._watch.table.stored())

    def _results(self, matches: MatchSet, stored: Batch) -> list[Batch | Quarantined]:
        for number in self._engine.residual:
            matches = matches.take(self._rows.truth(self._engine.conditions.across[number].expr, matches, stored))
        self._totals["matches"] += matches.number
        if self._is_shadow and matches.number:
            of_no_use = int64s(stored.column(MASKED.name))[matches.rows] >> matches.atoms & 1
            self._totals["lost"] += int(np.count_nonzero(np.bitwise_or.reduceat(of_no_use, matches.starts[:-1])))
        return [self._rows.rows(matches, stored)] if matches.number else []

    # -- state ------------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        self._write()
        meta = {
            "frontier": self._frontier,
            "totals": dict(self._totals),
            "next": [self._waiting.log.next, self._log.next],
        }
        if self._watch is not None:
            meta |= {"watch": self._watch.totals, "types": list(self._watch.types), "traces": self._traces.next}
        return State(meta, {**self._waiting.log.stored(), **self._log.stored(), **self._traces.stored()})

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier, self._totals, self._is_written = meta["frontier"], dict(meta["totals"]), True
        self._waiting.reload(meta["next"][0], state.segments)
        self._log.reload(meta["next"][1], state.segments)
        self._kept = Batch.restored(self._log.whole(self._stored_schema)) if len(self._log) else Batch.empty(self._stored_schema)
        # When matches become due is derived: looking at every trace once more changes nothing and tells.
        self._due = np.full(self._kept.num_rows, NEVER, np.int64)
        if self._watch is not None and "watch" in meta:
            self._traces.reload(meta["traces"], state.segments)
            rows = self._traces[next(iter(self._traces))] if len(self._traces) else None
            self._watch.resume(meta["watch"], rows, meta["types"])
        if self._watch is not None:
            self._known_keys(self._watch, Batch.empty(self._stored_schema))
            # Constraints may be new, so that events are kept of traces nobody watched.
            self._has_slots = self._has_slots and bool((self._slots >= 0).all())

    def counters(self) -> Mapping[str, int]:
        self._write()
        logs = (self._waiting.log, self._log, self._traces)
        return {
            "state_rows": sum(log.num_rows for log in logs),
            "state_bytes": sum(log.num_bytes for log in logs),
            "segments": sum(map(len, logs)),
            "kept_events": self._kept.num_rows,
            **self._totals,
            **({} if self._watch is None else self._watch.totals),
        }


def _with_values(batch: Batch, schema: pa.Schema, values: Mapping[str, Int64s]) -> Batch:
    """The columns of a schema, some of them with other numbers."""
    columns = [pa.array(values[name]) if name in values else batch.column(name) for name in schema.names]
    return batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=schema))
