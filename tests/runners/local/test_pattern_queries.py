"""Event queries from text to answers: those of brute force, whatever the batches, the shards, the disorder and the rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.errors import NeverMatches
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.event_patterns import EventOrder
from penstock.plan.nodes.patterns import PatternMatch
from penstock.runners.local.runner import LocalRunner
from penstock.testing.pattern_reference import matches
from penstock.testing.reference import Row

DISORDER = 3
SCHEMA = pa.schema({"kind": pa.string(), "id": pa.int64(), "p": pa.int64(), "n": pa.int64(), "ts": pa.int64()})
STREAMS = f"CREATE STREAM e (kind STRING, id BIGINT, p BIGINT, n BIGINT, ts BIGINT, WATERMARK ts DELAY OF {DISORDER});" + "".join(
    f"CREATE STREAM {name} (id BIGINT, p BIGINT, n BIGINT, ts BIGINT, WATERMARK ts DELAY OF {DISORDER});\n" for name in "ABC"
)
#: Patterns with their conditions; `{}` is where FROM goes.
QUERIES = (
    "SEQ(A a, B b){} WHERE [id] AND a.p < b.p WITHIN 4",
    "SEQ(A a, B b, C c){} WHERE [id] AND a.p > 1 AND c.p = a.p WITHIN 9",
    "SEQ(A a, !(B b), C c){} WHERE [id] AND b.p > a.p WITHIN 6",
    "SEQ(A a, B b, !(C c)){} WHERE [id] WITHIN 5",
    "SEQ(!(C c), A a, B b){} WHERE [id] AND skip-till-next-match WITHIN 5",
    "SEQ(A a, B+ b[], C c){} WHERE [id] AND skip-till-next-match AND b[i].p >= b[i-1].p AND count(b) < 4 WITHIN 12",
    "SEQ(A a, B* b[], C c){} WHERE [id] AND b.p > 1 WITHIN 5",
    "SEQ(A+ a[], B b){} WHERE [id] AND partition-contiguity AND a[last].p < b.p WITHIN 9",
    "AND(SEQ(A a, B b), C c){} WHERE [id] AND c.p > a.p WITHIN 5",
    "OR(SEQ(A a, B b), SEQ(B d, C c)){} WHERE [id] WITHIN 4",
    "SEQ(A a, ANY(B, C) x){} WHERE [id] AND skip-till-next-match AND x.p <> a.p WITHIN 6",
    "SEQ(A a, B b){} WHERE skip-till-next-match AND a.p = b.p WITHIN 3",
    "SEQ(A a, B b){} WHERE [id] OPTIONS (trace_ttl 4)",
    "SEQ(A a, B b){} WHERE [id] AND a.p > 0 OPTIONS (terminal 'C')",
    "SEQ(A a, B b){} WHERE [id] WITHIN 4 OPTIONS (order 'total')",
    "SEQ(A a, B b){} WHERE [id] WITHIN 9 OPTIONS (dedup true, event_id 'p')",
    "SEQ(B b, ANY(C, A) x){} WHERE [id] OPTIONS (dedup true, event_id 'p', trace_ttl 4)",
    "SEQ(C c, A+ a[]){} WHERE [id] AND skip-till-next-match OPTIONS (dedup true, event_id 'p', terminal 'B')",
)


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Events in the order of their arrival: each comes before any that is later by more than the bound."""
    number = draw(st.integers(0, 14))
    rows = [
        (
            draw(st.integers(0, 14)),
            {
                "kind": draw(st.sampled_from("ABCZ")),
                "id": draw(st.sampled_from([1, 2])),
                "p": draw(st.sampled_from([0, 1, 2, 3, None])),
            },
        )
        for _ in range(number)
    ]
    late = [draw(st.integers(0, DISORDER)) for _ in rows]
    arrival = sorted(zip(rows, late, strict=True), key=lambda item: item[0][0] + item[1])
    shift = draw(st.sampled_from([0, 0, -7, -40]))
    return [Row(ts + shift, n, {**values, "n": n, "ts": ts + shift}) for n, ((ts, values), _) in enumerate(arrival)]


def repeated_across_streams() -> list[Row]:
    """The name that an A and a B of one time share, the A behind more rows of its stream than the B."""
    events = [*[(0, "A", 0)] * 4, (1, "A", 1), (1, "B", 1)]
    return [Row(ts, n, {"kind": kind, "id": 1, "p": p, "n": n, "ts": ts}) for n, (ts, kind, p) in enumerate(events)]


def pieces(rows: Sequence[Row], cuts: Sequence[int]) -> list[Sequence[Row]]:
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    return [rows[start:stop] for start, stop in pairwise(bounds)]


def run(job: Job, rows: Sequence[Row], cuts: Sequence[int], one_stream: bool) -> LocalRunner:
    """Micro-batches of these rows, which go to one stream or to one for each type."""
    runner = LocalRunner(job, encode=True)
    for piece in pieces(rows, cuts):
        if one_stream:
            given = {"e": pa.RecordBatch.from_pylist([row.values for row in piece], SCHEMA)}
        else:
            schema = SCHEMA.remove(0)
            parts = {name: [row.values for row in piece if row.values["kind"] == name] for name in "ABC"}
            given = {name: pa.RecordBatch.from_pylist(part, schema) for name, part in parts.items()}
        runner.run(given)
    runner.end()
    return runner


def played(job: Job, rows: Sequence[Row], cuts: Sequence[int], one_stream: bool) -> list[dict[str, Any]]:
    """Answers after these micro-batches, of which no row is set aside."""
    runner = run(job, rows, cuts, one_stream)
    assert runner.collected.refused == []
    return runner.collected.rows("q")


def named(node: PatternMatch, found: Sequence[dict[str, Any]]) -> list[Any]:
    """Matches as the reference names them."""
    result = []
    for row in found:
        values = [row[node.query.atoms[leaf].variable] for leaf in node.query.terms[row["branch"]].leaves]
        taken = [tuple(each["n"] for each in (value if isinstance(value, list) else [value])) for value in values]
        result.append((row["branch"], tuple(taken)))
    return sorted(result)


def brute_force(node: PatternMatch, rows: Sequence[Row], one_stream: bool) -> list[Any]:
    """What is right. Of rows of one time those of the stream come first that the pattern names first."""
    named_first = dict.fromkeys(kind for leaf in node.query.atoms for kind in leaf.types)
    order = sorted(rows, key=lambda row: 0 if one_stream else [*named_first, *"ABCZ"].index(row.values["kind"]))
    seen = [Row(row.ts, at, {**row.values, node.query.type_column: row.values["kind"]}) for at, row in enumerate(order)]
    found = matches(node.query, seen, node.input.schema.arrow)
    return sorted((branch, tuple(tuple(order[at].pos for at in part) for part in binding)) for branch, binding in found)


@pytest.mark.parametrize("one_stream", [True, False], ids=["one stream", "a stream for each type"])
@pytest.mark.parametrize("text", QUERIES)
@given(rows=streams(), cuts=st.lists(st.integers(1, 14), max_size=3), shards=st.integers(1, 3), optimise=st.booleans())
@example(rows=[], cuts=[], shards=1, optimise=True)
@example(rows=repeated_across_streams(), cuts=[], shards=1, optimise=True)
@settings(max_examples=8, deadline=None)
def test_answers_are_those_of_brute_force(
    text: str, one_stream: bool, rows: list[Row], cuts: list[int], shards: int, optimise: bool
) -> None:
    catalog = parse_application(f"{STREAMS} CREATE CQ q AS EVENT {text.format(' FROM e TYPE kind' if one_stream else '')}")
    plan = catalog.queries["q"].plan
    assert isinstance(plan, PatternMatch)
    if not one_stream and plan.query.order is EventOrder.TOTAL:
        return  # positions of different streams say nothing about which event came first
    if not one_stream:
        rows = [row for row in rows if row.values["kind"] in plan.query.types]  # streams of other types are not read
    found = played(build_job(catalog, shards, optimise=optimise), rows, cuts, one_stream)
    assert named(plan, found) == brute_force(plan, rows, one_stream)


KINDS = st.sampled_from("ABC")
RULES = st.one_of(
    st.tuples(KINDS, KINDS).map(lambda pair: f"PRIOR({pair[0]}, {pair[1]})"),
    st.permutations("ABC").map(lambda names: f"EXCLUSIVE({names[0]}, {names[1]})"),
    st.permutations("ABC").map(lambda names: f"REQUIRE({names[0]}, {names[1]})"),
    st.permutations("ABC").map(lambda names: f"HORN({names[0]}, {names[1]} -> FALSE)"),
    KINDS.map(lambda name: f"AT_MOST_ONCE({name})"),
    KINDS.map(lambda name: f"TERMINAL({name})"),
    KINDS.map(lambda name: f"NEVER({name})"),
)


@pytest.mark.parametrize("one_stream", [True, False], ids=["one stream", "a stream for each type"])
@given(
    text=st.sampled_from([text for text in QUERIES if "[id]" in text]),
    rows=streams(),
    rules=st.lists(RULES, min_size=1, max_size=3),
    reuse_keys=st.booleans(),
    cuts=st.lists(st.integers(1, 14), max_size=3),
    shards=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_constraints_of_every_kind_change_no_answer_in_silence(
    one_stream: bool, text: str, rows: list[Row], rules: list[str], reuse_keys: bool, cuts: list[int], shards: int
) -> None:
    about, reuse = "e " if one_stream else "", "REUSE KEYS" if reuse_keys else ""
    declared = f"CREATE CONSTRAINT process ON {about}(id) AS {', '.join(rules)} {reuse};"
    source = f"{STREAMS} {declared} CREATE CQ q AS EVENT {text.format(' FROM e TYPE kind' if one_stream else '')}"
    try:
        catalog = parse_application(source)
    except NeverMatches:
        return
    plan = catalog.queries["q"].plan
    assert isinstance(plan, PatternMatch)
    if not one_stream and plan.query.order is EventOrder.TOTAL:
        return  # positions of different streams say nothing about which event came first
    if not one_stream:
        rows = [row for row in rows if row.values["kind"] in {*plan.query.types, *(plan.relevant_types or ())}]
    runner = run(build_job(catalog, shards), rows, cuts, one_stream)
    found, complaints = named(plan, runner.collected.rows("q")), [each.text for each in runner.collected.refused]
    if found != brute_force(plan, rows, one_stream):
        assert any("may be" in each for each in complaints)


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize(("pattern", "expected"), [("SEQ(A a, ANY(B, C) x)", "B"), ("SEQ(A a, ANY(C, B) x)", "C")])
def test_of_a_name_that_streams_share_at_one_time_the_stream_named_first_counts(before: int, pattern: str, expected: str) -> None:
    """However many rows were read from either stream: their numbers say nothing about another stream."""
    text = f"{pattern} WHERE [id] WITHIN 9 RETURN x.n AS n OPTIONS (dedup true, event_id 'p')"
    catalog = parse_application(f"{STREAMS} CREATE CQ q AS EVENT {text}")
    events = [
        ("A", 1, 0),
        *[("C", 0, 5 + n) for n in range(before)],
        *[("B", 0, 5 + n) for n in range(2)],
        ("B", 2, 1),
        ("C", 2, 1),
    ]
    rows = [Row(ts, n, {"kind": kind, "id": 1, "p": p, "n": n, "ts": ts}) for n, (kind, ts, p) in enumerate(events)]
    found = played(build_job(catalog, 1), rows, [], one_stream=False)
    assert [events[row["n"]][0] for row in found] == [expected]


def test_a_trace_is_not_silent_because_events_that_no_match_needs_were_dropped() -> None:
    """The B at 5 takes part in no later match, but without it nothing would have happened between 1 and 9."""
    text = "SEQ(A a, B b) FROM e TYPE kind WHERE [id] RETURN a.n, b.n AS m OPTIONS (trace_ttl 4)"
    catalog = parse_application(f"{STREAMS} CREATE CQ q AS EVENT {text}")
    events = [("A", 1), ("B", 5), ("A", 9), ("B", 13)]
    rows = [Row(ts, n, {"kind": kind, "id": 1, "p": 0, "n": n, "ts": ts}) for n, (kind, ts) in enumerate(events)]
    for cuts in ([], [1], [2], [3], [1, 2, 3]):
        found = played(build_job(catalog, 1), rows, cuts, one_stream=True)
        assert sorted((row["a_n"], row["m"]) for row in found) == [(0, 1), (0, 3), (2, 3)]


@pytest.mark.parametrize("one_stream", [True, False], ids=["one stream", "a stream for each type"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_late_event_tells_whether_its_trace_had_been_given_up(one_stream: bool, shards: int) -> None:
    source = "FROM e TYPE kind" if one_stream else ""
    catalog = parse_application(
        f"{STREAMS} CREATE CONSTRAINT c ON {'e' if one_stream else ''} (id) AS EXCLUSIVE(B, C);"
        f"CREATE CQ q AS EVENT SEQ(A a, B b) {source} WHERE [id] WITHIN 90 RETURN a.n, b.n AS m"
    )
    runner = LocalRunner(build_job(catalog, shards))
    # Of orders 1 and 2 only the second has a C; after it no B can come. The row at 90 makes those behind it late.
    batches = [[("A", 1, 10), ("A", 2, 11), ("C", 2, 12)], [(name, 3, 30) for name in "ABC"]]
    batches += [[("B", 1, 15), ("B", 2, 16), ("B", 4, 17)], [("B", 3, 90)], [("B", 2, 40), ("B", 1, 41)]]
    for rows in batches:
        values = [{"kind": kind, "id": key, "p": 0, "n": ts, "ts": ts} for kind, key, ts in rows]
        given = (
            {"e": pa.RecordBatch.from_pylist(values, SCHEMA)}
            if one_stream
            else {
                name: pa.RecordBatch.from_pylist([row for row in values if row["kind"] == name], SCHEMA.remove(0)) for name in "ABC"
            }
        )
        runner.run(given)
    found = [(item.reason, row["id"]) for item in runner.collected.refused for row in item.batch.rows.to_pylist()]
    late = sorted(each for each in found if each[0].startswith("late"))
    assert late == [("late", 1), ("late", 1), ("late", 4), ("late_after_prune", 2), ("late_after_prune", 2)]


def test_events_without_key_and_late_ones_are_set_aside_with_a_reason() -> None:
    catalog = parse_application(
        f"{STREAMS} CREATE CQ q AS EVENT SEQ(A a, B b) FROM e TYPE kind WHERE [id] WITHIN 9 RETURN a.n, b.n AS m"
    )
    runner = LocalRunner(build_job(catalog, 2))
    first = [("A", 1, 10), ("B", None, 11), ("Z", None, 12), ("A", 2, 20)]
    second = [("B", 1, 12), ("B", 2, 21)]
    for rows in (first, second):
        values = [{"kind": kind, "id": key, "p": 0, "n": ts, "ts": ts} for kind, key, ts in rows]
        runner.run({"e": pa.RecordBatch.from_pylist(values, SCHEMA)})
    runner.end()
    assert runner.collected.rows("q") == [{"id": 2, "a_n": 20, "m": 21}]
    assert sorted(item.reason for item in runner.collected.refused) == ["late", "null_key"]
