"""Conditions in Python before the shuffle, which only rows that pass cross, beside the same conditions in the shards, in one run.

python -m benchmarks.sifted_rows [--rows 2000000] [--repetitions 3]

One application over Parquet files: three functions of Python, of which about one row in two hundred meets all, then a windowed
group-by. Both sides try the conditions as written, so that they do the same work; `mode = 'shard'` leaves them to the shards.
The runs alternate, the fastest of each side counts. `shuffled` are the bytes that Spark wrote for its exchange.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.common import main, session
from penstock.runners.spark.driver.app import App

FILES, FILES_PER_BATCH = 20, 4
SIDES = {"sifted": "policy = 'fixed'", "in_shards": "policy = 'fixed', mode = 'shard'"}
TEXT = """
CREATE FUNCTION first_share(token STRING) RETURNS DOUBLE USING python OPTIONS (callable 'benchmarks.sifted_rows:first_share');
CREATE FUNCTION second_share(token STRING) RETURNS DOUBLE USING python OPTIONS (callable 'benchmarks.sifted_rows:second_share');
CREATE FUNCTION third_share(token STRING) RETURNS DOUBLE USING python OPTIONS (callable 'benchmarks.sifted_rows:third_share');
CREATE STREAM event (id BIGINT, key BIGINT, token STRING, note STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)
  USING parquet OPTIONS (path '{folder}', maxFilesPerTrigger '{files}');
CREATE CQ few AS SELECT /*+ ORDER({order}) */ key, COUNT(*) AS n, MAX(note) AS note FROM event [RANGE 10 SECONDS]
WHERE first_share(token) < 0.2 AND second_share(token) < 0.2 AND third_share(token) < 0.25 GROUP BY key OUTPUT TO memory;
"""


def _share(salt: bytes, token: pd.Series) -> pd.Series:
    """A number between 0 and 1 that looks random; a microsecond a row."""
    digest = hashlib.blake2b
    return token.map(lambda text: int.from_bytes(digest(text.encode(), digest_size=4, salt=salt).digest(), "big") / 2**32)


def first_share(token: pd.Series) -> pd.Series:
    return _share(b"1", token)


def second_share(token: pd.Series) -> pd.Series:
    return _share(b"2", token)


def third_share(token: pd.Series) -> pd.Series:
    return _share(b"3", token)


def write(folder: Path, rows: int) -> None:
    random, size = np.random.default_rng(3), rows // FILES
    for number in range(FILES):
        ids = np.arange(number * size, (number + 1) * size)
        columns = {
            "id": ids,
            "key": random.integers(0, 1000, size),
            "token": [f"{value:016x}" for value in random.integers(0, 2**62, size).tolist()],
            "note": [f"{value:032x}" for value in random.integers(0, 2**62, size).tolist()],
            "ts": pa.array(1_700_000_000_000_000 + ids * 10, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(columns), folder / f"{number:03d}.parquet")


def shuffled(spark: SparkSession) -> int:
    """Bytes written for exchanges since the session began."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(int(found.apply(at).totalShuffleWrite()) for at in range(found.size()))


def measured(spark: SparkSession, folder: Path, side: str, rows: int) -> dict[str, Any]:
    checkpoint = tempfile.mkdtemp(prefix="penstock-bench-")
    before = shuffled(spark)
    run = App.from_text(TEXT.format(folder=folder, files=FILES_PER_BATCH, order=SIDES[side])).start(
        checkpoint, spark=spark, shards=2
    )
    try:
        run.process_all_available()
        batches = [report for report in run.reports() if report.input_rows]
        answers = run.results("few")
    finally:
        run.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    seconds = [report.spark["durationMs"]["triggerExecution"] / 1000 for report in batches]
    found = {
        "rows_per_second": round(rows / sum(seconds)),
        "shuffled": shuffled(spark) - before,
        "batch_seconds": seconds,
        "answers": sum(answers["n"].to_pylist()) if answers is not None else 0,
    }
    print(f"{side:10s} {found}", file=sys.stderr, flush=True)
    return found


def run() -> Mapping[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        write(folder, given.rows)
        spark = session()
        for side in SIDES:
            measured(spark, folder, side, given.rows)
        found = [{side: measured(spark, folder, side, given.rows) for side in SIDES} for _ in range(given.repetitions)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    best = {side: max((each[side] for each in found), key=lambda one: one["rows_per_second"]) for side in SIDES}
    return {
        "ratio": round(best["sifted"]["rows_per_second"] / best["in_shards"]["rows_per_second"], 2),
        "shuffled_ratio": round(best["in_shards"]["shuffled"] / best["sifted"]["shuffled"], 1),
        "same_answers": best["sifted"]["answers"] == best["in_shards"]["answers"],
        **best,
    }


if __name__ == "__main__":
    main("sifted_rows", run)
