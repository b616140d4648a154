"""Rows left out by decision: on Spark the same ones as in process."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import answers, bag
from pyspark.sql import SparkSession

from penstock.language.application import parse_application
from penstock.lowering.sheddable import entries_with_loss
from penstock.lowering.stages import build_job
from penstock.model.elements import SHED, Control
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.counters import count_readers
from penstock.runners.spark.driver.run import Run

pytestmark = pytest.mark.spark

TEXT = """
CREATE STREAM s (k BIGINT, v DOUBLE, ts BIGINT, part BIGINT, off BIGINT, WATERMARK ts DELAY OF 5)
USING parquet OPTIONS (path '{path}') PARTITIONED BY part POSITION off;
CREATE CQ chosen AS SELECT k, v FROM s WHERE v < 0.9;
CREATE CQ counted AS SELECT k, count(*) AS n FROM s [RANGE 100] GROUP BY k;
CREATE CQ estimated WITH QOS (LATENCY <= INTERVAL 9 SECONDS BEST EFFORT, LOSS <= 50 PERCENT COMPENSATE) AS
  SELECT count(*) AS n, sum(k) AS total, sampled_fraction() AS kept, sampling_error(count(*)) AS off
  FROM s [RANGE 2000] WHERE v < 0.9;
"""
SIZE = 2_000


def part(number: int) -> pa.RecordBatch:
    draw = np.random.default_rng(number)
    places = np.arange(number * SIZE, (number + 1) * SIZE)
    return pa.RecordBatch.from_pydict(
        {"k": draw.integers(0, 5, SIZE), "v": draw.random(SIZE), "ts": places, "part": places % 2, "off": places // 2}
    )


def test_shed_rows_are_the_same_on_both_hosts_and_all_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    text = TEXT.format(path=folder)
    job = build_job(parse_application(text), 2)
    local = LocalRunner(job)
    run = App.from_text(text).start(tmp_path / "checkpoint", spark=spark, shards=2)
    entries = [source.route.entry for stage in run.job.stages for source in stage.sources]
    try:
        for number, share in enumerate((None, 0.3, 0.0)):
            details = [] if share is None else [{"entry": entry, "share": share, "seed": 11} for entry in entries]
            for detail in details:
                run.decide(SHED, detail)
            pq.write_table(pa.Table.from_batches([part(number)]), tmp_path / "new.parquet")
            os.rename(tmp_path / "new.parquet", folder / f"{number}.parquet")  # at once, or half of it might be read
            run.process_all_available()
            local.run({"s": part(number)}, [Control(number, SHED, detail) for detail in details])
        run.end()
        local.end()
        for query in ("chosen", "counted", "estimated"):
            assert bag(answers(run, query)) == bag(local.collected.rows(query))
        parts = [part(number).to_pylist() for number in range(3)]
        truth = [sum(row["v"] < 0.9 for row in rows) for rows in parts]
        found = sorted(local.collected.rows("estimated"), key=lambda answer: answer["kept"])
        assert [answer["kept"] for answer in found] == [pytest.approx(0.7), 1.0, 1.0]
        assert abs(found[0]["n"] - truth[1]) < 4 * found[0]["off"]
        assert {(answer["n"], answer["off"]) for answer in found[1:]} == {(truth[0], 0.0), (truth[2], 0.0)}
        here = local.report()
        report = run.report()
        assert report is not None
        assert all(reader.is_complete for reader in count_readers(run.job, report))
        found = report.entries
        assert {entry: found[entry]["shed"] for entry in entries} == {entry: here[entry]["shed"] for entry in entries}
        assert all(0.25 * SIZE * 0.9 < found[entry]["shed"] < 0.35 * SIZE for entry in entries)
    finally:
        run.stop()


RANKED = """
CREATE STREAM s (k BIGINT, v DOUBLE, ts BIGINT, part BIGINT, off BIGINT, WATERMARK ts DELAY OF 5)
USING parquet OPTIONS (path '{path}') PARTITIONED BY part POSITION off;
CREATE CQ counted WITH QOS (LATENCY <= INTERVAL 1 MINUTE BEST EFFORT, LOSS <= 50 PERCENT DROP LOWEST v)
AS SELECT k, count(*) AS n FROM s [RANGE 100] GROUP BY k;
"""


def test_rows_are_left_out_by_a_column_that_the_query_does_not_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    pq.write_table(pa.Table.from_batches([part(0)]), folder / "0.parquet")
    text = RANKED.format(path=folder)
    job = build_job(parse_application(text), 2)
    (entry,) = entries_with_loss(job)
    detail = entry.decision(0.25)
    assert detail["column"] not in job.stages[0].sources[0].route.columns.names
    local = LocalRunner(job)
    local.run({"s": part(0)}, [Control(0, SHED, detail)])
    local.end()
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.control.append(SHED, detail)
    run = App.from_text(text).start(checkpoint, spark=spark, shards=2)
    try:
        run.process_all_available()
        run.end()
        found = answers(run, "counted")
        assert bag(found) == bag(local.collected.rows("counted"))
        assert sum(row["n"] for row in found) == 0.75 * SIZE
        report = run.report()
        assert report is not None
        assert report.entries[entry.entry]["shed"] == 0.25 * SIZE
    finally:
        run.stop()


OVERLOAD = """
CREATE STREAM tick (symbol STRING, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)
USING feed OPTIONS (workload 'stocks.tick', rate '60000');
CREATE FUNCTION slow(price DOUBLE) RETURNS DOUBLE USING python OPTIONS (callable 'sql_functions:slow', kind 'rows');
CREATE CQ exact AS SELECT symbol, window_end() AS until, COUNT(*) AS n FROM tick [RANGE 1 SECOND] GROUP BY symbol
OUTPUT TO parquet OPTIONS (path '{out}');
CREATE CQ loose WITH QOS (LATENCY <= INTERVAL 1 SECOND MUST, LOSS <= 95 PERCENT) AS
SELECT symbol, window_end() AS until, COUNT(*) AS n, MAX(slow(price)) AS price FROM tick [RANGE 1 SECOND] GROUP BY symbol;
"""


def test_an_overload_loses_rows_of_the_query_that_allows_it_and_goes_on_after_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    """The controller against real costs: it begins by itself, another run goes on, and every row is accounted for."""
    out = tmp_path / "exact"
    text = OVERLOAD.format(out=out)
    lost = []
    for turn in range(2):
        run = App.from_text(text).start(tmp_path / "checkpoint", spark=spark, shards=2)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and len(shed_shares(run)) < 3:
                time.sleep(0.2)
            lost.append(len(shed_shares(run)))
            if turn:
                run.end()
            report = run.report()
            assert report is not None
            assert all(reader.is_complete for reader in count_readers(run.job, report))
            read = max(entry["read"] for entry in report.entries.values())
        finally:
            run.stop()
    assert min(lost) >= 3
    assert {"shed"} <= {entry["action"] for entry in run._launch.checkpoint.history.entries()}
    # The other query has had every row.
    assert sum(pq.read_table(out).column("n").to_pylist()) == read


def shed_shares(run: Run) -> list[float]:
    """Of the micro-batches that lost rows: which share of the rows that came to an entry or a queue."""
    found = []
    for before, after in pairwise(run.reports()):
        for name in after.operators.keys() | after.entries.keys():
            now, then = (each.operators.get(name, each.entries.get(name, {})).get("shed", 0) for each in (after, before))
            found += [now - then] if now > then else []
    return found
