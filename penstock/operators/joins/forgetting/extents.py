"""Window arithmetic of joins: which times can a partner have, and how long is a row needed.

`Sliding` and `Unbounded` inputs follow the order-insensitive definition: rows t_1 … t_n join if for every k the newest of
them is at most W_k newer than t_k. `Framed` inputs join window by window: rows join if some window number contains all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from penstock.columnar.matching import shifted
from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.windows import Framed, Lifespan, Sliding, Unbounded, Window
from penstock.operators.window_limit import refuse_too_many


@dataclass(frozen=True, slots=True)
class SlidingExtents:
    """Each row has its own window: W_k per input, infinite allowed; the boundary belongs to the window."""

    lengths: tuple[int, ...]
    end: int = FOREVER

    def bounds(self, bound: Mapping[int, Int64s], other: int) -> tuple[Int64s, Int64s]:
        """Least and greatest time a row of input `other` may have, given the times of the rows already combined."""
        newest = reduce(np.maximum, bound.values())
        limits = [self._end(port, ts) for port, ts in bound.items()]
        length = self.lengths[other]
        return np.full(len(newest), NEVER) if length == FOREVER else shifted(newest, -length), reduce(np.minimum, limits)

    def _end(self, port: int, ts: Int64s) -> Int64s:
        return np.full(len(ts), FOREVER) if self.lengths[port] == FOREVER else shifted(ts, self.lengths[port])

    def useful_until(self, port: int, ts: Int64s) -> Int64s:
        """Greatest time a partner of another input can have."""
        until = self._end(port, ts)
        # No row at or after the end of the query is part of it.
        return until if self.end == FOREVER else np.minimum(until, self.end - 1)


@dataclass(frozen=True, slots=True)
class FramedExtents:
    """Window k of one input joins window k of the others; a pair counts once in each window both are in."""

    windows: tuple[Framed, ...]
    life: Lifespan
    #: Windows that end after the query count too, with the rows they have.
    emit_partial: bool = False

    def _numbers(self, port: int, ts: Int64s) -> tuple[Int64s, Int64s]:
        window = self.windows[port]
        first, last = window.windows_of(ts - self.life.origin, window.least_number(self.life))
        return first, last if self.life.end == FOREVER else np.minimum(last, self._last_number())

    def _last_number(self) -> int:
        """The last window that the query answers. Of landmark windows the first that it cuts off: later ones hold no more."""
        ends = [window.closed_before(self.life.end - self.life.origin, window.least_number(self.life)) for window in self.windows]
        if not self.emit_partial:
            # A fixed window that is complete is so for good, and bounds nobody else's.
            return min((end for end, window in zip(ends, self.windows, strict=True) if window.move_end or not end), default=1) - 1
        return min((end for end, window in zip(ends, self.windows, strict=True) if window.is_landmark), default=FOREVER)

    def _common(self, bound: Mapping[int, Int64s]) -> tuple[Int64s, Int64s]:
        numbers = [self._numbers(port, ts) for port, ts in bound.items()]
        return np.maximum.reduce([first for first, _ in numbers]), np.minimum.reduce([last for _, last in numbers])

    def bounds(self, bound: Mapping[int, Int64s], other: int) -> tuple[Int64s, Int64s]:
        first, last = self._common(bound)
        window = self.windows[other]
        starts_with_stream = window.is_landmark and not self.life.has_begin
        low = np.full_like(first, NEVER) if starts_with_stream else self.life.origin + first * window.move_start
        high = self._end(other, last) - 1
        return np.where(first <= last, low, FOREVER), np.where(first <= last, high, -FOREVER)

    def _end(self, port: int, number: Int64s) -> Int64s:
        """End of a window, at most FOREVER: landmark windows have numbers without end."""
        window = self.windows[port]
        if not window.move_end:
            ends = np.full_like(number, self.life.origin + window.size)
        else:
            limit = (FOREVER - max(self.life.origin, 0) - window.size) // window.move_end
            safe = self.life.origin + window.size + np.minimum(number, limit) * window.move_end
            ends = np.where(number > limit, FOREVER, safe)
        # A window that the end of the query cuts off holds no row behind it.
        return np.minimum(ends, self.life.end)

    def useful_until(self, port: int, ts: Int64s) -> Int64s:
        first, last = self._numbers(port, ts)
        return np.where(first <= last, self.due(port, last), -FOREVER)

    def copies(self, bound: Mapping[int, Int64s]) -> tuple[Int64s, Int64s]:
        """First window and number of windows of each combination: it counts once in each."""
        first, last = self._common(bound)
        refuse_too_many(first, last, " | ".join(map(str, self.windows)))
        return first, np.maximum(last - first + 1, 0)

    def due(self, port: int, numbers: Int64s) -> Int64s:
        """Greatest time a partner of another input can have in some windows."""
        ends = np.maximum.reduce([self._end(other, numbers) for other in range(len(self.windows)) if other != port])
        return np.where(ends == FOREVER, FOREVER, ends - 1)


def each_window(first: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Rows once for each of their windows, of which the first and the number are given; and the windows' numbers.

    Examples
    --------
    >>> rows, numbers = each_window(np.array([4, 5]), np.array([2, 1]))
    >>> rows.tolist(), numbers.tolist()
    ([0, 0, 1], [4, 5, 5])
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, first[rows] + np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]


def extents_of(windows: Sequence[Window], life: Lifespan, emit_partial: bool = False) -> SlidingExtents | FramedExtents:
    """Time conditions between the inputs of one join."""
    framed = [window for window in windows if isinstance(window, Framed)]
    if framed:
        return FramedExtents(tuple(framed), life, emit_partial)
    return SlidingExtents(tuple(map(length_of, windows)), life.end)


def length_of(window: Window) -> int:
    """How much older than the newest a row may be; `FOREVER` where there is no bound."""
    assert isinstance(window, Sliding | Unbounded)
    return window.size if isinstance(window, Sliding) else FOREVER
