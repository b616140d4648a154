"""Ctrl-C as a wish that the run hears between two looks, instead of an exception anywhere."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STEP_SECONDS = 0.1


class Interrupt:
    """Whether somebody wants the run to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            # Whoever asks twice does not want to wait for a graceful stop.
            raise KeyboardInterrupt
        self.signal = number

    def wait(self, seconds: float) -> bool:
        """Sleep, but not longer than until somebody wants to stop."""
        # No lock or event: a handler that sets one can meet the very thread that holds it.
        until = time.monotonic() + seconds
        while not self.signal and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _STEP_SECONDS))
        return bool(self.signal)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Hear SIGINT and SIGTERM; to be entered after Spark has started, which installs a handler that cancels all jobs."""
    interrupt = Interrupt()
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
