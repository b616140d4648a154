"""Ctrl-C as a request that the run hears between two looks, instead of an exception anywhere."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_STEP_SECONDS = 0.1


class Interrupt:
    """Whether somebody wants the run to stop, and by which signal.

    Parameters
    ----------
    at_once
        Done for whoever asks twice and so does not want to wait: it must not wait either.
    """

    def __init__(self, at_once: Callable[[], None]) -> None:
        self.signal = 0
        self._at_once = at_once

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            self._at_once()
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
def interruptible(at_once: Callable[[], None]) -> Iterator[Interrupt]:
    """Hear SIGINT and SIGTERM from before Spark starts until it has stopped."""
    interrupt = Interrupt(at_once)
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
