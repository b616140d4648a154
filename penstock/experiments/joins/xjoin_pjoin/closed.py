"""What the inputs have closed and the output has announced: as marks on the keys in use, and as intervals."""

from __future__ import annotations

import numpy as np

from penstock.experiments.joins.xjoin_pjoin import layout
from penstock.experiments.joins.xjoin_pjoin.state import State
from penstock.model.batch import Int64s


class Intervals:
    """A set of whole numbers as disjoint intervals that ascend and do not touch.

    Examples
    --------
    >>> found = Intervals()
    >>> found.add(1, 3), found.add(7, 9), found.add_points(np.array([4, 5]))
    (None, None, None)
    >>> found.bounds.tolist(), found.covers(2, 5), found.covers(5, 7)
    ([[1, 5], [7, 9]], True, False)
    """

    def __init__(self) -> None:
        self._bounds: Int64s = np.empty((0, 2), np.int64)
        #: Entered many at a time, when somebody asks.
        self._waiting: list[Int64s] = []

    def add(self, low: int, high: int) -> None:
        self._waiting.append(np.array([[low, high]], np.int64))

    def add_points(self, values: Int64s) -> None:
        self._waiting.append(np.column_stack([values, values]))

    @property
    def bounds(self) -> Int64s:
        """First and last number of each interval."""
        if self._waiting:
            parts = np.concatenate([self._bounds, *self._waiting])
            parts, self._waiting = parts[np.argsort(parts[:, 0])], []
            reached = np.maximum.accumulate(parts[:, 1])
            starts = np.flatnonzero(np.append(True, parts[1:, 0] > reached[:-1] + 1))
            self._bounds = np.column_stack([parts[starts, 0], reached[np.append(starts[1:], len(parts)) - 1]])
        return self._bounds

    def covers(self, low: int, high: int) -> bool:
        """Whether all numbers from `low` to `high` are in the set."""
        at = int(np.searchsorted(self.bounds[:, 0], low, side="right")) - 1
        return at >= 0 and bool(self.bounds[at, 1] >= high)

    def holds(self, values: Int64s) -> Int64s:
        """Places of the values that are in the set."""
        if not len(self.bounds):
            return np.empty(0, np.int64)
        at = np.searchsorted(self.bounds[:, 0], values, side="right") - 1
        return np.flatnonzero((at >= 0) & (self.bounds[at, 1] >= values))


class ClosedKeys:
    """Keys closed by side 0, side 1, and the output.

    Marks on the keys in use make a constant cost one look-up. Ranges are remembered for keys that come into use later.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._ranges = tuple(Intervals() for _ in range(3))
        self._everything = tuple(Intervals() for _ in range(3))

    def learn(self, first: int) -> None:
        """Mark new keys, those with numbers from `first` on, as the ranges know them."""
        for who, ranges in enumerate(self._ranges):
            known = ranges.holds(self._state.keys.value[first : self._state.known_keys])
            self._state.keys.closed[who, first + known] = 1

    def is_closed(self, who: int, kid: int) -> bool:
        """Whether somebody has closed the key of this number."""
        return bool(self._state.keys.closed[who, kid])

    def covers(self, who: int, low: int, high: int) -> bool:
        """Whether somebody has closed all keys of a range."""
        return self._everything[who].covers(low, high)

    def close_key(self, side: int, kid: int) -> Int64s | None:
        """A side closes one key; returns its number, None when the side has closed it before."""
        fresh = self._state.close(side, np.array([kid]))
        if not len(fresh):
            return None
        self._everything[side].add_points(self._state.keys.value[fresh])
        return fresh

    def close_range(self, side: int, low: int, high: int) -> Int64s | None:
        """A side closes a range; returns the known keys that were open, None when it has closed all of the range before."""
        if self.covers(side, low, high):
            return None
        self._ranges[side].add(low, high)
        self._everything[side].add(low, high)
        return self._state.close(side, self._state.keys_between(low, high))

    def announce_key(self, kid: int) -> None:
        """The output closes one key."""
        self._everything[layout.OUTPUT].add_points(self._state.keys.value[[kid]])
        self._state.keys.closed[layout.OUTPUT, kid] = 1

    def announce_range(self, low: int, high: int) -> None:
        """The output closes a range."""
        self._everything[layout.OUTPUT].add(low, high)
        self._ranges[layout.OUTPUT].add(low, high)
        self._state.keys.closed[layout.OUTPUT, self._state.keys_between(low, high)] = 1
