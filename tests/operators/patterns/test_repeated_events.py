"""Events that a source sends twice, alternatives that take the same events, and lists reported as a whole."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pattern_cases import SCHEMA, events, query, read, texts
from test_pattern_properties import queries, streams

from penstock.errors import InvalidEventPattern
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput
from penstock.expressions.parse import parse
from penstock.metadata.constraints.clauses import at_most_once
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.model.batch import Batch
from penstock.model.elements import Quarantined
from penstock.model.event_patterns import EventOrder, EventPattern, LastRun, Lists, Strategy, absent, atom, both, either, seq
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.checks import check_all, inputs
from penstock.testing.pattern_reference import Match, matches
from penstock.testing.reference import Row
from penstock.testing.streams import run, run_with_restarts, stream_of
from penstock.testing.tapes import batch_cuts

NAMED = pa.schema([*SCHEMA, pa.field("eid", pa.string())])


def found(sought: EventQuery, rows: list[Row], cuts: Any = (), schema: pa.Schema = SCHEMA, restarts: bool = False) -> list[Match]:
    elements = stream_of(rows, schema, cuts)
    if restarts:
        return sorted(read(sought, run_with_restarts(lambda: PatternMatch(sought, schema), elements)))
    return sorted(read(sought, run(PatternMatch(sought, schema), elements)))


# -- events sent twice ------------------------------------------------------------------------------------------------


def named_events(text: str, names: str) -> list[Row]:
    """Events called by one letter each; `-` for none."""
    pairs = zip(events(text), names, strict=True)
    return [replace(row, values={**row.values, "eid": None if name == "-" else name}) for row, name in pairs]


def named_answers(sought: EventQuery, rows: list[Row]) -> list[str]:
    for cuts in ((), range(len(rows))):
        assert found(sought, rows, cuts, NAMED) == sorted(matches(sought, rows, NAMED))
    return texts(sought, rows, found(sought, rows, schema=NAMED))


def test_an_event_sent_twice_is_matched_once_if_asked_for() -> None:
    rows = named_events("a1 a2 b3 b4", "xxyz")
    assert named_answers(query(seq("A", "B")), rows) == ["a1 b3", "a1 b4", "a2 b3", "a2 b4"]
    assert named_answers(query(seq("A", "B"), id_column="eid"), rows) == ["a1 b3", "a1 b4"]


def test_events_without_name_and_those_of_other_traces_are_events_of_their_own() -> None:
    assert named_answers(query(seq("A", "B"), id_column="eid"), named_events("a1 a2 b3", "--y")) == ["a1 b3", "a2 b3"]
    two = named_events("a1 b2 a3 b4", "xyxy")
    for row, key in zip(two, (1, 1, 2, 2), strict=True):
        row.values["id"] = key  # type: ignore[index]
    assert named_answers(query(seq("A", "B"), id_column="eid"), two) == ["a1 b2", "a3 b4"]


def test_a_name_is_forgotten_with_its_window_or_its_trace() -> None:
    rows = named_events("a1 b2 a9 b10", "xyxy")
    assert named_answers(query(seq("A", "B"), within=5, id_column="eid"), rows) == ["a1 b2", "a9 b10"]
    ended = named_events("a1 b2 z3 a9 b10", "xyzxy")
    assert named_answers(query(seq("A", "B"), within=None, terminal=("Z",), id_column="eid"), ended) == ["a1 b2", "a9 b10"]
    operator = PatternMatch(query(seq("A", "B"), within=None, terminal=("Z",), id_column="eid"), NAMED)
    run(operator, stream_of(ended[:3], NAMED))
    assert operator.counters()["state_rows"] == 0


def test_repeated_rows_are_counted_and_break_no_constraint() -> None:
    rules = ConstraintSet(("id",), ("A", "B"), (at_most_once("A"),))
    operator = PatternMatch(query(seq("A", "B"), id_column="eid"), NAMED, constraints=rules)
    out = run(operator, stream_of(named_events("a1 a2 b3", "xxy"), NAMED))
    assert not any(isinstance(each, Quarantined) for each in out)
    assert operator.counters()["repeated"] == 1


@st.composite
def sent_twice(draw: st.DrawFn) -> list[Row]:
    """Some events come again later, as they were."""
    rows: list[Row] = []
    for row in draw(streams(7)):
        if rows and draw(st.integers(0, 2)) == 0:
            again = draw(st.sampled_from(rows))
            rows.append(Row(row.ts, row.pos, {**again.values, "n": row.pos}))
        else:
            rows.append(replace(row, values={**row.values, "eid": None if draw(st.integers(0, 5)) == 0 else f"e{row.pos}"}))
    return rows


ANY_QUERY = st.one_of(*(queries(strategy) for strategy in Strategy))


@given(ANY_QUERY, sent_twice(), batch_cuts())
@settings(max_examples=60, deadline=None)
def test_each_event_is_matched_once_whatever_the_batches(sought: EventQuery | None, rows: list[Row], cuts: Any) -> None:
    if sought is None:
        return
    sought = replace(sought, id_column="eid")
    expected = sorted(matches(sought, rows, NAMED))
    assert found(sought, rows, schema=NAMED) == expected
    assert found(sought, rows, cuts, NAMED, restarts=True) == expected


CHECKED = pa.schema({"k": pa.int64(), "type": pa.string(), "v": pa.float64()})


@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_the_operator_that_drops_repeats_passes_the_shared_checks(data: st.DataObject) -> None:
    sought = EventQuery(seq(atom("a", "a"), atom("ab", "b")), ("k",), within=6, id_column="v")
    shown = MatchOutput(columns=("k", "type"))
    check_all(lambda: PatternMatch(sought, CHECKED, shown), data.draw(inputs([CHECKED])), [CHECKED], data.draw(batch_cuts()))


# -- alternatives with the same events --------------------------------------------------------------------------------


def once(found: list[Match] | set[Match]) -> list[Match]:
    """Of matches with the same events those of the lowest branch, by definition."""
    lowest: dict[tuple[int, ...], int] = {}
    for branch, binding in found:
        taken = tuple(sorted(pos for part in binding for pos in part))
        lowest[taken] = min(branch, lowest.get(taken, branch))
    return sorted(
        (branch, binding) for branch, binding in found if lowest[tuple(sorted(pos for part in binding for pos in part))] == branch
    )


def test_alternatives_that_take_the_same_events_are_one_match_if_asked_for() -> None:
    twice = either(atom("A", "x"), atom("A", "y"))
    assert found(query(twice), events("a1 a2")) == [(0, ((0,),)), (0, ((1,),)), (1, ((0,),)), (1, ((1,),))]
    assert found(query(twice, dedup_branches=True), events("a1 a2")) == [(0, ((0,),)), (0, ((1,),))]
    other = either(seq("A", "B"), both(atom("B", "b"), atom("A", "a")))
    assert found(query(other, dedup_branches=True), events("a1 b2 a3")) == [(0, ((0,), (1,))), (1, ((1,), (2,)))]


def test_what_is_tested_on_complete_matches_is_tested_before_alternatives_are_compared() -> None:
    rows = events("a1 b2")
    for row, text in zip(rows, "xy", strict=True):
        row.values["s"] = text  # type: ignore[index]
    pattern = either(seq(atom("A", "a"), atom("B", "b")), seq(atom("A", "c"), atom("B", "d")))
    sought = query(pattern, "concat(a.s, b.s) = 'other'", dedup_branches=True)
    assert found(sought, rows) == [(1, ((0,), (1,)))]


@given(ANY_QUERY, streams(), batch_cuts())
@settings(max_examples=60, deadline=None)
def test_each_set_of_events_is_reported_for_one_branch(sought: EventQuery | None, rows: list[Row], cuts: Any) -> None:
    if sought is None:
        return
    try:
        sought = replace(sought, dedup_branches=True)
    except InvalidEventPattern:
        return
    expected = once(matches(sought, rows, SCHEMA))
    assert found(sought, rows) == expected
    assert found(sought, rows, cuts, restarts=True) == expected


# -- collapsed lists --------------------------------------------------------------------------------------------------


def collapsed(sought: EventQuery, enumerated: set[Match]) -> dict[Match, int]:
    """By definition: one match for all that differ in their lists alone, with every event of those, and their number."""
    alike: dict[tuple[int, tuple[Any, ...]], list[Match]] = defaultdict(list)
    for branch, binding in enumerated:
        repeated = [sought.atoms[number].is_repeated for number in sought.terms[branch].leaves]
        alike[branch, tuple(part for part, many in zip(binding, repeated, strict=True) if not many)].append((branch, binding))
    found = {}
    for (branch, _), group in alike.items():
        parts = zip(*(binding for _, binding in group), strict=True)
        found[branch, tuple(tuple(sorted({pos for part in every for pos in part})) for every in parts)] = len(group)
    return found


def counted(sought: EventQuery, rows: list[Row], cuts: Any = (), restarts: bool = False) -> dict[Match, int]:
    elements = stream_of(rows, SCHEMA, cuts)
    make = lambda: PatternMatch(sought, SCHEMA)  # noqa: E731
    out = run_with_restarts(make, elements) if restarts else run(make(), elements)
    counts = [row["match_count"] for element in out if isinstance(element, Batch) for row in element.rows.to_pylist()]
    assert len(set(read(sought, out))) == len(counts), "a match is reported twice"
    return dict(zip(read(sought, out), counts, strict=True))


def test_a_collapsed_list_has_all_candidates_and_tells_how_many_matches_it_stands_for() -> None:
    sought, rows = query(seq("A", atom("B", "b", "+"), "C"), lists=Lists.COLLAPSE), events("a1 b2 b3 d4 b5 c6")
    assert counted(sought, rows) == {(0, ((0,), (1, 2, 4), (5,))): 7}
    assert counted(sought, rows, range(6), restarts=True) == counted(sought, rows)
    starred = query(seq("A", atom("B", "b", "*"), "C"), lists=Lists.COLLAPSE)
    assert sorted(counted(starred, rows).values()) == [1, 7]


def test_a_collapsed_list_is_not_stopped_by_the_limit_of_runs_and_an_enumerated_one_is_not_cut_short() -> None:
    rows = events("a1 " + " ".join(f"b{time}" for time in range(2, 72)) + " c72")
    sought = query(seq("A", atom("B", "b", "+"), "C"), lists=Lists.COLLAPSE, most_runs=10)
    ((binding, count),) = counted(sought, rows).items()
    assert (len(binding[1][1]), count) == (70, None), "more than can be counted"
    with pytest.raises(Exception, match="more than 10 partial matches"):
        found(replace(sought, lists=Lists.ENUMERATE), rows)


def test_measures_run_over_the_whole_collapsed_list() -> None:
    sought = query(seq("A", atom("B", "b", "+"), "C"), "b.p > 1", lists=Lists.COLLAPSE)
    measures = tuple((name, parse(text)) for name, text in (("n", "match_count"), ("total", "`sum(b.p)`")))
    operator = PatternMatch(sought, SCHEMA, MatchOutput(measures=measures))
    out = run(operator, stream_of(events("a1 b2 b3 b4 c5", [0, 1, 2, 3, 0]), SCHEMA))
    assert [row for each in out if isinstance(each, Batch) for row in each.rows.to_pylist()] == [{"id": 1, "n": 3, "total": 5}]


B, C = atom("B", "b", "+"), atom("C", "c", "+")


@pytest.mark.parametrize(
    ("pattern", "condition", "options", "message"),
    [
        (seq("A", B, "C"), "`b[i].p` > `b[i-1].p`", {}, "chooses among them"),
        (seq(atom("A", "a"), B, "C"), "b.p > a.p", {}, "chooses among them"),
        (seq("A", B, "C"), "`count(b)` > 2", {}, "chooses among them"),
        (seq("A", B), "TRUE", {}, "never stops growing"),
        (seq("A", B, C, "D"), "TRUE", {}, "each limits the other"),
        (seq("A", absent("N"), B, "C"), "TRUE", {}, "no absence beside it"),
        (seq("A", B, "C", absent("N")), "TRUE", {}, "no absence beside it"),
        (seq(both("A", B), "C"), "TRUE", {"reuse": False}, "without reuse"),
        (seq("A", B, "C"), "TRUE", {"strategy": Strategy.NEXT}, "nothing to collapse"),
    ],
)
def test_lists_that_must_be_chosen_are_not_collapsed(
    pattern: EventPattern, condition: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidEventPattern, match=message):
        query(pattern, condition, lists=Lists.COLLAPSE, **options)


@pytest.mark.parametrize(
    "options", [{"last_run": LastRun.MAXIMAL, "strategy": Strategy.NEXT}, {}], ids=["longest lists", "one final absence"]
)
def test_alternatives_decided_at_different_times_are_not_compared(options: dict[str, Any]) -> None:
    pattern = either(seq("A", atom("B", "b", "+")), seq(atom("A", "x"), absent("N")))
    with pytest.raises(InvalidEventPattern, match="decided at different times"):
        query(pattern, dedup_branches=True, **options)


@st.composite
def collapsible(draw: st.DrawFn) -> EventQuery:
    """A query with lists that can be collapsed, of most shapes there are."""
    names = [draw(st.sampled_from("ABC")) for _ in range(5)]
    single = [atom(name, f"v{number}") for number, name in enumerate(names)]
    first, other = (atom(draw(st.sampled_from("ABC")), name, draw(st.sampled_from("++*"))) for name in ("x", "y"))
    shapes = [
        lambda: seq(single[0], first, single[1]),
        lambda: seq(first, single[0], other, single[1]),
        lambda: seq(single[0], both(first, single[1]), single[2]),
        lambda: seq(both(first, other), single[0]),
        lambda: seq(first, either(single[0], seq(single[1], single[2]))),
        lambda: seq(first, single[0], absent(names[1], "n"), single[2]),
        lambda: seq(first, both(single[0], single[1])),
    ]
    conditions = draw(st.lists(st.sampled_from(["x.p >= 1", "v0.p <= 2", "TRUE"]), max_size=2))
    options = {"within": draw(st.sampled_from([2, 4, 8, 30])), "order": draw(st.sampled_from(EventOrder))}
    pattern = draw(st.sampled_from(shapes))()
    return query(pattern, *conditions, **{**options, "lists": Lists.COLLAPSE})


@given(collapsible(), streams(), batch_cuts())
@settings(max_examples=80, deadline=None)
def test_collapsed_lists_stand_for_all_that_are_enumerated(sought: EventQuery, rows: list[Row], cuts: Any) -> None:
    expected = collapsed(sought, matches(replace(sought, lists=Lists.ENUMERATE), rows, SCHEMA))
    assert counted(sought, rows) == expected
    assert counted(sought, rows, cuts, restarts=True) == expected
