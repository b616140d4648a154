"""Counts and sums of all rows, estimated from those that random shedders have left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod, sqrt


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error: in 95 of 100 cases the true value is less than 1.96 of them away."""

    value: float
    error: float


def left_share(shares: Iterable[float]) -> float:
    """Of the rows, or of the pairs of a join, what random shedders leave that drop these shares one after the other.

    Examples
    --------
    >>> round(left_share([0.1, 0.2]), 2)
    0.72
    """
    return prod(1.0 - share for share in shares)


def estimated_sum(total: float, squares: float, left: float) -> Estimate:
    """The sum over all rows from the sum, and the sum of squares, over those left; of a count both are the rows left.

    Each row must have had the same chance `left` to stay, whatever its value and whatever became of the others: so random shedders
    on one path, never semantic ones. Averages need no such estimate, and least and greatest values have none.

    References
    ----------
    [horvitz1952] Horvitz, Thompson. A Generalization of Sampling Without Replacement from a Finite Universe. Journal of the
    American Statistical Association 47, 1952.

    Examples
    --------
    >>> found = estimated_sum(total=900.0, squares=900.0, left=0.9)
    >>> round(found.value), round(found.error, 1)
    (1000, 10.5)
    """
    return Estimate(total / left, sqrt(squares * (1.0 - left)) / left)
