"""Cutting what arrives on an input into batches, each of which is scheduled as one."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Protocol

import numpy as np

from penstock.model.batch import Int64s

#: Mean gaps are those of so many rows.
REMEMBERED_GAPS = 256


class Batching(Protocol):
    """Where batches of one input end. Rows may be shown in pieces of any size: they are cut the same.

    Apart from rows, the host ends a batch with `close` when its first row has waited `waits_us`, and, if it `closes_when_idle`,
    as soon as the processor would have nothing else to do.
    """

    closes_when_idle: bool

    @property
    def waits_us(self) -> float:
        """How long the first row of a batch waits for others at most."""
        ...

    def cut(self, timestamps: Int64s) -> list[int]:
        """Positions in `timestamps` at which a new batch begins; 0 if the rows seen before are a batch without these."""
        ...

    def close(self) -> None:
        """The rows seen so far are a batch, whatever follows."""
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
    least_rows
        No batch is cut shorter, so that scheduling costs little for each row.

    Notes
    -----
    A row that is older than one before it counts as being as young as that one.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4, intelligent tuple batching.

    Examples
    --------
    >>> batching = IntelligentBatching(laxity_us=20, gap_us=1)
    >>> batching.cut(np.array([0, 1, 3, 8, 11, 15, 19, 23, 27]))
    [3, 8]
    """

    closes_when_idle = True

    def __init__(
        self, laxity_us: float, alpha: float = 0.9, beta: float = 4.0, gap_us: float | None = None, least_rows: int = 1
    ) -> None:
        self.laxity_us = laxity_us
        self._alpha = alpha
        self._beta = beta
        self._gap_us = gap_us
        self._least_rows = least_rows
        #: When the open batch began, if there is one, and its rows.
        self._head: int | None = None
        self._open = 0
        #: The last rows, oldest first.
        self._seen = np.empty(0, np.int64)

    @property
    def waits_us(self) -> float:
        return self._alpha * self.laxity_us

    def cut(self, timestamps: Int64s) -> list[int]:
        if not len(timestamps):
            return []
        known = len(self._seen)
        ts = np.maximum.accumulate(np.concatenate([self._seen, timestamps]))
        ends_by_gap = np.flatnonzero(self._is_long(ts, known)) + known
        found: list[int] = []
        if self._head is None:
            self._head = int(ts[known])
        begin = known - self._open
        while True:
            least = max(known, begin + self._least_rows)
            by_gap = ends_by_gap[np.searchsorted(ends_by_gap, least) :][:1].tolist()
            by_span = int(np.searchsorted(ts, self._head + self.waits_us, side="right"))
            end = min([max(by_span, least), *by_gap])
            if end >= len(ts):
                break
            begin = end
            found.append(begin - known)
            self._head = int(ts[begin])
        self._open = len(ts) - begin
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
        self._head, self._open = None, 0

    def snapshot(self) -> Mapping[str, Any]:
        return {"head": self._head, "open": self._open, "seen": self._seen.tolist(), "laxity_us": self.laxity_us}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._head, self._open = state.get("head"), state.get("open", 0)
        self._seen = np.array(state.get("seen", []), np.int64)
        self.laxity_us = state.get("laxity_us", self.laxity_us)


class ArrivalBatches:
    """Intelligent batching of everything that comes in, for a kernel: each piece of a micro-batch ends with it at the latest.

    Parameters
    ----------
    least_rows
        No batch is cut shorter.
    """

    def __init__(self, least_rows: int) -> None:
        self._least_rows = least_rows
        self._inputs: dict[str, IntelligentBatching] = {}

    def cut(self, input: str, timestamps: Int64s, laxity_us: float) -> list[int]:
        """Positions at which new batches begin."""
        batching = self._inputs.get(input)
        if batching is None:
            batching = self._inputs[input] = IntelligentBatching(laxity_us, least_rows=self._least_rows)
        batching.laxity_us = laxity_us
        found = batching.cut(timestamps)
        batching.close()
        return found

    def snapshot(self) -> Mapping[str, Any]:
        return {name: batching.snapshot() for name, batching in self._inputs.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._inputs = {}
        for name, found in state.items():
            self._inputs[name] = IntelligentBatching(found["laxity_us"], least_rows=self._least_rows)
            self._inputs[name].restore(found)


class FixedLength:
    """Batches of so many rows; one row each is no batching at all.

    Examples
    --------
    >>> batching = FixedLength(rows=4)
    >>> batching.cut(np.arange(6)), batching.cut(np.arange(6, 9))
    ([4], [2])
    """

    closes_when_idle = False
    waits_us = inf

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

    closes_when_idle = False

    def __init__(self, us: int) -> None:
        self._us = us
        self._current: int | None = None

    @property
    def waits_us(self) -> float:
        return self._us

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
