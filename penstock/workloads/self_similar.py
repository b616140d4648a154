"""Arrivals that are bursty on every scale of time: many flows, each silent and busy for times without a typical length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.model.batch import Int64s
from penstock.workloads.arrivals import RateSchedule
from penstock.workloads.coins import Floats, uniforms


@dataclass(frozen=True, slots=True)
class SelfSimilar:
    """Superposed flows that alternate between ON and OFF, for times with a Pareto distribution; rows come at random while ON.

    Counts have long memory, with a Hurst parameter near (3 - `off_shape`) / 2: averaging over longer times hardly smooths them.
    Choose it for traffic of networks; `Arrivals` with Poisson gaps is what most formulas assume.

    Parameters
    ----------
    schedule
        The rate, met exactly by the rows asked for; its bursts and pauses stretch time afterwards.
    shortest_s
        Least time of either state, in seconds.
    on_shape, off_shape
        Of the Pareto distributions, between 1 and 2: smaller gives longer times now and then.
    past_s
        How long the flows have been running before the first row, so that long times are under way.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.6.

    Examples
    --------
    >>> bursty = SelfSimilar(RateSchedule(100.0), seed=3)
    >>> times = bursty.times(2_000)
    >>> len(times), int(times[-1]) <= 20_000_000
    (2000, True)
    """

    schedule: RateSchedule
    seed: int = 0
    flows: int = 64
    shortest_s: float = 0.1
    on_shape: float = 1.4
    off_shape: float = 1.2
    past_s: float = 2_000.0

    @property
    def duty(self) -> float:
        """Share of the time that a flow is ON."""
        on, off = (shape / (shape - 1.0) for shape in (self.on_shape, self.off_shape))
        return on / (on + off)

    def times(self, rows: int) -> Int64s:
        """Arrival times of the first rows, in microseconds. Another number of rows gives another stream."""
        return self.schedule.times_of(self.positions(rows))

    def positions(self, rows: int) -> Floats:
        """How many rows are expected before each arrival: time on a clock that runs with the rate."""
        if not rows:
            return np.zeros(0)
        seconds = rows / self.schedule.rate
        while True:
            found = self._seconds(seconds)
            if len(found) > rows:
                # Sums of such times stay far from their mean for long; stretching makes the rate the one that was asked for.
                stretched: Floats = found[:rows] * (rows / found[rows])
                return stretched
            seconds *= 1.5

    def _seconds(self, until: float) -> Floats:
        """Moments of all rows of all flows within this time, in order."""
        begins, lengths = self._busy(until)
        edges = np.concatenate([[0.0], np.cumsum(lengths)])
        rate = self.schedule.rate / (self.flows * self.duty)
        # While ON rows come at random, so the busy times of all flows may be laid end to end and filled as one.
        gaps = -np.log1p(-uniforms(self.seed, "rows", np.arange(round(edges[-1] * rate * 1.2) + 100, dtype=np.int64)))
        at = np.cumsum(gaps) / rate
        at = at[at < edges[-1]]
        busy = np.searchsorted(edges, at, side="right") - 1
        found: Floats = np.sort(begins[busy] + at - edges[busy])
        return found

    def _busy(self, until: float) -> tuple[Floats, Floats]:
        """Begin and length of each busy time, cut to what lies between now and then."""
        mean = self.shortest_s * (self.on_shape / (self.on_shape - 1.0) + self.off_shape / (self.off_shape - 1.0))
        turns = int((self.past_s + until) / mean) + 10
        while True:
            on, off = (self._lengths(name, shape, turns) for name, shape in (("on", self.on_shape), ("off", self.off_shape)))
            ends = np.cumsum(on + off, axis=1) - self.past_s
            if ends[:, -1].min() >= until:
                break
            turns *= 2
        # A turn is silent first and busy then.
        begins = np.clip(ends - on, 0.0, until)
        lengths = np.clip(ends, 0.0, until) - begins
        used = lengths > 0
        return begins[used], lengths[used]

    def _lengths(self, state: str, shape: float, turns: int) -> Floats:
        # Numbered by turn and then by flow, so that more turns leave the first ones as they are.
        drawn = uniforms(self.seed, state, np.arange(turns * self.flows, dtype=np.int64)).reshape(turns, self.flows).T
        found: Floats = self.shortest_s * (1.0 - drawn) ** (-1.0 / shape)
        return found
