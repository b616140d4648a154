"""Loss on the driver: what micro-batches leave out when they begin, and the history of it. No session is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.kernel.work import Price
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.runners.decisions import NO_DECISIONS
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.checkpoints.editions import BatchContext
from penstock.runners.spark.driver.losses import Losses
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.shedding import LossController

STREAMS = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);
CREATE STREAM t (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);
"""
QUERIES = """
CREATE CQ dear WEIGHT 5 WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 50 PERCENT) AS SELECT k FROM s;
CREATE CQ cheap WITH QOS (LATENCY <= INTERVAL 4 SECONDS, LOSS <= 30 PERCENT) AS SELECT k FROM t;
"""
#: Seconds of a micro-batch, of each row that it reads, and of each row that an operator works on.
FIXED_S, READ_S, ROW_S = 0.1, 2e-6, 1e-4


class Bench:
    """Micro-batches that take the rows that came since the one before, and lose what was decided when they began."""

    def __init__(self, folder: Path, text: str = STREAMS + QUERIES, trigger: str | None = None, **how: bool) -> None:
        self.job = looped(build_job(parse_application(text), 2))
        (stage,) = self.job.stages
        self.checkpoint = Checkpoint(folder)
        self.last_report: BatchReport | None = None
        prices = {node.id: [Price(0.0, ROW_S * 1e9) for _ in node.sources] for node in stage.graph.nodes}
        self.losses = Losses(self.checkpoint)
        controller = LossController(self.job, self.checkpoint, lambda: self.last_report, lambda: prices, trigger, cores=1, **how)
        controller.go_on(self.losses.learnt)
        self.losses.controller = controller if controller.is_needed else None
        self.controller = controller
        self.streams = {source.route.entry: source.route.stream.name for source in stage.sources}
        self.consumers = {entry: stage.graph.consumers[entry, ""] for entry in self.streams}
        self.totals = {entry: {"read": 0, "filtered": 0, "shed": 0} for entry in self.streams}
        self.read = dict.fromkeys(self.streams.values(), 0)
        self.epoch, self.now_ms, self.last_s = 0, 0, 0.1
        self.trigger_s = 0.0 if trigger is None else float(trigger.split()[0])
        self.latencies: list[float] = []
        self.budget_ns: int | None = None
        self.shed: Mapping[str, Mapping[str, Any]] = {}

    def run(self, rate: float, batches: int) -> None:
        """The same number of rows for each of the streams."""
        for _ in range(batches):
            came = {stream: round(rate * self.last_s / len(self.read)) for stream in self.read}
            self.read = {stream: rows + came[stream] for stream, rows in self.read.items()}
            offsets = {stream: json.dumps({"topic": {"0": rows}}) for stream, rows in self.read.items()}
            edition = Edition.first("a", STREAMS + QUERIES, 0)
            context = BatchContext(self.epoch, edition, NO_DECISIONS, self.now_ms, offsets, self.budget_ns)
            self.shed = self.losses.of(self.epoch, context)
            worked = 0.0
            for entry, counted in self.totals.items():
                rows = came[self.streams[entry]]
                shed = round(rows * self.share(entry))
                counted["read"], counted["shed"] = counted["read"] + rows, counted["shed"] + shed
                counted["arrived"] = rows
                worked += sum((rows - shed) * (1 - self.share(f"{node}#{port}")) for node, port in self.consumers[entry]) * ROW_S
            took = FIXED_S + READ_S * sum(came.values()) + worked
            counters: dict[str, Any] = {entry: dict(counted) for entry, counted in self.totals.items()}
            report = BatchReport(self.epoch, round(took * 1000), 0, entries=counters, work_ns=round(worked * 1e9))
            self.last_report = report
            self.latencies.append(self.last_s + took)
            pause = max(took, self.trigger_s)
            self.epoch, self.now_ms, self.last_s = self.epoch + 1, self.now_ms + round(pause * 1000), pause

    def share(self, name: str) -> float:
        return float(self.shed.get(name, {"share": 0.0})["share"])

    def share_of(self, stream: str) -> float:
        return next(self.share(entry) for entry, name in self.streams.items() if name == stream)

    @property
    def actions(self) -> list[str]:
        return [entry["action"] for entry in self.checkpoint.history.entries()]


#: At which rows alone take all the time.
HIGHEST = 1 / ROW_S


def test_nothing_is_left_out_while_all_can_be_processed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(0.5 * HIGHEST, 40)
    assert bench.shed == {}
    assert bench.actions == []


@pytest.mark.parametrize("trigger", [None, "0.3 seconds"])
def test_the_micro_batch_that_brings_three_times_the_rows_is_the_first_to_lose_some(tmp_path: Path, trigger: str | None) -> None:
    text = STREAMS + QUERIES.replace("50 PERCENT", "90 PERCENT").replace("30 PERCENT", "90 PERCENT")
    bench = Bench(tmp_path, text, trigger)
    bench.run(0.3 * HIGHEST, 20)
    assert max(bench.latencies[2:]) < 1.0
    quiet = len(bench.latencies)
    bench.run(3 * HIGHEST, 2)
    assert bench.shed
    bench.run(3 * HIGHEST, 40)
    assert max(bench.latencies[quiet:]) <= 2.0
    assert bench.actions[0] == "shed"
    assert "cannot" not in bench.actions
    bench.run(0.3 * HIGHEST, 30)
    assert bench.shed == {}
    assert bench.actions[-1] == "restore"


def test_the_least_important_query_loses_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(0.5 * HIGHEST, 20)
    bench.run(0.95 * HIGHEST, 30)
    assert 0 < bench.share_of("t") <= 0.3
    assert bench.share_of("s") < bench.share_of("t")
    bench.run(3 * HIGHEST, 10)
    assert bench.share_of("t") == pytest.approx(0.3, abs=0.001)
    assert bench.share_of("s") == pytest.approx(0.5, abs=0.001)
    assert bench.actions[:2] == ["shed", "shed"]
    assert "cannot" in bench.actions
    bench.run(0.1 * HIGHEST, 60)
    assert bench.shed == {}


def test_where_only_one_of_two_queries_may_lose_rows_they_are_left_out_in_front_of_its_operator(tmp_path: Path) -> None:
    text = (
        STREAMS
        + """
    CREATE CQ exact AS SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS] GROUP BY k;
    CREATE CQ loose WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 80 PERCENT) AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND]
    GROUP BY k;
    """
    )
    bench = Bench(tmp_path, text)
    bench.run(0.2 * HIGHEST, 20)
    bench.run(0.7 * HIGHEST, 20)
    names = {name.partition("#")[0].rstrip("0123456789") for name in bench.shed}
    assert names == {"GroupBy"}


def test_a_repeated_micro_batch_loses_the_same_rows(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(0.5 * HIGHEST, 20)
    bench.run(2 * HIGHEST, 5)
    assert bench.shed
    folder = tmp_path / "spark" / "offsets"
    folder.mkdir(parents=True)
    (folder / str(bench.epoch - 1)).write_text("v2\n{}\n")
    again = Bench(tmp_path)
    edition = Edition.first("a", STREAMS + QUERIES, 0)
    context = BatchContext(bench.epoch - 1, edition, NO_DECISIONS, 0, {})
    assert again.losses.of(bench.epoch - 1, context) == bench.shed
    # The next one is decided anew; with nothing measured yet, nothing is left out.
    assert again.losses.of(bench.epoch, BatchContext(bench.epoch, edition, NO_DECISIONS, 0, {})) == {}


def test_a_start_under_overload_leaves_rows_out_at_once_and_forgets_nothing(tmp_path: Path) -> None:
    text = STREAMS + QUERIES.replace("50 PERCENT", "90 PERCENT").replace("30 PERCENT", "90 PERCENT")
    before = Bench(tmp_path, text)
    before.run(0.5 * HIGHEST, 20)
    before.run(3 * HIGHEST, 20)
    assert before.shed
    write_offsets(tmp_path, before)
    again = Bench(tmp_path, text)
    again.totals, again.read, again.epoch = before.totals, before.read, before.epoch
    again.now_ms, again.last_s = before.now_ms, before.last_s
    again.run(3 * HIGHEST, 20)
    assert again.latencies[0] <= 2.0
    assert max(again.latencies) <= 2.0
    again.run(0.3 * HIGHEST, 30)
    assert again.shed == {}


def write_offsets(folder: Path, bench: Bench) -> None:
    """As Spark has written those of the last micro-batch."""
    (folder / "spark" / "offsets").mkdir(parents=True)
    offsets = [f"{stream}:{json.dumps({'topic': {'0': rows}})}" for stream, rows in bench.read.items()]
    about = json.dumps({"batchTimestampMs": bench.now_ms - round(1000 * bench.last_s)})
    (folder / "spark" / "offsets" / str(bench.epoch - 1)).write_text("\n".join(["v2", about, *offsets]))


def test_a_latency_that_is_broken_all_the_same_makes_micro_batches_smaller(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(0.5 * HIGHEST, 20)
    bench.run(0.95 * HIGHEST, 20)
    before = bench.last_s
    for _ in range(10):
        bench.controller.correct(True, 3.0)
    bench.run(0.95 * HIGHEST, 20)
    assert bench.last_s < before


def test_queries_of_least_weight_stand_still_if_that_is_wanted_and_nothing_else_helps(tmp_path: Path) -> None:
    text = (
        STREAMS
        + """
    CREATE CQ dear WEIGHT 5 WITH QOS (LATENCY <= INTERVAL 2 SECONDS) AS SELECT k FROM s;
    CREATE CQ cheap AS SELECT k FROM t;
    """
    )
    assert Bench(tmp_path / "without", text).losses.controller is None
    bench = Bench(tmp_path / "with", text, suspends=True)
    bench.run(0.5 * HIGHEST, 20)
    assert bench.shed == {}
    bench.run(1.4 * HIGHEST, 20)
    assert (bench.share_of("t"), bench.share_of("s")) == (1.0, 0.0)
    assert max(bench.latencies[-5:]) <= 2.0
    bench.run(0.4 * HIGHEST, 40)
    assert bench.shed == {}


def test_a_budget_limits_what_there_is_time_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, trigger="0.5 seconds")
    bench.run(0.5 * HIGHEST, 20)
    assert bench.shed == {}
    bench.budget_ns = 100_000_000
    bench.run(0.5 * HIGHEST, 5)
    assert bench.shed


def test_without_a_contract_that_allows_loss_nothing_is_left_out_any_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(0.5 * HIGHEST, 20)
    bench.run(3 * HIGHEST, 5)
    assert bench.shed
    plain = Bench(tmp_path, STREAMS + "CREATE CQ dear AS SELECT k FROM s; CREATE CQ cheap AS SELECT k FROM t;")
    assert plain.losses.controller is None
    plain.epoch = bench.epoch
    plain.run(0.5 * HIGHEST, 1)
    assert plain.shed == {}
