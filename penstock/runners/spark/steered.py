"""Decide about the orders of filters on the driver: reports come with the progress of micro-batches, decisions go to the log."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.lowering.stages import Job
from penstock.operators.filtering.standing import FilterStanding
from penstock.runners.spark.checkpoint import Checkpoint
from penstock.runners.spark.reports import BatchReport
from penstock.runners.steering import Steering

#: What the driver knows about orders, beside the checkpoint's other records.
RECORD = "orders"
_LOOK_SECONDS = 0.1


class FilterController:
    """Hears the shards of adaptive filters, decides, and remembers both for the next start.

    A micro-batch that is repeated is heard once. A decision is remembered as made before it is written and as told after it:
    a crash in between tells it twice, which changes nothing.

    Parameters
    ----------
    report
        The newest micro-batch, or None. One that nobody asks for in time is missed, which costs evidence and nothing else.
    """

    def __init__(self, job: Job, checkpoint: Checkpoint, report: Callable[[], BatchReport | None]) -> None:
        self._steering = Steering(job)
        self._checkpoint = checkpoint
        self._report = report
        self._seen = -1
        self._stopped = threading.Event()
        known = checkpoint.recalled(RECORD)
        if known is not None:
            self._steering.restore(known["orderers"])
        #: How the filters stand; replaced as a whole, so that others may read it at any time.
        self.standings: tuple[FilterStanding, ...] = self._steering.standings()

    @property
    def is_needed(self) -> bool:
        return bool(self._steering)

    def start(self, is_active: Callable[[], bool]) -> None:
        def watch() -> None:
            while not self._stopped.wait(_LOOK_SECONDS) and is_active():
                report = self._report()
                if report is not None and report.epoch != self._seen:
                    self._seen = report.epoch
                    self.hear(report)

        threading.Thread(target=watch, name="penstock-orders", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def hear(self, report: BatchReport) -> None:
        """Learn from a micro-batch; write what follows from it."""
        before = self._steering.snapshot()
        decisions = self._steering.hear(report.epoch, report.told)
        self.standings = self._steering.standings()
        if decisions:
            self._remember(self._steering.untold(before))
            for decision in decisions:
                # The next micro-batch may be under way: tasks that read the log find in it what is meant for theirs.
                self._checkpoint.control.append(decision.kind, {**decision.detail, "from": report.epoch + 2})
        self._remember(self._steering.snapshot())

    def _remember(self, orderers: object) -> None:
        standings = [standing.to_json() for standing in self.standings]
        self._checkpoint.remember(RECORD, {"orderers": orderers, "standings": standings})
