"""A feed reads no further once the end of the streams has been decided; no session is needed to see that."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructField, StructType

from penstock.runners.spark.control import ControlLog
from penstock.runners.spark.feed import Feed, FeedStreamReader

OPTIONS = {"workload": "pairs", "stream": "left", "rows_per_batch": "10", "total": "1000"}
SCHEMA = StructType([StructField("id", LongType())])


def reader(control: Path | None) -> FeedStreamReader:
    own = {} if control is None else {"_control": str(control)}
    return Feed({**OPTIONS, **own}).streamReader(SCHEMA)


def test_nothing_is_read_behind_the_end_of_the_streams(tmp_path: Path) -> None:
    log, feed = ControlLog(tmp_path / "control"), reader(tmp_path / "control")
    start = feed.latestOffset(feed.initialOffset(), feed.getDefaultReadLimit())
    assert start["tick"] == 10
    log.append("budget", {"rows": 5})
    log.append("end", {"query": "one of several"})
    second = feed.latestOffset(start, feed.getDefaultReadLimit())
    assert second["tick"] == 20
    log.append("end")
    assert feed.latestOffset(second, feed.getDefaultReadLimit()) == second
    # A run that finds the end undone begins where the last one stopped, and reads nothing either.
    assert reader(tmp_path / "control").latestOffset(second, feed.getDefaultReadLimit()) == second


def test_a_feed_outside_an_application_goes_on() -> None:
    feed = reader(None)
    start = feed.latestOffset(feed.initialOffset(), feed.getDefaultReadLimit())
    assert feed.latestOffset(start, feed.getDefaultReadLimit())["tick"] == 20
