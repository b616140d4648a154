"""What the benchmarks share: a session, a run of a fixed number of micro-batches, the result line."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow.dataset import dataset
from pyspark.sql import DataFrame, SparkSession

from penstock.runners.spark.data_path import feed
from penstock.runners.spark.driver.reports import read_reports
from penstock.runners.spark.processes.session import create_session

RESULTS = Path(__file__).parent / "RESULTS.md"


@dataclass(frozen=True)
class Timing:
    """Seconds of each micro-batch, rows read in each, and rows written in all."""

    name: str
    seconds: list[float]
    rows_per_batch: int
    output_rows: int
    state_rows: int = 0

    @property
    def steady(self) -> list[float]:
        """Micro-batches after the first quarter, in which state fills and code warms up."""
        return self.seconds[len(self.seconds) // 4 :]

    @property
    def rows_per_second(self) -> float:
        return self.rows_per_batch * len(self.steady) / sum(self.steady)

    @property
    def flatness(self) -> float:
        """Last quarter of micro-batches over the second quarter: 1 is flat."""
        quarter = max(len(self.seconds) // 4, 1)
        return statistics.mean(self.seconds[-quarter:]) / statistics.mean(self.seconds[quarter : 2 * quarter] or self.seconds)

    def shown(self) -> dict[str, Any]:
        return {
            "rows_per_second": round(self.rows_per_second),
            "batch_seconds_median": round(statistics.median(self.steady), 3),
            "flatness": round(self.flatness, 3),
            "output_rows": self.output_rows,
            "state_rows": self.state_rows,
        }


def session(shards: int = 2) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.mkdtemp(prefix="penstock-bench-"))
    spark = create_session("penstock-benchmark", f"local[{shards}]", shards, {"spark.driver.memory": "6g"})
    feed.register(spark)
    return spark


def feed_frame(spark: SparkSession, schema: str, **options: object) -> DataFrame:
    return spark.readStream.format("feed").schema(schema).options(**{name: str(value) for name, value in options.items()}).load()


def timed(name: str, frame: DataFrame, rows_per_batch: int, conf: Mapping[str, str] | None = None, path: str = "") -> Timing:
    """Run a finite streaming query into the noop sink, or Parquet files if a path is given; take Spark's own batch durations."""
    spark = frame.sparkSession
    before = {key: spark.conf.get(key, None) for key in conf or {}}
    for key, value in (conf or {}).items():
        spark.conf.set(key, value)
    checkpoint = tempfile.mkdtemp(prefix="penstock-bench-")
    writer = frame.writeStream.format("parquet").option("path", path) if path else frame.writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        progress = [item for item in query.recentProgress if item["numInputRows"]]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    seconds = [item["durationMs"]["triggerExecution"] / 1000 for item in progress]
    rows = rows_in(path) if path else sum(item["sink"]["numOutputRows"] for item in query.recentProgress)
    reports = read_reports(progress)
    state = reports[-1].state_rows if reports else sum(item["numRowsTotal"] for item in progress[-1]["stateOperators"])
    print(f"{name:28s} {Timing(name, seconds, rows_per_batch, rows, state).shown()}", file=sys.stderr, flush=True)
    return Timing(name, seconds, rows_per_batch, rows, state)


def rows_in(path: str) -> int:
    """Rows of a folder of Parquet files."""
    return int(dataset(path, format="parquet").count_rows())


def finish(name: str, line: Mapping[str, Any], started: float) -> None:
    """Print the JSON line and append it to RESULTS.md with the date and the command."""
    full = {"name": name, **line, "seconds": round(time.monotonic() - started, 1)}
    text = json.dumps(full)
    if not RESULTS.exists():
        RESULTS.write_text(
            "# Results\n\nEach entry: date, command, result line. Ratios compare within one run on 2 shared, noisy cores.\n"
        )
    with RESULTS.open("a") as out:
        out.write(
            f"\n## {name}, {time.strftime('%Y-%m-%d %H:%M')}\n\n`{command()}`\n\n```json\n{json.dumps(full, indent=1)}\n```\n"
        )
    print(text)


def command() -> str:
    return " ".join(["python -m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]])


def main(name: str, run: Callable[[], Mapping[str, Any]]) -> None:
    started = time.monotonic()
    try:
        line = run()
    finally:
        active = SparkSession.getActiveSession()
        if active is not None:
            active.stop()
    finish(name, line, started)
