"""Decide about the orders of filters on the driver: reports come with the progress of micro-batches, decisions go to the log."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lowering.jobs import Job
from penstock.operators.filtering.status import FilterStatus
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.steering import Steering

#: What the driver knows about orders, beside the checkpoint's other records.
RECORD = "orders"


class FilterController(Listener):
    """Hears the shards of adaptive filters, decides, and remembers both for the next start.

    A micro-batch that is repeated is heard once. A decision is remembered as made before it is written and as told after it:
    a crash in between tells it twice, which changes nothing.

    Parameters
    ----------
    report
        The newest micro-batch, or None. One that nobody asks for in time is missed, which costs evidence and nothing else.
    """

    name = "penstock-orders"

    def __init__(self, job: Job, checkpoint: Checkpoint, report: Callable[[], BatchReport | None]) -> None:
        super().__init__(report)
        self._steering = Steering(job)
        self._checkpoint = checkpoint
        known = checkpoint.recall(RECORD)
        if known is not None:
            self._steering.restore(known["orderers"])
        #: How the filters stand; replaced as a whole, so that others may read it at any time.
        self.statuses: tuple[FilterStatus, ...] = self._steering.statuses()

    @property
    def is_needed(self) -> bool:
        return bool(self._steering)

    def hear(self, report: BatchReport) -> None:
        """Learn from a micro-batch; write what follows from it."""
        before = self._steering.snapshot()
        decisions = self._steering.hear(report.epoch, report.driver_reports)
        self.statuses = self._steering.statuses()
        if decisions:
            self._remember(self._steering.without_decisions_since(before))
            for decision in decisions:
                # The next micro-batch may be under way: tasks that read the log find in it what is meant for theirs.
                self._checkpoint.control.append(decision.kind, {**decision.detail, "from": report.epoch + 2})
        self._remember(self._steering.snapshot())

    def _remember(self, orderers: object) -> None:
        statuses = [status.to_json() for status in self.statuses]
        self._checkpoint.remember(RECORD, {"orderers": orderers, "standings": statuses})
