"""Orders from exact statistics: cost, the greedy order, the independent order, the optimum.

Statistics are a histogram of drop patterns: `weights[p]` rows are rejected by exactly the filters whose bits are set in
p. One subset-sum transform turns it into R(S), the rows that pass every filter of S, and every cost is a sum of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidConfiguration
from penstock.operators.filtering._loops import cheapest_orders

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Order = tuple[int, ...]

#: Filters for which all subsets are tried.
MOST_FILTERS = 20

#: Ratio of the greedy order's cost to the optimum's that no equal-cost instance exceeds; exact up to 6 filters.
_BOUNDS: dict[int, float] = {
    1: 1.0, 2: 1.0, 3: 7 / 6, 4: 5 / 4, 5: 4 / 3, 6: 38 / 27, 8: 1.5258, 10: 1.6166, 15: 1.7936, 20: 1.9222, 30: 2.0986,
    50: 2.3120, 100: 2.5748, 200: 2.8009,
}  # fmt: skip
_ROUNDING = 5e-5


def greedy_bound(filters: int) -> float:
    """How much more expensive than the optimum the greedy order of filters of equal cost can be.

    Values between those of the table are rounded up to the next one; beyond 200 filters it is the limit, 4. With unequal
    costs only 4 holds.

    References
    ----------
    [babu2004] Theorem 4.1. The table solves a factor-revealing linear programme and is tighter than the paper's figures.

    Examples
    --------
    >>> greedy_bound(4), round(greedy_bound(7), 3)
    (1.25, 1.526)
    """
    listed = next((size for size in _BOUNDS if size >= filters), None)
    if listed is None:
        return 4.0
    return _BOUNDS[listed] + (_ROUNDING if listed > 6 else 0.0)


@dataclass(frozen=True)
class DropStatistics:
    """What is known of a set of filters when everything is known.

    Parameters
    ----------
    weights
        Rows (or probability) by drop pattern, `2 ** filters` of them.
    costs
        Time of each filter per row; 1 where not given.
    after
        For each filter the set of filters that must precede it.

    Examples
    --------
    Two filters reject the same half of the rows, a third the other half.

    >>> known = DropStatistics(np.array([0, 0, 0, 50, 50, 0, 0, 0]))
    >>> known.greedy(), known.independent(), known.cost((0, 2, 1))
    ((0, 2, 1), (0, 1, 2), 150.0)
    """

    weights: npt.NDArray[Any]
    costs: Any = None
    after: Any = None

    def __post_init__(self) -> None:
        number = len(self.weights).bit_length() - 1
        if len(self.weights) != 1 << number or number > MOST_FILTERS:
            text = f"{len(self.weights)} weights; there must be 2 ** n of them for at most {MOST_FILTERS} filters"
            raise InvalidConfiguration(text, "statistics of filters")
        costs = np.ones(number) if self.costs is None else np.asarray(self.costs, np.float64)
        after = np.zeros(number, np.uint64) if self.after is None else np.asarray(self.after, np.uint64)
        object.__setattr__(self, "costs", costs)
        object.__setattr__(self, "after", after)

    @property
    def filters(self) -> int:
        return len(self.costs)

    @cached_property
    def passing(self) -> Floats:
        """R(S) for every set S of filters: rows that none of them rejects (zeta transform of the histogram)."""
        sums = np.asarray(self.weights, np.float64).copy()
        for number in range(self.filters):
            halves = sums.reshape(-1, 2, 1 << number)
            halves[:, 1] += halves[:, 0]  # sums over subsets
        # Rejected by no filter of S means: the pattern is a subset of the complement of S.
        return sums[::-1].copy()

    def rejected(self, number: int, done: int) -> float:
        """Rows that pass every filter in the set `done` and are rejected by filter `number`."""
        return float(self.passing[done] - self.passing[done | 1 << number])

    def cost(self, order: Sequence[int]) -> float:
        """Time to send all rows through the filters in this order (set form of the paper's equation 1)."""
        done, total = 0, 0.0
        for number in order:
            total += self.costs[number] * self.passing[done]
            done |= 1 << number
        return float(total)

    def greedy(self, ties: Sequence[int] | None = None) -> Order:
        """Most newly rejected rows per unit of cost first.

        Parameters
        ----------
        ties
            Filters in the order in which ties are decided; by number when not given.
        """
        left, done = list(ties) if ties is not None else list(range(self.filters)), 0
        found: list[int] = []
        while left:
            ready = [number for number in left if not int(self.after[number]) & ~done]
            chosen = max(ready, key=lambda number: self.rejected(number, done) / self.costs[number])
            found.append(chosen)
            left.remove(chosen)
            done |= 1 << chosen
        return tuple(found)

    def independent(self) -> Order:
        """By unconditional rejections per unit of cost, ties by number."""
        gains = [self.rejected(number, 0) / self.costs[number] for number in range(self.filters)]
        return tuple(sorted(range(self.filters), key=lambda number: -gains[number]))

    def optimal(self) -> Order:
        """An order of least cost, by dynamic programming over all sets of filters."""
        best, last = np.empty(1 << self.filters), np.zeros(1 << self.filters, np.int64)
        cheapest_orders(self.passing, self.costs, self.after, best, last)
        found: list[int] = []
        done = (1 << self.filters) - 1
        while done:
            found.append(int(last[done]))
            done ^= 1 << found[-1]
        return tuple(reversed(found))

    def is_greedy(self, order: Sequence[int], alpha: float = 1.0) -> bool:
        """Whether the order satisfies the Greedy Invariant, relaxed by `alpha`."""
        done = 0
        for position, number in enumerate(order):
            own = self.rejected(number, done) / self.costs[number]
            later = [other for other in order[position + 1 :] if not int(self.after[other]) & ~done]
            if any(own < alpha * self.rejected(other, done) / self.costs[other] for other in later):
                return False
            done |= 1 << number
        return True


def histogram(masks: npt.NDArray[Any], filters: int) -> Int64s:
    """Rows by drop pattern."""
    return np.bincount(masks, minlength=1 << filters)
