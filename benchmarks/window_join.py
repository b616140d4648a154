"""Window join against Spark's own stream-stream join, in one run.

Two streams, 100,000 rows each per micro-batch, keys uniform over a moving range of 20,000, timestamps spanning 10 s per
batch, many-to-many equi-join within ±15 s, about 940,000 results a batch, one source partition a stream. Spark's join
runs with each of its state formats on RocksDB with changelog checkpointing, and the best of them counts.

    python -m benchmarks.window_join [--batches 20] [--formats 2,3,4] [--skip-strings] [--files]

With `--files` both write what they find into Parquet files: Penstock as an application whose shards write them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import penstock as ps
from benchmarks.common import Timing, feed_frame, main, rows_in, session, timed
from penstock.runners.spark.driver.app import App

ROWS = 100_000

#: Micro-batches before any is timed. The JVM compiles on the same two cores until then: the first ones take twice as long.
#: Spark's own runs come later and last longer, so the quarter that `Timing.steady` leaves out is warm-up enough for them.
WARM_UP = 30
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--formats", default="2,3,4")
    parser.add_argument("--skip-strings", action="store_true")
    parser.add_argument("--files", action="store_true", help="answers go to Parquet files instead of nowhere")
    return parser.parse_args()


def sides(spark: SparkSession, batches: int, key_type: str) -> tuple[DataFrame, DataFrame]:
    key, payload = ("STRING", ", payload STRING") if key_type == "string" else ("BIGINT", "")
    schema = f"id BIGINT, key {key}, value DOUBLE, ts TIMESTAMP{payload}"
    options = {"workload": "pairs", "key_type": key_type, "rows_per_batch": ROWS, "total": ROWS * batches}
    left = feed_frame(spark, schema, stream="left", **options).withWatermark("ts", "0 seconds")
    right = feed_frame(spark, schema, stream="right", **options).withWatermark("ts", "0 seconds")
    return left, right


def ours(spark: SparkSession, batches: int, key_type: str) -> Timing:
    left, right = sides(spark, batches, key_type)
    return timed(f"penstock ({key_type})", ps.join(left, right, on="key", within="15 seconds"), 2 * ROWS)


def ours_into_files(spark: SparkSession, batches: int) -> Timing:
    """The same join as an application, because only there do shards write files."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    streams = "".join(
        f"""CREATE STREAM {side}s (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
        USING feed OPTIONS (workload 'pairs', stream '{side}', rows_per_batch '{ROWS}', total '{ROWS * batches}');"""
        for side in ("left", "right")
    )
    text = f"""{streams}
    CREATE CQ pairs AS SELECT l.id, l.key, l.value, l.ts, r.id AS id_right, r.value AS value_right, r.ts AS ts_right
    FROM lefts l [RANGE 15 SECONDS], rights r [RANGE 15 SECONDS] WHERE l.key = r.key
    OUTPUT TO parquet OPTIONS (path '{folder / "out"}');"""
    run = App.from_text(text).start(folder / "checkpoint", spark=spark, shards=2)
    try:
        run.query.processAllAvailable()
        progress = [item for item in run.query.recentProgress if item["numInputRows"]]
        state = run.report().state_rows
    finally:
        run.stop()
    seconds = [item["durationMs"]["triggerExecution"] / 1000 for item in progress]
    found = Timing("penstock (files)", seconds, 2 * ROWS, rows_in(str(folder / "out")), state)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{found.name:28s} {found.shown()}", file=sys.stderr, flush=True)
    return found


def sparks(spark: SparkSession, batches: int, key_type: str, version: str, into_files: bool = False) -> Timing:
    left, right = sides(spark, batches, key_type)
    near = f.expr("r.ts BETWEEN l.ts - INTERVAL 15 SECONDS AND l.ts + INTERVAL 15 SECONDS")
    joined = left.alias("l").join(right.alias("r"), (f.col("l.key") == f.col("r.key")) & near)
    columns = [f"l.{name} AS {name}" for name in left.columns] + [
        f"r.{name} AS {name}_right" for name in right.columns if name != "key"
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        path = f"{folder}/out" if into_files else ""
        return timed(f"spark V{version} ({key_type})", joined.selectExpr(*columns), 2 * ROWS, {_FORMAT: version}, path)


def compare(spark: SparkSession, batches: int, key_type: str, formats: list[str], into_files: bool = False) -> dict[str, Any]:
    mine = ours_into_files(spark, batches) if into_files else ours(spark, batches, key_type)
    theirs = {version: sparks(spark, batches, key_type, version, into_files) for version in formats}
    best = max(theirs, key=lambda version: theirs[version].rows_per_second)
    return {
        "ratio": round(mine.rows_per_second / theirs[best].rows_per_second, 2),
        "best_spark_format": f"V{best}",
        "flatness": round(mine.flatness, 3),
        "same_result_count": all(mine.output_rows == other.output_rows for other in theirs.values()),
        "penstock": mine.shown(),
        **{f"spark_v{version}": timing.shown() for version, timing in theirs.items()},
    }


def run() -> Mapping[str, Any]:
    given = arguments()
    formats = given.formats.split(",")
    spark = session()
    # The state store's row count costs Spark's join a read per write, so it is off, as recommended for speed.
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false")
    ours(spark, WARM_UP, "bigint")
    result = compare(spark, given.batches, "bigint", formats, given.files)
    if not given.skip_strings:
        result["strings"] = compare(spark, given.batches, "string", [result["best_spark_format"][1:]])
    return result


if __name__ == "__main__":
    main("window_join", run)
