"""Event patterns as an operator: contracts, bad input, output, memory."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pattern_cases import ALWAYS, SCHEMA, answers, events, found_by_operator, query, texts

from penstock.errors import Defect, InvalidEventPattern, TooManyRuns, TypeMistake, UnknownColumn
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput, RowsPerMatch
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.elements import Heartbeat, Quarantined
from penstock.model.event_patterns import (
    EventPattern,
    LastRun,
    Strategy,
    absent,
    any_of,
    atom,
    both,
    either,
    seq,
)
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.checks import check_all, inputs
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of, run, stream_of
from penstock.testing.tapes import batch_cuts

CHECKED = pa.schema({"k": pa.int64(), "type": pa.string(), "v": pa.float64()})
# Texts of the shared inputs are "", "a" and "ab".
QUERIES = {
    "scan": EventQuery(seq(atom("a", "a"), atom("ab", "b")), ("k",), (parse("a.v <= b.v OR b.v IS NULL"),), within=6),
    "trailing absence": EventQuery(seq(atom("a", "a"), absent("ab", "n")), ("k",), within=4),
    "runs": EventQuery(seq(atom("a", "a", "+"), atom("ab", "b")), ("k",), within=9, strategy=Strategy.NEXT),
    "longest": EventQuery(
        seq(atom("ab", "b"), atom("a", "a", "+")), ("k",), within=5, strategy=Strategy.PARTITION, last_run=LastRun.MAXIMAL
    ),
    "silence": EventQuery(either(seq("a", "ab"), seq("ab", atom("a", "c"))), ("k",), trace_ttl=4),
}


@pytest.mark.parametrize("name", list(QUERIES))
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_the_operator_passes_the_shared_checks(name: str, data: st.DataObject) -> None:
    # NaN inside a struct is not equal to itself, and what is shown matters to no check: the number is left out.
    shown = MatchOutput(columns=("k", "type"))
    check_all(lambda: PatternMatch(QUERIES[name], CHECKED, shown), data.draw(inputs([CHECKED])), [CHECKED], data.draw(batch_cuts()))


# -- bad input --------------------------------------------------------------------------------------------------------


def test_events_without_key_are_refused_with_a_reason() -> None:
    rows = [Row(1, 0, {**events("a1")[0].values, "id": None}), Row(-3, 1, events("a1")[0].values)]
    out = PatternMatch(query(seq("A", "B")), SCHEMA).on_batch(0, batch_of(rows, SCHEMA))
    assert [(each.reason, each.batch.num_rows) for each in out if isinstance(each, Quarantined)] == [("null_key", 1)]


def test_a_row_behind_the_frontier_is_a_broken_promise() -> None:
    operator = PatternMatch(query(seq("A", "B")), SCHEMA)
    operator.on_metadata(0, Heartbeat(5))
    with pytest.raises(Defect):
        operator.on_batch(0, batch_of(events("a4"), SCHEMA))


@pytest.mark.parametrize(
    ("strategy", "found"),
    [(Strategy.ANY, ["a1 b4"]), (Strategy.NEXT, ["a1 b4"]), (Strategy.PARTITION, []), (Strategy.STRICT, [])],
)
def test_events_of_unknown_types_are_counted_and_only_break_contiguity(strategy: Strategy, found: list[str]) -> None:
    rows, sought = events("a1 y2 z3 b4 y5"), query(seq("A", "B"), strategy=strategy)
    assert answers(sought, rows) == found
    for column in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        batch = batch_of(rows, SCHEMA)
        typed = batch.rows.set_column(0, "type", batch.rows.column("type").cast(column))
        operator = PatternMatch(sought, typed.schema)
        operator.on_batch(0, batch.with_rows(typed))
        assert operator.counters()["events_unknown_type"] == 3


def test_an_event_without_type_is_of_an_unknown_one_and_a_terminal_type_is_known() -> None:
    nameless = Row(2, 1, {**events("a1")[0].values, "type": None})
    operator = PatternMatch(query(seq("A", "B"), within=None, terminal=("Z",)), SCHEMA)
    operator.on_batch(0, batch_of([events("a1")[0], nameless, Row(3, 2, events("z3")[0].values)], SCHEMA))
    assert operator.counters()["events_unknown_type"] == 1
    again = PatternMatch(query(seq("A", "B"), within=None, terminal=("Z",)), SCHEMA)
    again.restore(operator.snapshot())
    assert again.counters()["events_unknown_type"] == 1


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        (seq("A", absent("N")), {"within": None, "trace_ttl": 5}, "needs WITHIN"),
        (seq(absent("N"), "A"), {"within": None, "terminal": ("Z",)}, "needs WITHIN"),
        (both("A", absent("N")), {}, "outside SEQ"),
        (seq(absent("N")), {}, "without any event"),
        (seq("A", "B"), {"within": None}, "unbounded"),
        (seq(atom("A", "x"), atom("B", "x")), {}, "2 times"),
        (both("A", "B"), {"strategy": Strategy.NEXT}, "AND needs"),
        (seq("A", "B"), {"strategy": Strategy.STRICT, "position_column": ""}, "number in the whole stream"),
        (seq("A", atom("B", "b", "+")), {"last_run": LastRun.MAXIMAL}, "longest run needs"),
        (seq("A", "B"), {"within": -1}, "negative"),
    ],
)
def test_a_query_without_meaning_is_refused(pattern: EventPattern, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEventPattern, match=message):
        query(pattern, **options)


def test_a_condition_on_nothing_names_the_nearest_thing() -> None:
    with pytest.raises(InvalidEventPattern, match="Did you mean 'first'"):
        query(seq(atom("A", "first"), "B"), "fist.p > 1")
    with pytest.raises(UnknownColumn, match="it has"):
        PatternMatch(query(seq(atom("A", "a"), "B"), "a.price > 1"), SCHEMA)
    with pytest.raises(TypeMistake):
        PatternMatch(query(seq(atom("A", "a"), atom("B", "b")), "a.p > b.s"), SCHEMA)


def test_an_explosion_of_runs_stops_the_query_and_names_the_key() -> None:
    sought = query(seq("A", atom("B", "b", "+"), "C"), most_runs=100)
    with pytest.raises(TooManyRuns, match="id = 1"):
        found_by_operator(sought, events("a1 b2 b3 b4 b5 b6 b7 b8 b9"))


def test_within_zero_finds_only_simultaneous_events() -> None:
    assert answers(query(seq("A", "B"), within=0), events("a1 b1 b2")) == []
    assert answers(query(both("A", "B"), within=0), events("a1 b1 b2")) == ["a1 b1"]


# -- ties -------------------------------------------------------------------------------------------------------------


def test_next_match_takes_each_of_several_simultaneous_events() -> None:
    assert answers(query(seq("A", "B"), strategy=Strategy.NEXT), events("a1 b2 b@2 b3")) == ["a1 b2", "a1 b2"]


def test_a_simultaneous_event_is_not_between_two_others() -> None:
    assert answers(query(seq("A", "B"), strategy=Strategy.PARTITION), events("a1 c1 b2 c2")) == ["a1 b2"]
    assert answers(query(seq("A", "B"), strategy=Strategy.PARTITION), events("a1 c2 b3")) == []


def test_strict_contiguity_sees_events_of_other_keys() -> None:
    rows = events("a1 c2 b3", ids=[1, 2, 1])
    assert answers(query(seq("A", "B"), strategy=Strategy.STRICT), rows) == []
    assert answers(query(seq("A", "B"), strategy=Strategy.PARTITION), rows) == ["a1 b3"]


# -- traces, alternatives, conditions ---------------------------------------------------------------------------------


def test_a_terminal_event_and_silence_end_a_trace() -> None:
    assert answers(query(seq("A", "B"), within=None, terminal=("Z",)), events("a1 z2 b3 a4 b5")) == ["a4 b5"]
    assert answers(query(seq("A", "B"), within=None, trace_ttl=2), events("a1 b4 a5 b7")) == ["a5 b7"]


def test_any_is_one_event_of_several_types() -> None:
    assert answers(query(seq("A", any_of("B", "C", variable="x"))), events("a1 c2 b3")) == ["a1 b3", "a1 c2"]


def test_a_starred_event_may_be_missing() -> None:
    assert answers(query(seq("A", atom("B", "b", "*"), "C")), events("a1 b2 c3")) == ["a1 [b2] c3", "a1 c3"]


def test_what_the_compiled_loops_cannot_test_is_tested_on_complete_matches() -> None:
    rows = events("a1 b2 b3")
    for row, text in zip(rows, ("x", "y", "z"), strict=True):
        row.values["s"] = text  # type: ignore[index]
    assert answers(query(seq(atom("A", "a"), atom("B", "b")), "concat(a.s, b.s) = 'xz'"), rows) == ["a1 b3"]
    with pytest.raises(InvalidEventPattern, match="while a match grows"):
        PatternMatch(query(seq(atom("A", "a"), atom("B", "b")), "concat(a.s, b.s) = 'xz'", strategy=Strategy.NEXT), SCHEMA)


def test_large_integers_are_compared_exactly() -> None:
    large = 2**60
    rows = events("a1 b2 b3", [large, large + 1, large])
    assert answers(query(seq(atom("A", "a"), atom("B", "b")), "a.p < b.p"), rows) == ["a1 b2"]


# -- output -----------------------------------------------------------------------------------------------------------


def output_of(sought: EventQuery, output: MatchOutput, text: str, prices: list[int | None]) -> list[dict[str, Any]]:
    out = run(PatternMatch(sought, SCHEMA, output), stream_of(events(text, prices), SCHEMA))
    return [row for element in out if isinstance(element, Batch) for row in element.rows.to_pylist()]


def test_measures_are_computed_of_the_events_of_a_match() -> None:
    sought = query(seq(atom("A", "a", "+"), atom("B", "b")), strategy=Strategy.NEXT)
    names = ("`sum(a.p)`", "`a[1].p`", "`a[last].p`", "b.p - `avg(a.p)`", "match_end - match_start")
    measures = tuple((f"m{number}", parse(text)) for number, text in enumerate(names))
    found = output_of(sought, MatchOutput(measures=measures), "a1 a2 b4", [10, 20, 50])
    assert sorted(found, key=lambda row: row["m0"]) == [
        {"id": 1, "m0": 20, "m1": 20, "m2": 20, "m3": 30.0, "m4": 2},
        {"id": 1, "m0": 30, "m1": 10, "m2": 20, "m3": 35.0, "m4": 3},
    ]


def test_all_events_of_a_match_in_order() -> None:
    sought = query(both(atom("A", "a"), seq(atom("B", "b"), atom("C", "c"))))
    output = MatchOutput(RowsPerMatch.ALL, (("total", parse("a.p + b.p + c.p")),), ("type", "p"))
    found = output_of(sought, output, "b1 a2 c3", [1, 2, 3])
    assert [(row["variable"], row["event_number"], row["type"], row["p"], row["total"]) for row in found] == [
        ("b", 1, "B", 1, 6),
        ("a", 1, "A", 2, 6),
        ("c", 1, "C", 3, 6),
    ]


def test_the_number_of_a_match_depends_on_its_events_alone() -> None:
    sought, rows = query(seq("A", "B")), events("a1 a2 b3 b4")
    whole = run(PatternMatch(sought, SCHEMA), stream_of(rows, SCHEMA))
    cut = run(PatternMatch(sought, SCHEMA), stream_of(rows, SCHEMA, range(4)))
    ids = [sorted(int(pos) for each in out if isinstance(each, Batch) for pos in each.pos) for out in (whole, cut)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 4


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [Strategy.ANY, Strategy.NEXT, Strategy.PARTITION])
def test_state_is_bounded_by_the_window(strategy: Strategy) -> None:
    operator = PatternMatch(query(seq("A", "B", "C"), within=50, strategy=strategy), SCHEMA)
    largest = 0
    for start in range(0, 5_000, 100):
        times = np.arange(start, start + 100)
        rows = [Row(int(ts), int(ts), {**events("a1")[0].values, "type": "ABD"[ts % 3], "n": int(ts)}) for ts in times]
        operator.on_batch(0, batch_of(rows, SCHEMA))
        operator.on_metadata(0, Heartbeat(start + 100))
        largest = max(largest, operator.counters()["state_rows"])
    assert largest <= 51


def test_a_late_answer_is_the_same_as_an_early_one() -> None:
    rows, sought = events("a1 b2 a3 b4 c5 d6 c7"), query(seq("A", "B", "C"), within=ALWAYS)
    early = texts(sought, rows, found_by_operator(sought, rows, range(7)))
    assert texts(sought, rows, found_by_operator(sought, rows[::-1], range(7))) == early


def test_what_must_be_absent_before_a_match_is_remembered_while_the_match_waits() -> None:
    alone = query(seq(absent("A", "before"), atom("A", "a"), absent("A", "after")), within=8)
    rows = events("a0 a5 b10 a10", ids=[1, 1, 1, 2])
    assert answers(alone, rows) == ["a10"]
    assert texts(alone, rows, found_by_operator(alone, rows, range(40))) == ["a10"]
