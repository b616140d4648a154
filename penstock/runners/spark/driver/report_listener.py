"""Hear of every micro-batch on the driver, beside the query."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from penstock.runners.spark.driver.reports import BatchReport

_LOOK_SECONDS = 0.1


class Listener(ABC):
    """Calls `hear` once for each micro-batch it gets to see; one that has passed between two looks is missed.

    Parameters
    ----------
    report
        The newest micro-batch, or None.
    """

    #: What its thread is called.
    name: ClassVar[str]

    def __init__(self, report: Callable[[], BatchReport | None]) -> None:
        self._report = report
        self._seen = -1
        self._stopped = threading.Event()
        self._hearing = threading.RLock()

    def start(self, is_active: Callable[[], bool]) -> None:
        def watch() -> None:
            while not self._stopped.wait(_LOOK_SECONDS) and is_active():
                report = self._report()
                if report is not None and report.epoch != self._seen:
                    self._seen = report.epoch
                    self._hear_unless_stopped(report)

        threading.Thread(target=watch, name=self.name, daemon=True).start()

    def _hear_unless_stopped(self, report: BatchReport) -> None:
        with self._hearing:
            if not self._stopped.is_set():
                self.hear(report)

    def stop(self) -> None:
        """Hear nothing any more: whoever decides in its place has the last word from now on."""
        with self._hearing:
            self._stopped.set()

    @abstractmethod
    def hear(self, report: BatchReport) -> None:
        """Learn from a micro-batch."""
