"""Independent: rank ordering, as if filters knew nothing of each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.filtering._loops import count_filters, rows_before_rank_violation, violated_rank
from penstock.operators.filtering.contract import Floats, Violation, WholeRows
from penstock.operators.filtering.settings import OrderSettings
from penstock.operators.filtering.window import ProfileRows, UInt64s


class Independent(WholeRows):
    """Order filters by what each rejects of all profiled rows per unit of cost.

    Right where filters are independent, and then cheaper than `AGreedy`; elsewhere it can be more expensive by a factor that grows
    with their number. A baseline, and comparable to the routing of Eddies.

    References
    ----------
    [babu2004] section 6.2.

    Examples
    --------
    >>> order = Independent(2, OrderSettings("independent", window_rows=4, min_fill=4))
    >>> order.observe(np.full(4, 0b10, np.uint64), np.full(4, 0b11, np.uint64), costs=np.ones(2))
    True
    """

    def __init__(
        self, filters: int, settings: OrderSettings | None = None, order: Sequence[int] | None = None, after: UInt64s | None = None
    ) -> None:
        super().__init__(filters, settings, order, after)
        self.counts = np.zeros(filters, np.int64)

    def _learn(self, rows: ProfileRows, costs: Floats) -> Violation | None:
        then = self._now()
        gone = self.window.push(rows)
        then = self._lap("window", then)
        count_filters(gone, self.counts, -1)
        count_filters(rows.bits[-len(self.window) :], self.counts, +1)
        then = self._lap("view", then)
        found = self.violation(costs) if len(self.window) >= self._least_rows else None
        if found is not None:
            self.corrections += 1
            self._order = self._sorted(costs)
        self._lap("violations", then)
        return found

    def _count_quietly(self, history: UInt64s, held: int, room: int, costs: Floats) -> int:
        alpha, least = self.settings.alpha, self.settings.min_support
        return int(
            rows_before_rank_violation(
                self.counts, self._order, history, held, room, costs, alpha, least, self.after, self._least_rows
            )
        )

    def violation(self, costs: Floats) -> Violation | None:
        """The smallest position with a later filter that rejects more, by more than `alpha` forgives."""
        alpha, least = self.settings.alpha, self.settings.min_support
        row, column = violated_rank(self.counts, self._order, costs, alpha, least, self.after)
        if row < 0:
            return None
        here, there = self._order[row], self._order[column]
        left, right = self.counts[here] / costs[here], alpha * self.counts[there] / costs[there]
        return Violation(int(row), int(column), float(left), float(right))

    def _sorted(self, costs: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Best first among those whose guards are placed; ties stay in the present order."""
        gains = self.counts / costs
        left, done = self._order.tolist(), 0
        found: list[int] = []
        while left:
            ready = [number for number in left if not int(self.after[number]) & ~done]
            chosen = max(ready, key=lambda number: float(gains[number]))
            found.append(chosen)
            left.remove(chosen)
            done |= 1 << chosen
        return np.array(found, np.int64)

    def _forget(self, words: UInt64s) -> None:
        count_filters(words, self.counts, -1)

    def _recount(self) -> None:
        self.counts[:] = 0
        count_filters(self.window.bits, self.counts, +1)
