"""The driver's loop for adaptive filters, without Spark: reports in, decisions and records out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

pytest.importorskip("pyspark")

from penstock.apps.reading import read_filter_statuses
from penstock.errors import UserError
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.status import FilterStatus
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.filter_orders import FilterController
from penstock.runners.spark.driver.reports import BatchReport, read_report
from penstock.runners.spark.driver.run_history import RunHistory
from penstock.runners.spark.terminal.display import Ending, LiveTable, PlainLines

TEXT = """
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow', cost '1e-6');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE CQ q AS SELECT /*+ ORDER(policy = '{policy}', probability = 1.0, min_fill = 20, stage_rows = 20) */ k
FROM s WHERE wide(t) > 1 AND wide(u) > 1;
"""


def catalog(policy: str = "agreedy") -> Catalog:
    return parse_application(TEXT.format(policy=policy), "app")


def job(policy: str = "agreedy") -> Job:
    return build_job(catalog(policy), 2)


def rows(number: int, size: int = 200) -> pa.RecordBatch:
    """The second condition rejects most."""
    k = np.arange(number * size, (number + 1) * size)
    texts = [pa.array(["aa" if each % every else "a" for each in k]) for every in (10, 2)]
    return pa.RecordBatch.from_arrays([pa.array(k), *texts, pa.array(k)], ["k", "t", "u", "ts"])


def progress(runner: LocalRunner, epoch: int, told: Mapping[str, list[Any]]) -> dict[str, Any]:
    """What Spark hands to the driver, with all shards in one report for each of what they tell."""
    shards = max((len(each) for each in told.values()), default=1)
    reports = [
        {
            "backlog": 0, "work_ns": 1, "state_written": 0, "restored": False, "refused": {}, "operators": {}, "entries": {},
            "run": "r", "told": {name: each[shard] for name, each in told.items()},
        }
        for shard in range(shards)
    ]  # fmt: skip
    observed = {"penstock": {"reports": [json.dumps(report) for report in reports]}}
    return {
        "batchId": epoch, "batchDuration": 100, "numInputRows": 1, "observedMetrics": observed,
        "timestamp": f"2026-01-01T00:00:{epoch:02d}.000Z",
    }  # fmt: skip


class Shards:
    """Shards that run in this process and take the decisions of a log, as a data source of Spark would hand them over."""

    def __init__(self, checkpoint: Checkpoint, policy: str = "agreedy") -> None:
        self.checkpoint = checkpoint
        self.runner = LocalRunner(job(policy), is_steered=False, clock=lambda: 0)
        self.taken = 0
        self.epoch = 0

    def run(self) -> BatchReport:
        log = self.checkpoint.control
        decisions = [Control(self.taken + at, *found) for at, found in enumerate(log.read(self.taken, len(log)))]
        self.taken = len(log)
        before = self.runner.steering
        told: dict[str, list[Any]] = {}
        self.runner.steering = _Ear(told)  # type: ignore[assignment]
        self.runner.run({"s": rows(self.epoch)}, decisions)
        self.runner.steering = before
        report = read_report(progress(self.runner, self.epoch, told))
        assert report is not None
        self.epoch += 1
        return report

    def order(self) -> tuple[str, ...]:
        """The order in which a packing task would begin now."""
        ((item, _),) = self.runner.job.early_filters.values()
        operator = item.make()
        for decision in self.runner._decisions.of(item.name):
            operator.on_control(decision)
        assert isinstance(operator, AdaptiveFilter)
        return operator.order


class _Ear:
    """Keeps what shards tell instead of deciding."""

    def __init__(self, told: dict[str, list[Any]]) -> None:
        self.told = told

    def hear(self, batch: int, told: dict[str, list[Any]]) -> list[Any]:
        self.told.update(told)
        return []


@pytest.mark.parametrize("policy", ["agreedy", "sweep", "local_swaps", "independent"])
def test_the_driver_decides_from_reports_and_shards_follow(tmp_path: Path, policy: str) -> None:
    checkpoint = Checkpoint(tmp_path)
    shards, controller = Shards(checkpoint, policy), FilterController(job(policy), checkpoint, lambda: None)
    for _ in range(6):
        controller.hear(shards.run())
    (status,) = controller.statuses
    assert status.order == ("wide(u) > 1", "wide(t) > 1")
    assert status.reorderings == 1
    assert [kind for kind, _ in checkpoint.control.read(0, len(checkpoint.control))].count("filter_order") >= 1
    assert shards.order() == status.order


def test_a_restarted_driver_goes_on_and_a_repeated_batch_teaches_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    shards, first = Shards(checkpoint), FilterController(job(), checkpoint, lambda: None)
    reports = [shards.run() for _ in range(3)]
    for report in reports:
        first.hear(report)
    written = len(checkpoint.control)
    again = FilterController(job(), checkpoint, lambda: None)
    assert again.statuses == first.statuses
    again.hear(reports[-1])
    assert again.statuses == first.statuses
    assert len(checkpoint.control) == written == 1


def test_a_decision_that_was_made_but_not_written_is_made_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    shards, controller = Shards(checkpoint), FilterController(job(), checkpoint, lambda: None)
    append, checkpoint.control.append = checkpoint.control.append, _full_disk  # type: ignore[method-assign]
    with pytest.raises(OSError, match="full"):
        controller.hear(shards.run())
    checkpoint.control.append = append  # type: ignore[method-assign]
    again = FilterController(job(), checkpoint, lambda: None)
    again.hear(shards.run())
    assert [kind for kind, _ in checkpoint.control.read(0, len(checkpoint.control))] == ["filter_order"]


def _full_disk(kind: str, detail: Any = None) -> int:
    raise OSError("the disk is full")


def test_applications_without_adaptive_filters_need_no_controller(tmp_path: Path) -> None:
    plain = parse_application("CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0); CREATE CQ q AS SELECT k FROM a;")
    assert not FilterController(build_job(plain, 2), Checkpoint(tmp_path), lambda: None).is_needed


def test_explain_shows_the_order_of_a_run_and_what_it_costs(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(UserError, match="the checkpoint of no run"):
        read_filter_statuses(tmp_path)
    shards, controller = Shards(checkpoint), FilterController(job(), checkpoint, lambda: None)
    for _ in range(3):
        controller.hear(shards.run())
    text = str(explain(catalog(), filters=read_filter_statuses(tmp_path)))
    assert "adaptive filters, as they stand\n  AdaptiveFilter1: 1. wide(u) > 1  2. wide(t) > 1; 1 re-ordering;" in text
    assert "1.5 µs per row, greedy 1.5 µs, best 1.5 µs" in text
    assert "\n  . after batch 0: 1. wide(u) > 1  2. wide(t) > 1" in text
    again = FilterController(job(), checkpoint, lambda: None)
    assert again.statuses[0].history == read_filter_statuses(tmp_path)[0].history != ()
    assert explain(catalog(), filters=controller.statuses).to_json()["filters"][0]["reorderings"] == 1


def test_the_live_table_lines_and_summary_show_orders() -> None:
    changes = ((0, ("wide(u) > 1", "wide(t) > 1")),)
    status = FilterStatus("AdaptiveFilter1", ("wide(u) > 1", "wide(t) > 1"), 2, 1, 1.5e-6, 1.4e-6, None, changes)
    shards = Shards(Checkpoint("unused"))
    history = RunHistory("app", shards.runner.job, filters=lambda: (status,))
    statuses = history.hear([shards.run()])
    out = StringIO()
    console = Console(file=out, width=140, height=60, force_terminal=True)
    table = LiveTable(console, "t")
    table.show(statuses, 1.0, lambda most: {})
    table.close()
    PlainLines(Console(file=out, width=140)).show(statuses, 1.0, lambda most: {})
    Ending(history.summary(), "ended").print_to(Console(file=out, width=140))
    shown = out.getvalue()
    assert "tried in this order" in shown
    assert shown.count("after batch 0: 1. wide(u) > 1") >= 2
    assert "re-ordered  AdaptiveFilter1: 1. wide(u) > 1" in shown
    assert "1. wide(u) > 1" in shown
    assert "AdaptiveFilter1: 1. wide(u) > 1  2. wide(t) > 1; 2 re-orderings; 1.5 µs per row, greedy 1.4 µs" in shown
    assert "order of AdaptiveFilter1" in shown
    assert json.loads(json.dumps(history.summary().to_json()))["filters"][0]["order"] == ["wide(u) > 1", "wide(t) > 1"]
