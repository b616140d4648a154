"""Turn a time budget into a row budget: the clock is read here, on the driver, and only the row count reaches the shards."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import InvalidDeclaration
from penstock.model.durations import duration, no_duration
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.reports import BatchReport

_FIRST_ROWS = 100_000
_SMOOTHING = 0.3


def nanoseconds(text: str) -> int:
    """A duration in nanoseconds.

    Examples
    --------
    >>> nanoseconds("800 ms")
    800000000
    """
    found = duration(text)
    if found is None:
        raise InvalidDeclaration(no_duration(text))
    return int(found * 1_000)


class BudgetController:
    """Watches reports and writes `budget` decisions when the affordable number of rows has changed."""

    def __init__(self, control: ControlLog, budget: str, report: Callable[[], BatchReport | None]) -> None:
        self.budget_ns = nanoseconds(budget)
        self.rows = _FIRST_ROWS
        self._control = control
        self._report = report
        self._cost_ns = 0.0
        self._seen = -1
        self._done_rows = 0
        self._stopped = threading.Event()
        control.append("budget", {"rows": self.rows})

    def start(self, is_active: Callable[[], bool]) -> None:
        def watch() -> None:
            while not self._stopped.wait(0.1) and is_active():
                report = self._report()
                if report is not None and report.epoch != self._seen:
                    self._seen = report.epoch
                    self.hear(report)

        threading.Thread(target=watch, name="penstock-budget", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def hear(self, report: BatchReport) -> None:
        """Learn the cost of a row; decide anew if it moved by a fifth, and let queues go on that no new row may wake."""
        rows = sum(counters.get("rows_in", 0) for counters in report.operators.values())  # what packing does has no budget
        worked = rows - self._done_rows
        if worked > 0:
            cost = report.work_ns / worked
            self._cost_ns = cost if not self._cost_ns else (1 - _SMOOTHING) * self._cost_ns + _SMOOTHING * cost
        self._done_rows = rows
        affordable = max(int(self.budget_ns / self._cost_ns), 1) if self._cost_ns else self.rows
        if abs(affordable - self.rows) > self.rows / 5:
            self.rows = affordable
            self._control.append("budget", {"rows": self.rows})
        elif report.backlog:
            self._control.append("continue")
