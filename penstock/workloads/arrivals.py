"""When rows arrive: constant or Poisson, with bursts and pauses, for any range of offsets alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.workloads.coins import Floats, uniforms

MICROS = 1_000_000

#: Arrivals per block of the Poisson process; each block is drawn alone.
BLOCK = 4096


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """A rate that changes at given times: bursts (multiplier above 1), slow phases (below 1), pauses (0).

    Parameters
    ----------
    rate
        Rows per second where the multiplier is 1.
    changes
        (seconds since the start, multiplier) from that time on; before the first change the multiplier is 1.

    Examples
    --------
    >>> burst = RateSchedule(rate=100.0, changes=((10.0, 3.0), (20.0, 0.0), (30.0, 1.0)))
    >>> burst.expected_rows(25 * MICROS)
    4000.0
    >>> burst.times_of(np.array([999.0, 1000.0, 1300.0, 4000.0])).tolist()
    [9990000, 10000000, 11000000, 30000000]
    """

    rate: float
    changes: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InvalidOption(f"a rate of {self.rate} rows per second brings no rows; it must be greater than 0", "rate")
        seconds = [second for second, _ in self.changes]
        grows = all(earlier < later for earlier, later in pairwise(seconds))
        if not grows or not all(math.isfinite(second) and second >= 0 for second in seconds):
            raise InvalidOption(f"the times {seconds} must be seconds since the start that grow", "schedule")
        multipliers = [multiplier for _, multiplier in self.changes]
        if any(not math.isfinite(m) or m < 0 for m in multipliers):
            raise InvalidOption(f"the multipliers {multipliers} must be 0 (a pause) or greater", "schedule")
        if multipliers and multipliers[-1] == 0:
            raise InvalidOption("the last multiplier is 0, a pause without end; to end a stream set 'total'", "schedule")

    def _segments(self) -> tuple[Floats, Floats, Floats]:
        """Start in seconds, rate, and rows expected before, of each stretch of constant rate."""
        changes = self.changes if self.changes and self.changes[0][0] == 0 else ((0.0, 1.0), *self.changes)
        starts, multipliers = np.array(changes, np.float64).T
        rates = multipliers * self.rate
        return starts, rates, np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(starts))])

    def expected_rows(self, elapsed_us: int) -> float:
        """Integral of the rate from the start."""
        starts, rates, before = self._segments()
        second = elapsed_us / MICROS
        at = int(np.searchsorted(starts, second, side="right")) - 1
        return float(before[at] + (second - starts[at]) * rates[at])

    def times_of(self, expected: Floats) -> Int64s:
        """Inverse of `expected_rows`, in microseconds; what falls on a pause comes at its end."""
        starts, rates, before = self._segments()
        if len(starts) == 1:
            return _rounded(expected * (MICROS / rates[0]))
        # side="right" skips a pause: it begins and ends at the same number of expected rows.
        at = np.searchsorted(before, expected, side="right") - 1
        return _rounded((starts[at] + (expected - before[at]) / rates[at]) * MICROS)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrival times of rows 0, 1, 2, … in microseconds since the start: never decreasing, however ranges are cut.

    `constant` spaces rows evenly by the rate of the moment, the first at time 0. `poisson` draws exponential gaps.

    Parameters
    ----------
    schedule
        The rate, with its bursts and pauses.
    is_poisson
        Exponential instead of even gaps.
    seed
        Of the exponential gaps.

    Notes
    -----
    The Poisson process is drawn in blocks so that no sum over all earlier gaps is needed: block i holds exactly the
    arrivals i·4096 … (i+1)·4096-1 and spans exactly the time in which 4096 rows are expected; inside it 4097
    exponential gaps are scaled to fill it. That is a Poisson process *conditioned on 4096 arrivals in every block*.
    Inside a block positions are independent and uniform, as in the true process, so gaps and short counts are the same
    for practical purposes. What differs: the count over a stretch of x·4096 expected rows (x < 1) inside a block has
    the variance of the true process times 1-x, and the count over whole blocks has none, so the average rate is met
    exactly in the long run. Bursts and pauses stretch time afterwards, as is right for a process with changing rate.

    Examples
    --------
    >>> steady = Arrivals(RateSchedule(1000.0))
    >>> steady.times(3, 6).tolist(), steady.due(5_000)
    ([3000, 4000, 5000], 6)
    >>> random = Arrivals(RateSchedule(1000.0), is_poisson=True, seed=1)
    >>> bool((random.times(0, 9000)[5000:] == random.times(5000, 9000)).all())
    True
    """

    schedule: RateSchedule
    is_poisson: bool = False
    seed: int = 0

    def at(self, index: Int64s) -> Int64s:
        """Arrival times of these rows."""
        if not self.is_poisson:
            return self.schedule.times_of(index.astype(np.float64))
        blocks, row = np.unique(index // BLOCK, return_inverse=True)
        return self.schedule.times_of(_poisson_blocks(self.seed, blocks)[row, index % BLOCK])

    def times(self, start: int, stop: int) -> Int64s:
        """Arrival times of rows start … stop-1."""
        return self.at(np.arange(start, stop, dtype=np.int64))

    def due(self, elapsed_us: int) -> int:
        """How many rows have arrived by then, that moment included."""
        if elapsed_us < 0:
            return 0
        # A block holds its arrivals to the row, so the answer is at most one block from the expected number.
        near = int(self.schedule.expected_rows(elapsed_us))
        first = max(near - BLOCK, 0)
        return first + int(np.searchsorted(self.times(first, near + BLOCK + 2), elapsed_us, side="right"))


def _rounded(micros: Floats) -> Int64s:
    # Rounding, not cutting: the product of a count and a gap may lie just below the whole number it means.
    return np.rint(micros).astype(np.int64)


def _poisson_blocks(seed: int, blocks: Int64s) -> Floats:
    """Expected rows before each arrival, one line per block."""
    numbers = blocks[:, np.newaxis] * (BLOCK + 1) + np.arange(BLOCK + 1, dtype=np.int64)
    gaps = -np.log1p(-uniforms(seed, "gaps", numbers.ravel())).reshape(numbers.shape)
    reached = np.cumsum(gaps, axis=1)
    return blocks[:, np.newaxis] * float(BLOCK) + reached[:, :-1] * (BLOCK / reached[:, -1:])


def parse_schedule(text: str) -> tuple[tuple[float, float], ...]:
    """Read `'10:3,20:1'`: from second 10 on three times the rate, from second 20 on the plain rate.

    Examples
    --------
    >>> parse_schedule("10:3, 20:0, 25:1")
    ((10.0, 3.0), (20.0, 0.0), (25.0, 1.0))
    """
    return tuple(_changes(part for part in text.split(",") if part.strip()))


def _changes(parts: Iterable[str]) -> Iterable[tuple[float, float]]:
    for part in parts:
        second, colon, multiplier = part.partition(":")
        try:
            if not colon:
                raise ValueError
            yield float(second), float(multiplier)
        except ValueError:
            raise InvalidOption(f"'{part.strip()}' is not 'second:multiplier'; write for example '10:3,20:1'", "schedule") from None
