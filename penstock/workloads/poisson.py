"""Rows at random, without memory on any scale of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.model.batch import Int64s
from penstock.workloads.arrivals import RateSchedule
from penstock.workloads.coins import uniforms


@dataclass(frozen=True, slots=True)
class Poisson:
    """A Poisson process drawn as a whole: counts vary over long times as much as they should.

    Choose it where queues are studied. `Arrivals` makes any part of a stream alone, and for that keeps to the mean rate over every
    few thousand rows.

    Parameters
    ----------
    schedule
        The rate, with its bursts and pauses.

    Examples
    --------
    >>> len(Poisson(RateSchedule(100.0), seed=1).times(10.0)) in range(900, 1100)
    True
    """

    schedule: RateSchedule
    seed: int = 0

    def times(self, seconds: float) -> Int64s:
        """Arrival times within the first seconds, in microseconds."""
        expected = self.schedule.expected_rows(round(seconds * 1e6))
        most = round(expected + 10.0 * expected**0.5) + 100
        reached = np.cumsum(-np.log1p(-uniforms(self.seed, "gaps at random", np.arange(most, dtype=np.int64))))
        return self.schedule.times_of(reached[reached < expected])
