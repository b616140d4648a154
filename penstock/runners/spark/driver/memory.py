"""Share memory among joins on the driver: reports come with the progress of micro-batches, shares go to the log."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import OutOfMemory
from penstock.model.elements import MEMORY
from penstock.runners.memory import MemorySharing
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport


class MemoryController(Listener):
    """Hears the reports of micro-batches and writes `memory` decisions when shares change.

    Parameters
    ----------
    report
        The newest micro-batch, or None.
    refuse
        Stops the run, because its state does not fit.
    """

    name = "penstock-memory"

    def __init__(
        self, sharing: MemorySharing, control: ControlLog, report: Callable[[], BatchReport | None],
        refuse: Callable[[OutOfMemory], None],
    ) -> None:  # fmt: skip
        super().__init__(report)
        self._sharing = sharing
        self._control = control
        self._refuse = refuse

    def hear(self, report: BatchReport) -> None:
        """Learn from a micro-batch; write what follows from it."""
        try:
            decisions = self._sharing.hear(report.operators, report.entries)
        except OutOfMemory as found:
            self._refuse(found)
            return
        for decision in decisions:
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
