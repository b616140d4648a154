"""Applications whose punctuations Penstock makes: the same answers, less state, for every batching, sharding and restart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.plan.analysis.safety import check
from penstock.runners.local.runner import LocalRunner

TEXT = """
CREATE STREAM auction (item BIGINT, close BIGINT, ts BIGINT, UNIQUE (item), WATERMARK ts DELAY OF 0);
CREATE STREAM bid (item BIGINT, status STRING, ts BIGINT, {element} WATERMARK ts DELAY OF 0) {clause} ON VIOLATION QUARANTINE;
CREATE CQ joined AS SELECT a.item, b.ts AS at FROM auction a {window}, bid b WHERE a.item = b.item;
CREATE CQ counts AS SELECT item, COUNT(*) AS bids FROM joined GROUP BY item;
"""
CLAUSES = {
    "when": "PUNCTUATE item WHEN status = 'closed'",
    "after": "PUNCTUATE item AFTER auction.close",
    "sorting": "PUNCTUATE item BY SORTING 3 ROWS",
    "partitioning": "PUNCTUATE item BY PARTITIONING 4 ROWS",
    "sampling": "PUNCTUATE item BY SAMPLING 3 ROWS",
}
KINDS = {
    "auction": pa.schema({"item": pa.int64(), "close": pa.int64(), "ts": pa.int64()}),
    "bid": pa.schema({"item": pa.int64(), "status": pa.string(), "ts": pa.int64()}),
}


def application(clause: str = "", element: str = "", window: str = "") -> str:
    return TEXT.format(clause=clause, element=element, window=window)


def table(name: str, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(KINDS[name])
    return pa.RecordBatch.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(columns, KINDS[name], strict=True)], schema=KINDS[name]
    )


def runner(text: str, shards: int) -> LocalRunner:
    return LocalRunner(build_job(parse_application(text), shards), encode=True)


def outcome(text: str, inputs: dict[str, pa.RecordBatch], cuts: list[int], shards: int, restart: bool) -> dict[str, list[str]]:
    host = runner(text, shards)
    most = max(rows.num_rows for rows in inputs.values())
    bounds = sorted({0, most, *(cut for cut in cuts if cut < most)})
    for start, stop in pairwise(bounds):
        host.run(
            {
                name: rows.slice(start, max(min(stop, rows.num_rows) - start, 0))
                for name, rows in inputs.items()
                if start <= rows.num_rows
            }
        )
        if restart:
            host.restore(host.snapshot())
    host.end()
    return {name: sorted(map(str, host.collected.rows(name))) for name in ("joined", "counts")}


@st.composite
def lives(draw: st.DrawFn) -> dict[str, pa.RecordBatch]:
    """Auctions that end, bids within their life, and a last bid that says so."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    auctions = [(item, 3 * item + length, 3 * item) for item, length in enumerate(lengths)]
    bids: list[tuple[int, str, int]] = []
    for item, end, start in auctions:
        times = sorted(draw(st.lists(st.integers(start, end), max_size=4)))
        bids += [(item, "open", at) for at in times] + [(item, "closed", end)]
    return {"auction": table("auction", auctions), "bid": table("bid", sorted(bids, key=lambda row: row[2]))}


@pytest.mark.parametrize("name", list(CLAUSES))
@given(inputs=lives(), cuts=st.lists(st.integers(0, 20), max_size=4), shards=st.sampled_from([1, 3]), restart=st.booleans())
@settings(max_examples=12, deadline=None)
def test_generators_change_no_answer(
    name: str, inputs: dict[str, pa.RecordBatch], cuts: list[int], shards: int, restart: bool
) -> None:
    plain = outcome(application(window="[RANGE 100]"), inputs, [], 1, False)
    assert outcome(application(CLAUSES[name], window="[RANGE 100]"), inputs, cuts, shards, restart) == plain


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", ["when", "after"])
def test_a_finished_auction_is_counted_and_forgotten_at_once(name: str, shards: int) -> None:
    host = runner(application(CLAUSES[name]), shards)
    host.run({"auction": table("auction", [(1, 5, 0), (2, 50, 0)]), "bid": table("bid", [(1, "open", 1), (2, "open", 2)])})
    assert host.collected.rows("counts") == []
    host.run({"bid": table("bid", [(1, "closed", 5), (2, "open", 7)])})
    assert host.collected.rows("counts") == [{"item": 1, "bids": 2}]
    assert sum(counters["state_rows"] for key, counters in host.report().items() if key.startswith("WindowJoin")) == 1


@pytest.mark.parametrize("clause", ["PUNCTUATE item WHEN status = 'closed'", "PUNCTUATE item AFTER auction.close"])
def test_the_safety_check_knows_what_rules_promise(clause: str) -> None:
    bounded = check(parse_application(application(clause)), with_remedies=False)
    assert bounded.is_bounded
    assert "PUNCTUATE item" in str(bounded)
    assert not check(parse_application(application()), with_remedies=False).is_bounded


def test_scopes_do_not_make_state_bounded() -> None:
    assert not check(parse_application(application(CLAUSES["sorting"])), with_remedies=False).is_bounded


def test_a_gap_in_clusters_bounds_the_state_as_clusters_do() -> None:
    report = check(parse_application(application(element="CLUSTERED (item) WITHIN 3 ROWS,")), with_remedies=False)
    assert report.is_bounded
    assert "CLUSTERED (item) WITHIN 3 ROWS of bid" in str(report)


def test_a_rule_sees_columns_that_no_query_reads_and_rows_that_a_query_does_not_want() -> None:
    text = application(CLAUSES["when"]).replace("WHERE a.item = b.item", "WHERE a.item = b.item AND b.ts < 4")
    host = runner(text, 2)
    host.run({"auction": table("auction", [(1, 9, 0)]), "bid": table("bid", [(1, "open", 1), (1, "closed", 9)])})
    assert host.collected.rows("counts") == [{"item": 1, "bids": 1}]


@pytest.mark.parametrize("shards", [1, 3])
def test_ends_told_by_another_stream_close_groups_without_a_join(shards: int) -> None:
    catalog = parse_application("""
        CREATE STREAM auction (item BIGINT, closes BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE STREAM bid (item BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0) PUNCTUATE item AFTER auction.closes ON auction.item;
        CREATE CQ bids AS SELECT item, count(*) AS n FROM bid GROUP BY item;
    """)
    assert check(catalog).is_bounded
    runner = LocalRunner(build_job(catalog, shards))
    for item in range(20):
        opened = pa.RecordBatch.from_pydict({"item": [item], "closes": [10 * item + 15], "ts": [10 * item]})
        offered = pa.RecordBatch.from_pydict({"item": [item] * 3, "ts": [10 * item + at for at in range(3)]})
        runner.run({"auction": opened, "bid": offered})
    assert [row["n"] for row in runner.collected.rows("bids")] == [3] * 18
    assert all(counters.get("state_rows", 0) <= 2 for counters in runner.report().values())
