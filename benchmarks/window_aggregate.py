"""Tumbling count and sum by 100,000 keys against Spark's own windowed aggregation, in one run.

python -m benchmarks.window_aggregate [--batches 16] [--rows 200000]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import penstock as ps
from benchmarks.common import Timing, feed_frame, main, session, timed

#: Micro-batches before any is timed: the JVM compiles on the same two cores until then.
WARM_UP = 12


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--rows", type=int, default=200_000)
    return parser.parse_args()


def readings(spark: SparkSession, batches: int, rows: int) -> DataFrame:
    options = {
        "workload": "keyed",
        "stream": "reading",
        "rows_per_batch": rows,
        "total": rows * batches,
        "partitions": 2,
        "rate": rows // 10,
    }
    return feed_frame(spark, "key BIGINT, value DOUBLE, ts TIMESTAMP", **options).withWatermark("ts", "0 seconds")


def ours(spark: SparkSession, batches: int, rows: int) -> Timing:
    frame = ps.aggregate(
        readings(spark, batches, rows), by="key", window="20 seconds", aggregates={"n": "count(*)", "total": "sum(value)"}
    )
    return timed("penstock", frame, rows)


def sparks(spark: SparkSession, batches: int, rows: int) -> Timing:
    grouped = readings(spark, batches, rows).groupBy(f.window("ts", "20 seconds"), "key")
    frame = grouped.agg(f.count(f.lit(1)).alias("n"), f.sum("value").alias("total"))
    return timed("spark", frame.selectExpr("key", "n", "total", "window.start", "window.end"), rows)


def run() -> Mapping[str, Any]:
    given = arguments()
    spark = session()
    ours(spark, WARM_UP, given.rows)
    sparks(spark, WARM_UP, given.rows)
    mine, theirs = ours(spark, given.batches, given.rows), sparks(spark, given.batches, given.rows)
    return {
        "ratio": round(mine.rows_per_second / theirs.rows_per_second, 2),
        "flatness": round(mine.flatness, 3),
        "penstock": mine.shown(),
        "spark": theirs.shown(),
    }


if __name__ == "__main__":
    main("window_aggregate", run)
