"""Shares of memory, decided on the driver from reports and written to the log; no session is needed to see that."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from penstock.errors import OutOfMemory
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.memory import MemorySharing
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.memory import MemoryController, begin_sharing
from penstock.runners.spark.driver.reports import BatchReport

TEXT = "".join(f"CREATE STREAM {name} (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);" for name in "abc") + (
    "CREATE CQ one AS SELECT /*+ XJOIN */ a.k FROM a, b WHERE a.k = b.k;"
    "CREATE CQ two AS SELECT /*+ XJOIN */ a.k FROM a, c WHERE a.k = c.k;"
    "CREATE CQ groups AS SELECT k, count(*) AS n FROM a [RANGE 5000] GROUP BY k;"
)


def sharing() -> MemorySharing:
    catalog = parse_application(TEXT)
    return MemorySharing(build_job(catalog, 2), 10_000_000)


def decided(log: ControlLog) -> list[tuple[str, ...]]:
    return [(kind, *detail.get("to", ()), str(detail["bytes"])) for kind, detail in log.read(0, len(log))]


def test_shares_begin_equal_and_follow_what_reports_say(tmp_path: Path) -> None:
    log, shares = ControlLog(tmp_path), sharing()
    refused: list[OutOfMemory] = []
    begin_sharing(log, shares)
    first, second = shares.shares
    assert decided(log) == [("memory", first, "2500000"), ("memory", second, "2500000")]
    controller = MemoryController(shares, log, lambda: None, refused.append)
    for epoch in range(3):
        states = {first: {"state_rows": 90_000}, second: {"state_rows": 10_000}}
        controller.hear(BatchReport(epoch, 0, 0, states, {}))
    # What an unbounded join will need nobody can tell, so shares follow what it has: nine to one.
    assert decided(log)[2:] == [("memory", first, "4500000"), ("memory", second, "500000")]
    assert refused == []
    controller.hear(BatchReport(3, 0, 0, {"GroupBy5": {"state_bytes": 20_000_000}}, {}))
    assert "GroupBy5" in str(refused[0])
    controller.stop()


def test_who_has_been_stopped_decides_nothing_any_more(tmp_path: Path) -> None:
    """When queries come or go another controller takes over, and a late share of the old one would hold beside those of the new."""
    log, shares = ControlLog(tmp_path), sharing()
    shares.first()
    states = {name: {"state_rows": 90_000} for name in shares.shares} | {"GroupBy5": {"state_bytes": 3_000_000}}
    report = BatchReport(0, 0, 0, states, {})
    controller = MemoryController(shares, log, lambda: None, lambda _: None)
    controller.stop()
    controller._hear_unless_stopped(report)
    assert len(log) == 0
    controller.hear(report)
    assert len(log) == 2


def test_a_run_without_a_limit_gives_back_what_hints_say_and_says_so_once(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    begin_sharing(log, None)
    assert len(log) == 0
    begin_sharing(log, sharing())
    begin_sharing(log, None)
    begin_sharing(log, None)
    assert decided(log)[2:] == [("memory", "None")]
