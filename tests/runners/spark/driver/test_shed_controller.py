"""Loss on the driver: reports of micro-batches lead to `shed` decisions, and to a history. No session is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.model.elements import SHED
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.shedding import ShedController

TEXT = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);
CREATE STREAM t (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);
CREATE CQ dear WEIGHT 5 WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 50 PERCENT) AS SELECT k FROM s;
CREATE CQ cheap WITH QOS (LATENCY <= INTERVAL 4 SECONDS, LOSS <= 30 PERCENT) AS SELECT k FROM t;
"""
#: Seconds of a micro-batch, and of each row that is kept.
FIXED_S, ROW_S = 0.1, 1e-4


class Bench:
    """Micro-batches that take the rows that came during the one before, and lose what was decided."""

    def __init__(self, folder: Path, text: str = TEXT) -> None:
        self.job = looped(build_job(parse_application(text), 2))
        self.checkpoint = Checkpoint(folder)
        self.controller = ShedController(self.job, self.checkpoint, lambda: None, None)
        self.entries = [source.route.entry for stage in self.job.stages for source in stage.sources]
        self.totals = {entry: {"read": 0, "filtered": 0, "shed": 0} for entry in self.entries}
        self.epoch, self.now_ms, self.last_s = 0, 0, 0.1

    def run(self, rate: float, batches: int) -> None:
        """Half of the rows for each of the streams."""
        for _ in range(batches):
            kept = 0
            for entry, counted in self.totals.items():
                rows = round(rate * self.last_s / len(self.entries))
                shed = round(rows * self.shares.get(entry, 0.0))
                counted["read"] += rows
                counted["shed"] += shed
                kept += rows - shed
            took = FIXED_S + ROW_S * kept
            progress = {"timestamp": f"2026-01-01T00:{self.now_ms // 60_000:02d}:{self.now_ms % 60_000 / 1000:06.3f}Z"}
            counters: dict[str, Any] = {entry: dict(counted) for entry, counted in self.totals.items()}
            self.controller.hear(BatchReport(self.epoch, round(took * 1000), 0, entries=counters, spark=progress))
            self.epoch, self.now_ms, self.last_s = self.epoch + 1, self.now_ms + round(took * 1000), took

    @property
    def shares(self) -> dict[str, float]:
        control = self.checkpoint.control
        said = [detail for kind, detail in control.read(0, len(control)) if kind == SHED]
        return {detail["entry"]: detail["share"] for detail in said}

    def share_of(self, query: str) -> float:
        stream = {"dear": "s", "cheap": "t"}[query]
        names = {source.route.entry: source.route.stream.name for stage in self.job.stages for source in stage.sources}
        return next(self.shares.get(entry, 0.0) for entry, name in names.items() if name == stream)


def test_nothing_is_left_out_while_all_can_be_processed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(5_000, 40)
    assert bench.shares == {}


def test_the_least_important_query_loses_first_and_all_rows_come_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(5_000, 20)
    bench.run(11_000, 30)
    assert 0 < bench.share_of("cheap") <= 0.3
    bench.run(30_000, 10)
    assert bench.share_of("cheap") == pytest.approx(0.3, abs=0.001)
    assert bench.share_of("dear") == pytest.approx(0.5, abs=0.001)
    entries = bench.checkpoint.history.entries()
    assert [entry["action"] for entry in entries].count("cannot") == 1
    bench.run(1_000, 60)
    assert set(bench.shares.values()) == {0.0}


def test_what_an_earlier_text_has_left_out_comes_back_without_its_contract(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(5_000, 20)
    bench.run(30_000, 10)
    plain = TEXT.replace("WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 50 PERCENT)", "").replace(
        "WITH QOS (LATENCY <= INTERVAL 4 SECONDS, LOSS <= 30 PERCENT)", ""
    )
    again = Bench(tmp_path, plain)
    assert again.controller.is_needed
    again.run(5_000, 1)
    assert set(again.shares.values()) == {0.0}


def test_applications_without_loss_need_no_controller(tmp_path: Path) -> None:
    job = looped(build_job(parse_application(TEXT.replace(", LOSS <= 50 PERCENT", "").replace(", LOSS <= 30 PERCENT", "")), 2))
    assert not ShedController(job, Checkpoint(tmp_path), lambda: None, None).is_needed
