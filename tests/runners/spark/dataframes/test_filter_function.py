"""Adaptive filters on Spark: `ps.filter` on a DataFrame, and the driver's loop of an application."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.runners.spark.data_path.feed import register
from penstock.runners.spark.processes.session import clone_session
from penstock.workloads.playback import Playback

pytestmark = pytest.mark.spark

PAIRS = {"workload": "pairs", "key_type": "string", "keys": "40", "rows_per_step": "5", "total": "6000", "rows_per_batch": "500"}
EAGER = {"probability": 1.0, "min_fill": 50, "window_rows": 200}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = clone_session(spark)
    own.conf.set("spark.sql.shuffle.partitions", "2")
    register(own)
    return own


def expected() -> list[int]:
    feed = Playback.from_text({**PAIRS, "stream": "left"})
    ids = [number for rows in feed.ranges(0, feed.total) for batch in feed.batches(rows) for number in batch["id"].to_pylist()]
    return sorted(number for number in ids if number % 2 == 0 and number % 10 == 0 and number > 100)


@pytest.mark.parametrize("is_global", [True, False], ids=["driver decides", "shards decide"])
def test_a_filtered_frame_has_the_rows_of_the_conjunction_and_reorders(
    session: SparkSession, tmp_path: Path, is_global: bool
) -> None:
    def is_even(id: pd.Series) -> pd.Series:
        return id % 2 == 0

    def is_tenth(id: pd.Series) -> pd.Series:
        return id % 10 == 0

    frame = session.readStream.format("feed").options(**PAIRS, stream="left").load().withWatermark("ts", "0 seconds")
    control = tmp_path / "orders" if is_global else ""
    chosen = ps.filter(frame, ["id > 100", is_even, is_tenth], control=control, **EAGER)
    name = "filtered_globally" if is_global else "filtered_by_shards"
    query = chosen.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()
        deadline = time.monotonic() + 30
        while is_global and not list((tmp_path / "orders").rglob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.2)
        query.processAllAvailable()
    finally:
        query.stop()
    assert chosen.columns == frame.columns
    assert sorted(row["id"] for row in session.sql(f"SELECT id FROM {name}").collect()) == expected()
    assert bool(list((tmp_path / "orders").rglob("*.json"))) is is_global


def test_an_application_reorders_through_the_control_log_and_remembers(spark: SparkSession, tmp_path: Path) -> None:
    app = ps.App.from_text("""
        CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
        CREATE FUNCTION loud(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:ascii_upper', kind 'arrow');
        CREATE STREAM s (key STRING, id BIGINT, value DOUBLE, payload STRING, ts TIMESTAMP,
                         WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
          USING feed OPTIONS (workload 'pairs.left', key_type 'string', keys '40', rows_per_step '5', total '6000',
                              rows_per_batch '500');
        CREATE CQ q AS SELECT /*+ ORDER(probability = 1.0, min_fill = 50, window_rows = 200) */ id, key FROM s
        WHERE wide(payload) >= 0 AND loud(key) < 'KEY-0000000010' AND id > 100;
    """)
    run = app.start(tmp_path / "c", spark=spark, shards=2)
    try:
        run.process_all_available()
        deadline = time.monotonic() + 30
        while not any(status.reorderings for status in run.filters()) and time.monotonic() < deadline:
            time.sleep(0.2)
        run.process_all_available()
    finally:
        run.stop()
    (status,) = run.filters()
    assert status.order[0] == "loud(key) < 'KEY-0000000010'"
    assert status.current is not None
    found = run.results("q")
    feed = Playback.from_text({**PAIRS, "stream": "left"})
    rows = [row for part in feed.ranges(0, feed.total) for batch in feed.batches(part) for row in batch.to_pylist()]
    assert found is not None
    assert sorted(found["id"].to_pylist()) == sorted(row["id"] for row in rows if row["key"] < "key-0000000010" and row["id"] > 100)
