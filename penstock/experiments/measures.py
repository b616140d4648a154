"""What experiments compute from samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.experiments.contracts import Floats
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS


def sample_times(seconds: float, every: float) -> Int64s:
    """Microseconds of the samples of a stream: every so many seconds, the end included.

    Examples
    --------
    >>> sample_times(2.0, 0.5).tolist()
    [500000, 1000000, 1500000, 2000000]
    """
    times: Int64s = np.rint(np.arange(1, round(seconds / every) + 1) * every * MICROS).astype(np.int64)
    return times


def in_seconds(times_us: Int64s) -> Floats:
    """Microseconds as seconds."""
    return times_us / float(MICROS)


def rate_between(times_us: Int64s, totals: Int64s, start: float, stop: float) -> float:
    """Growth per second of a total between two sampled moments; it is 0 at the start.

    Examples
    --------
    >>> rate_between(sample_times(4.0, 1.0), np.array([10, 20, 40, 60]), 2.0, 4.0)
    20.0
    """
    first, last = (totals[np.searchsorted(times_us, round(moment * MICROS))] if moment else 0 for moment in (start, stop))
    return float(last - first) / (stop - start)


def growth(totals: Int64s) -> Int64s:
    """Growth of a total from sample to sample, beginning with the first sample."""
    return np.diff(totals, prepend=0)


def linear_fit(x: Floats, y: npt.NDArray[np.float64]) -> float:
    """Share of the variance a straight line explains (R²).

    Examples
    --------
    >>> linear_fit(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    1.0
    """
    slope, intercept = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    return 1.0 - float(((y - slope * x - intercept) ** 2).sum()) / spread if spread else 1.0


def is_increasing(values: Sequence[float]) -> bool:
    """Whether each value is greater than the one before."""
    return all(earlier < later for earlier, later in pairwise(values))


def output_over_time(seconds: Sequence[float], outputs: Sequence[float], moments: Sequence[float]) -> list[float]:
    """Output that had come by given moments, from (time, output) pairs; straight lines between them.

    Examples
    --------
    >>> output_over_time([1.0, 2.0], [10.0, 30.0], [0.5, 1.5])
    [5.0, 20.0]
    """
    found: list[float] = np.interp(moments, [0.0, *seconds], [0.0, *outputs]).tolist()
    return found


def counted(value: float) -> str:
    """A number for people: grouped digits, or few digits.

    Examples
    --------
    >>> [counted(value) for value in (39371.0, 365.2, 2.713, 0.0)]
    ['39,371', '365', '2.71', '0']
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def listed(values: Sequence[float]) -> str:
    """Numbers in a row.

    Examples
    --------
    >>> listed([227.4, 260.0])
    '227 / 260'
    """
    return " / ".join(counted(value) for value in values)
