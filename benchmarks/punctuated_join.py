"""A join that forgets by punctuations against Spark's own stream-stream join and against our join with a window, in one run.

Auctions are offered once each; bids choose among the open ones with a Zipf-like law; every close is announced in the stream
of bids. A million bids per micro-batch that span 40 s, 50,000 auctions, 2,000 of them open at a time, ten million bids in all.

* `penstock`: no window; auctions are unique, bids announce closes.
* `spark`: equal keys and the tightest bound that is true of this feed, a bid comes between its auction's opening and the
  longest life of an auction (3.2 s). Whoever does not know the generator cannot write it. Watermarks wait for nothing. Each
  state format is tried on a shorter run, the best one also with larger micro-batches, and what is fastest runs in full, on
  RocksDB with changelog checkpointing. State rows come from a run of their own with the smaller micro-batches, because
  counting them slows Spark's join down, and because they grow with a micro-batch: the watermark stays behind it.
* `window`: our join with the same bound as a window, without punctuations.

What punctuations cost where they help nothing is measured in process, as the least CPU time of several runs, because a few per
cent are below the noise of a whole Spark job: `useless_overhead` for closes of values nobody has, in the join alone;
`silent_overhead` for streams that may carry punctuations and never do, from packing to answers.

    python -m benchmarks.punctuated_join [--bids 10000000] [--formats 2,3,4]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import penstock as ps
from benchmarks.common import Timing, feed_frame, main, session, timed
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.batch import Batch
from penstock.model.elements import Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import one_of_array
from penstock.model.windows import Sliding
from penstock.operators.joins.window_join import WindowJoin
from penstock.runners.local.runner import LocalRunner

BIDS = 1_000_000
#: Micro-batches before any is timed, in which the JVM and the workers compile.
WARM_UP = 6
#: The other size of a micro-batch that Spark may choose.
SMALL = BIDS // 4
_PER_ITEM, _OPEN, _RATE = 20, 2_000, 25_000
_LONGEST = "3200 milliseconds"
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_COUNT_STATE = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
_AUCTION = "item_id BIGINT, seller BIGINT, reserve DOUBLE, opens TIMESTAMP"
_BID = "item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP"
_COLUMNS = ("item_id", "seller", "reserve", "opens", "bidder", "price", "ts")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bids", type=int, default=10_000_000)
    parser.add_argument("--formats", default="2,3,4")
    return parser.parse_args()


def rows_of(bids: int) -> int:
    return bids + bids // _PER_ITEM


def sides(spark: SparkSession, batches: int, step: int = BIDS) -> tuple[DataFrame, DataFrame]:
    options = {"rate": _RATE, "bids_per_item": _PER_ITEM, "open_items": _OPEN, "rows_per_batch": step, "total": step * batches}
    auctions = feed_frame(spark, _AUCTION, workload="auction.auction", **options)
    return auctions, feed_frame(spark, f"{_BID}, mark STRING", workload="auction.bid", marks="constant", **options)


def ours(spark: SparkSession, batches: int) -> DataFrame:
    auctions, bids = sides(spark, batches)
    joined = ps.join(
        ps.stream(auctions, time="opens", unique="item_id"), ps.stream(bids, time="ts", punctuations="mark"), on="item_id"
    )
    return joined.select(*_COLUMNS)


def windowed(spark: SparkSession, batches: int) -> DataFrame:
    auctions, bids = sides(spark, batches)
    data = bids.where("mark IS NULL").drop("mark")
    both = ps.stream(auctions, time="opens"), ps.stream(data, time="ts")
    return ps.join(*both, on="item_id", within=(_LONGEST, "0 seconds")).select(*_COLUMNS)


def sparks(spark: SparkSession, batches: int, step: int) -> DataFrame:
    auctions, bids = sides(spark, batches, step)
    data = bids.where("mark IS NULL").drop("mark").withWatermark("ts", "0 seconds").alias("b")
    near = f.expr(f"b.ts BETWEEN a.opens AND a.opens + INTERVAL {_LONGEST}")
    joined = auctions.withWatermark("opens", "0 seconds").alias("a").join(data, (f.col("a.item_id") == f.col("b.item_id")) & near)
    return joined.selectExpr("a.item_id AS item_id", *_COLUMNS[1:])


def timed_spark(name: str, spark: SparkSession, batches: int, step: int, conf: Mapping[str, str]) -> Timing:
    return timed(f"spark, {name}, {step:,} bids", sparks(spark, batches, step), rows_of(step), conf)


def best_setting(spark: SparkSession, formats: list[str]) -> tuple[str, int]:
    """The state format and the size of a micro-batch that are fastest in short runs."""
    tried = {(each, SMALL): timed_spark(f"V{each}", spark, 5, SMALL, {_FORMAT: each}) for each in formats}
    best = max(tried, key=lambda each: tried[each].rows_per_second)[0]
    tried[best, BIDS] = timed_spark(f"V{best}", spark, 4, BIDS, {_FORMAT: best})
    return max(tried, key=lambda each: tried[each].rows_per_second)


def states_of_spark(spark: SparkSession, version: str) -> Timing:
    return timed_spark("counting state", spark, 5, SMALL, {_FORMAT: version, _COUNT_STATE: "true"})


# -- what punctuations cost where they help nothing ------------------------------------------------------------------------

_PAIR = pa.schema({"key": pa.int64(), "value": pa.int64()})


#: Rows per side and batch of the join in process: as many as a shard gets of a small micro-batch.
_SHARE = SMALL // 2


def _seconds(useless: int, batches: int = 6, rows: int = _SHARE) -> float:
    """CPU time of a window join in process; `useless` punctuations per batch and side speak of values nobody has."""
    output = pa.schema({"l.key": pa.int64(), "l.value": pa.int64(), "r.key": pa.int64(), "r.value": pa.int64()})
    schemas = [pa.schema({f"{side}.{item.name}": item.type for item in _PAIR}) for side in ("l", "r")]
    join = WindowJoin(schemas, [("l.key",), ("r.key",)], [Sliding(3 * rows), Sliding(3 * rows)], output)
    rng = np.random.default_rng(1)
    arrivals = [
        [(Batch(_rows(schema, rng, rows), number * rows + np.arange(rows), number * rows + np.arange(rows))) for schema in schemas]
        for number in range(batches)
    ]
    marks = [[_useless(schema, number, useless) for schema in schemas] for number in range(batches)]
    started = time.process_time()
    for number, sides_ in enumerate(arrivals):
        for port, batch in enumerate(sides_):
            join.on_batch(port, batch)
            if useless:
                join.on_metadata(port, marks[number][port])
            join.on_metadata(port, Heartbeat((number + 1) * rows))
    return time.process_time() - started


def _useless(schema: pa.Schema, number: int, count: int) -> Punctuation:
    names = tuple(schema.names)
    values = -1 - np.arange(number * count, (number + 1) * count)
    # As they come from a stream that says `{"key": -1}` in a row of its own for each of them.
    return Punctuation((names[0],), (one_of_array(pa.array(values if count else [-1])),)).extend(names)


def _rows(schema: pa.Schema, rng: np.random.Generator, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(rng.integers(0, rows // 2, rows)), pa.array(np.arange(rows))], schema=schema)


def overhead_of_useless(repetitions: int = 9) -> float:
    """Thirty tuples a punctuation, all of them useless, over no punctuations; the runs alternate."""
    _seconds(_SHARE // 30, 3)
    found = [(_seconds(0), _seconds(_SHARE // 30)) for _ in range(repetitions)]
    return min(with_marks for _, with_marks in found) / min(without for without, _ in found) - 1


_SILENT = """
CREATE STREAM l (key BIGINT, ts BIGINT{column}, WATERMARK ts DELAY OF 0) USING feed{clause};
CREATE STREAM r (key BIGINT, ts BIGINT{column}, WATERMARK ts DELAY OF 0) USING feed{clause};
CREATE CQ joined AS SELECT a.key, a.ts AS left_ts, b.ts AS right_ts
  FROM l a [RANGE 60000], r b [RANGE 60000] WHERE a.key = b.key;
"""


def _seconds_of_job(is_declared: bool, batches: int = 20, rows: int = 20_000) -> float:
    """CPU time of packing and joining two streams without punctuations, which may have declared them."""
    text = _SILENT.format(column=", mark STRING" if is_declared else "", clause=" PUNCTUATIONS FROM mark" if is_declared else "")
    runner = LocalRunner(build_job(parse_application(text), 2))
    rng = np.random.default_rng(1)
    arrivals = [{stream: _timed_rows(rng, number * rows, rows, is_declared) for stream in "lr"} for number in range(batches)]
    started = time.process_time()
    for arrived in arrivals:
        runner.run(arrived)
    return time.process_time() - started


def _timed_rows(rng: np.random.Generator, since: int, rows: int, is_declared: bool) -> pa.RecordBatch:
    columns = {"key": pa.array(rng.integers(0, 10_000, rows)), "ts": pa.array(np.arange(since, since + rows))}
    return pa.RecordBatch.from_pydict({**columns, **({"mark": pa.nulls(rows, pa.string())} if is_declared else {})})


def overhead_of_silent(repetitions: int = 9) -> float:
    """Streams that may carry punctuations and never do over streams that cannot; the runs alternate."""
    _seconds_of_job(True, 2)
    found = [(_seconds_of_job(False), _seconds_of_job(True)) for _ in range(repetitions)]
    return min(declared for _, declared in found) / min(plain for plain, _ in found) - 1


def run() -> Mapping[str, Any]:
    given = arguments()
    batches = given.bids // BIDS
    useless, silent = overhead_of_useless(), overhead_of_silent()
    spark = session()
    timed("penstock, warming up", ours(spark, WARM_UP), rows_of(BIDS))
    mine = timed("penstock", ours(spark, batches), rows_of(BIDS))
    window = timed("penstock, window only", windowed(spark, batches), rows_of(BIDS))
    best, step = best_setting(spark, given.formats.split(","))
    theirs = timed_spark(f"V{best}", spark, given.bids // step, step, {_FORMAT: best})
    state = states_of_spark(spark, best)
    return {
        "ratio": round(mine.rows_per_second / theirs.rows_per_second, 2),
        "state_ratio": round(mine.state_rows / max(state.state_rows, 1), 5),
        "best_spark_format": f"V{best}",
        "best_spark_step": step,
        "flatness": round(mine.flatness, 3),
        "same_result_count": mine.output_rows == theirs.output_rows == window.output_rows,
        "ratio_to_window": round(mine.rows_per_second / window.rows_per_second, 2),
        "useless_overhead": round(useless, 4),
        "silent_overhead": round(silent, 4),
        "penstock": mine.shown(),
        "window": window.shown(),
        "spark": {**theirs.shown(), "state_rows": state.state_rows},
    }


if __name__ == "__main__":
    main("punctuated_join", run)
