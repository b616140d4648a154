"""Cutting what arrives on an input into batches, each of which is scheduled as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from penstock.model.batch import Int64s

#: Mean gaps are those of so many rows.
REMEMBERED_GAPS = 256


class Batching(Protocol):
    """Where batches of one input end. Rows may be shown in pieces of any size: they are cut the same."""

    def cut(self, timestamps: Int64s) -> list[int]:
        """Positions in `timestamps` at which a new batch begins; 0 if the rows seen before are a batch without these."""
        ...

    def close(self) -> None:
        """The rows seen so far are a batch, whatever follows: because nothing else waits, or they have waited long enough."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """JSON values."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


class IntelligentBatching:
    """Batches of rows that come close together and may wait for each other.

    A row begins a new batch if it is more than `alpha` mean laxities younger than the first of the present one, or if the gap
    before it is longer than `beta` mean gaps. So bursts are not torn apart, and no row waits long for the last of its batch.

    Parameters
    ----------
    laxity_us
        How long the jobs now in the system can wait on average; the validity of the input while there are none. The host sets
        it again from time to time.
    alpha, beta
        Factors; 30 % more or less change little.
    gap_us
        Mean time between rows; None: that of the last rows seen, and no limit before the second one.

    Notes
    -----
    A row that is older than one before it counts as being as young as that one. Apart from rows, a batch ends `waits_us` after
    its first row came, or as soon as the processor would have nothing else to do: the host then calls `close`.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4, intelligent tuple batching.

    Examples
    --------
    >>> batching = IntelligentBatching(laxity_us=20, gap_us=1)
    >>> batching.cut(np.array([0, 1, 3, 8, 11, 15, 19, 23, 27]))
    [3, 8]
    """

    def __init__(self, laxity_us: float, alpha: float = 0.9, beta: float = 4.0, gap_us: float | None = None) -> None:
        self.laxity_us = laxity_us
        self._alpha = alpha
        self._beta = beta
        self._gap_us = gap_us
        #: When the open batch began, if there is one.
        self._head: int | None = None
        #: The last rows, oldest first.
        self._seen = np.empty(0, np.int64)

    @property
    def waits_us(self) -> float:
        """How long the first row of a batch waits for others at most."""
        return self._alpha * self.laxity_us

    def cut(self, timestamps: Int64s) -> list[int]:
        if not len(timestamps):
            return []
        known = len(self._seen)
        ts = np.maximum.accumulate(np.concatenate([self._seen, timestamps]))
        ends_by_gap = np.flatnonzero(self._is_long(ts, known)) + known
        found: list[int] = []
        begin = known
        if self._head is None:
            self._head = int(ts[known])
        while True:
            by_gap = ends_by_gap[np.searchsorted(ends_by_gap, begin + bool(found)) :][:1]
            by_span = int(np.searchsorted(ts, self._head + self.waits_us, side="right"))
            begin = min([max(by_span, begin), *by_gap.tolist()])
            if begin >= len(ts):
                break
            found.append(begin - known)
            self._head = int(ts[begin])
        self._seen = ts[-REMEMBERED_GAPS - 1 :]
        return found

    def _is_long(self, ts: Int64s, known: int) -> Any:
        """Of each new row: whether the gap before it is too long for the batch to go on, judged by the rows before it."""
        new = np.arange(known, len(ts))
        last = np.maximum(new - 1, 0)
        first = np.maximum(last - REMEMBERED_GAPS, 0)
        gaps = last - first
        if self._gap_us is not None:
            limit = np.full(len(new), self._beta * self._gap_us)
        else:
            limit = np.where(gaps > 0, self._beta * (ts[last] - ts[first]) / np.maximum(gaps, 1), np.inf)
        is_first = (new == 0) | ((new == known) & (self._head is None))
        return ~is_first & (ts[new] - ts[last] > limit)

    def close(self) -> None:
        self._head = None

    def snapshot(self) -> Mapping[str, Any]:
        return {"head": self._head, "seen": self._seen.tolist(), "laxity_us": self.laxity_us}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._head = state.get("head")
        self._seen = np.array(state.get("seen", []), np.int64)
        self.laxity_us = state.get("laxity_us", self.laxity_us)


class FixedLength:
    """Batches of so many rows; one row each is no batching at all.

    Examples
    --------
    >>> batching = FixedLength(rows=4)
    >>> batching.cut(np.arange(6)), batching.cut(np.arange(6, 9))
    ([4], [2])
    """

    def __init__(self, rows: int = 1) -> None:
        self._rows = rows
        self._open = 0

    def cut(self, timestamps: Int64s) -> list[int]:
        first = self._rows - self._open
        self._open += len(timestamps)
        found = list(range(first, len(timestamps), self._rows))
        if self._open > self._rows:
            self._open = (self._open - 1) % self._rows + 1
        return found

    def close(self) -> None:
        self._open = 0

    def snapshot(self) -> Mapping[str, Any]:
        return {"open": self._open}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._open = state.get("open", 0)


class FixedInterval:
    """A batch for every stretch of time of the same length.

    Examples
    --------
    >>> FixedInterval(us=10).cut(np.array([1, 9, 10, 35]))
    [2, 3]
    """

    def __init__(self, us: int) -> None:
        self._us = us
        self._current: int | None = None

    def cut(self, timestamps: Int64s) -> list[int]:
        if not len(timestamps):
            return []
        stretches = np.maximum.accumulate(timestamps // self._us)
        before = stretches[0] if self._current is None else self._current
        stretches = np.maximum(stretches, before)
        self._current = int(stretches[-1])
        return np.flatnonzero(np.diff(stretches, prepend=before)).tolist()

    def close(self) -> None:
        self._current = None

    def snapshot(self) -> Mapping[str, Any]:
        return {"current": self._current}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._current = state.get("current")
