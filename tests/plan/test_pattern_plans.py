"""What plans know of event patterns: columns, keys, shards, bounds of state, and what is filtered before it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import InvalidPlan, TypeMistake, UnknownColumn
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput, RowsPerMatch
from penstock.expressions.parse import parse
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.model.declarations import Source, StreamDeclaration
from penstock.model.event_patterns import atom, seq
from penstock.model.schema import TIMESTAMP, Schema
from penstock.plan.analysis.safety import check
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.nodes.relational import Scan

EVENTS = Scan(
    StreamDeclaration(
        "events", Schema.of(Type=pa.string(), id=pa.int64(), price=pa.float64(), ts=TIMESTAMP), Source("feed"), "ts", 5_000_000
    )
)
STREAM = "CREATE STREAM e (t STRING, id BIGINT, v BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);"


def sought(*conditions: str, **options: object) -> EventQuery:
    settings = {"key": ("id",), "within": 10, **options}
    return EventQuery(seq(atom("A", "a"), atom("B", "b", "+")), conditions=tuple(map(parse, conditions)), **settings)  # type: ignore[arg-type]


def test_names_are_spelled_as_the_stream_spells_them() -> None:
    output = MatchOutput(measures=(("top", parse("`max(B.PRICE)`")), ("last", parse("`b[LAST].Price`"))))
    node = PatternMatch(EVENTS, sought("A.Price > 3", key=("ID",)), output)
    assert (node.query.key, node.query.type_column) == (("id",), "Type")
    assert [str(condition) for condition in node.query.conditions] == ["a.price > 3"]
    assert [str(expr) for _, expr in node.output.measures] == ["`max(b.price)`", "`b[last].price`"]
    assert node.needs == ("Type", "id", "price")


def test_the_output_has_the_columns_the_operator_gives() -> None:
    struct = pa.struct(EVENTS.schema.arrow)
    shown = PatternMatch(EVENTS, sought()).schema
    assert shown.names == ("id", "match_start", "match_end", "match_id", "branch", "a", "b")
    assert (shown["a"].type, shown["b"].type, shown["match_start"].type) == (struct, pa.list_(struct), TIMESTAMP)
    events = PatternMatch(EVENTS, sought(), MatchOutput(RowsPerMatch.ALL, columns=("PRICE",)))
    assert events.schema.names == ("id", "match_id", "variable", "event_number", "price")
    assert events.needs == ("Type", "id", "price")


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        (sought("a.prise > 3"), UnknownColumn, "Did you mean 'price'?"),
        (sought(key=("order",)), UnknownColumn, "has no column 'order'"),
        (sought(type_column="kind"), UnknownColumn, "has no column 'kind'"),
        (sought(type_column="id"), TypeMistake, "the type of an event is a text"),
        (sought(position_column="price"), TypeMistake, "the number of an event is an integer"),
        (sought("a.price + 1"), TypeMistake, "must be true or false"),
    ],
)
def test_a_node_that_cannot_run_is_refused(query: EventQuery, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        PatternMatch(EVENTS, query)


def test_constraints_need_a_key() -> None:
    with pytest.raises(InvalidPlan, match="name the key"):
        PatternMatch(EVENTS, sought(key=()), constraints=ConstraintSet((), ("A", "B"), ()))


def test_a_key_that_the_output_hides_spreads_no_later_operator() -> None:
    hidden = MatchOutput(measures=(("id", parse("match_id")),))
    assert PatternMatch(EVENTS, sought(), hidden).shown_key == ()
    assert PatternMatch(EVENTS, sought(), MatchOutput(measures=(("id", parse("id")),))).shown_key == ("id",)


def verdict(query: str) -> str:
    report = check(parse_application(f"{STREAM} CREATE CQ q AS EVENT {query}"))
    return "\n".join(line for verdict in report.verdicts if isinstance(verdict.node, PatternMatch) for line in verdict.lines())


def test_check_says_what_bounds_the_state() -> None:
    assert "bounded" in verdict("SEQ(A a, B b) FROM e TYPE t WHERE [id] WITHIN 9")
    assert "events: a match lies within 9; ≤ rate × (9 + 3)" in verdict("SEQ(A a, B b) FROM e TYPE t WHERE [id] WITHIN 9")
    silent = verdict("SEQ(A a, B b) FROM e TYPE t WHERE [id] OPTIONS (trace_ttl 7)")
    assert "a trace ends after 7 without events" in silent
    assert "if every id falls silent for 7" in silent
    ended = verdict("SEQ(A a, B b) FROM e TYPE t WHERE [id] OPTIONS (terminal 'Z')")
    assert "Z ends its trace" in ended
    assert "if every id has its Z" in ended


def test_events_wait_for_ever_where_event_time_does_not_advance() -> None:
    report = check(
        parse_application(f"""{STREAM}
        CREATE STREAM u (t STRING, id BIGINT, ts BIGINT, UNIQUE (id), WATERMARK ts DELAY OF 0);
        CREATE CQ grows AS SELECT t, count(*) AS n FROM u GROUP BY t;
        CREATE CQ q AS EVENT SEQ(A a, B b) FROM grows TYPE t WITHIN 5""")
    )
    (found,) = report.of_query("q")
    assert not found.is_bounded
    assert found.growth == "grows-with-rows"


def test_a_query_without_key_runs_in_one_shard_and_one_with_key_where_its_key_is() -> None:
    catalog = parse_application(f"""{STREAM}
        CREATE CQ whole AS EVENT SEQ(A a, B b) FROM e TYPE t WITHIN 5 RETURN a.v;
        CREATE CQ apart AS EVENT SEQ(A a, B b) FROM e TYPE t WHERE [id] WITHIN 5 RETURN a.v;
        CREATE CQ counted AS SELECT id, count(*) AS n FROM apart [RANGE 10] GROUP BY id""")
    job = build_job(catalog, 3)
    assert len(job.stages) == 1, "the grouping follows the key of the pattern"
    assert sorted(source.route.keys or () for source in job.stages[0].sources) == [(), ("id",)]


def test_patterns_that_share_a_stream_share_what_is_filtered_and_what_crosses() -> None:
    catalog = parse_application(f"""{STREAM}
        CREATE CQ one AS EVENT SEQ(A a, B b) FROM e TYPE t WHERE [id] AND a.v > 1 WITHIN 5 RETURN a.v;
        CREATE CQ other AS EVENT SEQ(B a, C b) FROM e TYPE t WHERE [id] AND a.v > 1 WITHIN 5 RETURN b.v""")
    (source,) = build_job(catalog, 2).stages[0].sources
    assert str(source.prefix.condition) == "t IN ('A', 'B', 'C')"
    assert source.prefix.schema.names == ("t", "id", "v")


def test_another_reader_of_the_stream_gets_all_of_it() -> None:
    catalog = parse_application(f"""{STREAM}
        CREATE CQ one AS EVENT SEQ(A a, B b) FROM e TYPE t WHERE [id] WITHIN 5 RETURN a.v;
        CREATE CQ other AS SELECT id, count(*) AS n FROM e [RANGE 9] GROUP BY id""")
    (source,) = build_job(catalog, 2).stages[0].sources
    assert source.prefix.condition is None


def test_another_plan_has_another_fingerprint() -> None:
    texts = [
        f"{STREAM} CREATE CQ q AS EVENT SEQ(A a, B b) FROM e TYPE t WHERE [id] {more}"
        for more in ("WITHIN 5", "WITHIN 6", "AND a.v > 1 WITHIN 5", "AND skip-till-next-match WITHIN 5", "WITHIN 5 RETURN a.v")
    ]
    found = [build_job(parse_application(text), 2).fingerprint for text in (*texts, texts[0])]
    assert len(set(found)) == len(texts)
    assert found[0] == found[-1]
