"""COMPENSATE, `sampled_fraction()` and `sampling_error(…)`: where they may stand, and what is refused by name."""

from __future__ import annotations

import pytest

from penstock.errors import UserError
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.model.schema import sql_type

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, x DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);" for name in "ab"
)
LOSS = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 5 PERCENT)"
FAIR = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 5 PERCENT COMPENSATE ANYWHERE)"
OFF = "COUNT(*), sampling_error(COUNT(*))"
WINDOW = "[RANGE 1 MINUTE]"


def test_columns_keep_their_names_and_types() -> None:
    select = (
        f"SELECT k, COUNT(*), SUM(k), AVG(x) AS mean, sampled_fraction(), sampling_error(SUM(x)), SUM(x) / COUNT(*) FROM a {WINDOW}"
    )
    schema = parse_application(f"{STREAMS} CREATE CQ q {FAIR} AS {select} GROUP BY k").queries["q"].plan.schema
    assert [(item.name, sql_type(item.type)) for item in schema] == [
        ("k", "BIGINT"), ("count(*)", "BIGINT"), ("sum(k)", "BIGINT"), ("mean", "DOUBLE"), ("sampled_fraction", "DOUBLE"),
        ("sampling_error(sum(x))", "DOUBLE"), ("sum(x) / count(*)", "DOUBLE"),
    ]  # fmt: skip


def test_explain_says_which_answers_are_estimates() -> None:
    text = str(
        explain(parse_application(f"{STREAMS} CREATE CQ q {FAIR} AS SELECT k, COUNT(*) AS n, MAX(x) FROM a {WINDOW} GROUP BY k"))
    )
    assert ". estimated for all rows, with those that LOSS leaves out: count(*)\n" in text
    assert ". each row with its weight" in text
    assert "row_weight() once rows are left out" in text


def test_a_query_that_does_not_ask_has_no_weights() -> None:
    text = str(explain(parse_application(f"{STREAMS} CREATE CQ q {LOSS} AS SELECT k, COUNT(*) AS n FROM a {WINDOW} GROUP BY k")))
    assert "weight" not in text
    assert "estimated" not in text


@pytest.mark.parametrize(
    ("contract", "select", "said"),
    [
        ("", f"SELECT sampled_fraction() FROM a {WINDOW} GROUP BY k", "the query has no such contract"),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND)", "SELECT sampled_fraction() AS f FROM a", "the query has no such contract"),
        ("WITH QOS (LOSS <= 5 PERCENT DROP LOWEST x)", "SELECT sampled_fraction() AS f FROM a", "needs DROP RANDOM"),
        ("WITH QOS (LOSS <= 100 PERCENT)", "SELECT sampled_fraction() AS f FROM a", "at most 99.9 PERCENT"),
        ("WITH QOS (LOSS <= 100 PERCENT COMPENSATE)", f"SELECT COUNT(*) FROM a {WINDOW}", "at most 99.9 PERCENT"),
        (LOSS, f"SELECT sampling_error(COUNT(*)) FROM a {WINDOW}", "Write LOSS <= n PERCENT COMPENSATE"),
        (FAIR, f"SELECT sampling_error(AVG(x)) FROM a {WINDOW}", "is known of COUNT(*), COUNT(x) and SUM(x)"),
        (FAIR, f"SELECT COUNT(*), sampling_error(k) FROM a {WINDOW}", "is known of COUNT(*), COUNT(x) and SUM(x)"),
        (FAIR, f"SELECT COUNT(*), sampling_error(COUNT(DISTINCT k)) FROM a {WINDOW}", "is known of COUNT(*), COUNT(x) and SUM(x)"),
        (FAIR, f"SELECT COUNT(*), sampling_error(SUM(x) + 1) FROM a {WINDOW}", "is known of COUNT(*), COUNT(x) and SUM(x)"),
        (FAIR, f"SELECT sampled_fraction(k), COUNT(*) FROM a {WINDOW}", "sampled_fraction() takes no argument"),
        (LOSS, "SELECT sampled_fraction(k) AS f FROM a", "sampled_fraction() takes no argument"),
        (LOSS, "SELECT k FROM a WHERE sampled_fraction() < 1", "stands in the select list or in HAVING"),
        (FAIR, f"SELECT COUNT(*) FROM a {WINDOW} GROUP BY sampled_fraction()", "cannot be a group key"),
        (FAIR, "SELECT k FROM a", "COMPENSATE scales COUNT, SUM and AVG, and the query has none"),
        (FAIR, f"SELECT MAX(x) FROM a {WINDOW}", "COMPENSATE scales COUNT, SUM and AVG, and the query has none"),
        (FAIR, f"SELECT COUNT(*), COUNT(DISTINCT k) FROM a {WINDOW}", "COMPENSATE cannot estimate 'count(DISTINCT k)'"),
        (FAIR, f"SELECT COUNT(*), STDDEV(x) FROM a {WINDOW}", "COMPENSATE cannot estimate 'stddev(x)'"),
        (FAIR, "SELECT k, COUNT(*) FROM a [ROWS 10] GROUP BY k", "a window that counts rows"),
        (FAIR, f"SELECT COUNT(*) FROM (SELECT DISTINCT k FROM a {WINDOW}) {WINDOW}", "over DISTINCT or UNION"),
        (FAIR, f"SELECT COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM a {WINDOW} GROUP BY k) {WINDOW}", "over another grouping"),
        (FAIR, f"SELECT COUNT(*) FROM p {WINDOW}", "over query 'p'"),
        (FAIR, f"SELECT COUNT(*) FROM a {WINDOW} LEFT JOIN b {WINDOW} ON a.k = b.k", "over LEFT JOIN"),
        (FAIR, f"SELECT COUNT(*) FROM a {WINDOW} SEMI JOIN b {WINDOW} ON a.k = b.k", "over LEFT SEMI JOIN"),
        (FAIR, f"SELECT COUNT(*) FROM a {WINDOW}, a {WINDOW} AS c WHERE a.k = c.k", "over a join that reads 'a' twice"),
        (FAIR, f"SELECT {OFF} FROM a {WINDOW}, b {WINDOW} WHERE a.k = b.k", "a join, whose pairs share rows"),
        (FAIR, f"SELECT {OFF} FROM (SELECT k FROM a UNION ALL SELECT k FROM a) {WINDOW}", "read twice"),
        (
            FAIR,
            f"SELECT COUNT(*) FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS first PATTERN (A B) "
            f"DEFINE B AS B.x > A.x) {WINDOW}",
            "over MATCH_RECOGNIZE",
        ),
    ],
)  # fmt: skip
def test_what_would_be_silently_wrong_is_refused_by_name(contract: str, select: str, said: str) -> None:
    with pytest.raises(UserError) as failure:
        parse_application(f"{STREAMS} CREATE CQ p AS SELECT k FROM a; CREATE CQ q {contract} AS {select}")
    assert said in str(failure.value)
    assert failure.value.place is not None
    assert failure.value.place.line
