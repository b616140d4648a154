"""How many rows micro-batches must lose so that the answers come soon enough: a controller of the gate, not of queues."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from penstock.qos.capacity.batch_costs import fitted

#: Micro-batches that are remembered, and how much of the rate before counts beside the newest.
_REMEMBERED, _FADING = 60, 0.5
#: What a row that is left out costs, compared with one that is not: it is read and packed all the same.
_LEFT_OUT = 0.1
#: Part of the latency that is aimed at, and how far the share must fall below the present one before fewer rows are left out.
_HEADROOM, _SLACK = 0.8, 0.05
#: No two micro-batches begin within this time.
_SHORTEST_S = 1e-3


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One micro-batch.

    Parameters
    ----------
    rows, shed
        That were asked for, and those among them that were left out.
    seconds, since_s
        How long it took, and how long ago the one before it began.
    """

    rows: int
    shed: int
    seconds: float
    since_s: float


class BatchLoad:
    """Learns what micro-batches cost and says which share of their rows has to be left out.

    A row waits for the micro-batch that takes it in and for its end, so the latency of the oldest is the time between two
    micro-batches and the length of one. The share is chosen so that the next micro-batch, with the rows that have come
    meanwhile, is short enough. It rises at once, and falls slowly and only by more than a twentieth.

    Parameters
    ----------
    latency_s
        That must not be exceeded.
    trigger_s
        Time between micro-batches; 0: they follow each other at once.

    Examples
    --------
    >>> load = BatchLoad(latency_s=2.0)
    >>> for rows in range(1000, 9000, 500):
    ...     share = load.hear(MeasuredBatch(rows, 0, 0.2 + rows * 2e-4, 0.2 + rows * 2e-4), most=0.9)
    >>> round(share, 2)
    0.72
    """

    def __init__(self, latency_s: float, trigger_s: float = 0.0) -> None:
        self._longest_s = self._longest(latency_s, trigger_s)
        self._trigger_s = trigger_s
        self._batches: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        self._rate: float | None = None
        self.share = 0.0
        self._excess = 0.0
        self._line: tuple[float, float] | None = None

    @staticmethod
    def _longest(latency_s: float, trigger_s: float) -> float:
        """How long a micro-batch may take."""
        aim = _HEADROOM * latency_s
        return min(aim - trigger_s, trigger_s) if trigger_s >= aim / 2 else aim / 2

    def hear(self, batch: MeasuredBatch, most: float) -> float:
        """Learn from a micro-batch; the share that is to be left out from now on.

        Parameters
        ----------
        most
            The greatest share that may be.
        """
        worth = batch.rows - batch.shed * (1 - _LEFT_OUT)
        if batch.rows:
            self._batches.append((worth, batch.seconds))
        rate = batch.rows / batch.since_s if batch.since_s > _SHORTEST_S else None
        if rate is not None:
            # What comes faster than before must be met at once.
            known = self._rate
            self._rate = rate if known is None or rate > known else _FADING * known + (1 - _FADING) * rate
        self._excess = self._needed(batch.seconds)
        needed = min(self._excess, most)
        if needed > self.share:
            self.share = needed
        elif needed < self.share - _SLACK or not needed:
            self.share = max((self.share + needed) / 2, needed) if needed > 0 or self.share > _SLACK else 0.0
        self.share = min(self.share, most)
        return self.share

    @property
    def excess(self) -> float:
        """The share that would have to be left out, whatever may be; 0 if nothing must be."""
        return self._excess

    def _needed(self, last_s: float) -> float:
        """For the next micro-batch: rows come for as long as the last one took."""
        if not self._rate:
            return 0.0
        fixed_s, row_s = self._costs(last_s)
        rows = self._rate * max(self._trigger_s, self._longest_s, last_s)
        if not rows or not row_s:
            return 0.0
        return min(max((fixed_s + row_s * rows - self._longest_s) / (row_s * rows * (1 - _LEFT_OUT)), 0.0), 1.0)

    def _costs(self, last_s: float) -> tuple[float, float]:
        """For a micro-batch and for each of its rows; nothing while that cannot be told and the last one was short enough."""
        found = fitted(list(self._batches), 1, 0.0)
        if not found.estimated and found.row_s > 0:
            self._line = found.fixed_s, found.row_s
        if self._line is not None:  # micro-batches that are all alike say nothing new
            return self._line
        worth = self._batches[-1][0] if self._batches else 0.0
        return (0.0, last_s / worth) if worth and last_s > self._longest_s else (0.0, 0.0)
