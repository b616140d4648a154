"""The compiled loop that watches traces against the plain reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from test_constrained_patterns import ALPHABET, CONSTRAINTS, MODES, NAMES

from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.clauses import exclusive, prior
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import reasoner_for
from penstock.metadata.constraints.query_graph import query_graph
from penstock.metadata.constraints.violations import ViolationDetector, ViolationPolicy
from penstock.model.batch import Batch
from penstock.model.event_patterns import EventOrder, any_of, atom, both, either, seq
from penstock.operators.patterns._watch import new_findings, watch_events
from penstock.operators.patterns.pattern_engine import PatternEngine
from penstock.operators.patterns.watching import TraceWatch
from penstock.testing.constraint_reference import TraceStatus, Tracker, group_violations

STATUSES = tuple(TraceStatus)
PATTERNS = [
    seq("A"),
    seq("A", "B"),
    seq("A", "B", "A"),
    both("A", seq("B", "C")),
    seq("A", either("B", "C")),
    seq(either(seq("A", "B"), "C"), "D"),
    seq(either("A", either("B", "C")), either("D", "Z")),
    seq("A", any_of("B", "C"), "D"),
    seq("A", atom("B", "bs", "*"), "C"),
]
#: Trace, time, type and whether the event passes the predicates of its leaves.
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), NAMES, st.sampled_from([True, True, False])), max_size=14)
SCHEMA = pa.schema({"id": pa.int64(), "type": pa.string()})
Event = tuple[int, int, str, bool]


def watched(query: EventQuery, rules: ConstraintSet, options: ConditionOptions) -> tuple[TraceWatch, PatternEngine]:
    watch = TraceWatch(query, rules, ViolationPolicy.RECORD, [SCHEMA.field("id")], options, "empty")
    return watch, PatternEngine(query, SCHEMA, watch.watched)


def observed(watch: TraceWatch, engine: PatternEngine, events: Sequence[Event]) -> tuple[Any, Any]:
    """Events in the loop's order, and what the loop found."""
    types = pa.array([name for _, _, name, _ in events], pa.string())
    rows = pa.RecordBatch.from_arrays([pa.array([key for key, *_ in events], pa.int64()), types], schema=SCHEMA)
    ts = np.array([time for _, time, *_ in events], np.int64)
    classes, kinds = engine.classify(rows)
    classes = np.where([passes for *_, passes in events], classes, 0) if len(events) else classes
    placed, _ = watch._placed(Batch(rows, ts, np.arange(len(events))), classes, kinds, None)
    found = new_findings(len(placed.rows), len(events), watch.table.size, watch._states.words)
    watch_events(placed, watch._states.columns, watch._rules, found)
    return placed, found


def expected(watch: TraceWatch, query: EventQuery, events: Sequence[Event], exhaustion: bool) -> list[tuple[Any, ...]]:
    """Status of the trace before and after the group of each event, and whether the event breaks something."""
    conditions = watch.conditions
    follower = Tracker(conditions, exhaustion, reasoner_for(query, conditions))
    detector = ViolationDetector(conditions.theory, conditions.relevant)
    told: dict[int, tuple[Any, ...]] = {}
    for key in {key for key, *_ in events}:
        mine, state = [number for number, event in enumerate(events) if event[0] == key], follower.start()
        is_total = query.order is EventOrder.TOTAL
        for _, members in groupby(mine, key=lambda number: (events[number][1], number if is_total else 0)):
            group = list(members)
            facts = [follower.event(events[number][2], None if events[number][3] else ()) for number in group]
            types = conditions.theory.mask(events[number][2] for number in group)
            violated = {
                each.event_type for each in group_violations(detector, state.seen, types) if each.kind == "order" or each.other
            }
            before, state = state, follower.advance(state, facts)
            for number in group:
                name = events[number][2]
                is_never = conditions.theory.is_contradiction(1 << conditions.theory.code[name])
                told[number] = before.status, state.status, name in violated or is_never
    return [told[number] for number in range(len(events))]


@given(
    pattern=st.sampled_from(PATTERNS),
    drawn=st.lists(CONSTRAINTS, max_size=8),
    steps=EVENTS,
    chosen=st.builds(ConditionOptions, exact=st.booleans(), disjunctions=MODES, reflexive=st.booleans(), exhaustion=st.booleans()),
    padding=st.sampled_from([0, 0, 40, 70]),
    order=st.sampled_from(list(EventOrder)),
)
@settings(max_examples=150, deadline=None)
def test_the_loop_agrees_with_the_reference(pattern, drawn, steps, chosen, padding, order):
    # With 40 types a set takes a wider word, with 70 more than one.
    types = (*(f"other{number}" for number in range(padding)), *ALPHABET)
    query = EventQuery(pattern, ("id",), order=order, terminal=("E",))
    # Behind a disjunction the loop knows less of single terms than the plain form.
    chosen = replace(chosen, exact=chosen.exact and len(query_graph(pattern).terms()) == 1)
    clock, events = 0, []
    for key, step, name, passes in steps:
        clock += step
        events.append((key, clock, name, passes))
    watch, engine = watched(query, ConstraintSet(("id",), types, tuple(drawn)), chosen)
    placed, found = observed(watch, engine, events)
    reference = expected(watch, query, events, chosen.exhaustion)
    loop = [(STATUSES[a], STATUSES[b], bool(c)) for a, b, c in zip(found.before, found.after, found.broken, strict=True)]
    assert loop == [reference[row] for row in placed.rows]


@pytest.mark.parametrize("padding", [0, 10])
@pytest.mark.parametrize("skipped", [None, 3, 56])
def test_more_leaves_than_a_narrow_word_has_bits(skipped: int | None, padding: int) -> None:
    names = tuple(f"T{number}" for number in range(58))
    others = tuple(f"other{number}" for number in range(padding))
    rules = ConstraintSet(("id",), (*names, *others, *ALPHABET), tuple(prior(a, b) for a, b in pairwise(names)))
    query = EventQuery(seq(*names), ("id",), terminal=("E",))
    watch, engine = watched(query, rules, ConditionOptions())
    events = [(1, number, name, number != skipped) for number, name in enumerate(names)]
    _, found = observed(watch, engine, events)
    statuses = [STATUSES[number] for number in found.after]
    assert statuses == [after for _, after, _ in expected(watch, query, events, True)]
    assert (TraceStatus.FAILED in statuses) == (skipped is not None)


def test_traces_that_are_over_are_forgotten_and_the_others_keep_their_state() -> None:
    rules = ConstraintSet(("id",), ALPHABET, (exclusive("B", "C"),))
    watch, engine = watched(EventQuery(seq("A", "B"), ("id",), terminal=("E",)), rules, ConditionOptions())
    observed(watch, engine, [(1, 1, "A", True), (2, 2, "C", True), (1, 3, "E", True)])
    watch.table.end(np.array([0]))
    watch._states.keep(np.array([1]))
    assert [STATUSES[number] for number in watch._states.columns.status] == [TraceStatus.FAILED]
