"""A star of seven streams in which it changes which one seldom has a partner: probes that adapt against a fixed order.

Payments are joined with alerts on their region and with five watch lists, of cards, shops, devices, accounts and phones: a payment
in a region with a recent alert that is on all lists is an answer. Each micro-batch spans 10 s and has 40,000 payments, which stay
for 10 s, and 50,000 alerts, which stay for 2 s. An alert meets the four hundred payments of its region, one of 100, and each of
these pairs looks into the lists until one does not have it: twenty million pairs a micro-batch, of which a third of a per cent are
answers. A list has 100,000 entries that stay for hours; 200 more come with each micro-batch. In each quarter of the run another
list has few of the payments (one in 200), while the others have nine in ten.

The fixed order is the best one of the first quarter. Both sides run the same operator, on Spark, from the same Parquet files into
the noop sink. What is timed begins behind the micro-batch that brings the lists, and a few more in which code is compiled. In the
first quarter both have the same order: where `ratio_where_orders_agree` is far from 1 others used the cores, and the run says
nothing.

    python -m benchmarks.multiway_join [--batches 12] [--local]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.common import Timing, main, session, timed
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.data_path.pipeline import build_pipeline, direct_answers
from penstock.runners.spark.data_path.sources import read_stream

LISTS = ("card", "shop", "device", "account", "phone")
PAYMENTS, ALERTS, REGIONS = 40_000, 50_000, 100
ENTRIES, NEW_ENTRIES = 100_000, 200
SPAN_US = 10_000_000
#: Share of the payments that are not on a list: on that of the quarter, and on the others.
SELDOM, USUAL = 0.995, 0.10
#: The list that has few payments, by quarter of the run.
EMPTY = (0, 4, 2, 3)
SHARDS = 2
#: Micro-batches before any is timed: the first one brings the lists.
WARM_UP = 4


def application(folder: Path, policy: str) -> str:
    """Streams over the files of a folder, and the join; `policy` keeps the order of the probes."""

    def declared(name: str, columns: str) -> str:
        return (
            f"CREATE STREAM {name} ({columns}, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) "
            f"USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '1');\n"
        )

    keys = ", ".join(f"{name} BIGINT" for name in LISTS)
    streams = declared("payment", f"id BIGINT, region BIGINT, {keys}") + declared("alert", "region BIGINT, level BIGINT")
    streams += "".join(declared(f"{name}_list", "id BIGINT") for name in LISTS)
    lists = [f"{name}_list {name} [RANGE 5 HOURS]" for name in LISTS]
    sources = ", ".join(["payment p [RANGE 10 SECONDS]", "alert a [RANGE 2 SECONDS]", *lists])
    equal = " AND ".join(["p.region = a.region", *(f"p.{name} = {name}.id" for name in LISTS)])
    return f"{streams}CREATE CQ alarms AS SELECT /*+ MJOIN(policy = '{policy}') */ p.id, a.level FROM {sources} WHERE {equal};"


# -- data ------------------------------------------------------------------------------------------------------------------


def micro_batch(number: int, empty: int) -> dict[str, pa.RecordBatch]:
    """Rows of all streams in one span of time; odd numbers are on no list."""
    rng = np.random.default_rng([11, number])
    start = 1_700_000_000_000_000 + number * SPAN_US

    def times(rows: int) -> pa.Array:
        return pa.array(start + np.arange(rows) * SPAN_US // rows, pa.timestamp("us", "UTC"))

    columns = {"id": pa.array(number * PAYMENTS + np.arange(PAYMENTS)), "region": pa.array(rng.integers(0, REGIONS, PAYMENTS))}
    for at, name in enumerate(LISTS):
        missing = rng.random(PAYMENTS) < (SELDOM if at == empty else USUAL)
        columns[name] = pa.array(rng.integers(0, ENTRIES, PAYMENTS) * 2 + missing)
    alerts = {"region": pa.array(np.arange(ALERTS) % REGIONS), "level": pa.array(rng.integers(1, 9, ALERTS)), "ts": times(ALERTS)}
    found = {"payment": {**columns, "ts": times(PAYMENTS)}, "alert": alerts}
    for name in LISTS:
        ids = np.arange(ENTRIES) if not number else ENTRIES + number * NEW_ENTRIES + np.arange(NEW_ENTRIES)
        found[f"{name}_list"] = {"id": pa.array(rng.permutation(ids) * 2), "ts": times(len(ids))}
    return {name: pa.RecordBatch.from_pydict(part) for name, part in found.items()}


def run_of(batches: int) -> Iterator[dict[str, pa.RecordBatch]]:
    """Micro-batches to warm up, then those of four quarters."""
    for number in range(WARM_UP + batches):
        yield micro_batch(number, EMPTY[max(number - WARM_UP, 0) * 4 // batches])


def write(folder: Path, batches: Iterator[dict[str, pa.RecordBatch]]) -> None:
    """One file a micro-batch and stream, in an order that Spark keeps."""
    for number, rows in enumerate(batches):
        for name, part in rows.items():
            path = folder / name / f"{number:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(part), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def job_of(folder: Path, policy: str) -> Job:
    return build_job(parse_application(application(folder, policy), "payments"), SHARDS)


# -- in process ------------------------------------------------------------------------------------------------------------


def local(batches: int) -> dict[str, Any]:
    """CPU time of the join alone, in this process."""
    found: dict[str, float] = {}
    for policy in ("fixed", "agreedy"):
        runner, before = LocalRunner(job_of(Path("unused"), policy), clock=time.process_time_ns), 0
        for number, rows in enumerate(run_of(batches)):
            before = _join_ns(runner) if number == WARM_UP else before
            runner.run(rows)
        found[policy] = round((_join_ns(runner) - before) / 1e9, 2)
    return {"local_ratio": round(found["fixed"] / found["agreedy"], 2), "local_cpu_seconds": found}


def _join_ns(runner: LocalRunner) -> int:
    return sum(counters["ns"] for name, counters in runner.report().items() if name.startswith("MJoin"))


# -- on Spark --------------------------------------------------------------------------------------------------------------


def on_spark(spark: SparkSession, folder: Path, policy: str) -> Timing:
    pipeline = build_pipeline(job_of(folder, policy), lambda stream: read_stream(spark, stream), None, uuid.uuid4().hex)
    whole = timed(f"probes, {policy}", direct_answers(pipeline.frame), PAYMENTS + ALERTS)
    return replace(whole, seconds=whole.seconds[WARM_UP:])


def speed(timing: Timing) -> float:
    """Rows a second over the whole run: every quarter counts."""
    return timing.rows_per_batch * len(timing.seconds) / sum(timing.seconds)


def quarters(timing: Timing) -> list[float]:
    """Mean seconds of a micro-batch, by quarter."""
    return [round(float(np.mean(part)), 3) for part in np.array_split(timing.seconds, len(EMPTY))]


def measure(spark: SparkSession, batches: int = 12) -> dict[str, Any]:
    """Both sides over the same files; for whoever measures adaptive orders as a whole."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        write(folder / "short", run_of(2))
        write(folder / "whole", run_of(batches))
        on_spark(spark, folder / "short", "agreedy")
        fixed, adaptive = on_spark(spark, folder / "whole", "fixed"), on_spark(spark, folder / "whole", "agreedy")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shown = {"adaptive": quarters(adaptive), "fixed": quarters(fixed)}
    return {
        "ratio": round(speed(adaptive) / speed(fixed), 2),
        "ratio_where_orders_agree": round(shown["fixed"][0] / shown["adaptive"][0], 2),
        "same_result_count": adaptive.output_rows == fixed.output_rows,
        "rows_per_second": {"adaptive": round(speed(adaptive)), "fixed": round(speed(fixed))},
        "batch_seconds_by_quarter": shown,
        "output_rows": adaptive.output_rows,
        "state_rows": adaptive.state_rows,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--local", action="store_true", help="measure the operator alone too, in this process")
    return parser.parse_args()


def run() -> Mapping[str, Any]:
    given = arguments()
    found = measure(session(SHARDS), given.batches)
    return {**found, **(local(given.batches) if given.local else {})}


if __name__ == "__main__":
    main("multiway_join", run)
