"""Prices on the driver: what shards measure comes with the progress of micro-batches, what has moved goes to the log."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lowering.jobs import Job
from penstock.model.elements import STATISTICS
from penstock.runners.prices import PriceLearning
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport


class PriceController(Listener):
    """Hears the reports of micro-batches and writes `statistics` decisions when figures have moved.

    Parameters
    ----------
    decides
        Whether anything depends on prices now. They are learned anyway, for people.
    """

    name = "penstock-prices"

    def __init__(
        self, job: Job, control: ControlLog, report: Callable[[], BatchReport | None], decides: Callable[[], bool]
    ) -> None:
        super().__init__(report)
        self.learning = PriceLearning(job, (detail for kind, detail in control.read(0, len(control)) if kind == STATISTICS))
        self._control = control
        self._decides = decides

    def hear(self, report: BatchReport) -> None:
        decision = self.learning.hear(report.epoch, report.measures, report.entries, report.batch_ns)
        if decision is not None and self._decides():
            self._control.append(decision.kind, decision.detail)
