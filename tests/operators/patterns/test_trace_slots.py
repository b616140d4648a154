"""Traces that keep their slots against keys compared anew with every batch."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pattern_cases import SCHEMA
from test_constrained_patterns import ALPHABET, CONSTRAINTS, OPTIONS

from penstock.errors import NeverMatches
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.parse import parse
from penstock.metadata.constraints.clauses import Constraint
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.model.batch import Batch
from penstock.model.elements import Quarantined
from penstock.model.event_patterns import EventOrder, Strategy, atom, both, either, seq
from penstock.operators.patterns import trace_table
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.reference import Row
from penstock.testing.streams import run, run_with_restarts, stream_of
from penstock.testing.tapes import batch_cuts

PATTERNS = [
    seq("A", "B"),
    seq("A", "B", "C"),
    both("A", "B"),
    seq("A", either("B", "C")),
    seq(either(seq("A", "B"), "C"), "D"),
    seq("A", atom("B", "bs", "+"), "C"),
]


@st.composite
def endless_queries(draw: st.DrawFn) -> EventQuery:
    """Without a window or a silence: traces end with an event."""
    strategy = draw(st.sampled_from([Strategy.ANY, Strategy.ANY, Strategy.NEXT]))
    pattern = draw(st.sampled_from(PATTERNS if strategy is Strategy.ANY else PATTERNS[:2]))
    conditions = (parse("A.p > 0"),) if draw(st.booleans()) else ()
    ends, order = draw(st.sampled_from([("Z",), ("D", "Z")])), draw(st.sampled_from(list(EventOrder)))
    return EventQuery(
        pattern, (draw(st.sampled_from(["id", "id", "s"])),), conditions, strategy=strategy, order=order, terminal=ends
    )


@st.composite
def tapes(draw: st.DrawFn, most: int) -> list[Row]:
    """Events of a few keys, simultaneous ones now and then or never."""
    rows, clock, steps = [], 0, draw(st.sampled_from([[1], [1, 2], [0, 1, 1]]))
    for number in range(draw(st.integers(1, most))):
        clock += draw(st.sampled_from(steps))
        values = {"type": draw(st.sampled_from(["A", "B", "C", "D", "Z"])), "id": draw(st.integers(-1, 2)), "n": number}
        rows.append(Row(clock, number, {**values, "p": draw(st.sampled_from([0, 1])), "x": None, "s": f"key {values['id']}"}))
    return rows


def seen(search: PatternMatch, out: list[Any]) -> dict[str, Any]:
    """All that can be told from outside, and what is remembered of traces."""
    assert search._watch is not None
    matches = [row for each in out if isinstance(each, Batch) for row in each.rows.to_pylist()]
    aside = [each for each in out if isinstance(each, Quarantined)]
    refused = [(each.reason, each.text, row) for each in aside for row in each.batch.rows.to_pylist()]
    return {
        "matches": matches,
        "refused": sorted(map(str, refused)),
        "counters": dict(search.counters()),
        "traces": sorted(map(str, search._watch.table.stored().to_pylist())),
    }


POLICIES = st.sampled_from([ViolationPolicy.RECORD, ViolationPolicy.RECORD, ViolationPolicy.SHADOW])
RULES = st.lists(CONSTRAINTS, min_size=1, max_size=6)


@given(endless_queries(), tapes(25), RULES, OPTIONS, batch_cuts(), POLICIES)
@settings(max_examples=120, deadline=None)
def test_what_is_found_does_not_depend_on_how_traces_are_found(sought, rows, drawn, chosen, cuts, policy):
    check_ways(sought, rows, drawn, chosen, cuts, policy, restarts=False)


@given(endless_queries(), tapes(8), RULES, OPTIONS, batch_cuts(), POLICIES)
@settings(max_examples=30, deadline=None)
def test_traces_are_found_again_after_a_restart(sought, rows, drawn, chosen, cuts, policy):
    check_ways(sought, rows, drawn, chosen, cuts, policy, restarts=True)


def check_ways(
    sought: EventQuery,
    rows: list[Row],
    drawn: list[Constraint],
    chosen: ConditionOptions,
    cuts: Any,
    policy: ViolationPolicy,
    restarts: bool,
) -> None:
    rules = ConstraintSet(sought.key, ALPHABET, tuple(drawn))

    def make(way: str) -> PatternMatch:
        search = PatternMatch(sought, SCHEMA, constraints=rules, on_violation=policy, options=chosen)
        assert search._watch is not None
        if way == "keys":
            search._has_slots = False
        built.append(search)
        return search

    built: list[PatternMatch] = []
    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trace_table, "_FEW", 1)
        for way in ("keys", "slots"):
            elements = stream_of(rows, SCHEMA, cuts)
            try:
                out = run_with_restarts(lambda way=way: make(way), elements) if restarts else run(make(way), elements)
            except NeverMatches:
                return
            found.append(seen(built[-1], out))
    assert found[0] == found[1]
