"""What a search reports about constraints: probes, traces by what became of them, what failed them, the most events kept, time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, groupby
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pattern_cases import SCHEMA, events, query
from test_constrained_patterns import ALPHABET, OPTIONS
from test_constraint_examples import EP1, Played
from test_trace_slots import POLICIES, RULES, endless_queries, tapes

from penstock.errors import NeverMatches
from penstock.expressions.event_queries import EventQuery
from penstock.kernel.contracts import State, Steered, Timed
from penstock.metadata.constraints.clauses import Constraint, at_most_once, exclusive, horn, prior, require, terminal
from penstock.metadata.constraints.conditions import ConditionOptions, FailingConditions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import TraceEvent
from penstock.model.batch import Batch
from penstock.model.elements import Heartbeat
from penstock.model.event_patterns import EventOrder, either, seq
from penstock.operators.patterns import leaf_masks
from penstock.operators.patterns._constraints import REASONS
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.constraint_reference import TraceState, TraceStatus, Tracker
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of, run, run_with_restarts, stream_of
from penstock.testing.tapes import batch_cuts

#: So many types that a set of them needs two words.
MANY_TYPES = (*(f"other{number}" for number in range(70)), *ALPHABET)


def by_reason(counters: Any) -> dict[str, int]:
    return {reason: counters[f"failed_{reason}"] for reason in REASONS if counters[f"failed_{reason}"]}


def by_type(counters: Any) -> dict[str, int]:
    return {name.removeprefix("failed_at:"): found for name, found in counters.items() if name.startswith("failed_at:")}


# -- worked examples ------------------------------------------------------------------------------------------------------

ENDLESS: dict[str, Any] = {"within": None, "terminal": ("Z",)}
EXACT = ConditionOptions(exact=True)
FAILING: dict[str, tuple[str, Callable[[], Played]]] = {
    "global": ("L", lambda: Played(query(EP1, "q.p > 200"), "o1 i2 l3", exclusive("L", "R"))),
    "absence": ("X", lambda: Played(query(seq("E", "F"), **ENDLESS), "x1", prior("K", "X"), require("E", "K"))),
    "local": ("S", lambda: Played(query(EP1, "q.p > 200"), "o1 q2 s3", prior("Q", "S"), prices=[0, 150, 0])),
    "reflexive": ("B", lambda: Played(query(seq("A", "B"), "B.p > 200"), "a1 b2", at_most_once("B"), prices=[0, 150])),
    "joint": ("B", lambda: Played(query(seq("X", "C")), "x1 a2 b3", horn("A", "B", "C"))),
    "exact": ("Y", lambda: Played(query(seq("A", "B"), trace_ttl=50), "y1", *NO_PLACE, options=EXACT)),
}
#: After a Y there must be a W, and it has no place.
NO_PLACE = (require("Y", "W"), prior("B", "W"), prior("W", "A"))


@pytest.mark.parametrize("reason", REASONS)
def test_a_failed_trace_is_counted_where_its_condition_and_its_trigger_are(reason: str) -> None:
    trigger, play = FAILING[reason]
    counters = play().search.counters()
    assert (by_reason(counters), by_type(counters), counters["failed_traces"]) == ({reason: 1}, {trigger: 1}, 1)


def test_a_branch_that_failed_before_is_not_what_fails_the_query() -> None:
    sought = query(seq("A", either("B", "C")))
    played = Played(sought, "a1 x2 y3", exclusive("X", "B"), prior("C", "Y"))
    assert (by_reason(played.search.counters()), by_type(played.search.counters())) == ({"local": 1}, {"Y": 1})


def test_of_simultaneous_events_the_one_that_fails_the_query_counts() -> None:
    sought = query(seq("A", either("B", "C")))
    played = Played(sought, "a1 x2 y2", exclusive("X", "B"), prior("C", "Y"))
    assert (by_reason(played.search.counters()), by_type(played.search.counters())) == ({"local": 1}, {"Y": 1})


def test_probes_are_the_leaves_of_live_traces_that_events_are_offered_to() -> None:
    # One leaf takes the first event, two the second and the third; the trace is then given up.
    played = Played(query(seq("A", "B")), "a1 a2 c3 a4", exclusive("B", "C"))
    assert (played["probes"], played["skipped"]) == (1 + 2 + 2, 1)


def test_live_watched_and_ended_traces_of_three_orders() -> None:
    rules = ConstraintSet(("id",), ("A", "B", "C", "Z"), (exclusive("B", "C"), terminal("Z")))
    search = PatternMatch(query(seq("A", "B"), **ENDLESS), SCHEMA, constraints=rules)
    search.on_batch(0, batch_of(events("a1 a2 a3 c4 z5 a6", ids=[1, 2, 3, 1, 2, 2]), SCHEMA))
    search.on_metadata(0, Heartbeat(9))
    found = search.counters()
    # The first was given up and is remembered, the second ended and its key came again, the third goes on.
    assert {name: found[name] for name in ("live_traces", "watched_traces", "failed_traces", "ended_traces")} == {
        "live_traces": 2,
        "watched_traces": 3,
        "failed_traces": 1,
        "ended_traces": 1,
    }


def test_the_most_events_kept_are_remembered() -> None:
    played = Played(query(seq("A", "B", "C")), "a1 b2 a3 x4 a5 c6", prior("B", "X"))
    assert played["kept_events"] < max(played.kept.values()) == played["peak_kept_events"] == 3
    plain = PatternMatch(query(seq("A", "B"), within=3), SCHEMA)
    run(plain, stream_of(events("a1 a2 a3 b9"), SCHEMA, range(4)))
    assert (plain.counters()["kept_events"], plain.counters()["peak_kept_events"]) == (0, 2)


def test_reasoning_is_timed_by_the_clock_of_the_host() -> None:
    rules = ConstraintSet(("id",), ("A", "B", "C"), (exclusive("B", "C"),))
    search = PatternMatch(query(seq("A", "B")), SCHEMA, constraints=rules)
    assert isinstance(search, Timed)
    assert not isinstance(search, Steered)
    ticks = count(0, 5)
    search.use_clock(lambda: next(ticks))
    run(search, stream_of(events("a1 a2 c3"), SCHEMA, (1, 2)))
    assert search.counters()["reasoning_ns"] == 3 * 5


def test_a_watched_trace_takes_few_bytes_beside_what_is_stored() -> None:
    rules = ConstraintSet(("id",), ("A", "B", "C", "Z"), (exclusive("B", "C"),))
    search, plain = (PatternMatch(query(seq("A", "B"), **ENDLESS), SCHEMA, constraints=each) for each in (rules, None))
    count = 20_000
    values = {"type": pa.array(["A"] * count), "id": pa.array(np.arange(count))}
    columns = [values.get(item.name, pa.nulls(count, item.type)) for item in SCHEMA]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    search.on_batch(0, Batch(rows, np.arange(count), np.arange(count)))
    search.on_metadata(0, Heartbeat(count))
    assert search.counters()["watched_traces"] == count
    assert search.working_bytes < 50 * count
    assert plain.working_bytes == 0


NEW = ("ended_traces", "probes", "peak_kept_events", "reasoning_ns")


def test_counters_outlive_a_restart_and_an_older_state_begins_them_at_nothing() -> None:
    rules = ConstraintSet(("id",), ("A", "B", "C", "Z"), (exclusive("B", "C"),))

    def make() -> PatternMatch:
        return PatternMatch(query(seq("A", "B"), **ENDLESS), SCHEMA, constraints=rules)

    search = make()
    run(search, stream_of(events("a1 c2 a3 z4", ids=[1, 1, 2, 2]), SCHEMA)[:1])
    search.on_metadata(0, Heartbeat(9))
    state, again = search.snapshot(), make()
    again.restore(state)
    assert again.counters() == search.counters()
    again.on_batch(0, batch_of([replace(row, ts=row.ts + 10) for row in events("a1 c2", ids=[5, 5])], SCHEMA))
    again.on_metadata(0, Heartbeat(30))
    assert (by_reason(again.counters()), by_type(again.counters())) == ({"global": 2}, {"C": 2})
    kept = {part: {name: value for name, value in state.meta[part].items() if name not in NEW} for part in ("totals", "watch")}
    watched = kept["watch"]
    kept["watch"] = {name: watched[name] for name in watched if name == "failed_traces" or not name.startswith("failed_")}
    older = make()
    older.restore(State({**state.meta, **kept}, state.segments))
    found = older.counters()
    assert (found["failed_traces"], by_reason(found), by_type(found)) == (1, {}, {})
    assert {found[name] for name in NEW} == {0}


# -- against the reference --------------------------------------------------------------------------------------------


def blamed(conditions: FailingConditions, before: TraceState, after: TraceState, group: Sequence[TraceEvent]) -> tuple[str, str]:
    """Kind of the condition and name of the type that failed a trace: the first after which the query has failed."""
    failed, alive = before.failed, before.alive
    parts = range(len(conditions.graph.partitions))
    for kind in (event.event_type for event in group):
        own = sum(1 << leaf for leaf, name in enumerate(conditions.graph.types) if conditions.theory.code[name] == kind)
        unmatched = [conditions.local[kind][part] & ~after.matched for part in parts]
        joint = [conditions.joint[number] for number in conditions.joint_of[kind]]
        gone = after.dead & ~after.seen
        holding = [each for each in joint if not (each.explanation.present & ~after.seen or each.explanation.absent & ~gone)]
        said = {
            "global": conditions.plus[kind],
            "absence": sum(1 << part for part in parts if conditions.minus[kind][part] & ~after.seen),
            "local": sum(1 << part for part in parts if unmatched[part] & ~own),
            "reflexive": sum(1 << part for part in parts if unmatched[part] & own),
            "joint": 0,
        }
        for reason, found in said.items():
            failed |= found
            for each in holding if reason == "joint" else ():
                failed, alive = failed | each.partitions, alive & ~each.terms
            settled, alive = conditions.settled(failed, alive)
            failed |= settled
            if failed & 1:
                return reason, conditions.theory.names[kind]
    return "exact", conditions.theory.names[group[-1].event_type]


def groups_of(sought: EventQuery, trace: Sequence[Row]) -> list[list[Row]]:
    """Events of one time together, or each for itself."""

    def moment(row: Row) -> tuple[int, int]:
        return row.ts, row.pos if sought.order is EventOrder.TOTAL else 0

    return [list(group) for _, group in groupby(trace, key=moment)]


def followed(search: PatternMatch, rows: Sequence[Row], exhaustion: bool) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Counters, failures by condition and failures by type: one trace after the other, one group of events after the other."""
    watch, sought = search._watch, search.query
    assert watch is not None
    tracker, graph = Tracker(watch.conditions, exhaustion), watch.conditions.graph
    wanted = {*watch.watched.relevant, *graph.types, *sought.terminal}
    counted, reasons, triggers = Counter[str](), Counter[str](), Counter[str]()
    holder = [next(p for p, part in enumerate(graph.partitions) if part.leaves >> leaf & 1) for leaf in range(graph.leaf_count)]
    for key in {row.values[sought.key[0]] for row in rows}:
        state: TraceState | None = None
        for group in groups_of(sought, [row for row in rows if row.values[sought.key[0]] == key and row.values["type"] in wanted]):
            state = state or tracker.start()
            said = [tracker.event(row.values["type"], [] if sought.conditions and fails(row) else None) for row in group]
            after = tracker.advance(state, said)
            if state.status is TraceStatus.LIVE:
                is_open = [not graph.before[n] & ~state.matched and not state.failed >> p & 1 for n, p in enumerate(holder)]
                counted["probes"] += len(said) * sum(is_open)
                counted["exhausted_traces"] += after.status is TraceStatus.EXHAUSTED
                if after.status is TraceStatus.FAILED:
                    counted["failed_traces"] += 1
                    reason, trigger = blamed(watch.conditions, state, after, said)
                    reasons[reason] += 1
                    triggers[trigger] += 1
            else:
                counted["skipped"] += len(said)
            # A constraint that ends a trace ends it once; what is over is forgotten, and its key names another trace.
            is_over = any(row.values["type"] in sought.terminal for row in group)
            has_ended = after.status is TraceStatus.ENDED
            counted["ended_traces"] += state.status is not TraceStatus.ENDED if has_ended else is_over
            state = None if is_over else after
        counted["watched_traces"] += state is not None
        counted["live_traces"] += state is not None and state.status is TraceStatus.LIVE
    return counted, reasons, triggers


def fails(row: Row) -> bool:
    """Whether an event does not meet the one condition that queries here have."""
    return bool(row.values["type"] == "A" and row.values["p"] <= 0)


COUNTED = ("probes", "failed_traces", "exhausted_traces", "skipped", "ended_traces", "watched_traces", "live_traces")


def check_counters(
    sought: EventQuery, rows: list[Row], drawn: list[Constraint], chosen: ConditionOptions, types: Any, cuts: Any
) -> None:
    rules = ConstraintSet(sought.key, types, tuple(drawn))
    try:
        search = PatternMatch(sought, SCHEMA, constraints=rules, options=chosen)
    except NeverMatches:
        return
    run(search, stream_of(rows, SCHEMA, cuts))
    found = search.counters()
    counted, reasons, triggers = followed(search, rows, chosen.exhaustion)
    assert {name: found[name] for name in COUNTED} == {name: counted[name] for name in COUNTED}
    assert (by_reason(found), by_type(found)) == (dict(reasons), dict(triggers))


TYPES = st.sampled_from([ALPHABET, ALPHABET, MANY_TYPES])


@given(endless_queries(), tapes(25), RULES, OPTIONS, TYPES, batch_cuts(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_counters_are_those_of_the_reference(sought, rows, drawn, chosen, types, cuts, has_table):
    with pytest.MonkeyPatch.context() as patched:
        if not has_table:
            patched.setattr(leaf_masks, "_FEW", 0)
        check_counters(sought, rows, drawn, replace(chosen, exact=False), types, cuts)


@given(endless_queries(), tapes(15), RULES, OPTIONS, batch_cuts(), POLICIES)
@settings(max_examples=50, deadline=None)
def test_every_failed_trace_has_one_condition_and_one_trigger_also_over_restarts(sought, rows, drawn, chosen, cuts, policy):
    rules, built = ConstraintSet(sought.key, ALPHABET, tuple(drawn)), []

    def make() -> PatternMatch:
        built.append(PatternMatch(sought, SCHEMA, constraints=rules, on_violation=policy, options=chosen))
        return built[-1]

    try:
        run_with_restarts(make, stream_of(rows, SCHEMA, cuts))
    except NeverMatches:
        return
    found = built[-1].counters()
    assert found["failed_traces"] == sum(by_reason(found).values()) == sum(by_type(found).values())
    assert found["peak_kept_events"] >= found["kept_events"]
    assert found["live_traces"] <= found["watched_traces"]
