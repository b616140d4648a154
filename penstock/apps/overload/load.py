"""How many rows a machine can take, and the load that is too much for it for a while: pure figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: The strictest latency that is promised, in seconds, and the part of it that a micro-batch may take: its rows have waited as
#: long before, while the one before it went on, and something is left for what varies.
STRICTEST_S, _PART = 4.0, 0.4
#: The budget lets micro-batches become a little longer, so that rows are left out before others must wait.
_BUDGET_PART = 0.45
#: The load for most of the time, as a part of what can be processed; for a while it is three times as high.
_USUAL, TIMES = 0.5, 3
#: Of a budget, however slow the machine is.
_LEAST_BUDGET_S = 0.2

_RATE, _SCHEDULE = "rate '8000'", "schedule '8:3,18:1'"
_LOSS = re.compile(r",\s*LOSS\s*<=[^)]*(?=\))")


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """Micro-batches of about the same number of rows.

    Parameters
    ----------
    rows, seconds, work_s
        Of one of them: how long it takes, and how long its operators work on each core.
    """

    rows: float
    seconds: float
    work_s: float

    @classmethod
    def of(cls, batches: Sequence[tuple[int, float, float]]) -> MeasuredSize:
        """The middle of several: one that something else has disturbed does not count."""
        rows, seconds, work = zip(*batches, strict=True)
        return cls(median(rows), median(seconds), median(work))


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a micro-batch takes: some time whatever it holds, and some for each row.

    Parameters
    ----------
    work_s
        The part of `row_s` for which operators work.

    Examples
    --------
    >>> found = Capacity.between(MeasuredSize(1_000, 0.23, 0.02), MeasuredSize(31_000, 1.13, 0.62))
    >>> round(found.fixed_s, 3), round(found.row_s * 1e6, 3), round(found.work_s * 1e6, 3), round(found.rows_per_second)
    (0.2, 30.0, 20.0, 29167)
    """

    fixed_s: float
    row_s: float
    work_s: float

    @classmethod
    def between(cls, small: MeasuredSize, large: MeasuredSize) -> Capacity:
        """The line through micro-batches of two sizes."""
        rows = large.rows - small.rows
        if rows <= 0 or large.seconds <= small.seconds:
            # A machine so busy with other work that small ones take as long: all of the time is that of rows.
            return cls(0.0, large.seconds / large.rows, large.work_s / large.rows)
        row_s = (large.seconds - small.seconds) / rows
        return cls(max(small.seconds - row_s * small.rows, 0.0), row_s, min(large.work_s / large.rows, row_s))

    @property
    def rows_per_second(self) -> float:
        """With micro-batches as long as the strictest promise allows."""
        return self._rows_within(_PART) / (_PART * STRICTEST_S)

    @property
    def budget_s(self) -> float:
        """Time that operators may work in a micro-batch, so that it is a little longer than the promises allow at most."""
        return max(self._rows_within(_BUDGET_PART) * self.work_s, _LEAST_BUDGET_S)

    def _rows_within(self, part: float) -> float:
        seconds = part * STRICTEST_S
        return max(seconds - self.fixed_s, 0.1 * seconds) / self.row_s


@dataclass(frozen=True, slots=True)
class Load:
    """The usual load, and three times as much for a third of the time.

    Parameters
    ----------
    rate
        Rows a second, usually.
    seconds
        How long it lasts.

    Examples
    --------
    >>> load = Load(1000, 30.0)
    >>> load.burst, [load.rate_at(second) for second in (0, 8, 20)]
    ((7.5, 17.5), [1000, 3000, 1000])
    """

    rate: int
    seconds: float = 30.0

    @classmethod
    def beyond(cls, capacity: Capacity, seconds: float) -> Load:
        """Half of what the machine can take, and then one and a half times as much as it can take."""
        return cls(max(round(_USUAL * capacity.rows_per_second), 1), seconds)

    @property
    def burst(self) -> tuple[float, float]:
        return self.seconds / 4, self.seconds * 7 / 12

    def rate_at(self, second: float) -> int:
        begin, end = self.burst
        return self.rate * TIMES if begin <= second < end else self.rate

    def of(self, text: str) -> str:
        """The application with this load."""
        begin, end = self.burst
        return text.replace(_RATE, f"rate '{self.rate}'").replace(_SCHEDULE, f"schedule '{begin:g}:{TIMES},{end:g}:1'")


def to_measure(text: str, small: int, large: int, after_s: float) -> str:
    """The application with small micro-batches for a while and then with large ones that follow each other, twice a second.

    Parameters
    ----------
    small, large
        Rows of a micro-batch.
    """
    much = 1_000  # as much more as no machine can keep up with
    pace = f"rate '{2 * small}', schedule '{after_s:g}:{much}', max_rows_per_batch '{large}'"
    return without_loss(text).replace(f"{_RATE}, {_SCHEDULE}", pace)


def without_loss(text: str) -> str:
    """The same queries with the same promises, but no row may be left out.

    Examples
    --------
    >>> without_loss("WITH QOS (LATENCY <= INTERVAL 4 SECONDS MUST, LOSS <= 50 PERCENT DROP LOWEST volume) AS SELECT")
    'WITH QOS (LATENCY <= INTERVAL 4 SECONDS MUST) AS SELECT'
    """
    return _LOSS.sub("", text)
