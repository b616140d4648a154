"""The time of day in the offsets of the control stream: told in steps, never twice alike, and a replay hears the same."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from penstock.kernel.packets import Packet
from penstock.runners.spark.data_path import clock
from penstock.runners.spark.data_path.control import ControlLog, ControlSource
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run

TICK = 1_000_000


class Told:
    """The control source of a run, asked as Spark does; time is what the test says."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, tick_us: int = TICK) -> None:
        self.now = 0
        monkeypatch.setattr(clock, "_now_us", lambda: self.now)
        self.path = path
        self.tick_us = tick_us
        self.restart()
        self.offset: dict[str, int] = self.source.initialOffset()

    def restart(self) -> None:
        options = {"path": str(self.path), "shards": "1", "tick_us": str(self.tick_us)}
        self.source: Any = ControlSource(options).streamReader(None)

    def at(self, now: int) -> list[tuple[str, dict[str, Any]]] | None:
        """What the micro-batch hears that is planned at this time; None if nothing makes Spark plan one."""
        self.now = now
        start = self.offset
        self.offset = json.loads(json.dumps(self.source.latestOffset(start, self.source.getDefaultReadLimit())))
        if json.dumps(self.offset) == json.dumps(start):
            return None
        return self.heard(start, self.offset)

    def heard(self, start: dict[str, int], end: dict[str, int]) -> list[tuple[str, dict[str, Any]]]:
        rows = [row for part in self.source.partitions(start, end) for batch in self.source.read(part) for row in batch.to_pylist()]
        controls = [Packet.decode(row["header"], row["body"]).control for row in rows]
        return [(control.kind, dict(control.detail)) for control in controls if control is not None]


def test_time_is_told_in_steps_and_the_first_time_says_that_a_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    assert told.at(5_000_000) == [("clock", {"us": 5_000_000, "begins": True})]
    assert told.at(5_900_000) is None
    assert told.at(6_100_000) == [("clock", {"us": 6_100_000})]
    told.restart()
    assert told.at(9_000_000) == [("clock", {"us": 9_000_000, "begins": True})]


def test_a_query_whose_micro_batches_take_longer_than_a_step_comes_to_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    heard = [told.at(second * 3_000_000) is not None for second in range(1, 9)]
    assert heard == [True, False, True, False, True, False, True, False]


def test_a_repeated_micro_batch_hears_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    start = told.offset
    first = told.at(5_000_000)
    end = told.offset
    told.restart()
    told.now = 99_000_000
    assert told.heard(start, end) == first


def test_decisions_come_with_the_time_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    ControlLog(tmp_path).append("continue")
    assert told.at(5_000_000) == [("continue", {}), ("clock", {"us": 5_000_000, "begins": True})]
    ControlLog(tmp_path).append("continue")
    assert told.at(5_100_000) == [("continue", {})]


def test_a_clock_that_is_put_back_tells_nothing_until_it_has_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    told.at(50_000_000)
    assert [told.at(now) for now in (20_000_000, 30_000_000, 50_500_000)] == [None, None, None]
    assert told.at(51_000_000) == [("clock", {"us": 51_000_000})]


def test_nobody_who_does_not_ask_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch, tick_us=0)
    assert told.at(5_000_000) is None
    asked = Told(tmp_path, monkeypatch)
    asked.at(6_000_000)
    told.offset = asked.offset  # of an earlier run that did
    assert told.at(9_000_000) is None


def test_a_run_that_takes_what_is_there_hears_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    told.now = 5_000_000
    told.source.prepareForTriggerAvailableNow()
    assert told.at(6_000_000) == [("clock", {"us": 5_000_000, "begins": True})]
    assert [told.at(now) for now in (7_000_000, 8_000_000, 9_000_000)] == [None, None, None]


def answers(run: Run, query: str) -> list[dict[str, Any]]:
    found = run.results(query)
    return [] if found is None else found.to_pylist()


@pytest.mark.spark
def test_windows_close_on_spark_when_nothing_comes_any_more(spark: SparkSession, tmp_path: Path) -> None:
    """By the time of arrival, and by an idle timeout and a heartbeat in event time."""
    for name, row in {"click": '{"k": 7}', "sale": '{"k": 8, "at": "2026-01-01T00:00:01Z"}'}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text(row + "\n")
    app = App.from_text(f"""
        CREATE STREAM click (k BIGINT) USING json OPTIONS (path '{tmp_path}/click');
        CREATE STREAM sale (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 1 SECOND)
          USING json OPTIONS (path '{tmp_path}/sale') IDLE AFTER INTERVAL 1 SECOND;
        CREATE CQ clicks AS SELECT k, COUNT(*) AS n FROM click [RANGE 1 SECOND] GROUP BY k;
        CREATE CQ sales AS SELECT k, COUNT(*) AS n FROM sale [RANGE 2 SECONDS] GROUP BY k;
        CREATE CQ of_the_day AS SELECT k, COUNT(*) AS n FROM sale [RANGE 1 DAY] GROUP BY k;
    """)
    run = app.start(tmp_path / "checkpoint", spark, shards=1)
    try:
        deadline = time.monotonic() + 60
        while not (answers(run, "clicks") and answers(run, "sales")) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [answers(run, query) for query in ("clicks", "sales")] == [[{"k": 7, "n": 1}], [{"k": 8, "n": 1}]]
        assert answers(run, "of_the_day") == []
        run.heartbeat("sale", datetime(2026, 1, 2, tzinfo=UTC))
        assert answers(run, "of_the_day") == [{"k": 8, "n": 1}]
    finally:
        run.stop()
