"""How often to look at rates: more often while they vary, less often while nothing happens."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

import numpy as np

from penstock.qos.shedding.controller import LoadEstimate
from penstock.qos.shedding.load import Rates

#: Least and greatest time between two samples, in seconds.
SHORTEST_S, LONGEST_S = 0.05, 5.0
#: Below the first coefficient of variation rates are steady, above the second they vary.
_STEADY, _VARYING = 0.1, 0.3


class RateMonitor:
    """Rate of a stream, from counts at discrete times.

    Parameters
    ----------
    latency_s
        How soon the most pressing query that reads the stream must be answered: two samples fall into that time at least.
    samples
        Rates that are compared.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.3.2; numbers are
    not given there.

    Examples
    --------
    >>> monitor = RateMonitor(latency_s=1.0)
    >>> for second in range(10):
    ...     monitor.add(second / 10, rows=50)
    >>> round(monitor.mean(0.5)), monitor.period_s
    (500, 0.5)
    """

    def __init__(self, latency_s: float, samples: int = 8) -> None:
        self._latency_s = latency_s
        self._rates: deque[float] = deque(maxlen=samples)
        self._times: list[float] = []
        self._totals: list[int] = []
        self._longest_s = min(LONGEST_S, latency_s / 2)
        #: Until the next sample.
        self.period_s = max(self._longest_s / 4, SHORTEST_S)

    def add(self, now_s: float, rows: int) -> None:
        """So many rows have come since the last sample."""
        if self._times and now_s > self._times[-1]:
            self._rates.append(rows / (now_s - self._times[-1]))
            self._adapt()
        self._totals.append((self._totals[-1] if self._totals else 0) + rows)
        self._times.append(now_s)
        old = bisect_left(self._times, now_s - 2 * self._latency_s)
        del self._times[:old], self._totals[:old]

    def _adapt(self) -> None:
        if len(self._rates) < (self._rates.maxlen or 0):
            return
        rates = np.array(self._rates)
        variation = float(rates.std() / rates.mean()) if rates.any() else 0.0
        if variation < _STEADY:
            self.period_s = min(self.period_s * 2, self._longest_s)
        elif variation > _VARYING:
            self.period_s = max(self.period_s / 2, SHORTEST_S)

    def mean(self, over_s: float) -> float:
        """Rows per second over the last so many seconds, which are no more than twice the latency."""
        if len(self._times) < 2:
            return 0.0
        # The newest sample that is old enough; a little less than a period is no matter.
        first = min(max(bisect_left(self._times, self._times[-1] - over_s - 1e-9), 0), len(self._times) - 2)
        return (self._totals[-1] - self._totals[first]) / (self._times[-1] - self._times[first])


class EstimationPeriod:
    """Time from one estimation of the load to the next.

    Parameters
    ----------
    latency_s
        How soon the most pressing query must be answered; estimations are six times as frequent, at least twice.
    """

    def __init__(self, latency_s: float) -> None:
        self._base_s = latency_s / 6
        self._longest_s = latency_s / 2
        self._before: Rates = {}
        self.period_s = self._base_s

    def follow(self, estimate: LoadEstimate, rates: Rates) -> None:
        """Lengthen the period while load is low or rates stay as they are."""
        is_quiet = estimate.offered < 0.7 or all(
            abs(rate - self._before.get(place, 0.0)) <= 0.1 * rate for place, rate in rates.items()
        )
        self._before = dict(rates)
        self.period_s = min(self.period_s * 2, self._longest_s) if is_quiet else self._base_s
