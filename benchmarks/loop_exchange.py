"""A derived stream that needs another partitioning: round the loop of an application, or into a second stage of the micro-batch.

Every row of a micro-batch of Parquet files joins one partner by `id` (round 1), and pairs are counted by `place` (round 2): as
many rows cross as are read of one stream. `loop` runs as an application does, `stages` as calls on DataFrames do. Seconds are
those of all micro-batches behind the warm-up, since the loop spreads work over more of them. The stages run twice, before and
after the loop, and the better one counts: whoever comes first finds a cold JVM.

`ratio` is rows per second of the loop over those of the stages.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.common import main, session
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.spark.data_path.pipeline import build_pipeline, direct_answers
from penstock.runners.spark.data_path.sources import read_stream
from penstock.runners.spark.driver.app import App

_TEXT = """
CREATE STREAM {name} (id BIGINT, place BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING parquet OPTIONS (path '{folder}/{name}', maxFilesPerTrigger '1');
"""
_QUERY = """
CREATE CQ counted AS SELECT place, COUNT(*) AS n FROM (
  SELECT l.id, r.place FROM lefts l [RANGE 1 SECOND], rights r [RANGE 1 SECOND] WHERE l.id = r.id) p [RANGE 1 SECOND]
GROUP BY place;
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="pairs of a micro-batch: this many rows cross")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2)
    return parser.parse_args()


def write_files(folder: Path, rows: int, batches: int) -> None:
    random = np.random.default_rng(7)
    for name in ("lefts", "rights"):
        (folder / name).mkdir(parents=True)
        for number in range(batches):
            order = random.permutation(rows)
            columns = {
                "id": order + number * rows, "place": random.integers(0, 1000, rows),
                "ts": pa.array(np.full(rows, number * 1_000_000 + 500_000), pa.timestamp("us", "UTC")),
            }  # fmt: skip
            pq.write_table(pa.table(columns), folder / name / f"{number:04d}.parquet")
            time.sleep(0.02)  # files are read by the time they were written


def text_of(folder: Path) -> str:
    return "".join(_TEXT.format(name=name, folder=folder) for name in ("lefts", "rights")) + _QUERY


def speed(progress: list[Mapping[str, Any]], given: argparse.Namespace) -> dict[str, float]:
    """Rows per second behind the first micro-batches that read something; those that only bring rows round count as time."""
    reading = [each["batchId"] for each in progress if each["numInputRows"]]
    first = reading[given.warm_up]
    seconds = sum(each["durationMs"]["triggerExecution"] for each in progress if each["batchId"] >= first) / 1000
    crossed = given.rows * (given.batches - given.warm_up)
    return {"rows_per_second": round(crossed / seconds), "seconds": round(seconds, 2), "micro_batches": len(progress)}


def through_loop(spark: SparkSession, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    run = App.from_text(text_of(folder), "loop").start(tempfile.mkdtemp(), spark=spark, shards=2)
    try:
        run.process_all_available()
        progress = [dict(each) for each in run.query.recentProgress]
        assert run.report() is not None
        return speed(progress, given)
    finally:
        run.stop()


def through_stages(spark: SparkSession, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    job = build_job(parse_application(text_of(folder)), 2, ["counted"])
    pipeline = build_pipeline(job, lambda stream: read_stream(spark, stream), None, uuid.uuid4().hex)
    query = direct_answers(pipeline.frame).writeStream.format("noop").option("checkpointLocation", tempfile.mkdtemp()).start()
    try:
        query.processAllAvailable()
        return speed([dict(each) for each in query.recentProgress], given)
    finally:
        query.stop()


def run() -> Mapping[str, Any]:
    given = arguments()
    spark = session(2)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    write_files(folder, given.rows, given.batches)
    first = through_stages(spark, folder, given)
    loop = through_loop(spark, folder, given)
    stages = max(first, through_stages(spark, folder, given), key=lambda found: found["rows_per_second"])
    return {"ratio": round(loop["rows_per_second"] / stages["rows_per_second"], 2), "loop": loop, "stages": stages}


if __name__ == "__main__":
    main("loop_exchange", run)
