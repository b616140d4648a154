"""How much work of operators a micro-batch has time for, so that its answers come soon enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from penstock.qos.capacity.batch_costs import fitted

#: Micro-batches that are remembered.
_REMEMBERED = 60
#: Part of the latency that is aimed at; the rest is for what nobody foresees.
_HEADROOM = 0.8
#: Of what a row costs outside operators, the part that is spent before it can be left out, while nobody has measured it.
_READ = 0.5
#: One of so many micro-batches may have been shorter than usual by chance.
_SHORTEST = 10
#: Micro-batches that lose less than this part of their rows tell what a row costs, others what it saves to leave one out.
_HARDLY = 0.02
#: Of these so many are needed.
_FEW = 5
#: Loss that cannot make a micro-batch shorter by more than this part does not help.
_WORTH = 0.1
#: A micro-batch whose rows have waited too long already gets this part of the usual time at least, or nothing would ever end.
_LEAST_TIME = 0.3
#: How much of the newest surprise counts, when it is a bad one and when it is a good one, and what is believed at most.
_WORSE, _BETTER, _LEAST_DRIFT, _MOST_DRIFT = 0.5, 0.2, 0.7, 2.0
#: By how much less is used after a promise was broken although nothing seemed too much, and how fast that is forgotten.
_CORRECTION, _RELAXATION_PER_S, _LEAST_CORRECTION = 0.98, 0.01 / 60, 0.8


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One micro-batch.

    Parameters
    ----------
    rows, shed
        Read, of all streams, and left out of them before operators.
    seconds, work_s
        How long it took, and how long its operators worked at the same time as each other.
    """

    rows: int
    seconds: float
    work_s: float
    shed: int = 0


class BatchLoad:
    """Learns what micro-batches cost beside the work of operators, and says how long operators may work in the next one.

    A row waits for the micro-batch that takes it in and for its end, so the latency of the oldest is the time between two
    micro-batches and the length of one. Both are bounded: a micro-batch may take half of the latency that is aimed at, and less
    where its rows have waited longer than that before it began.

    Parameters
    ----------
    latency_s
        That must not be exceeded.
    trigger_s
        Time between micro-batches; 0: they follow each other at once.

    Notes
    -----
    Rates alone decide, before anything is late; what was measured corrects them: a micro-batch that took longer than was expected
    makes the next one smaller, and so does `correct`. In the book's words this is the predictive trigger with feedback.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Sections 7.3 and 10.6.4.

    Examples
    --------
    >>> load = BatchLoad(latency_s=2.5)
    >>> for rows in range(1000, 9000, 500):
    ...     load.hear(MeasuredBatch(rows, 0.2 + rows * 3e-4, rows * 2e-4))
    >>> round(load.room_s(rows=3000, waited_s=0.5), 2), round(load.room_s(rows=3000, waited_s=1.5), 2)
    (0.65, 0.15)
    >>> round(load.entry_s * 1e6, 1)
    50.0
    """

    def __init__(self, latency_s: float, trigger_s: float = 0.0) -> None:
        self._aim_s = _HEADROOM * latency_s
        self._longest_s = self._longest(trigger_s)
        #: Rows, and seconds beside the work of operators; of those that lost rows what each lost row seems to have saved.
        self._batches: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        self._savings: deque[float] = deque(maxlen=_REMEMBERED)
        #: Seconds beside the work of operators of all of them.
        self._beside: deque[float] = deque(maxlen=_REMEMBERED)
        self._fixed_s = self._row_s = 0.0
        self._drift = self._correction = 1.0
        self._expected_s: float | None = None

    def _longest(self, trigger_s: float) -> float:
        """How long a micro-batch may take."""
        half = self._aim_s / 2
        return min(self._aim_s - trigger_s, trigger_s) if trigger_s >= half else half

    def snapshot(self) -> dict[str, Any]:
        return {
            "batches": [list(each) for each in self._batches], "savings": list(self._savings), "beside": list(self._beside),
            "line": [self._fixed_s, self._row_s],
        }  # fmt: skip

    def restore(self, known: Mapping[str, Any]) -> None:
        """Go on with what another one has learnt, in an earlier run or of other queries of this one."""
        self._batches.extend((rows, seconds) for rows, seconds in known["batches"])
        self._savings.extend(known["savings"])
        self._beside.extend(known["beside"])
        self._fixed_s, self._row_s = known["line"]

    @property
    def is_known(self) -> bool:
        """Whether there is anything to go by."""
        return bool(self._beside)

    @property
    def entry_s(self) -> float:
        """What a row costs between reading and the first operator, if it is not left out."""
        found = median(self._savings) if len(self._savings) >= _FEW else (1 - _READ) * self._row_s
        return min(max(found, 0.0), self._row_s)

    def hear(self, batch: MeasuredBatch) -> None:
        """Learn from a micro-batch."""
        beside_s = max(batch.seconds - batch.work_s, 0.0)
        self._beside.append(beside_s)
        if batch.rows and batch.shed <= _HARDLY * batch.rows:
            self._batches.append((batch.rows, beside_s))
            self._fit()
        elif batch.rows:
            self._savings.append((self._least_s + self._row_s * batch.rows - beside_s) / batch.shed)
        if self._expected_s:
            surprise = batch.seconds / self._expected_s
            weight = _WORSE if surprise > self._drift else _BETTER
            drift = (1 - weight) * self._drift + weight * surprise
            self._drift = min(max(drift, _LEAST_DRIFT), _MOST_DRIFT)
        self._expected_s = None

    def _fit(self) -> None:
        found = fitted(list(self._batches), 1, 0.0)
        if not found.most_rows:  # too few for a line
            self._fixed_s, self._row_s = self._batches[-1][1], 0.0
        elif not found.estimated or not self._row_s:  # micro-batches that are all alike say nothing new
            self._fixed_s, self._row_s = found.fixed_s, found.row_s

    @property
    def _least_s(self) -> float:
        """What a micro-batch takes beside operators whatever it holds: no more than the shortest ones took, or so."""
        shortest = sorted(self._beside)[len(self._beside) // _SHORTEST] if self._beside else 0.0
        return min(self._fixed_s, shortest)

    def room_s(self, rows: float, waited_s: float) -> float:
        """How long operators may work on a micro-batch, with what its rows cost from their first step behind reading on.

        Parameters
        ----------
        rows
            That it reads, of all streams.
        waited_s
            How long the oldest of them has waited.
        """
        time_s = min(self._longest_s, max(self._aim_s - waited_s, _LEAST_TIME * self._longest_s))
        return max(time_s * self._correction / self._drift - self._beside_s(rows), 0.0)

    def can_help(self, rows: float, all_s: float, least_s: float) -> bool:
        """Whether a micro-batch can be made shorter by a part worth the loss, from all the work of operators to the least."""
        return all_s - least_s >= _WORTH * (self._beside_s(rows) + all_s)

    def expect(self, rows: float, work_s: float) -> None:
        """Note what the next micro-batch should take, to compare it with what it will have taken."""
        self._expected_s = self._beside_s(rows) + work_s

    def _beside_s(self, rows: float) -> float:
        return self._least_s + (self._row_s - self.entry_s) * rows

    def correct(self) -> None:
        """A promise was broken although nothing seemed too much: use less from now on."""
        self._correction = max(self._correction * _CORRECTION, _LEAST_CORRECTION)

    def relax(self, seconds: float) -> None:
        """Nothing was broken for so long: use more again."""
        self._correction = min(self._correction + _RELAXATION_PER_S * seconds, 1.0)
