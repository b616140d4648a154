"""`MATCH_RECOGNIZE` through the language: meaning, answers of whole applications, mistakes with their place, safety."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from marked_mistakes import refused

from penstock.errors import UserError
from penstock.language.application import parse_application
from penstock.plan.analysis.safety import check
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.row_patterns import RowPatternMatch
from penstock.runners.local.runner import Collected
from penstock.testing.reference import Row
from penstock.testing.row_pattern_reference import answers as expected
from penstock.testing.streams import bag
from penstock.testing.undisturbed import undisturbed

STREAMS = """
CREATE STREAM tick (symbol STRING, price BIGINT, volume BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3)
  USING feed OPTIONS (workload 'pairs', stream 'left', total '5');
CREATE STREAM firm (name STRING, code STRING, ts BIGINT, WATERMARK ts DELAY OF 0)
  USING feed OPTIONS (workload 'pairs', stream 'left', total '5');
"""
SCHEMA = pa.schema({"symbol": pa.string(), "price": pa.int64(), "volume": pa.int64(), "ts": pa.int64()})
V_SHAPE = """PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(start.ts) AS began, LAST(down.price) AS bottom, LAST(up.price) AS top, COUNT(*) AS n, CLASSIFIER() AS last
  {rows} AFTER MATCH SKIP {skip}
  PATTERN (start down+ up+) WITHIN 20
  DEFINE down AS price < PREV(price), up AS price > PREV(price) AND COUNT(up.*) < 4"""


def application(select: str) -> str:
    return f"{STREAMS} CREATE CQ q AS {select};"


def node_of(catalog: Catalog, name: str = "q") -> RowPatternMatch:
    return next(node for node in walk(catalog.queries[name].plan) if isinstance(node, RowPatternMatch))


def ticks(seed: int, rows: int = 120) -> list[Row]:
    """Prices of three symbols, times run back by at most the bound, several rows share a time."""
    rng = random.Random(seed)
    times = sorted((rng.randrange(60) for _ in range(rows)), key=lambda time: time + rng.randrange(3))
    found = []
    for number, time in enumerate(times):
        values = {"symbol": rng.choice("ABC"), "price": rng.randrange(8), "volume": rng.randrange(5), "ts": time}
        found.append(Row(time, number, values))
    return found


def run(text: str, rows: list[Row], firms: tuple[str, ...] = ()) -> Collected:
    ticked = pa.RecordBatch.from_pylist([dict(row.values) for row in rows], SCHEMA)
    known = [{"name": f"the firm {code}", "code": code, "ts": 0} for code in firms]
    columns = pa.schema({"name": pa.string(), "code": pa.string(), "ts": pa.int64()})
    return undisturbed(text, {"tick": ticked, "firm": pa.RecordBatch.from_pylist(known, columns)}).collected


# -- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
@pytest.mark.parametrize("skip", ["PAST LAST ROW", "TO NEXT ROW", "TO FIRST up", "TO LAST up"])
def test_an_application_answers_as_brute_force_does(rows: str, skip: str) -> None:
    text = application(f"SELECT * FROM tick MATCH_RECOGNIZE ({V_SHAPE.format(rows=rows, skip=skip)})")
    query = node_of(parse_application(text)).query
    for seed in range(3):
        stream = ticks(seed)
        found = [tuple(row.values()) for row in run(text, stream).rows("q")]
        assert bag(found) == bag(expected(query, stream, SCHEMA))
        assert found


def test_the_example_of_the_standard() -> None:
    prices = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 14, 12, 14, 20, 24]
    text = application("SELECT * FROM tick MATCH_RECOGNIZE (" + V_SHAPE.format(rows="", skip="TO LAST up") + ") AS m WHERE n > 3")
    stream = [Row(at, at, {"symbol": "ACME", "price": price, "volume": 1, "ts": at}) for at, price in enumerate(prices)]
    found = run(text, stream).rows("q")
    assert [(row["began"], row["bottom"], row["top"]) for row in found] == [(4, 12, 24), (9, 15, 25), (12, 12, 24)]


#: A query for each feature of the clause; the order, and the key where none is written, stand before.
FEATURES = {
    "several columns of a partition": (
        "PARTITION BY symbol, volume ORDER BY ts ASC MEASURES a.price AS p PATTERN (a b) DEFINE b AS price > a.price"
    ),
    "one partition": "ORDER BY ts MEASURES a.symbol AS s, b.symbol AS t PATTERN (a b) DEFINE b AS b.symbol <> a.symbol",
    "running and final": (
        "MEASURES RUNNING SUM(price) AS r, FINAL SUM(price) AS f ALL ROWS PER MATCH PATTERN (a b+) WITHIN 9 "
        "DEFINE b AS price >= PREV(price)"
    ),
    "classifier and number": (
        "MEASURES CLASSIFIER() AS c, MATCH_NUMBER() AS n ALL ROWS PER MATCH PATTERN (a | b) DEFINE a AS price > 4"
    ),
    "empty matches": "MEASURES COUNT(*) AS n ALL ROWS PER MATCH OMIT EMPTY MATCHES PATTERN (a*) DEFINE a AS price > 4",
    "unmatched rows": "MEASURES COUNT(*) AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a b) DEFINE b AS price > a.price",
    "reluctant": "MEASURES COUNT(a.*) AS n PATTERN (a{1,4}? b) DEFINE b AS price = 0",
    "bounded": "MEASURES COUNT(*) AS n PATTERN (a{2,3} b{,2} c) DEFINE a AS price > 2, b AS price < 5",
    "alternation": "MEASURES COUNT(*) AS n, b.price AS p PATTERN ((a a | b) c) DEFINE a AS price > 5",
    "permutation": "MEASURES a.ts AS x, b.ts AS y PATTERN (PERMUTE(a, b, c)) DEFINE a AS price > 5, b AS price < 3",
    "subset": (
        "MEASURES SUM(u.price) AS s, CLASSIFIER(u) AS c AFTER MATCH SKIP TO FIRST u PATTERN (a b c) SUBSET u = (b, c) "
        "DEFINE c AS price > u.volume"
    ),
    "exclusion": "MEASURES COUNT(*) AS n ALL ROWS PER MATCH PATTERN (a {- b -} c) DEFINE b AS price < 4",
    "start of a partition": "MEASURES LAST(a.price) AS p PATTERN (^ a{3})",
    "navigation": (
        "MEASURES FIRST(b.price, 1) AS x, LAST(b.price, 1) AS y, PREV(FIRST(a.price), 2) AS z PATTERN (a b+) WITHIN 9 "
        "DEFINE b AS price > PREV(price, 2) OR price > FIRST(a.price)"
    ),
    "aggregates": (
        "MEASURES AVG(a.price) AS x, MIN(price) AS y, MAX(b.volume) AS z PATTERN (a+ b) WITHIN 9 "
        "DEFINE a AS SUM(a.price) < 12 AND COUNT(a.price) < 4, b AS price > AVG(a.price)"
    ),
    "functions": (
        "MEASURES ROUND(a.price / b.price, 1) AS r PATTERN (a b) "
        "DEFINE b AS ABS(price - a.price) >= GREATEST(a.volume, volume, 2) "
        "AND CASE WHEN a.price > 3 THEN UPPER(symbol) ELSE 'A' END <> 'B'"
    ),
}


@pytest.mark.parametrize("feature", list(FEATURES))
def test_every_feature_answers_as_brute_force_does(feature: str) -> None:
    clause = FEATURES[feature] if "ORDER BY" in FEATURES[feature] else f"PARTITION BY symbol ORDER BY ts {FEATURES[feature]}"
    text = application(f"SELECT * FROM tick MATCH_RECOGNIZE ({clause})")
    query = node_of(parse_application(text)).query
    stream = ticks(7)
    found = [tuple(row.values()) for row in run(text, stream).rows("q")]
    assert bag(found) == bag(expected(query, stream, SCHEMA))
    assert found


def test_matches_can_be_selected_joined_and_grouped_like_any_rows() -> None:
    text = f"""{STREAMS}
      CREATE CQ busy AS SELECT symbol AS s, price AS p, ts AS at FROM tick WHERE volume > 0;
      CREATE CQ rises AS SELECT s, gain FROM busy MATCH_RECOGNIZE (PARTITION BY s ORDER BY at
        MEASURES LAST(up.p) - FIRST(low.p) AS gain PATTERN (low up+) WITHIN 20 DEFINE up AS p > PREV(p)) WHERE gain > 1;
      CREATE CQ counted AS SELECT s, COUNT(*) AS n, SUM(gain) AS gain FROM rises [RANGE 30] GROUP BY s;
      CREATE CQ named AS SELECT m.symbol, m.top, f.name
        FROM tick MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
          MEASURES MAX(price) AS top PATTERN (a b) DEFINE a AS price > 5) AS m [RANGE 100], firm f [RANGE 100]
        WHERE m.symbol = f.code;
      CREATE CQ inner_select AS SELECT n FROM (SELECT symbol, ts FROM tick WHERE price > 6)
        MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (a{{2}}));"""
    collected = run(text, ticks(1), firms=("A",))
    rises = collected.rows("rises")
    assert rises
    assert all(row["gain"] > 1 for row in rises)
    assert sum(row["n"] for row in collected.rows("counted")) == len(rises)
    assert sum(row["gain"] for row in collected.rows("counted")) == sum(row["gain"] for row in rises)
    assert {(row["symbol"], row["name"]) for row in collected.rows("named")} == {("A", "the firm A")}
    assert collected.rows("inner_select")


# -- meaning ----------------------------------------------------------------------------------------------------------


def meaning(inside: str) -> list[str]:
    node = node_of(parse_application(application(f"SELECT * FROM tick MATCH_RECOGNIZE (ORDER BY ts {inside})")))
    return node.describe()


def test_names_are_compared_without_case() -> None:
    assert meaning("MEASURES First(a.PRICE) AS x PATTERN (A b+ A) DEFINE B AS b.Price > prev(A.price)") == [
        "RowPatternMatch (A b+ A)",
        "one row per match, skip PAST LAST ROW",
        "b: b.price > PREV(A.price)",
        "measures x = FIRST(A.price)",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("FIRST(a.price * a.volume, 2)", "FIRST(a.price, 2) * FIRST(a.volume, 2)"),
        ("PREV(price + 1)", "PREV(price) + 1"),
        ("PREV(LAST(a.price, 1), 3)", "PREV(LAST(a.price, 1), 3)"),
        ("RUNNING LAST(a.price)", "a.price"),
        ("FINAL LAST(a.price) + FINAL COUNT(*)", "FINAL LAST(a.price) + FINAL COUNT(*)"),
        ("FINAL PREV(price)", "FINAL PREV(LAST(price))"),
        ("SUM(a.price * a.volume) / COUNT(a.*)", "SUM(a.price * a.volume) / COUNT(a.*)"),
        ("COUNT(a.price) - COUNT(1)", "COUNT(a.price) - COUNT(1)"),
        ("price", "price"),
        ("CASE WHEN CLASSIFIER() = 'a' THEN a.price ELSE 0 END", "CASE WHEN CLASSIFIER() = 'a' THEN a.price ELSE 0 END"),
    ],
)
def test_measures_mean_rows_of_the_match(written: str, meant: str) -> None:
    assert meaning(f"MEASURES {written} AS m PATTERN (a)")[-1] == f"measures m = {meant}"


def test_subsets_are_shown_before_what_they_are_for() -> None:
    assert meaning("MEASURES S.price AS p AFTER MATCH SKIP TO s PATTERN (a b) SUBSET s = (B, a) DEFINE b AS s.volume > 1")[1:] == [
        "one row per match, skip TO LAST s",
        "s = b or a",
        "b: s.volume > 1",
        "measures p = s.price",
    ]


@pytest.mark.parametrize(
    ("clause", "line"),
    [
        ("AFTER MATCH SKIP TO a", "one row per match, skip TO LAST a"),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES AFTER MATCH SKIP TO FIRST a", "all rows per match with rows, skip TO FIRST a"),
        ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", "all rows per match, skip PAST LAST ROW"),
    ],
)
def test_output_and_skip_clauses(clause: str, line: str) -> None:
    assert meaning(f"MEASURES a.price AS p {clause} PATTERN (a)")[1] == line


# -- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES = [
    ("ORDER BY ts PATTERN «(»(a b", "language.syntax", "the bracket of PATTERN is not closed"),
    ("«MATCH_RECOGNIZE» (ORDER BY ts PATTERN (a)", "language.syntax", "the matches have no columns"),
    ("«MATCH_RECOGNIZE» (PATTERN (a)", "language.syntax", "write ORDER BY ts"),
    ("ORDER BY «price» PATTERN (a)", "language.syntax", "write ORDER BY ts"),
    ("ORDER BY «ts» DESC PATTERN (a)", "language.syntax", "write ORDER BY ts"),
    ("ORDER BY ts, «price» PATTERN (a)", "language.syntax", "rows of equal time are in the order of arrival"),
    ("PARTITION BY «sym» ORDER BY ts PATTERN (a)", "language.unknown-column", "stream 'tick' has no column 'sym'"),
    ("ORDER BY ts PATTERN («^ ()»)", "patterns.invalid", "has no variable, so nothing can be found"),
    ("ORDER BY ts PATTERN (a «(b?)*»)", "patterns.invalid", "repeats what may take no row at all"),
    ("ORDER BY ts PATTERN (a «b{3,2}»)", "patterns.invalid", "allows no number of rows"),
    ("ORDER BY ts PATTERN (a {- b | «-}»)", "patterns.invalid", "found '-}'; expected a variable"),
    ("ORDER BY ts PATTERN (a «$»)", "patterns.invalid", "let a row that tells the end be the last, or use WITHIN"),
    ("ORDER BY ts PATTERN (a «|» )", "patterns.invalid", "expected a variable"),
    ("ORDER BY ts PATTERN (a) DEFINE «b» AS price > 1", "patterns.invalid", "the pattern has no variable 'b'; it has a"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS «b».price > 1", "patterns.invalid", "the pattern has no variable 'b'"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS a.«prize» > 1", "language.unknown-column", "Did you mean 'price'"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS «price» + 1", "language.type", "a condition must be true or false"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS price > «NEXT»(price)", "language.syntax", "rows that have not come yet"),
    ("ORDER BY ts PATTERN (a b) DEFINE a AS «FIRST»(a.price + b.price) > 1", "language.syntax", "must belong to one variable"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS «PREV»(price, volume) > 1", "language.syntax", "must be a whole number"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS price > 1, «A» AS price < 1", "language.syntax", "stands twice in DEFINE"),
    ("ORDER BY ts MEASURES price AS x, price AS «x» PATTERN (a)", "language.syntax", "stands twice in MEASURES"),
    ("ORDER BY ts MEASURES price «PATTERN» (a)", "language.syntax", "expected AS name"),
    ("ORDER BY ts MEASURES «SUM»(DISTINCT price) AS s PATTERN (a)", "language.syntax", "without DISTINCT"),
    ("ORDER BY ts ALL ROWS PER MATCH WITH «ALL» ROWS PATTERN (a)", "language.syntax", "expected UNMATCHED"),
    ("ORDER BY ts AFTER MATCH SKIP TO FIRST «z» PATTERN (a)", "patterns.invalid", "the pattern has no variable 'z'"),
    ("ORDER BY ts AFTER MATCH SKIP «OVER» PATTERN (a)", "language.syntax", "expected TO"),
    ("ORDER BY ts PATTERN (a) SUBSET s = («b»)", "patterns.invalid", "the pattern has no variable 'b'"),
    ("ORDER BY ts PATTERN (a) SUBSET «A» = (a)", "patterns.invalid", "'A' has a meaning already"),
    ("ORDER BY ts PATTERN (a) SUBSET s = (a), «s» = (a)", "patterns.invalid", "'s' has a meaning already"),
    ("ORDER BY ts PATTERN (a) SUBSET s = (a), t = («s»)", "patterns.invalid", "list those of 's' here"),
    ("ORDER BY ts PATTERN (a) SUBSET s «(»a)", "language.syntax", "expected ="),
    ("ORDER BY ts PATTERN (a) SUBSET s = (a) DEFINE «s» AS price > 1", "patterns.invalid", "define each of them"),
    ("ORDER BY ts MEASURES «CLASSIFIER»(a.price) AS c PATTERN (a)", "language.syntax", "a variable or SUBSET of the pattern"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS «CLASSIFIER»(a) = 'a'", "language.syntax", "name the variable itself"),
    ("ORDER BY ts MEASURES «MATCH_NUMBER»(1) AS n PATTERN (a)", "language.syntax", "takes no argument"),
    ("ORDER BY ts PATTERN (a) WITHIN 5 «HOURS»", "plan.window", "without 'HOURS'"),
    ("ORDER BY ts «WHERE» price > 1", "language.syntax", "expected PARTITION BY, MEASURES"),
    ("ORDER BY ts PATTERN (a) DEFINE a AS «FINAL» price > 1", "language.syntax", "before FIRST, LAST or an aggregate"),
    ("ORDER BY ts PATTERN («a») DEFINE a AS MATCH_NUMBER() > 1", "patterns.invalid", "cannot be known while the match grows"),
]


@pytest.mark.parametrize(("marked", "code", "message"), MISTAKES)
def test_a_mistake_names_its_place(marked: str, code: str, message: str) -> None:
    clause = f"{marked})" if marked.startswith("«MATCH") else f"MATCH_RECOGNIZE ({marked})"
    whole = f"{STREAMS}\nCREATE CQ q AS SELECT * FROM tick {clause}"
    refused(whole, code, message)


def test_a_window_before_the_clause_is_refused() -> None:
    with pytest.raises(UserError, match="write WITHIN behind its pattern"):
        parse_application(application("SELECT * FROM tick [RANGE 5] MATCH_RECOGNIZE (ORDER BY ts PATTERN (a))"))


def test_the_column_of_event_time_must_be_known() -> None:
    with pytest.raises(UserError, match="must know the column of event time"):
        parse_application(application("SELECT * FROM (SELECT price FROM tick) MATCH_RECOGNIZE (ORDER BY ts PATTERN (a))"))


# -- safety -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "verdict"),
    [
        ("PARTITION BY symbol ORDER BY ts PATTERN (a b+) WITHIN 9", "a match lies within 9; ≤ rate × (9 + 3)"),
        ("ORDER BY ts MEASURES a.price AS p PATTERN (a b{2,4})", "a match has at most 5 rows; ≤ 5"),
        ("PARTITION BY symbol ORDER BY ts PATTERN (a b)", "symbol may have ever new values"),
        ("PARTITION BY symbol ORDER BY ts PATTERN (a b+)", "(a b+) may go on for ever; write WITHIN"),
        (
            "PARTITION BY symbol ORDER BY ts PATTERN (a b) WITHIN 9 DEFINE a AS price > PREV(price)",
            "PREV may read the last row before a match, and symbol may have ever new values",
        ),
        ("PARTITION BY symbol ORDER BY ts MEASURES MATCH_NUMBER() AS n PATTERN (a) WITHIN 9", "MATCH_NUMBER() counts for ever"),
        ("PARTITION BY symbol ORDER BY ts PATTERN (^ a) WITHIN 9", "^ may read the last row before a match, and symbol may have"),
    ],
)
def test_check_says_what_bounds_the_state(clause: str, verdict: str) -> None:
    report = check(parse_application(application(f"SELECT * FROM tick MATCH_RECOGNIZE ({clause})")))
    assert verdict in str(report)
    assert report.is_bounded == (verdict.startswith("a match"))
