"""What time it is, as a part of the control stream's offsets: Spark's offset log then fixes it for every micro-batch.

A new time alone makes Spark run a micro-batch, which is how time moves when no data come. No file is written for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.model.elements import CLOCK

#: In an offset: the time, and the time at which the run began that told it.
_NOW, _BEGAN = "clock", "began"


class Clock:
    """Tells the time in steps.

    Parameters
    ----------
    tick_us
        How much time passes at least between two micro-batches that hear of it; 0: nobody wants to know.
    """

    def __init__(self, tick_us: int) -> None:
        self._tick_us = tick_us
        self._began_us = 0
        self._fixed_us: int | None = None
        self._announced_us = -1

    def fix(self) -> None:
        """Time stands still from now on: for a run that takes what is available and ends."""
        self._fixed_us = _now_us()

    def offset(self, start: Mapping[str, int]) -> dict[str, int]:
        """The clock's part of the offset behind `start`; the same as there if it is too early to say anything."""
        known = {name: start[name] for name in (_NOW, _BEGAN) if name in start}
        if not self._tick_us:
            return known
        now = _now_us() if self._fixed_us is None else self._fixed_us
        if not self._began_us:
            self._began_us = max(now, start.get(_NOW, 0))
            return {_NOW: self._began_us, _BEGAN: self._began_us}
        has_just_announced = self._has_just_announced(start)  # asked every time: that is how it knows
        if has_just_announced or now - start.get(_NOW, 0) < self._tick_us:
            return known
        return {_NOW: now, _BEGAN: self._began_us}

    def _has_just_announced(self, start: Mapping[str, int]) -> bool:
        """Whether the last micro-batch was told: if each were, a query whose micro-batches take long would never rest."""
        before, self._announced_us = self._announced_us, start.get(_NOW, -1)
        return self._announced_us != before


def clock_decisions(start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[str, dict[str, Any]]]:
    """The decisions between two offsets that the clock has made: one, or none."""
    if end.get(_NOW, 0) <= start.get(_NOW, 0) and end.get(_BEGAN) == start.get(_BEGAN):
        return []
    begins = {"begins": True} if end.get(_BEGAN) != start.get(_BEGAN) else {}
    return [(CLOCK, {"us": end[_NOW], **begins})]


def _now_us() -> int:
    """Whole milliseconds, as Spark counts: rows of a later micro-batch have no earlier time of arrival."""
    return time.time_ns() // 1_000_000 * 1_000
