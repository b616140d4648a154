"""The same text over the same rows has the same answers in process and on Spark."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hosts import answers, bag, json_lines, run_to_the_end, write_files
from pyspark.sql import SparkSession

from penstock.errors import InvalidConfiguration
from penstock.model.schema import TIMESTAMP
from penstock.runners.spark.driver.app import App
from penstock.testing.undisturbed import undisturbed

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = pa.schema({"ts": TIMESTAMP, "k": pa.int64(), "i": pa.int64(), "s": pa.string(), "v": pa.float64()})
STREAMS = ("l", "r", "q")
BATCHES = 2

STREAM = """
CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, i BIGINT NOT NULL, s STRING, v DOUBLE, WATERMARK ts DELAY OF INTERVAL 4 SECONDS)
USING json OPTIONS (path '{path}', maxFilesPerTrigger '1');
"""

QUERIES = {
    "projected": "SELECT ts, k, i + 1 AS j, upper(s) AS u FROM l",
    "selected": "SELECT k, v FROM l WHERE v > 0.25 AND s IS NOT NULL",
    "tumbling": (
        "SELECT k, count(*) AS n, sum(v) AS total, min(i) AS low, max(s) AS high, avg(v) AS mean, stddev(v) AS spread, "
        "count(DISTINCT i) AS kinds, window_start(), window_end() FROM l [RANGE 10 SECONDS] GROUP BY k"
    ),
    "sliding": "SELECT s, sum(i) AS total, window_start() FROM r [RANGE 20 SECONDS, ADVANCE 5 SECONDS] GROUP BY s",
    "hopping": "SELECT k, count(*) AS n, window_end() FROM r [RANGE 5 SECONDS, ADVANCE 10 SECONDS] GROUP BY k",
    "landmark": "SELECT k, max(v) AS top, window_end() FROM q [LANDMARK RANGE 10 SECONDS, ADVANCE 20 SECONDS] GROUP BY k",
    "last_rows": "SELECT k, sum(i) AS total FROM l [PARTITION BY k ROW 3, ADVANCE 1] GROUP BY k",
    "all_rows": "SELECT count(*) AS n, avg(v) AS mean FROM q [ROW 7]",
    "different": "SELECT DISTINCT k, i FROM l [RANGE 10 SECONDS]",
    "united": "SELECT k, s FROM l WHERE i = 1 UNION ALL SELECT k, s FROM r WHERE i = 2",
    "many": "SELECT k, count(*) AS n FROM q [RANGE 10 SECONDS] GROUP BY k HAVING count(*) > 2 AND max(v) > 0",
    "pairs": "SELECT l.k, l.i AS li, r.i AS ri, r.s FROM l [RANGE 6 SECONDS], r [RANGE 3 SECONDS] WHERE l.k = r.k AND l.i < r.i",
    "by_text": "SELECT l.s, l.v, r.ts FROM l [RANGE 2 SECONDS], r [RANGE 2 SECONDS] WHERE l.s = r.s AND l.k = r.k",
    "counted": (
        "SELECT /*+ PWJOIN(spread = TRUE) */ l.k, l.i AS li, r.i AS ri FROM l [ROWS 6], r [RANGE 4 SECONDS] "
        "WHERE l.k = r.k AND l.s = 'a'"
    ),
    "triples": (
        "SELECT l.i AS a, r.i AS b, q.i AS c, q.ts FROM l [RANGE 4 SECONDS], r [RANGE 4 SECONDS], q [RANGE 4 SECONDS] "
        "WHERE l.k = r.k AND r.k = q.k"
    ),
    "lefts": "SELECT l.k, l.i AS li, r.i AS ri FROM l [RANGE 6 SECONDS] LEFT JOIN r [RANGE 3 SECONDS] ON l.k = r.k AND l.i < r.i",
    "wholes": (
        "SELECT coalesce(l.k, r.k) AS k, l.s, r.i FROM l [RANGE 4 SECONDS TUMBLING] FULL JOIN r [RANGE 4 SECONDS TUMBLING] "
        "ON l.k = r.k WHERE coalesce(r.i, 1) < 3"
    ),
    "semis": "SELECT l.k, l.s, l.ts FROM l [RANGE 1 SECOND] LEFT SEMI JOIN r [RANGE 1 SECOND] ON l.s = r.s AND l.k = r.k",
    "antis": "SELECT l.k, q.i FROM l [RANGE 2 SECONDS] ANTI JOIN r ON l.k = r.k LEFT JOIN q [RANGE 2 SECONDS] ON l.k = q.k",
    "lefts_counted": "SELECT k, count(*) AS n, count(ri) AS partners, window_start() FROM lefts [RANGE 10 SECONDS] GROUP BY k",
    "again": "SELECT ri, count(*) AS n, window_start() FROM pairs [RANGE 20 SECONDS] GROUP BY ri",
    "thrice": "SELECT max(n) AS most, window_start() FROM again [RANGE 40 SECONDS]",
}

AUCTION = """
CREATE STREAM auction (item_id BIGINT, category STRING, opens TIMESTAMP, part INT, off BIGINT, UNIQUE (item_id),
  WATERMARK opens DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'auction.auction', {feed})
  PARTITIONED BY part POSITION off;
CREATE STREAM bid (item_id BIGINT, price DOUBLE, ts TIMESTAMP, part INT, off BIGINT, mark STRING,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'auction.bid', marks 'constant', {feed})
  PUNCTUATIONS FROM mark PARTITIONED BY part POSITION off;
CREATE CQ closed AS SELECT a.item_id, count(*) AS bids, max(b.price) AS top FROM auction a, bid b
  WHERE a.item_id = b.item_id GROUP BY a.item_id;
CREATE CQ sold AS SELECT a.category, b.price FROM auction a, bid b WHERE a.item_id = b.item_id;
CREATE CQ turnover AS SELECT category, count(*) AS n, avg(price) AS mean, window_start() FROM sold [RANGE 1 SECOND]
  GROUP BY category;
CREATE CQ spilling AS SELECT /*+ PJOIN(max_drop_markers = 90000) */ a.item_id, b.price FROM auction a, bid b
  WHERE a.item_id = b.item_id;
"""
FEED = "partitions '2', rows_per_batch '1500', total '6000', bids_per_item '10', open_items '30'"


def random_rows(seed: int, rows: int = 150) -> pa.RecordBatch:
    """Times run back by at most 4 s; keys and texts are sometimes NULL; doubles are quarters, so that sums are exact."""
    rng = random.Random(seed)
    times = sorted((rng.uniform(0, 90) for _ in range(rows)), key=lambda time: time + rng.uniform(0, 3.9))
    columns = {
        "ts": [START + timedelta(milliseconds=int(time * 1000)) for time in times],
        "k": [rng.choice([1, 2, 3, 4, 5, None]) for _ in times],
        "i": [rng.randrange(4) for _ in times],
        "s": [rng.choice(["", "a", "ä€", "long text", None]) for _ in times],
        "v": [rng.choice([-0.5, 0.0, 0.25, 3.75, None]) for _ in times],
    }
    return pa.RecordBatch.from_pydict(columns, ROWS)


def test_every_kind_of_query_has_the_same_answers_on_both_hosts(spark: SparkSession, tmp_path: Path) -> None:
    tables = {name: random_rows(seed) for seed, name in enumerate(STREAMS)}
    for name, rows in tables.items():
        size = -(-rows.num_rows // BATCHES)
        write_files(tmp_path / name, "json", [json_lines(rows.slice(at * size, size).to_pylist()) for at in range(BATCHES)])
    text = "".join(STREAM.format(name=name, path=tmp_path / name) for name in STREAMS)
    text += "".join(f"CREATE CQ {name} AS {query};\n" for name, query in QUERIES.items())
    local = undisturbed(text, tables)
    run = run_to_the_end(text, spark, tmp_path / "checkpoint")
    # Others bring the end, and what goes round.
    assert sum(any(counters["arrived"] for counters in report.entries.values()) for report in run.reports()) == BATCHES
    for query in QUERIES:
        assert local.collected.rows(query), f"{query} has no answers, so it proves nothing"
        assert bag(answers(run, query)) == bag(local.collected.rows(query)), query
    assert local.collected.refused == []


def test_punctuated_groups_and_queries_over_queries_agree_and_state_stays_small(spark: SparkSession, tmp_path: Path) -> None:
    """One of the joins gets its share of a limit, and is told to spill while it runs."""
    text = AUCTION.format(feed=FEED)
    local = undisturbed(text)
    run = App.from_text(text).start(tmp_path / "checkpoint", spark=spark, shards=3, memory="3 MB")
    try:
        with pytest.raises(InvalidConfiguration, match="Did you mean 'memory_bytes'"):
            run.tune("spilling", memory_byte=2)
        run.tune("spilling", memory_bytes=2)
        run.process_all_available()
        run.end()
    finally:
        run.stop()
    for query in ("closed", "sold", "turnover", "spilling"):
        assert bag(answers(run, query)) == bag(local.collected.rows(query)), query
    assert sum(report.restored for report in run.reports()) == 0  # every shard keeps its kernel
    states = [report.state_rows for report in run.reports()]
    assert max(states) < 6000 / 2  # closed items are forgotten, whatever the stream's length
    assert states[-1] == 0
    assert next(detail["bytes"] for kind, detail in run.control.read(0, len(run.control)) if kind == "memory") == 500_000
    assert max(counters.get("spilled_rows", 0) for report in run.reports() for counters in report.operators.values()) > 0
