"""What a micro-batch costs, as a run has measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Micro-batches whose rows differ by less, as a part of the mean, say nothing about what a row costs.
_ALIKE = 0.1
#: Squared coefficient of variation of the rows from which on a line through them means something.
_SPREAD = 0.02
#: Micro-batches that are needed, and how many deviations away one is taken to have been disturbed.
_LEAST, _DISTURBED = 8, 3.0
#: The median of absolute deviations, times this, is the standard deviation where nothing disturbs.
_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """The line `seconds = fixed + row × rows` through micro-batches.

    Parameters
    ----------
    fixed_s, row_s
        For a micro-batch, and for each of its rows, however many cores share them.
    deviation_s
        By how much micro-batches with the same rows differ.
    cores
        That the run had.
    most_rows
        Of the largest micro-batch that was measured.
    estimated
        What was not measured, in words.
    """

    fixed_s: float
    row_s: float
    deviation_s: float = 0.0
    cores: int = 2
    most_rows: float = 0.0
    estimated: tuple[str, ...] = ()


#: Typical of applications with a few queries on a laptop; only of use where nothing is measured.
ASSUMED = BatchCosts(0.15, 5e-6, 0.03, estimated=("the cost of micro-batches",))


def fitted(batches: Sequence[tuple[float, float]], cores: int, row_s: float) -> BatchCosts:
    """Costs from (rows, seconds) of micro-batches, in order.

    Where all of them had much the same rows, or the machine had other work, a line through them would be made of noise: rows then
    cost what operators were seen to take, and the rest is fixed.

    Parameters
    ----------
    row_s
        What operators take for a row.

    Examples
    --------
    >>> costs = fitted([(rows, 0.2 + 1e-5 * rows) for rows in range(1000, 11000, 1000)], 2, row_s=5e-6)
    >>> round(costs.fixed_s, 6), round(costs.row_s * 1e6, 6), costs.estimated
    (0.2, 10.0, ())
    >>> fitted([(1000, 0.2)] * 10, 2, row_s=5e-6).estimated
    ('the cost of reading and writing a row',)
    """
    if len(batches) < _LEAST:
        return ASSUMED
    rows, seconds = (np.array(values, np.float64) for values in zip(*batches, strict=True))
    fixed, slope, left = _line(rows, seconds)
    if rows.var() < _SPREAD * rows.mean() ** 2 or slope < row_s or slope <= 0 or fixed <= 0:
        fixed = max(float((seconds - row_s * rows).mean()), 0.0)
        estimated = ("the cost of reading and writing a row",)
        return BatchCosts(fixed, row_s, float(seconds.std()), cores, float(rows.max()), estimated)
    return BatchCosts(fixed, slope, float(left.std()), cores, float(rows.max()))


def _line(rows: Floats, seconds: Floats) -> tuple[float, float, Floats]:
    """A line that a quarter of disturbed micro-batches does not move, and what is left over.

    References
    ----------
    [sen1968] Sen. Estimates of the Regression Coefficient Based on Kendall's Tau. Journal of the American Statistical Association
    63, 1968.
    """
    first, second = np.triu_indices(len(rows), 1)
    apart = rows[second] - rows[first]
    differ = np.abs(apart) > _ALIKE * rows.mean()
    slope = float(np.median((seconds[second] - seconds[first])[differ] / apart[differ])) if differ.any() else 0.0
    left = seconds - slope * rows
    fixed = float(np.median(left))
    # Micro-batches that are longer than usual are part of the mean; those that something else disturbed are not.
    usual = np.abs(left - fixed) <= _DISTURBED * max(_deviation(left - fixed), 1e-6)
    fixed = float(left[usual].mean())
    return fixed, slope, (left - fixed)[usual]


def _deviation(left: Floats) -> float:
    return float(np.median(np.abs(left))) * _TO_DEVIATION
