"""The profile window: which filters rejected the rows profiled last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

_FIRST_ROOM = 256


@dataclass(frozen=True, slots=True)
class ProfileRows:
    """Profiled rows in order of arrival.

    Parameters
    ----------
    bits
        Bit k is set when filter k rejects the row.
    known
        Bit k is set when filter k was asked, or its answer follows from where the row was rejected.
    ts
        Event time.
    """

    bits: UInt64s
    known: UInt64s
    ts: Int64s

    def __len__(self) -> int:
        return len(self.bits)

    @classmethod
    def empty(cls) -> ProfileRows:
        words = np.empty(0, np.uint64)
        return cls(words, words, np.empty(0, np.int64))

    def newest(self, count: int) -> ProfileRows:
        """The last rows."""
        start = max(len(self) - count, 0)
        return ProfileRows(self.bits[start:], self.known[start:], self.ts[start:])

    @classmethod
    def concat(cls, parts: list[ProfileRows]) -> ProfileRows:
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([part.bits for part in parts]),
            np.concatenate([part.known for part in parts]),
            np.concatenate([part.ts for part in parts]),
        )


class ProfileWindow:
    """First in, first out, bounded by number, by age or by both.

    Rows lie side by side in an array twice as long as the window and are moved to its front when it is full: a scan needs no
    index arithmetic, and a row is moved once on average.

    Parameters
    ----------
    rows
        Most rows kept; None: any number.
    max_age
        Rows at least this much older than the newest time seen are forgotten; None: never.

    Examples
    --------
    >>> window = ProfileWindow(rows=2)
    >>> window.push(ProfileRows(np.array([1, 2, 3], np.uint64), np.array([3, 3, 3], np.uint64), np.arange(3))).tolist()
    []
    >>> window.bits.tolist()
    [2, 3]
    """

    def __init__(self, rows: int | None, max_age: int | None = None) -> None:
        self.rows = rows
        self.max_age = max_age
        room = 2 * rows if rows is not None else _FIRST_ROOM
        self._bits, self._known, self._ts = np.zeros(room, np.uint64), np.zeros(room, np.uint64), np.zeros(room, np.int64)
        self._start = self._stop = 0
        self.newest_ts: int | None = None
        #: Counts changes, so that a host writes the window only when there is something new.
        self.changes = 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def bits(self) -> UInt64s:
        """Words in order of arrival; a view that is good until the next change."""
        return self._bits[self._start : self._stop]

    @property
    def content(self) -> ProfileRows:
        """A copy of all rows, oldest first."""
        kept = slice(self._start, self._stop)
        return ProfileRows(self._bits[kept].copy(), self._known[kept].copy(), self._ts[kept].copy())

    @property
    def age(self) -> int:
        """Time between the oldest row and the newest time seen."""
        if not len(self) or self.newest_ts is None:
            return 0
        return max(self.newest_ts - int(self._ts[self._start]), 0)

    def push(self, arrived: ProfileRows) -> UInt64s:
        """Take in rows; returns the words of rows that leave. Rows that cannot stay even at first are not inserted.

        The caller counts the last `len(self)` words, or all arrived ones, whichever are fewer, as new.
        """
        if self.rows is not None and len(arrived) > self.rows:
            arrived = arrived.newest(self.rows)
        over = 0 if self.rows is None else max(len(self) + len(arrived) - self.rows, 0)
        gone = self._bits[self._start : self._start + over].copy()
        self._start += over
        self._append(arrived)
        self.changes += 1
        return gone

    def expire(self, now: int) -> UInt64s:
        """Forget what is too old at `now`; returns the words that leave."""
        self.newest_ts = now if self.newest_ts is None else max(now, self.newest_ts)
        if self.max_age is None or not len(self):
            return self._bits[:0]
        young = np.flatnonzero(self._ts[self._start : self._stop] > self.newest_ts - self.max_age)
        # Arrival order is not time order: rows leave from the front, up to the first that is young enough.
        over = int(young[0]) if len(young) else len(self)
        gone = self._bits[self._start : self._start + over].copy()
        self._start += over
        self.changes += bool(over)
        return gone

    def clear(self) -> None:
        self.changes += bool(len(self))
        self._start = self._stop = 0

    def _append(self, arrived: ProfileRows) -> None:
        count = len(arrived)
        if self._stop + count > len(self._bits):
            self._make_room(count)
        stop = self._stop + count
        self._bits[self._stop : stop] = arrived.bits
        self._known[self._stop : stop] = arrived.known
        self._ts[self._stop : stop] = arrived.ts
        self._stop = stop

    def _make_room(self, count: int) -> None:
        kept, size = slice(self._start, self._stop), len(self)
        room = len(self._bits)
        while room < size + count:
            room *= 2
        for name in ("_bits", "_known", "_ts"):
            old = getattr(self, name)
            moved = np.zeros(room, old.dtype)
            moved[:size] = old[kept]
            setattr(self, name, moved)
        self._start, self._stop = 0, size
