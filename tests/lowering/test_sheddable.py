"""Where contracts allow rows to be left out, and how many."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import InvalidDeclaration
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.sheddable import SheddableEntry, entries_with_loss, sheddable_entries
from penstock.lowering.shedding import has_weights
from penstock.lowering.stages import build_job
from penstock.model.elements import SHED, Control
from penstock.runners.editions.changes import changed
from penstock.runners.editions.edition import ADD, Edition
from penstock.runners.local.runner import LocalRunner

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);" for name in "ab"
)
LOWEST = "DROP LOWEST price"
QOS = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= {} PERCENT {})"


def entries(*queries: str) -> list[SheddableEntry]:
    catalog = parse_application(STREAMS + ";".join(queries))
    job = looped(build_job(catalog, 2))
    contracts = {query.name: query.contract for query in catalog.queries.values() if query.contract is not None}
    return sheddable_entries(job, contracts, {query.name: query.weight for query in catalog.queries.values()})


def query(name: str, select: str, percent: float | None = 10, more: str = "", weight: float = 1) -> str:
    qos = "" if percent is None else QOS.format(percent, more)
    return f"CREATE CQ {name} WEIGHT {weight} {qos} AS {select}"


def test_the_rows_of_a_query_that_allows_loss() -> None:
    (found,) = entries(query("q", "SELECT k FROM a WHERE price > 3"))
    assert (found.most, found.queries) == (0.1, ("q",))
    assert found.decision(0.05) == {"entry": found.entry, "share": 0.05, "seed": 1}


def test_what_another_query_reads_too_is_not_left_out() -> None:
    shared = "SELECT k FROM a"
    assert entries(query("q", shared), query("r", shared, None)) == []
    (found,) = entries(query("q", shared), query("r", shared, 4))
    assert found.most == pytest.approx(0.04)


def test_inputs_of_a_join_share_what_its_results_may_lose() -> None:
    found = entries(query("q", "SELECT a.k FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k", 15))
    assert [item.most for item in found] == pytest.approx([0.078046, 0.078046], abs=1e-6)


def test_rows_of_queries_that_estimate_are_left_out_at_random_and_before_the_shuffle() -> None:
    estimating = "SELECT k, COUNT(*) AS n, sampled_fraction() FROM a [RANGE 1 MINUTE] GROUP BY k"
    for more in ("COMPENSATE", ""):
        catalog = parse_application(STREAMS + query("q", estimating, more=more) + ";" + query("r", "SELECT k FROM a"))
        job = looped(build_job(catalog, 2))
        assert [has_weights(job, name) for name in ("q", "r")] == [True, False]
    by_column = query("r", "SELECT k, n FROM q", more="DROP LOWEST k")
    (found,) = entries(query("q", estimating, more="COMPENSATE"), by_column)
    assert found.preference.kind == "random"


def test_the_least_important_queries_lose_first() -> None:
    found = entries(query("q", "SELECT k FROM a", weight=5), query("r", "SELECT k FROM b", weight=2))
    assert [item.queries for item in found] == [("r",), ("q",)]


def test_preferences_by_column() -> None:
    (found,) = entries(query("q", "SELECT k, price FROM a", more="DROP LOWEST price"))
    assert found.decision(0.1) == {
        "entry": found.entry, "share": 0.1, "seed": 1, "kind": "lowest", "column": "price", "mode": "quantile",
    }  # fmt: skip


@pytest.mark.parametrize(
    "select",
    [
        "SELECT DISTINCT k FROM a [RANGE 1 MINUTE]",
        "SELECT k, COUNT(*) AS n FROM a [ROWS 10] GROUP BY k",
        "SELECT a.k, b.price FROM a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k",
    ],
)
def test_loss_that_would_make_answers_wrong_must_be_asked_for(select: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"query 'q'[\s\S]*LOSS cannot be used[\s\S]*ANYWHERE"):
        entries(query("q", select))
    assert all(item.decision(0.01)["anywhere"] for item in entries(query("q", select, more="ANYWHERE")))


OUTER = "SELECT a.k, b.price FROM a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k"
INNER = "SELECT a.k, b.price FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k"


def test_a_query_that_needs_no_anywhere_does_not_take_it_from_one_that_does() -> None:
    found = entries(query("q", INNER, more="DROP LOWEST price"), query("r", OUTER, more="DROP LOWEST price ANYWHERE"))
    assert [item.queries for item in found] == [("q", "r"), ("q", "r")]
    assert all(item.decision(0.01)["anywhere"] for item in found)
    assert {item.decision(0.01)["column"] for item in found} == {"_read:price", "b.price"}


def test_the_query_whose_answers_would_be_wrong_is_the_one_that_is_named() -> None:
    with pytest.raises(InvalidDeclaration, match=r"query 'r'\nLOSS cannot be used: the query has LEFT JOIN"):
        entries(query("q", INNER, more="ANYWHERE"), query("r", OUTER))


def test_a_column_need_not_be_one_that_the_query_reads() -> None:
    """It is there where rows are packed, and does not cross."""
    catalog = parse_application(STREAMS + query("q", "SELECT k, COUNT(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k", more=LOWEST))
    job = looped(build_job(catalog, 2))
    plain = looped(
        build_job(parse_application(STREAMS + query("q", "SELECT k, COUNT(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k")), 2)
    )
    (found,) = entries_with_loss(job)
    assert found.decision(0.1)["column"] == "_read:price"
    assert job.stages[0].sources[0].route == plain.stages[0].sources[0].route
    assert job.fingerprint == plain.fingerprint
    runner = LocalRunner(job)
    rows = {
        "k": list(range(100)),
        "price": [float(at * 37 % 100) for at in range(100)],
        "ts": pa.array([0] * 100, pa.timestamp("us", "UTC")),
    }
    runner.run({"a": pa.RecordBatch.from_pydict(rows)}, [Control(0, SHED, found.decision(0.1))])
    runner.end()
    gone = {row["k"] for row in runner.collected.rows("q")} ^ set(range(100))
    assert {rows["price"][k] for k in gone} == {float(price) for price in range(10)}


def test_by_a_column_of_one_input_of_a_join_only_its_rows_are_left_out() -> None:
    streams = STREAMS.replace("CREATE STREAM b (k BIGINT, price", "CREATE STREAM b (k BIGINT, cost")
    catalog = parse_application(streams + query("q", INNER.replace("b.price", "b.cost"), 10, "DROP HIGHEST Cost"))
    (found,) = entries_with_loss(looped(build_job(catalog, 2)))
    assert found.most == pytest.approx(0.1)
    assert found.decision(0.1)["column"] == "b.cost"


def test_what_a_query_over_a_query_reads_anew_is_its_own() -> None:
    """A query that Catalyst evaluates is read anew, so rows may be left out for one reader and not for the other."""
    plain = "CREATE CQ plain AS SELECT k, price FROM a"
    (found,) = entries(plain, query("q", "SELECT k, COUNT(*) AS n FROM plain [RANGE 1 MINUTE] GROUP BY k"))
    assert (found.queries, found.most) == (("q",), pytest.approx(0.1))
    counted = "CREATE CQ counted AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k"
    assert entries(counted, query("q", "SELECT k FROM counted WHERE n > 3")) == []
    assert entries("CREATE CQ kinds AS SELECT DISTINCT k FROM a", query("q", "SELECT k FROM kinds WHERE k > 3")) == []


def test_what_is_behind_an_exchange_depends_on_its_rows_too() -> None:
    joined = "CREATE CQ joined AS SELECT a.k, b.price FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k"
    by_price = query("q", "SELECT price, COUNT(*) AS n FROM joined [RANGE 1 MINUTE] GROUP BY price")
    assert entries(joined, by_price) == []
    found = entries(joined.replace("joined AS", f"joined {QOS.format(20, '')} AS"), by_price)
    assert [item.queries for item in found] == [("joined", "q"), ("joined", "q")]


def test_a_query_that_is_gone_still_counts_where_another_one_reads_it() -> None:
    first = Edition.first("app", STREAMS + query("p", "SELECT DISTINCT k FROM a [RANGE 1 MINUTE]", more="ANYWHERE"), 0)
    later, _ = changed(first, 2, later=[(ADD, query("q", "SELECT k FROM p WHERE k > 1"))], now_us=1)
    with pytest.raises(InvalidDeclaration, match="has DISTINCT"):
        entries_with_loss(later.job(2))
