"""Costs of micro-batches on the driver: they come with their progress, and go to the checkpoint for `penstock plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.kernel.work import Price
from penstock.lowering.capacity import queries_key
from penstock.lowering.jobs import Job
from penstock.runners.costs import RECORD, CostHistory
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.counters import count_readers_by_entry, rows_arrived
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport

#: Micro-batches between two writings: each costs a file.
_PAUSE = 10


class CostRecorder(Listener):
    """Hears of every micro-batch and remembers what it cost.

    Parameters
    ----------
    cores
        That tasks run on at the same time.
    prices
        What operators take, as far as it is known.
    """

    name = "penstock-costs"

    def __init__(
        self, job: Job, checkpoint: Checkpoint, report: Callable[[], BatchReport | None], cores: int,
        prices: Callable[[], Mapping[str, Sequence[Price]]],
    ) -> None:  # fmt: skip
        super().__init__(report)
        self._job = job
        self._checkpoint = checkpoint
        self._prices = prices
        self._history = CostHistory(cores, job.shards, queries_key(job), checkpoint.recall(RECORD))
        self._unwritten = 0

    def hear(self, report: BatchReport) -> None:
        """Learn from a micro-batch; write what is known now and then."""
        state = {name: (found.get("state_rows", 0), found.get("state_bytes", 0)) for name, found in report.operators.items()}
        readers = count_readers_by_entry(self._job, report)
        entries = {entry: (found.stream, found.read, found.used) for entry, found in readers.items()}
        self._history.hear(rows_arrived(self._job, report), entries, state, report.batch_ns / 1e9, report.duration_ms / 1000)
        self._unwritten += 1
        if self._unwritten >= _PAUSE:
            self._write()

    def stop(self) -> None:
        super().stop()
        if self._unwritten:
            self._write()

    def _write(self) -> None:
        self._unwritten = 0
        if self._history.batches:
            self._checkpoint.remember(RECORD, self._history.to_json(self._prices()))
