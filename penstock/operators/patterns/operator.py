"""Event patterns as an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools, group_codes, shared
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput
from penstock.kernel.contracts import State
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import OnStaticUnsat
from penstock.metadata.constraints.registration import Registration
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, NEVER, Elements, Quarantined
from penstock.model.event_patterns import Strategy
from penstock.operators.patterns._events import Horizon
from penstock.operators.patterns._traces import HOPELESS, MOVED, sift
from penstock.operators.patterns.acceptance import accepted
from penstock.operators.patterns.by_time import SearchByTime
from penstock.operators.patterns.match_set import MatchSet
from penstock.operators.patterns.output import MatchRows
from penstock.operators.patterns.pattern_engine import CLASS, PatternEngine, trace_codes
from penstock.operators.patterns.repeats import Repeats
from penstock.operators.patterns.tables import NAMED, WATCHED
from penstock.operators.patterns.trace_table import KnownKeys
from penstock.operators.patterns.watching import Sight, TraceWatch
from penstock.operators.segments import SegmentLog, sizes_of, stored_in
from penstock.operators.waiting import Waiting, check_promise

#: Columns of waiting rows under constraints: number of the type; in the shadow, bits of the class that would have been lost.
KIND, MASKED = pa.field("_kind", pa.int16()), pa.field("_masked", pa.int64())
_NO_ROWS = np.zeros(0, np.int64)


class _Step(NamedTuple):
    """Rows of one search: those kept before, then those released; their classes, and numbers that tell traces apart.

    `new` are the released rows to be searched, `resting` those only to be kept, `slots` those of all rows under constraints.
    """

    rows: Batch
    classes: Int64s
    codes: Int64s
    number: int
    new: Int64s
    resting: Int64s
    slots: Int64s


class PatternMatch(SearchByTime):
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
    streams
        Streams that a union with `renumber` has merged into the input.

    Notes
    -----
    An event of a type that neither the query nor its constraints name is counted (`events_unknown_type`) and otherwise passed
    over, except that it breaks contiguity. State holds events, no partial matches: stacks and runs are derived and made anew
    for the traces that go on. Punctuations end here, because the columns of a match are not those of an event.

    References
    ----------
    [wu2006] Wu, Diao, Rizvi. High-Performance Complex Event Processing over Streams. SIGMOD 2006.
    [agrawal2008] Agrawal, Diao, Gyllstrom, Immerman. Efficient Pattern Matching over Event Streams. SIGMOD 2008.

    Examples
    --------
    >>> from penstock.model.elements import Heartbeat
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
        streams: int = 1,
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
        self._repeats = Repeats(query, self._stored_schema, streams) if query.id_column else None
        self._kept, self._due = Batch.empty(self._stored_schema), np.zeros(0, np.int64)
        #: Slot of the trace of each kept row under constraints; the rows' codes too, where each trace that lasts has its rows.
        self._slots = self._kept_codes = _NO_ROWS
        self._has_slots = self._watch is not None and not self._watch.forgets_by_silence
        self._has_slots = self._has_slots and query.strategy in (Strategy.ANY, Strategy.NEXT)
        self._frontier, self._is_written = NEVER, True
        counted = ["matches", "null_keys", "passed_over", "events_unknown_type", "expired", "peak_kept_events"]
        self._totals = dict.fromkeys([*counted, *(["lost", "reasoning_ns"] if self._watch is not None else [])], 0)
        self._clock: Callable[[], int] | None = None

    @property
    def _is_shadow(self) -> bool:
        return self._watch is not None and self._watch.is_shadow

    @property
    def registration(self) -> Registration | None:
        """What was concluded from the constraints, for people."""
        return None if self._watch is None else self._watch.registration

    @property
    def working_bytes(self) -> int:
        """Memory of what is derived to watch traces, and stored in another form; without constraints there is none."""
        return 0 if self._watch is None else self._watch.table.nbytes

    def _needed_columns(self) -> list[str]:
        """Columns of a row that output, key or a condition on complete matches need."""
        across = [self._engine.conditions.across[number] for number in self._engine.residual]
        residual = {name for each in across for name in self._rows.attributes_of(each.expr)}
        wanted = {name.lower() for name in (*self._rows.needed, *residual, self.query.id_column)}
        return [name for name in self._engine.schema.names if name.lower() in wanted]

    # -- rows -------------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        check_promise(batch, self._frontier)
        batch, refused = accepted(batch, self.query.key, self._totals)
        if self._watch is not None and self._watch.is_empty:
            return refused
        relevant, classes, kinds, unknown = self._engine.relevant(batch.rows)
        self._totals["events_unknown_type"] += unknown
        self._totals["passed_over"] += batch.num_rows - len(relevant)
        if len(relevant) < batch.num_rows:
            batch = batch.take(relevant)
        if batch.num_rows:
            columns = [*(batch.column(name) for name in self._columns), *self._engine.extra_columns(batch.rows, classes)]
            if self._watch is not None:
                nothing = [pa.array(np.zeros(batch.num_rows, np.int64))] if self._watch.is_shadow else []
                columns += [*nothing, pa.array(kinds.astype(np.int16))]
            self._waiting.add(batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._waiting.schema)))
        return refused

    # -- time -------------------------------------------------------------------------------------------------------------

    def judge_late(self, refused: Quarantined) -> Sequence[Quarantined]:
        """Late events of traces that constraints gave up, apart: what was concluded without them may be wrong."""
        return [refused] if self._watch is None or refused.reason != "late" else self._watch.judge_late(refused)

    def use_clock(self, clock: Callable[[], int]) -> None:
        """The host's nanoseconds: how long constraints take is reported."""
        self._clock = clock

    def _advance(self, frontier: int) -> list[Batch | Quarantined]:
        found = self._searched(frontier)
        self._note_peak()
        return found

    def _note_peak(self) -> None:
        self._totals["peak_kept_events"] = max(self._totals["peak_kept_events"], self._kept.num_rows)

    def _searched(self, frontier: int) -> list[Batch | Quarantined]:
        horizon, self._frontier = Horizon(self._frontier, frontier), frontier
        released = self._waiting.release(frontier)
        if self._repeats is not None:
            released = self._repeats.without(released, int64s(released.column(CLASS)), frontier)
        is_silent = self._watch is not None and self._watch.has_silent(frontier)
        if not released.num_rows and not is_silent and not (self._due < frontier).any():
            self._forget_old(frontier)
            return []
        if self._watch is not None:
            return self._search_under_watch(self._watch, released, horizon)
        rows, held = self._with_kept(released), self._kept.num_rows
        codes, number = trace_codes(rows, self.query.key)
        classes = int64s(rows.column(CLASS))
        return self._search(_Step(rows, classes, codes, number, np.arange(held, rows.num_rows), _NO_ROWS, _NO_ROWS), horizon)

    def _with_kept(self, released: Batch) -> Batch:
        """Kept rows and those released, in one batch."""
        return Batch.concat([self._kept, released]) if self._kept.num_rows else released

    def _search(self, step: _Step, horizon: Horizon, sight: Sight | None = None) -> list[Batch | Quarantined]:
        """Look through the traces of new rows and those that are due."""
        old = step.codes[: self._kept.num_rows]
        concerned = np.zeros(step.number, np.bool_)
        concerned[step.codes[step.new]] = True
        concerned[old[self._due < horizon.new]] = True
        active = concerned[old]
        idle, chosen, outlook = ~active, step.new, None
        if sight is not None:
            told = sight.told[step.slots[: len(old)]]
            stays = told & HOPELESS == 0
            active |= told & MOVED != 0
            active, idle = active & stays, ~active & stays
        if active.any():
            chosen = np.concatenate([np.flatnonzero(active), step.new])
        if not len(chosen):
            self._keep(step, idle, chosen, chosen, chosen)
            self._forget_old(horizon.new)
            return []
        if sight is not None and self._watch is not None:
            outlook = self._watch.outlook(sight, step.slots[chosen])
        codes, classes = step.codes, step.classes
        if len(chosen) < len(codes):
            codes, classes = codes[chosen], classes[chosen]
        outcome = self._engine.search(step.rows, chosen, classes, codes, step.number, horizon, outlook)
        rows = np.flatnonzero(outcome.keep)
        self._keep(step, idle, chosen[rows], classes[rows] & (outcome.keep[rows] | NAMED), outcome.due[rows])
        self._forget_old(horizon.new)
        return self._results(outcome.matches, step.rows)

    # -- constraints ------------------------------------------------------------------------------------------------------

    def _search_under_watch(self, watch: TraceWatch, released: Batch, horizon: Horizon) -> list[Batch | Quarantined]:
        """The same for what constraints leave over."""
        new, kinds = int64s(released.column(CLASS)) & ~WATCHED, shared(int64s(released.column(KIND.name)))
        # A row of no trace has no slot: keys are compared from then on.
        self._has_slots = self._has_slots and (not len(kinds) or bool(kinds.min() >= 0))
        keys = None if self._has_slots else self._known_keys(watch, released)
        began = 0 if self._clock is None else self._clock()
        sight = watch.observe(released, new, kinds, horizon.new, keys)
        self._totals["reasoning_ns"] += 0 if self._clock is None else self._clock() - began
        self._is_written = False
        columns = released.rows.columns[:-1]  # the last one is the type
        if watch.is_shadow:
            columns[-1] = pa.array(sight.masked)
        stored = released.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._stored_schema))
        rows, held = self._with_kept(stored), self._kept.num_rows
        slots = np.concatenate([self._slots, sight.slots])
        codes = slots if keys is None else np.concatenate([self._kept_codes, keys.codes])
        searched, resting = np.arange(len(new)), _NO_ROWS
        if not watch.is_shadow:
            ignored, may_rest = self._engine.ignored, self._engine.may_rest
            searched, resting = sift(new, sight.masked, sight.early, sight.slots, sight.told, ignored, may_rest)
        classes = np.concatenate([int64s(self._kept.column(CLASS)), new])
        number = watch.table.size if keys is None else len(keys.slots)
        found = self._search(_Step(rows, classes, codes, number, searched + held, resting + held, slots), horizon, sight)
        self._cut_suffixes(watch)
        moved = watch.table.compacted()
        if moved is not None:
            self._slots = moved[self._slots]
        return [*found, *sight.refused]

    def _cut_suffixes(self, watch: TraceWatch) -> None:
        """Forget kept events that no later one can complete."""
        if not watch.cuts_suffixes or not self._kept.num_rows:
            return
        classes = np.array(int64s(self._kept.column(CLASS)))
        if watch.cut(classes, self._kept.ts, self._slots):
            columns = self._kept.rows.columns
            columns[len(self._columns)] = pa.array(classes)
            self._kept = self._kept.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._stored_schema))
            stays = classes & ~NAMED != 0
            watch.counts["cut_events"] += int(np.count_nonzero(~stays))
            self._retain(stays)
            self._is_written = False

    def _known_keys(self, watch: TraceWatch, released: Batch) -> KnownKeys:
        """Numbers for the keys of released rows; kept rows get theirs, and the slots of their traces."""
        held, (traces, of_traces) = self._kept.num_rows, watch.table.living()
        parts = zip(self.query.key, of_traces, strict=True)
        columns = [pa.concat_arrays([self._kept.column(name), key, released.column(name)]) for name, key in parts]
        codes, _, number = group_codes(columns)
        slots = np.full(number, -1, np.int64)
        slots[codes[held : held + len(traces)]] = traces
        self._kept_codes = codes[:held]
        self._slots = slots[self._kept_codes]
        return KnownKeys(codes[held + len(traces) :], slots)

    # -- what is kept -----------------------------------------------------------------------------------------------------

    def _keep(self, step: _Step, idle: Bools, rows: Int64s, classes: Int64s, due: Int64s) -> None:
        """Remember the events of traces that were not looked at, of the others some rows for some bits, and those that rest."""
        if not len(rows) and not len(step.resting) and len(idle) == np.count_nonzero(idle):
            return
        kept = np.concatenate([np.flatnonzero(idle), rows, step.resting])
        others = [step.classes[: len(idle)][idle], classes, step.classes[step.resting]]
        self._due = np.concatenate([self._due[idle], due, np.full(len(step.resting), FOREVER, np.int64)])
        self._slots = step.slots[kept] if self._watch is not None else _NO_ROWS
        taken = step.rows.take(kept)
        columns = taken.rows.columns
        columns[len(self._columns)] = pa.array(np.concatenate(others))
        self._kept = taken.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._stored_schema))
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
        if self.query.dedup_branches:
            matches = matches.once_per_events()
        self._totals["matches"] += matches.number
        if self._is_shadow and matches.number:
            of_no_use = int64s(stored.column(MASKED.name))[matches.rows] >> matches.atoms & 1
            self._totals["lost"] += int(np.count_nonzero(np.bitwise_or.reduceat(of_no_use, matches.starts[:-1])))
        return [self._rows.rows(matches, stored)] if matches.number else []

    @property
    def _logs(self) -> list[SegmentLog]:
        """Everything that is stored, up to date."""
        self._write()
        if self._repeats is None:
            return [self._waiting.log, self._log, self._traces]
        self._repeats.write()
        return [self._waiting.log, self._log, self._traces, self._repeats.log]

    # -- state ------------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        logs = self._logs
        meta = {"frontier": self._frontier, "totals": dict(self._totals), "next": [log.next for log in logs[:2]]}
        if self._repeats is not None:
            meta |= {"repeats": [self._repeats.log.next, self._repeats.passed_over]}
        if self._watch is not None:
            meta |= {"watch": self._watch.totals, "types": list(self._watch.types), "traces": self._traces.next}
        return State(meta, stored_in(logs))

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier, self._totals, self._is_written = meta["frontier"], self._totals | dict(meta["totals"]), True
        self._waiting.reload(meta["next"][0], state.segments)
        self._log.reload(meta["next"][1], state.segments)
        self._kept = Batch.restored(self._log.whole(self._stored_schema)) if len(self._log) else Batch.empty(self._stored_schema)
        self._note_peak()
        # When matches become due is derived: looking at every trace once more changes nothing and tells.
        self._due = np.full(self._kept.num_rows, NEVER, np.int64)
        if self._repeats is not None and "repeats" in meta:
            next_number, self._repeats.passed_over = meta["repeats"]
            self._repeats.reload(next_number, state.segments)
        if self._watch is not None and "watch" in meta:
            self._traces.reload(meta["traces"], state.segments)
            rows = self._traces[next(iter(self._traces))] if len(self._traces) else None
            self._watch.resume(meta["watch"], rows, meta["types"])
        if self._watch is not None:
            self._known_keys(self._watch, Batch.empty(self._stored_schema))
            # Constraints may be new, so that events are kept of traces nobody watched.
            self._has_slots = self._has_slots and bool((self._slots >= 0).all())

    def counters(self) -> Mapping[str, int]:
        return {
            **sizes_of(self._logs),
            "kept_events": self._kept.num_rows,
            **self._totals,
            **({} if self._repeats is None else {"repeated": self._repeats.passed_over}),
            **({} if self._watch is None else self._watch.totals),
        }
