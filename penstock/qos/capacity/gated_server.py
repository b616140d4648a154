"""A Spark query as a queue: its gate closes when a micro-batch is planned, and all rows behind it are answered when it commits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidModel
from penstock.qos.capacity.figures import required, stable

#: Points by which the spread of batches is described; more change no digit that is shown.
_POINTS = 41
#: Halvings that find a quantile to the last digit that means something.
_HALVINGS = 60


@dataclass(frozen=True)
class GatedServer:
    """Micro-batches of a query at one rate of arrival.

    Parameters
    ----------
    rate
        Rows per second.
    fixed_s
        What a micro-batch takes whatever it holds: planning, starting tasks, committing.
    row_s
        What each row adds.
    trigger_s
        Time from the begin of one micro-batch to that of the next, if the first has ended by then; 0: the next begins at once.
    most_rows
        Rows a micro-batch takes at most, as `maxOffsetsPerTrigger` says; None: all there are.
    fixed_deviation_s
        Standard deviation of micro-batches with the same rows.

    Notes
    -----
    The gated server of the source answers rows one by one. Here a row waits for the gate and then for the whole micro-batch, which
    gives 1.5 times the length of a micro-batch where they follow each other.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.4, for the queue.

    Examples
    --------
    >>> steady = GatedServer(1000.0, fixed_s=0.3, row_s=0.0005)
    >>> round(steady.batch_s, 6), round(steady.latency_s, 4)
    (0.6, 0.9008)
    >>> every_second = GatedServer(1000.0, fixed_s=0.3, row_s=0.0005, trigger_s=1.0)
    >>> round(every_second.batch_s, 4), round(every_second.latency_s, 4)
    (0.8, 1.3005)
    """

    rate: float
    fixed_s: float
    row_s: float
    trigger_s: float = 0.0
    most_rows: float | None = None
    fixed_deviation_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rate", "fixed_s", "row_s", "trigger_s", "fixed_deviation_s"):
            required(name, getattr(self, name))
        if self.most_rows is not None and self.most_rows < 1:
            raise InvalidModel(f"'most_rows' is {self.most_rows!r}; a micro-batch must be allowed to take at least 1 row")
        stable(self.load, "the query", self.limit)

    @property
    def load(self) -> float:
        """Share of the time that rows alone need."""
        return self.rate * self.row_s

    @property
    def limit(self) -> float:
        """The load from which on the backlog grows without end."""
        most = highest_rate(self.fixed_s, self.row_s, self.trigger_s, self.most_rows)
        return most * self.row_s if self.row_s else float("inf") if most == float("inf") else 1.0

    @property
    def is_back_to_back(self) -> bool:
        """Whether a micro-batch begins as soon as the one before has ended."""
        return self.fixed_s + self.rate * self.trigger_s * self.row_s >= self.trigger_s

    @property
    def cycle_s(self) -> float:
        """Mean time between the begins of two micro-batches."""
        return self.fixed_s / (1 - self.load) if self.is_back_to_back else self.trigger_s

    @property
    def batch_s(self) -> float:
        """Mean length of a micro-batch."""
        return self.fixed_s + self.row_s * self.rows

    @property
    def rows(self) -> float:
        """Mean rows of a micro-batch."""
        return self.rate * self.cycle_s

    @property
    def busy(self) -> float:
        """Share of the time for which a micro-batch is under way."""
        return self.batch_s / self.cycle_s if self.cycle_s else 0.0

    @cached_property
    def _deviation(self) -> float:
        """Of the time between two begins: a long micro-batch gathers many rows, which make the next one long too."""
        if not self.is_back_to_back:
            return 0.0
        own = self.fixed_deviation_s**2 + self.row_s**2 * self.rows
        return sqrt(own / (1 - self.load**2))

    @property
    def latency_s(self) -> float:
        """Mean time from the arrival of a row to the commit of its micro-batch."""
        # A row that comes at random meets long micro-batches more often, and those have more rows.
        felt = self.cycle_s + (self._deviation**2 / self.cycle_s if self.cycle_s else 0.0)
        return felt / 2 + self.fixed_s + self.row_s * (1 + self.rate * felt)

    @property
    def latency_p95_s(self) -> float:
        """The latency that 95 of 100 rows do not exceed."""
        return self.quantile(0.95)

    def quantile(self, share: float) -> float:
        """The latency that this share of the rows does not exceed."""
        if not 0 <= share < 1:
            raise InvalidModel(f"a quantile of {share!r} does not exist; give a share from 0 to below 1")
        cycles, batches, weights = self._spread()
        low, high = 0.0, float((cycles + batches.max()).max())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            reached = np.clip((middle - batches) / np.maximum(cycles, 1e-12)[:, None], 0.0, 1.0).mean(axis=1)
            low, high = (low, middle) if float(weights @ reached) >= share else (middle, high)
        return (low + high) / 2

    def _spread(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Lengths of cycles, of the micro-batch behind each of them, and how many rows come during each."""
        steps = np.array([NormalDist().inv_cdf((number + 0.5) / _POINTS) for number in range(_POINTS)])
        cycles = np.maximum(self.cycle_s + self._deviation * steps, 0.0)
        noise = self.fixed_deviation_s * steps
        batches = np.maximum(self.fixed_s + self.row_s * (1 + self.rate * cycles)[:, None] + noise[None, :], 0.0)
        return cycles, batches, cycles / cycles.sum() if cycles.sum() else np.full(_POINTS, 1 / _POINTS)


def highest_rate(fixed_s: float, row_s: float, trigger_s: float = 0.0, most_rows: float | None = None) -> float:
    """Rows per second below which the backlog does not grow.

    Examples
    --------
    >>> highest_rate(0.3, 0.0005), highest_rate(0.3, 0.0005, most_rows=600), highest_rate(0.1, 0.0005, 1.0, most_rows=600)
    (2000.0, 1000.0, 600.0)
    """
    plain = 1 / row_s if row_s else float("inf")
    if most_rows is None:
        return plain
    length = max(fixed_s + most_rows * row_s, trigger_s)
    return min(plain, most_rows / length) if length else plain
