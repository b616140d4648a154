"""What a micro-batch costs whatever its rows, beside Spark's own aggregate on the same rows, in one run.

python -m benchmarks.batch_cost [--seconds 30] [--warm-up 25]

Three applications at 2,000 rows a second: the nine queries of `penstock demo auction`, the six of `penstock demo nexmark`, and one
windowed group-by; and Spark's `groupBy(key).count()` with RocksDB and changelog, same bids, shards and trigger (as soon as
possible), into the noop sink.
Rows come from the feed, a Python data source, on all sides. Nexmark goes first, because the JVM still compiles then; the nine
queries went first in the first two runs of RESULTS.md, and last since.

`spark` is Spark with its own settings but for RocksDB and changelog; `spark_tuned` has all settings that Penstock gives the
sessions of its queries, as `spark` had in the runs before 2026-11-16 18:40: it got faster with every setting found for Penstock,
last with plans without generated code. Both ratios are shown.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.common import feed_frame, main, session
from penstock.apps.reading import read_text
from penstock.runners.spark.data_path.sinks import MemorySink
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.latency import oldest_due_us
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.processes.session import NAMED_SOURCES, ROCKSDB, query_session, settings_of_queries

SHARDS = 2
WITH_CHANGELOG = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.shuffle.partitions": str(SHARDS),
    "spark.sql.session.timeZone": "UTC",
}
BIDS = {
    "workload": "auction.bid", "rate": "2000", "bids_per_item": "100", "disorder": "1 second", "partitions": "2",
    "max_rows_per_batch": "10000",
}  # fmt: skip
ONE = f"""
CREATE STREAM bid (item_id BIGINT NOT NULL, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 2 SECONDS)
  USING feed OPTIONS ({", ".join(f"{name} '{value}'" for name, value in BIDS.items())});
CREATE CQ per_item AS SELECT window_start() AS since, item_id, COUNT(*) AS bids FROM bid [RANGE 2 SECONDS] GROUP BY item_id
  OUTPUT TO memory;
"""
#: Nodes of physical plans by what they cost.
_PYTHON = ("MapInArrow", "TransformWithStateInPySpark", "MicroBatchScan")
_NODE = re.compile(r"^[\s:+\-|*]*\*? ?(\w[\w ]*?) \(\d+\)", re.MULTILINE)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="measured, of each application")
    parser.add_argument("--warm-up", type=float, default=25, help="before that: the JVM compiles on the same cores")
    return parser.parse_args()


@dataclass(frozen=True)
class Cost:
    """Counts per micro-batch and Spark's durations, in steady state."""

    batch_s: float
    counts: Mapping[str, float]
    durations_ms: Mapping[str, float]
    batches: int
    answers_within_s: float | None = None
    first_answer_s: float | None = None

    def shown(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


def executions(spark: SparkSession) -> Iterator[tuple[int, Any]]:
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    for at in range(found.size()):
        each = found.apply(at)
        yield int(each.executionId()), each


def counted(spark: SparkSession, run_id: str, after: int) -> dict[str, float]:
    """Jobs, plannings, tasks and nodes of the plans of one query since an execution, per micro-batch."""
    tracker = spark.sparkContext._jsc.statusTracker()
    total: Counter[str] = Counter()
    for number, each in executions(spark):
        if number <= after or run_id not in each.description():
            continue
        total["plannings"] += 1
        nodes = Counter(_NODE.findall(each.physicalPlanDescription()))
        if each.rootExecutionId() == each.executionId():
            total["batches"] += 1
            total["reads"] += nodes["MicroBatchScan"]
            total["stateful_stages"] += sum(count for name, count in nodes.items() if "State" in name and "Save" not in name)
        total["exchanges"] += nodes["Exchange"]
        total["python_nodes"] += sum(nodes[name] for name in _PYTHON)
        jobs = each.jobs().keysIterator()
        while jobs.hasNext():
            info = tracker.getJobInfo(int(jobs.next()))
            total["jobs"] += 1
            stages = [tracker.getStageInfo(stage) for stage in info.stageIds()] if info is not None else []
            total["tasks"] += sum(stage.numTasks() for stage in stages if stage is not None)
    batches = max(total.pop("batches"), 1)
    return {name: round(count / batches, 2) for name, count in total.items()}


def last_execution(spark: SparkSession) -> int:
    return max((number for number, _ in executions(spark)), default=-1)


def durations(progress: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = {name for each in progress for name in each["durationMs"]}
    return {name: statistics.median(each["durationMs"].get(name, 0) for each in progress) for name in sorted(names)}


def steady(spark: SparkSession, query: Any, given: argparse.Namespace) -> tuple[list[Mapping[str, Any]], dict[str, float]]:
    """Progress of the micro-batches behind the warm-up, and what they cost."""
    time.sleep(given.warm_up)
    first, after = query.lastProgress["batchId"] + 1, last_execution(spark)
    time.sleep(given.seconds)
    progress = [dict(each) for each in query.recentProgress if each["batchId"] >= first and each["numInputRows"]]
    return progress, counted(spark, str(query.runId), after)


def batch_seconds(progress: Sequence[Mapping[str, Any]]) -> float:
    return round(statistics.median(each["durationMs"]["triggerExecution"] for each in progress) / 1000, 3)


def application(spark: SparkSession, name: str, text: str, given: argparse.Namespace) -> Cost:
    app = App.from_text(text, name)
    began = time.monotonic()
    run = app.start(tempfile.mkdtemp(prefix="penstock-bench-"), spark=spark, shards=SHARDS)
    try:
        while not any(isinstance(sink, MemorySink) and sink.newest(1) for sinks in run.sinks.values() for sink in sinks):
            time.sleep(0.01)
        first_answer = round(time.monotonic() - began, 2)
        progress, counts = steady(spark, run.query, given)
        reports = [report for report in run.reports() if report.epoch >= progress[0]["batchId"]]
        kernels = SHARDS * len(reports)
        counts |= {
            "state_commits": float(sum(part["numShufflePartitions"] for part in progress[-1]["stateOperators"])),
            "kernels_live": round(1 - sum(report.restored for report in reports) / kernels, 3),
        }
        within = waited(run, progress)
        return Cost(batch_seconds(progress), counts, durations(progress), len(progress), within, first_answer)
    finally:
        run.stop()


def waited(run: Run, progress: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the arrival of the median row of a micro-batch to the end of the batch, when its answers are in the sink."""
    dues = {report.epoch: oldest_due_us(run.job, report) for report in run.reports()}
    found = []
    for each in progress:
        # Rows of this batch fell due between its own oldest row and the oldest row of the next batch.
        oldest, newest = dues.get(each["batchId"]), dues.get(each["batchId"] + 1)
        if oldest is not None and newest is not None:
            ended_us = _micros(each["timestamp"]) + each["durationMs"]["triggerExecution"] * 1000
            found.append((ended_us - (oldest + newest) / 2) / 1e6)
    return round(statistics.median(found), 3)


def _micros(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1e6


def users_session(spark: SparkSession) -> SparkSession:
    """Spark with RocksDB and changelog, and nothing else of what Penstock sets."""
    own = query_session(spark, SHARDS)
    for key in settings_of_queries(SHARDS, is_alone=True):
        own.conf.unset(key)
    for key, value in WITH_CHANGELOG.items():
        own.conf.set(key, value)
    return own


def tuned_session(spark: SparkSession) -> SparkSession:
    """All settings of Penstock, but for names of sources, which a user's query does not have."""
    own = query_session(spark, SHARDS)
    for key in NAMED_SOURCES:
        own.conf.unset(key)
    return own


def sparks(own: SparkSession, given: argparse.Namespace) -> Cost:
    frame = feed_frame(own, "item_id BIGINT, price DOUBLE, ts TIMESTAMP", **BIDS).groupBy("item_id").count()
    writer = frame.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", tempfile.mkdtemp(prefix="penstock-bench-")).start()
    try:
        while query.lastProgress is None:
            time.sleep(0.1)
        progress, counts = steady(own, query, given)
        return Cost(batch_seconds(progress), counts, durations(progress), len(progress))
    finally:
        query.stop()


def run() -> Mapping[str, Any]:
    given = arguments()
    spark = session(SHARDS)
    parts: dict[str, Callable[[], Cost]] = {
        "nexmark": lambda: application(spark, "nexmark", read_text("nexmark")[0], given),
        "spark": lambda: sparks(users_session(spark), given),
        "spark_tuned": lambda: sparks(tuned_session(spark), given),
        "one": lambda: application(spark, "one", ONE, given),
        "auction": lambda: application(spark, "auction", read_text("auction")[0], given),
    }
    found = {}
    for name, part in parts.items():
        found[name] = part()
        print(f"{name:10s} {json.dumps(found[name].shown())}", file=sys.stderr, flush=True)
    ratios = {
        f"{name}{suffix}": round(found[part].batch_s / found[f"spark{suffix}"].batch_s, 2)
        for suffix in ("", "_tuned")
        for name, part in (("ratio", "auction"), ("ratio_one", "one"))
    }
    return {
        **ratios,
        "answers_within_s": found["auction"].answers_within_s,
        "first_answer_s": found["auction"].first_answer_s,
        **{name: cost.shown() for name, cost in found.items()},
    }


if __name__ == "__main__":
    main("batch_cost", run)
