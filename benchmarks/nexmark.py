"""Nexmark q4, q9 and q20 against what Spark can express of them, in one run.

100,000 events per micro-batch (2,000 people, 6,000 auctions, 92,000 bids) that span 10 s, bids reaching 6,000 auctions back,
one source partition a stream. Both sides read the same rows; Spark leaves out the punctuations, which it cannot use.

What Spark cannot express, and what stands in its place:

* q20 has no time condition, so Spark's join would keep every row. It is given one that happens to be true of this feed: a bid
  comes at most 1 s before and 11 s after its auction begins. Whoever does not know the generator cannot write this.
* q9 and q4 end an auction by its own `expires`, which is no watermark: the longest possible auction, 20 s, is added as a bound.
  The winner is a grouping behind the join in append mode, by the auction and its begin; it is final when the watermark has
  passed the longest auction, 20 s after it is final here.
* q4 averages by windows of the auction's begin, because Spark's append mode needs that column; here by the last bid.

Spark's join runs with each of its state formats on RocksDB with changelog checkpointing, and the best of them counts. State
rows of Spark come from a shorter run of their own, because counting them slows its join down.

    python -m benchmarks.nexmark [--batches 12] [--formats 2,3,4] [--queries q4,q9,q20] [--warm-up 8]
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.common import Timing, feed_frame, main, session, timed
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.spark.data_path.pipeline import build_pipeline, direct_answers
from penstock.runners.spark.data_path.sources import read_stream

EVENTS = 100_000
_RATE, _IN_FLIGHT = 10_000, 6_000
_LONGEST = "INTERVAL 20 SECONDS 2 MILLISECONDS"
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_COUNT_STATE = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"

_AUCTION = (
    "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, "
    "seller BIGINT, category BIGINT"
)
_BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, mark STRING"
_APPLICATION = """
CREATE STREAM auction ({auction}, UNIQUE (id), WATERMARK date_time DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS ({options}, workload 'nexmark.auction');
CREATE STREAM bid ({bid}, WATERMARK date_time DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS ({options}, workload 'nexmark.bid', marks 'range')
  PUNCTUATIONS FROM mark ON (auction);
CREATE CQ q9 AS
SELECT a.id, a.category, min_by(b.bidder, struct(-b.price, b.date_time)) AS bidder, MAX(b.price) AS price,
       min_by(b.date_time, struct(-b.price, b.date_time)) AS date_time
FROM auction a, bid b WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
GROUP BY a.id, a.category;
CREATE CQ q4 AS
SELECT window_start() AS since, category, AVG(price) AS average FROM q9 [RANGE 10 SECONDS] GROUP BY category;
CREATE CQ q20 AS
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, a.item_name, a.description, a.initial_bid, a.reserve,
       a.date_time AS begins, a.expires, a.seller, a.category
FROM bid b, auction a WHERE b.auction = a.id AND a.category = 10;
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--formats", default="2,3,4")
    parser.add_argument("--queries", default="q4,q9,q20")
    parser.add_argument("--warm-up", type=int, default=8, help="micro-batches before any is timed: the JVM and the workers compile")
    return parser.parse_args()


def options(batches: int) -> dict[str, str]:
    pace = {"rate": _RATE, "in_flight": _IN_FLIGHT, "cycles_per_mark": 25, "rows_per_batch": EVENTS, "total": EVENTS * batches}
    return {name: str(value) for name, value in pace.items()}


def ours(spark: SparkSession, query: str, batches: int) -> Timing:
    text = ", ".join(f"{name} '{value}'" for name, value in options(batches).items())
    catalog = parse_application(_APPLICATION.format(auction=_AUCTION, bid=_BID, options=text), "nexmark")
    job = build_job(catalog, 2, [query])
    pipeline = build_pipeline(job, lambda stream: read_stream(spark, stream), None, uuid.uuid4().hex)
    return timed(f"penstock {query}", direct_answers(pipeline.frame), EVENTS)


def sparks_streams(spark: SparkSession, batches: int) -> tuple[DataFrame, DataFrame]:
    """Auctions and bids, their times under different names."""
    auctions = feed_frame(spark, _AUCTION, workload="nexmark.auction", **options(batches))
    bids = feed_frame(spark, _BID, workload="nexmark.bid", marks="range", **options(batches)).where("mark IS NULL").drop("mark")
    return (
        auctions.withColumnRenamed("date_time", "begins").withWatermark("begins", "0 seconds"),
        bids.withWatermark("date_time", "0 seconds"),
    )


def sparks_q20(spark: SparkSession, batches: int) -> DataFrame:
    auctions, bids = sparks_streams(spark, batches)
    near = f.expr("auction = id AND date_time BETWEEN begins - INTERVAL 1 SECOND AND begins + INTERVAL 11 SECONDS")
    joined = bids.join(auctions.where("category = 10"), near)
    return joined.select(*bids.columns, *(name for name in auctions.columns if name != "id"))


def sparks_q9(spark: SparkSession, batches: int) -> DataFrame:
    auctions, bids = sparks_streams(spark, batches)
    while_open = f.expr(f"auction = id AND date_time BETWEEN begins AND expires AND date_time <= begins + {_LONGEST}")
    joined = bids.select("auction", "bidder", "price", "date_time").join(
        auctions.select("id", "category", "begins", "expires"), while_open
    )
    # One event-time column may leave a join; the copy of the other one is an ordinary timestamp.
    plain = joined.select("id", "category", "begins", "bidder", "price", f.expr("timestamp_micros(unix_micros(date_time)) AS at"))
    order = "struct(-price, at)"
    return plain.groupBy("begins", "id", "category").agg(
        f.expr(f"min_by(bidder, {order}) AS bidder"), f.max("price").alias("price"), f.expr(f"min_by(at, {order}) AS date_time")
    )


def sparks_q4(spark: SparkSession, batches: int) -> DataFrame:
    return sparks_q9(spark, batches).groupBy(f.window("begins", "10 seconds"), "category").agg(f.avg("price").alias("average"))


_SPARKS = {"q4": sparks_q4, "q9": sparks_q9, "q20": sparks_q20}


def compare(spark: SparkSession, query: str, batches: int, formats: list[str]) -> dict[str, Any]:
    mine = ours(spark, query, batches)
    theirs = {
        version: timed(f"spark V{version} {query}", _SPARKS[query](spark, batches), EVENTS, {_FORMAT: version})
        for version in formats
    }
    best = max(theirs, key=lambda version: theirs[version].rows_per_second)
    conf = {_FORMAT: best, _COUNT_STATE: "true"}
    counted = timed(f"spark V{best} {query}, counted", _SPARKS[query](spark, min(batches, 6)), EVENTS, conf)
    return {
        "ratio": round(mine.rows_per_second / theirs[best].rows_per_second, 2),
        "best_spark_format": f"V{best}",
        "flatness": round(mine.flatness, 3),
        "state_rows": mine.state_rows,
        "spark_state_rows": counted.state_rows,
        "state_ratio": round(mine.state_rows / max(counted.state_rows, 1), 4),
        "penstock": mine.shown(),
        **{f"spark_v{version}": timing.shown() for version, timing in theirs.items()},
    }


def run() -> Mapping[str, Any]:
    given = arguments()
    spark = session()
    spark.conf.set(_COUNT_STATE, "false")
    ours(spark, "q20", given.warm_up)
    queries = {query: compare(spark, query, given.batches, given.formats.split(",")) for query in given.queries.split(",")}
    return {"ratio": min(found["ratio"] for found in queries.values()), **queries}


if __name__ == "__main__":
    main("nexmark", run)
