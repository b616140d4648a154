"""Share memory among joins on the driver: reports come with the progress of micro-batches, shares go to the log."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.operators.joins.pjoin.operator import MEMORY
from penstock.runners.memory import MemorySharing
from penstock.runners.spark.control import ControlLog
from penstock.runners.spark.reports import BatchReport

_LOOK_SECONDS = 0.1


class MemoryController:
    """Hears the reports of micro-batches and writes `memory` decisions when shares change.

    Parameters
    ----------
    report
        The newest micro-batch, or None.
    """

    def __init__(self, sharing: MemorySharing, control: ControlLog, report: Callable[[], BatchReport | None]) -> None:
        self._sharing = sharing
        self._control = control
        self._report = report
        self._seen = -1
        self._stopped = threading.Event()

    def start(self, is_active: Callable[[], bool]) -> None:
        def watch() -> None:
            while not self._stopped.wait(_LOOK_SECONDS) and is_active():
                report = self._report()
                if report is not None and report.epoch != self._seen:
                    self._seen = report.epoch
                    self.hear(report)

        threading.Thread(target=watch, name="penstock-memory", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def hear(self, report: BatchReport) -> None:
        """Learn from a micro-batch; write what follows from it."""
        for decision in self._sharing.hear(report.operators, report.entries):
            self._control.append(decision.kind, decision.detail)


def begin_sharing(control: ControlLog, sharing: MemorySharing | None) -> None:
    """Decide what holds from the first micro-batch on.

    Joins remember their shares: a run without a limit must give them back what their hints say.
    """
    if sharing:
        for decision in sharing.first():
            control.append(decision.kind, decision.detail)
        return
    shares = [detail for kind, detail in control.read(0, len(control)) if kind == MEMORY]
    if shares and shares[-1]["bytes"] is not None:
        control.append(MEMORY, {"bytes": None})
