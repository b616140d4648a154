"""Event queries as text: the worked examples of the event model, on one stream with types and on a stream for each type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from marked_mistakes import refused

from penstock.language.application import parse_application
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.relational import Project, Scan
from penstock.testing.undisturbed import undisturbed

COLUMNS = "(id BIGINT, p BIGINT, n BIGINT, name STRING, ts BIGINT, WATERMARK ts DELAY OF 0);"
TYPES = "ABCDNS"
STREAMS = "\n".join(f"CREATE STREAM {kind} {COLUMNS}" for kind in TYPES)
ONE_STREAM = "CREATE STREAM events (kind STRING, id BIGINT, p BIGINT, n BIGINT, name STRING, ts BIGINT, WATERMARK ts DELAY OF 0);"
G1 = "a1 c2 b3 a4 d5 b6 d7"
RISING = "SEQ(S+ a[], S b) WHERE {} AND a[i].p > a[i-1].p AND b.p < a[last].p"

#: Name, pattern and conditions, window, events, matches.
GOLDEN = [
    ("A-G1", "SEQ(A, B, D)", "99", G1, "a1 b3 d5, a1 b3 d7, a1 b6 d7, a4 b6 d7"),
    ("A-G2", "SEQ(A, B, D) WHERE skip-till-next-match", "99", G1, "a1 b3 d5, a4 b6 d7"),
    ("A-G4 within 3", "SEQ(A, B, D)", "3", G1, "a4 b6 d7"),
    ("A-G4 within 4", "SEQ(A, B, D)", "4", G1, "a1 b3 d5, a4 b6 d7"),
    ("A-G4 within 5", "SEQ(A, B, D)", "5", G1, "a1 b3 d5, a4 b6 d7"),
    ("A-G4 within 6", "SEQ(A, B, D)", "6", G1, "a1 b3 d5, a1 b3 d7, a1 b6 d7, a4 b6 d7"),
    (
        "A-G6",
        "SEQ(A, B+, C)",
        "99",
        "a1 b2 b3 d4 b5 c6",
        "a1 [b2 b3 b5] c6, a1 [b2 b3] c6, a1 [b2 b5] c6, a1 [b2] c6, a1 [b3 b5] c6, a1 [b3] c6, a1 [b5] c6",
    ),
    ("A-G7", "SEQ(A, B+, C) WHERE skip-till-next-match", "99", "a1 b2 b3 d4 b5 c6", "a1 [b2 b3 b5] c6"),
    ("A-G8", "SEQ(A, B+ b[], C)", "99", "a1 b2 b3 c4", "a1 [b2 b3] c4, a1 [b2] c4, a1 [b3] c4"),
    ("A-G8 next", "SEQ(A, B+ b[], C) WHERE skip-till-next-match", "99", "a1 b2 b3 c4", "a1 [b2 b3] c4"),
    ("A-G9 next", "SEQ(A, B+, C) WHERE skip-till-next-match", "99", "a1 b2 a3 b4 c5 c6", "a1 [b2 b4] c5, a3 [b4] c5"),
    ("A-G10", "SEQ(A, B+)", "99", "a1 b2 c3 b4", "a1 [b2 b4], a1 [b2], a1 [b4]"),
    ("A-G10 next", "SEQ(A, B+) WHERE skip-till-next-match", "99", "a1 b2 c3 b4", "a1 [b2 b4], a1 [b2]"),
    ("A-G12", "SEQ(A, AND(B, C), D)", "99", "a1 c2 b3 d4", "a1 b3 c2 d4"),
    ("A-G12 infix", "SEQ(A, (B AND C), D)", "99", "a1 c2 b3 d4", "a1 b3 c2 d4"),
    ("A-G13", "SEQ(AND(A, B), AND(C, D))", "99", "a1 c2 b3 d4 c5", "a1 b3 c5 d4"),
    ("A-G14", "AND(SEQ(A a, B b), SEQ(A c, C d))", "99", "a1 b2 a3 c4", "a1 b2 a1 c4, a1 b2 a3 c4"),
    ("A-G15", "SEQ(OR(A, SEQ(B, C)), D)", "99", "b1 a2 c3 d4", "a2 d4, b1 c3 d4"),
    ("A-G15 infix", "SEQ(A OR SEQ(B, C), D)", "99", "b1 a2 c3 d4", "a2 d4, b1 c3 d4"),
    ("A-G16", "SEQ(A, B)", "99", "a1 b1 b2", "a1 b2"),
    ("A-G17", "SEQ(A, !(B), C)", "99", "a1 b2 a3 c4", "a3 c4"),
    ("A-G19 first", "SEQ(A, !(B), C)", "99", "a1 b1 c3", "a1 c3"),
    ("A-G19 last", "SEQ(A, !(B), C)", "99", "a1 b3 c3", "a1 c3"),
    ("A-G20 n6", "SEQ(A, B, !(N))", "5", "a1 b3 n6", ""),
    ("A-G20 n7", "SEQ(A, B, !(N))", "5", "a1 b3 n7", "a1 b3"),
    ("A-G21 n1", "SEQ(!(N), B, C)", "5", "n1 b3 c6", ""),
    ("A-G21 n0", "SEQ(!(N), B, C)", "5", "n0 b3 c6", "b3 c6"),
    ("ANY", "SEQ(A, ANY(B, C) x)", "99", "a1 c2 b3 d4", "a1 b3, a1 c2"),
    ("optional", "SEQ(A, B*, C)", "99", "a1 b2 c3", "a1 [b2] c3, a1 c3"),
]
#: The same with OPTIONS behind the window.
WITH_OPTIONS = [
    ("A-G14 without reuse", "AND(SEQ(A a, B b), SEQ(A c, C d))", "reuse false", "a1 b2 a3 c4", "a1 b2 a3 c4"),
    ("A-G16 total", "SEQ(A, B)", "order 'total'", "a1 b1 b2", "a1 b1, a1 b2"),
    ("A-G3", "SEQ(A, B, D) WHERE strict-contiguity", "position 'n'", G1, ""),
    ("A-G8 strict", "SEQ(A, B+, C) WHERE strict-contiguity", "position 'n'", "a1 b2 b3 c4", "a1 [b2 b3] c4"),
    ("A-G9 strict", "SEQ(A, B+, C) WHERE strict-contiguity", "position 'n'", "a1 b2 a3 b4 c5 c6", "a3 [b4] c5"),
    ("A-G10 strict", "SEQ(A, B+) WHERE strict-contiguity", "position 'n'", "a1 b2 c3 b4", "a1 [b2]"),
    ("longest", "SEQ(A, B+) WHERE skip-till-next-match", "kleene_last 'maximal'", "a1 b2 b3 c4", "a1 [b2 b3]"),
    ("collapsed", "SEQ(A, B+, C)", "kleene 'collapse'", "a1 b2 b3 c4", "a1 [b2 b3] c4"),
    ("OR(A,A)", "OR(A x, A y)", "dedup_branches false", "a1", "a1, a1"),
    ("OR(A,A) once", "OR(A x, A y)", "dedup_branches true", "a1", "a1"),
]


def rows(text: str, prices: list[int] | None = None, ids: list[int] | None = None) -> list[dict[str, Any]]:
    return [
        {
            "kind": word[0].upper(),
            "id": ids[number] if ids else 1,
            "p": prices[number] if prices else number,
            "n": number,
            "name": word,
            "ts": int(word[1:]),
        }
        for number, word in enumerate(text.split())
    ]


def found(query: str, events: list[dict[str, Any]], one_stream: bool) -> list[dict[str, Any]]:
    """Answers of a query over the events, which are in one stream or in one for each type."""
    schema = pa.schema(
        {"kind": pa.string(), "id": pa.int64(), "p": pa.int64(), "n": pa.int64(), "name": pa.string(), "ts": pa.int64()}
    )
    whole = pa.RecordBatch.from_pylist(events, schema)
    text = f"{ONE_STREAM if one_stream else STREAMS} CREATE CQ q AS EVENT {query};"
    if one_stream:
        return undisturbed(text, {"events": whole}).collected.rows("q")
    parts = {kind: [row for row in events if row["kind"] == kind] for kind in TYPES}
    own = pa.schema(list(schema)[1:])
    return undisturbed(text, {kind: pa.RecordBatch.from_pylist(part, own) for kind, part in parts.items()}).collected.rows("q")


def shown(row: dict[str, Any]) -> str:
    """A match as the examples write it."""
    own = ("id", "match_start", "match_end", "match_id", "branch", "match_count")
    variables = [value for name, value in row.items() if name not in own]
    texts = [
        f"[{' '.join(each['name'] for each in value)}]" if isinstance(value, list) else value["name"]
        for value in variables
        if value
    ]
    return " ".join(texts)


def placed(query: str, one_stream: bool) -> str:
    """FROM goes between pattern and WHERE."""
    pattern, where, rest = query.partition(" WHERE ")
    return f"{pattern} FROM events TYPE kind{where}{rest}" if one_stream else query


def expected(text: str) -> list[str]:
    return sorted(part.strip() for part in text.split(",") if part.strip())


@pytest.mark.parametrize("one_stream", [True, False], ids=["one stream", "a stream for each type"])
@pytest.mark.parametrize(("query", "within", "events", "matches"), [case[1:] for case in GOLDEN], ids=[case[0] for case in GOLDEN])
def test_the_golden_examples_hold_in_the_language(query: str, within: str, events: str, matches: str, one_stream: bool) -> None:
    answer = found(f"{placed(query, one_stream)} WITHIN {within}", rows(events), one_stream)
    assert sorted(map(shown, answer)) == expected(matches)


@pytest.mark.parametrize("one_stream", [True, False], ids=["one stream", "a stream for each type"])
@pytest.mark.parametrize(
    ("query", "options", "events", "matches"), [case[1:] for case in WITH_OPTIONS], ids=[case[0] for case in WITH_OPTIONS]
)
def test_options_change_the_rules_of_the_search(query: str, options: str, events: str, matches: str, one_stream: bool) -> None:
    answer = found(f"{placed(query, one_stream)} WITHIN 99 OPTIONS ({options})", rows(events), one_stream)
    assert sorted(map(shown, answer)) == expected(matches)


@pytest.mark.parametrize("one_stream", [True, False], ids=["one stream", "a stream for each type"])
def test_an_event_that_was_sent_twice_is_matched_once(one_stream: bool) -> None:
    text = f"{placed('SEQ(A, B) WHERE [id]', one_stream)} WITHIN 99 OPTIONS (dedup true, event_id 'p')"
    assert [shown(row) for row in found(text, rows("a1 a2 b3", [7, 7, 8]), one_stream)] == ["a1 b3"]


def test_what_a_collapsed_match_stands_for_is_a_measure() -> None:
    text = "SEQ(A a, B+ b[], C c) WITHIN 99 RETURN count(b) AS candidates, match_count OPTIONS (kleene 'collapse')"
    assert found(text, rows("a1 b2 b3 c4"), one_stream=False) == [{"candidates": 2, "match_count": 3}]


@pytest.mark.parametrize(
    ("strategy", "number"), [("skip-till-any-match", 13), ("skip-till-next-match", 4), ("partition-contiguity", 4)]
)
def test_rising_runs_that_end_in_a_drop(strategy: str, number: int) -> None:
    answer = found(f"{RISING.format(strategy)} WITHIN 99", rows("s1 s2 s3 s4 s5", [10, 12, 11, 13, 9]), one_stream=False)
    assert len(answer) == number
    if number == 4:
        assert sorted(map(shown, answer)) == ["[s1 s2] s3", "[s2] s3", "[s3 s4] s5", "[s4] s5"]


def test_events_of_different_keys_are_in_different_traces() -> None:
    events = rows("a1 b2 c3", ids=[1, 2, 1])
    assert [shown(row) for row in found("SEQ(A, !(B), C) WHERE [id] WITHIN 99", events, one_stream=False)] == ["a1 c3"]
    assert found("SEQ(A, !(B), C) WITHIN 99", events, one_stream=False) == []


def test_partition_by_is_another_way_to_write_the_key() -> None:
    events = rows("a1 a2 b3", ids=[1, 2, 2])
    answer = found("SEQ(A a, B b) FROM events TYPE kind PARTITION BY id WITHIN 99 RETURN a.name, b.name", events, one_stream=True)
    assert answer == [{"id": 2, "a_name": "a2", "b_name": "b3"}]


def test_a_struct_has_the_columns_of_its_own_types() -> None:
    text = """
        CREATE STREAM Shelf (tag BIGINT, product STRING NOT NULL, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE STREAM Door (tag BIGINT, gate INT, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE CQ q AS EVENT SEQ(Shelf s, Door+ d[], ANY(Shelf, Door) x) WHERE [tag] WITHIN 9"""
    shelf = pa.RecordBatch.from_pylist([{"tag": 1, "product": "razor", "ts": 1}, {"tag": 1, "product": "soap", "ts": 3}])
    door = pa.RecordBatch.from_pylist(
        [{"tag": 1, "gate": 7, "ts": 2}], pa.schema({"tag": pa.int64(), "gate": pa.int32(), "ts": pa.int64()})
    )
    (found,) = undisturbed(text, {"Shelf": shelf, "Door": door}).collected.rows("q")
    assert found["s"] == {"tag": 1, "product": "razor", "ts": 1}
    assert found["d"] == [{"tag": 1, "gate": 7, "ts": 2}]
    assert found["x"] == {"event_type": "Shelf", "tag": 1, "product": "soap", "gate": None, "ts": 3}


def test_measures_name_what_is_shown_of_a_match() -> None:
    events = rows("a1 s2 s3 b4", [10, 20, 30, 5])
    text = """SEQ(A a, S+ s[], B b) WHERE [id] AND skip-till-next-match AND sum(s.p) > a.p WITHIN 99
        RETURN id, a.p, count(s), avg(s.p) AS mean, s[1].name, s[last].name, b.ts - a.ts AS took, match_start, match_end"""
    wanted = {"id": 1, "a_p": 10, "count_s": 2, "mean": 25.0, "s_1_name": "s2", "s_last_name": "s3", "took": 3}
    assert found(text, events, one_stream=False) == [{**wanted, "match_start": 1, "match_end": 4}]


def test_events_are_returned_one_by_one() -> None:
    answer = found("SEQ(A a, B+ b[]) WHERE [id] AND skip-till-next-match WITHIN 9 RETURN EVENTS", rows("a1 b2"), one_stream=False)
    assert [(row["variable"], row["event_number"], row["name"]) for row in answer] == [("a", 1, "a1"), ("b", 1, "b2")]


def test_a_condition_may_stand_in_brackets_behind_its_event() -> None:
    events = rows("a1 a2 b3 b4", [1, 5, 2, 9])
    text = "SEQ(A a [p > 3 AND a.n < 9], B[p BETWEEN 1 AND 3]) WITHIN 99"
    assert [shown(row) for row in found(text, events, one_stream=False)] == ["a2 b3"]


def test_alternatives_stand_in_parentheses_in_where() -> None:
    events = rows("a1 a2 b3", [1, 5, 2])
    text = "SEQ(A a, B b) WHERE (a.p > b.p OR a.name = 'a1') AND NOT a.p IS NULL WITHIN 99"
    assert sorted(shown(row) for row in found(text, events, one_stream=False)) == ["a1 b3", "a2 b3"]


def test_aggregates_over_earlier_events_guard_the_growth_of_a_list() -> None:
    events = rows("s1 s2 s3", [10, 12, 11])
    text = "SEQ(S+ s[]) WHERE skip-till-next-match AND s[i].p > avg(s[..i-1].p) WITHIN 99"
    assert sorted(shown(row) for row in found(text, events, one_stream=False)) == ["[s1 s2]", "[s1]", "[s2]", "[s3]"]


def test_traces_end_by_silence_or_by_a_type_where_no_window_is_given() -> None:
    text = "SEQ(A, B) WHERE [id] OPTIONS ({})"
    assert [shown(row) for row in found(text.format("trace_ttl 3"), rows("a1 b3 a10 b20"), one_stream=False)] == ["a1 b3"]
    assert [shown(row) for row in found(text.format("terminal 'D'"), rows("a1 d2 b3 a4 b5"), one_stream=False)] == ["a4 b5"]


def test_types_may_be_queries_and_names_are_compared_without_case() -> None:
    text = f"""{STREAMS}
        CREATE CQ Expensive AS SELECT id, p, ts FROM A WHERE p > 10;
        CREATE CQ q AS EVENT SEQ(expensive x, b y) WHERE [ID] AND X.P < y.p WITHIN 9 RETURN x.p, Y.ts AS at"""
    schema = pa.schema({"id": pa.int64(), "p": pa.int64(), "n": pa.int64(), "name": pa.string(), "ts": pa.int64()})
    inputs = {kind: pa.RecordBatch.from_pylist([], schema) for kind in TYPES}
    inputs["A"] = pa.RecordBatch.from_pylist([{"id": 1, "p": 5, "ts": 1}, {"id": 1, "p": 11, "ts": 2}], schema)
    inputs["B"] = pa.RecordBatch.from_pylist([{"id": 1, "p": 12, "ts": 3}], schema)
    assert undisturbed(text, inputs).collected.rows("q") == [{"id": 1, "x_p": 11, "at": 3}]


def test_answers_of_a_pattern_are_a_stream_like_any_other() -> None:
    text = f"""{ONE_STREAM}
        CREATE CQ pairs AS EVENT SEQ(A a, B b) FROM events TYPE kind WHERE [id] WITHIN 9 RETURN a.p + b.p AS total;
        CREATE CQ sums AS SELECT id, sum(total) AS total FROM pairs [RANGE 100] GROUP BY id"""
    schema = pa.schema(
        {"kind": pa.string(), "id": pa.int64(), "p": pa.int64(), "n": pa.int64(), "name": pa.string(), "ts": pa.int64()}
    )
    runner = undisturbed(text, {"events": pa.RecordBatch.from_pylist(rows("a1 b2 b3", [1, 2, 3]), schema)})
    assert runner.collected.rows("sums") == [{"id": 1, "total": 7}]


def test_streams_go_to_the_shard_of_the_key_at_once() -> None:
    plan = parse_application(f"{STREAMS} CREATE CQ q AS EVENT SEQ(A a, B b, A c) WHERE [id] WITHIN 5 RETURN a.p").queries["q"].plan
    assert isinstance(plan, PatternMatch)
    assert isinstance(plan.input, Merged)
    assert plan.input.keys == ("id",)
    assert [part.schema.names for part in plan.input.parts] == [("event_type", "id", "p")] * 2


def test_one_type_needs_no_merging() -> None:
    plan = parse_application(f"{STREAMS} CREATE CQ q AS EVENT SEQ(S+ a[], S b) WHERE [id] WITHIN 5").queries["q"].plan
    assert isinstance(plan, PatternMatch)
    assert isinstance(plan.input, Project)
    assert isinstance(plan.input.input, Scan)


def test_a_window_of_nothing_is_pointed_out() -> None:
    assert "SEQ never matches" in parse_application(f"{STREAMS} CREATE CQ q AS EVENT SEQ(A, B) WITHIN 0").warnings[0]


MISTAKES = [
    ("SEQ(A a, «E» b) WITHIN 5", "language.unknown-stream", "there is no stream or query 'E'; the application: it has A, B"),
    ("SEQ(A a, B b) WHERE «c».p > 1 WITHIN 5", "patterns.invalid", "the pattern has no variable 'c'; it has a, b"),
    ("SEQ(A a, B b) WHERE «a».q > 1 WITHIN 5", "language.unknown-column", "stream 'A' has no column 'q'"),
    ("SEQ(A a, B b) WHERE [«key»] WITHIN 5", "language.unknown-column", "the stream of events has no column 'key'"),
    ("«EVENT» SEQ(A a, B b)", "patterns.invalid", "state is unbounded: give WITHIN, a trace_ttl, or types that end a trace"),
    ("«EVENT» SEQ(A a, B a) WITHIN 5", "patterns.invalid", "the variable 'a' is given 2 times"),
    ("«EVENT» SEQ(A a, !(B b))", "patterns.invalid", "needs WITHIN"),
    ("«EVENT» AND(A a, !(B b)) WITHIN 5", "patterns.invalid", "stands outside SEQ"),
    ("«EVENT» SEQ(!(B b)) WITHIN 5", "patterns.invalid", "may match without any event"),
    ("SEQ(A a, !(«SEQ»(B, C))) WITHIN 5", "language.syntax", "only types can be absent"),
    ("SEQ(A, B) WHERE skip-till-next-match AND «strict»-contiguity WITHIN 5", "language.syntax", "has a strategy already"),
    ("SEQ(A, B) WHERE «strict-contiguity» WITHIN 5", "patterns.invalid", "use partition-contiguity otherwise"),
    ("AND(A, B) WHERE «skip-till-next-match» WITHIN 5", "patterns.invalid", "AND needs skip-till-any-match"),
    ("SEQ(A a«[»], B) WITHIN 5", "language.syntax", "A is one event; write A+"),
    ("SEQ(A a, «FOO»(B)) WITHIN 5", "language.syntax", "found 'FOO' before (; expected SEQ, AND, OR, ANY or !"),
    ("SEQ(A a, B b) WHERE a.p > 1 «OR» b.p > 1 WITHIN 5", "language.syntax", "put alternatives in parentheses"),
    ("SEQ(A a, B b) WHERE «a».p + 1 WITHIN 5", "language.type", "a condition must be true or false"),
    ("SEQ(A a, B b) WITHIN 5 «SECONDS»", "plan.window", "without 'SECONDS'"),
    ("SEQ(A a, B+ b[]) WHERE «max»(b.p + 1) > 1 WITHIN 5", "language.syntax", "max takes an attribute of a variable: max(a.price)"),
    (
        "SEQ(A+ a[], B b) WITHIN 5 RETURN «a».p AS x",
        "patterns.invalid",
        "write a[1].p, a[last].p, or an aggregate such as max(a.p)",
    ),
    ("SEQ(A a, B b) WITHIN 5 RETURN «a».p + b.p", "language.syntax", "has no name; write a.p + b.p AS name"),
    ("SEQ(A a, B b) WITHIN 5 «OPTIONS» (ordre 'total')", "language.syntax", "EVENT has no option 'ordre'"),
    ("SEQ(A a, B b) WITHIN 5 «OPTIONS» (event_id 'n')", "language.syntax", "'dedup true' tells repeated events"),
    ("SEQ(A a, B b) WITHIN 5 «OPTIONS» (dedup true)", "language.unknown-column", "'event_id'"),
    ("SEQ(A a, B b) WITHIN 5 «OPTIONS» (order 'late')", "language.syntax", "option 'order' is 'late'; it has timestamp, total"),
    ("SEQ(A a, B b) FROM «D» WITHIN 5", "language.syntax", "say which column has the types: FROM … TYPE column"),
    ("SEQ(A a, B b) FROM D TYPE «kind» WITHIN 5", "language.unknown-column", "stream 'D' has no column 'kind'"),
    ("SEQ(A a, B b) WITHIN 5 «WITHIN» 6", "language.syntax", "this clause stands twice"),
    (
        "SEQ(A a, B b) «HAVING» a.p > 1 WITHIN 6",
        "language.syntax",
        "found 'HAVING' behind the pattern; expected FROM, PARTITION BY",
    ),
    ("SEQ(A a, B b) WITHIN 5 OUTPUT TO «csv» OPTIONS (path 'x')", "language.syntax", "name measures in RETURN"),
    ("SEQ(A a «B») WITHIN 5", "language.syntax", "expected ) or ,"),
]


@pytest.mark.parametrize(("marked", "code", "message"), MISTAKES)
def test_a_mistake_names_its_place(marked: str, code: str, message: str) -> None:
    whole = f"{STREAMS}\nCREATE CQ q AS {'' if marked.startswith('«EVENT»') else 'EVENT '}{marked}"
    refused(whole, code, message)


def test_what_only_an_absent_event_has_is_not_shown() -> None:
    text = """CREATE STREAM A (id BIGINT, p BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
              CREATE STREAM N (id BIGINT, till BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
              CREATE CQ q AS EVENT SEQ(A+ a[], !(N n), A b) WHERE [id] WITHIN 9"""
    plan = parse_application(text).queries["q"].plan
    assert isinstance(plan, PatternMatch)
    assert "till" not in str(plan.schema["b"].type)
