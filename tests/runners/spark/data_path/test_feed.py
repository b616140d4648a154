"""The feed inside Spark: exactly the rows of the workload, in any batching, after any restart."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.runners.spark.data_path.feed import register
from penstock.workloads.playback import Playback

pytestmark = pytest.mark.spark

PAIRS = {"workload": "pairs", "stream": "left", "partitions": "2", "positions": "true", "total": "5000"}
ORDER = [("part", "ascending"), ("off", "ascending")]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def expected(options: dict[str, str]) -> pa.Table:
    feed = Playback.from_text(options)
    batches = [batch for rows in feed.ranges(0, feed.total) for batch in feed.batches(rows)]
    return pa.Table.from_batches(batches).sort_by(ORDER)


def rows_of(frame: DataFrame) -> pa.Table:
    return frame.toArrow().sort_by(ORDER)


def start(session: SparkSession, options: dict[str, str], folder: Path, **trigger: Any) -> Any:
    stream = session.readStream.format("feed").options(**options).load()
    writer = stream.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def written(session: SparkSession, folder: Path) -> pa.Table:
    return rows_of(session.read.parquet(str(folder / "out")))


def offsets(folder: Path) -> list[dict[str, int]]:
    files = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in files]


def test_a_batch_read_gives_the_rows_of_the_workload(session: SparkSession) -> None:
    for options in (PAIRS, {**PAIRS, "workload": "auction", "stream": "bid", "marks": "constant", "null_fraction": "0.1"}):
        assert rows_of(session.read.format("feed").options(**options).load()).equals(expected(options))


def test_a_schema_selects_columns(session: SparkSession) -> None:
    frame = session.read.format("feed").options(**PAIRS).schema("off BIGINT, key BIGINT, mark STRING").load()
    assert frame.columns == ["off", "key", "mark"]
    assert frame.where("off = 7 and mark is null").count() == 2


def test_counted_batches_have_exactly_the_rows_asked_for_and_survive_restarts(session: SparkSession, tmp_path: Path) -> None:
    options = {**PAIRS, "rows_per_batch": "1500"}
    first = start(session, {**options, "total": "3000"}, tmp_path, availableNow=True)
    first.awaitTermination()
    start(session, options, tmp_path, availableNow=True).awaitTermination()
    assert [offset["tick"] for offset in offsets(tmp_path)] == [1500, 3000, 4500, 5000]
    assert [progress["numInputRows"] for progress in first.recentProgress if progress["numInputRows"]] == [1500, 1500]
    assert written(session, tmp_path).equals(expected(options))


def test_rows_fall_due_by_the_clock_and_the_beginning_survives_a_restart(session: SparkSession, tmp_path: Path) -> None:
    options = {**PAIRS, "rate": "1000"}
    query = start(session, options, tmp_path, processingTime="200 milliseconds")
    while not query.recentProgress:
        time.sleep(0.05)
    query.stop()
    middle = offsets(tmp_path)[-1]
    # The row at 4.999 s is the last; it is due only because time goes on while no query runs.
    time.sleep(max(middle["began_us"] / 1e6 + 5 - time.time(), 0))
    start(session, options, tmp_path, availableNow=True).awaitTermination()
    assert offsets(tmp_path)[-1] == {"tick": 5000, "began_us": middle["began_us"]}
    assert written(session, tmp_path).equals(expected(options))


def test_a_backlog_is_read_in_limited_batches(session: SparkSession, tmp_path: Path) -> None:
    options = {**PAIRS, "rate": "100000", "max_rows_per_batch": "2000"}
    # The beginning is set when the query first asks for offsets, so it takes a second start to find a backlog.
    start(session, {**options, "total": "1"}, tmp_path, availableNow=True).awaitTermination()
    time.sleep(0.1)
    start(session, options, tmp_path, availableNow=True).awaitTermination()
    ticks = [offset["tick"] for offset in offsets(tmp_path)]
    assert ticks[-1] == 5000
    assert max(after - before for before, after in pairwise(ticks)) <= 2000


def test_mistakes_reach_the_user_with_the_nearest_name(session: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="Did you mean 'pairs'"):
        session.read.format("feed").options(workload="pair", stream="left").load()
    with pytest.raises(AnalysisException, match="Did you mean 'rate'"):
        session.readStream.format("feed").options(**PAIRS, rte="5").load()


def test_available_now_needs_an_end_when_batches_are_counted(session: SparkSession, tmp_path: Path) -> None:
    options = {**PAIRS, "total": "0", "rows_per_batch": "10"}
    with pytest.raises(StreamingQueryException, match="set 'total' as well"):
        start(session, options, tmp_path, availableNow=True).awaitTermination()
