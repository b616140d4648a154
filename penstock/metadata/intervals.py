"""Disjoint, coalescing intervals of 64-bit integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LEAST, _GREATEST = -(2**63), 2**63 - 1
#: Single values are gathered before they are merged, because an insertion moves half of the arrays.
_GATHERED = 1024


class IntervalSet:
    """A set of integers, kept as sorted inclusive intervals; neighbours merge, so ascending values cost one entry.

    Choose it where values are mostly added in runs; scattered values cost one interval each. Membership of a value
    takes a binary search.

    Examples
    --------
    >>> closed = IntervalSet()
    >>> for value in range(10_000):
    ...     closed.add_value(value)
    >>> closed.add(20_000, 20_005)
    >>> len(closed), closed.contains(9_999), closed.contains(10_000)
    (2, True, False)
    """

    __slots__ = ("_gathered", "_highs", "_lows")

    def __init__(self) -> None:
        self._lows: Int64s = np.empty(0, np.int64)
        self._highs: Int64s = np.empty(0, np.int64)
        self._gathered: set[int] = set()

    def __len__(self) -> int:
        self._merge_gathered()
        return len(self._lows)

    @property
    def lows(self) -> Int64s:
        """First values of the intervals, ascending."""
        self._merge_gathered()
        return self._lows

    @property
    def highs(self) -> Int64s:
        """Last values of the intervals, ascending."""
        self._merge_gathered()
        return self._highs

    def add_value(self, value: int) -> None:
        """Add one integer."""
        self._gathered.add(value)
        if len(self._gathered) >= _GATHERED:
            self._merge_gathered()

    def add(self, low: int, high: int) -> None:
        """Add all integers from `low` to `high`."""
        self._merge_gathered()
        first = int(np.searchsorted(self._highs, max(low, _LEAST + 1) - 1))
        last = int(np.searchsorted(self._lows, min(high, _GREATEST - 1) + 1, side="right"))
        if last == first + 1:
            # The usual case of a growing range: nothing is moved.
            self._lows[first] = min(low, self._lows[first])
            self._highs[first] = max(high, self._highs[first])
            return
        if first < last:
            low, high = min(low, int(self._lows[first])), max(high, int(self._highs[last - 1]))
        self._lows = np.concatenate((self._lows[:first], np.array([low], np.int64), self._lows[last:]))
        self._highs = np.concatenate((self._highs[:first], np.array([high], np.int64), self._highs[last:]))

    def add_many(self, values: Int64s) -> None:
        """Add many single integers."""
        self._merge_gathered()
        self._coalesce(np.concatenate((self._lows, values)), np.concatenate((self._highs, values)))

    def add_ranges(self, lows: Int64s, highs: Int64s) -> None:
        """Add many intervals, in any order."""
        self._merge_gathered()
        self._coalesce(np.concatenate([self._lows, lows]), np.concatenate([self._highs, highs]))

    def _merge_gathered(self) -> None:
        if self._gathered:
            values = np.fromiter(self._gathered, np.int64, len(self._gathered))
            self._gathered = set()
            self.add_many(values)

    def _coalesce(self, lows: Int64s, highs: Int64s) -> None:
        order = np.argsort(lows, kind="stable")
        lows, reached = lows[order], np.maximum.accumulate(highs[order])
        # A gap lies before an interval that starts beyond the neighbour of all that came before; the first interval is
        # compared with nothing, so its low may be the least integer without overflow.
        starts = np.ones(len(lows), np.bool_)
        starts[1:] = (lows[1:] > reached[:-1]) & (lows[1:] - 1 > reached[:-1])
        begins = np.flatnonzero(starts)
        self._lows = lows[begins]
        self._highs = reached[np.append(begins[1:], len(lows)) - 1] if len(lows) else reached

    def contains(self, value: int) -> bool:
        """Whether the integer was added."""
        if value in self._gathered:
            return True
        position = int(np.searchsorted(self._highs, value))
        return position < len(self._highs) and bool(self._lows[position] <= value)

    def contains_many(self, values: Int64s) -> Mask:
        """Which of the integers were added."""
        return self.covers(values, values)

    def covers(self, lows: Int64s, highs: Int64s) -> Mask:
        """Which of the intervals lie wholly inside this set."""
        self._merge_gathered()
        if not self._reaches(lows, highs):
            return np.zeros(len(lows), np.bool_)
        position = np.searchsorted(self._highs, lows)
        inside = np.minimum(position, len(self._highs) - 1)
        covered: Mask = (position < len(self._highs)) & (self._lows[inside] <= lows) & (self._highs[inside] >= highs)
        return covered

    def _reaches(self, lows: Int64s, highs: Int64s) -> bool:
        """Whether any of the intervals can touch this set: values closed long ago lie below those that still come."""
        return bool(len(self._lows) and len(lows) and lows.min() <= self._highs[-1] and highs.max() >= self._lows[0])

    def within(self, low: int, high: int) -> tuple[Int64s, Int64s]:
        """The part of this set between two integers, as lows and highs."""
        self._merge_gathered()
        first = int(np.searchsorted(self._highs, low))
        last = int(np.searchsorted(self._lows, high, side="right"))
        return np.maximum(self._lows[first:last], low), np.minimum(self._highs[first:last], high)

    def meet(self, other: IntervalSet) -> IntervalSet:
        """The integers of both sets, as a set of its own.

        Examples
        --------
        >>> left, right = IntervalSet(), IntervalSet()
        >>> left.add_ranges(np.array([0, 20]), np.array([9, 29]))
        >>> right.add(5, 24)
        >>> both = left.meet(right)
        >>> both.lows.tolist(), both.highs.tolist()
        ([5, 20], [9, 24])
        """
        first = np.searchsorted(other.highs, self.lows)
        counts = np.searchsorted(other.lows, self.highs, side="right") - first
        mine = np.repeat(np.arange(len(counts)), counts)
        theirs = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts) + first[mine]
        both = IntervalSet()
        both._lows = np.maximum(self._lows[mine], other._lows[theirs])
        both._highs = np.minimum(self._highs[mine], other._highs[theirs])
        return both

    def keep(self, mask: Mask) -> None:
        """Keep only the intervals the mask chooses."""
        self._lows, self._highs = self._lows[mask], self._highs[mask]
