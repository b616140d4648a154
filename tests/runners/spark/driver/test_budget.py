"""A time budget becomes row budgets, and work that was put off is taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from penstock.errors import InvalidDeclaration
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.budget import BudgetController
from penstock.runners.spark.driver.reports import BatchReport


def report(epoch: int, rows_in: int, work_ms: int, backlog: int = 0) -> BatchReport:
    """Spark counts decisions as input rows too, so there are always some."""
    counters = {"op": {"rows_in": rows_in}}
    return BatchReport(epoch, 0, 2, operators=counters, backlog=backlog, work_ns=work_ms * 1_000_000)


def decisions(log: ControlLog) -> list[tuple[str, int | None]]:
    return [(kind, detail.get("rows")) for kind, detail in log.read(0, len(log))]


def test_the_row_budget_follows_the_cost_of_a_row(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    controller = BudgetController(log, "10 ms", lambda: None)
    controller.hear(report(0, rows_in=1000, work_ms=1))  # 1 µs a row: 10 ms buy 10,000 rows
    controller.hear(report(1, rows_in=2000, work_ms=1))
    assert decisions(log) == [("budget", 100_000), ("budget", 10_000)]


def test_a_backlog_is_worked_off_although_no_row_comes_any_more(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    controller = BudgetController(log, "10 ms", lambda: None)
    for epoch, backlog in enumerate((500, 300, 0)):
        controller.hear(report(epoch, rows_in=1000 * (epoch + 1), work_ms=1, backlog=backlog))
    assert decisions(log)[2:] == [("continue", None)]
    controller.hear(report(3, rows_in=3000, work_ms=0))
    assert len(log) == 3


@pytest.mark.parametrize("text", ["", "fast", "10", "10 fortnights", "1.2.3 s"])
def test_a_budget_that_is_no_duration_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="such as 800 ms"):
        BudgetController(ControlLog(tmp_path), text, lambda: None)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("800 ms", 800_000_000),
        ("500ns", 500),
        ("1.5 us", 1_500),
        ("2 s", 2 * 10**9),
        (".5 second", 5 * 10**8),
        ("1. seconds", 10**9),
    ],
)
def test_a_budget_is_a_duration_to_the_nanosecond(tmp_path: Path, text: str, nanos: int) -> None:
    assert BudgetController(ControlLog(tmp_path), text, lambda: None).budget_ns == nanos
