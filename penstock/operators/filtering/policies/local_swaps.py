"""LocalSwaps: compare neighbours only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.operators.filtering._loops import count_neighbours, rows_before_neighbour_violation
from penstock.operators.filtering.contract import Floats, Violation, Windowed
from penstock.operators.filtering.settings import OrderSettings
from penstock.operators.filtering.window import ProfileRows, UInt64s


class LocalSwaps(Windowed):
    """Exchange neighbours where the second rejects more of what reaches both.

    The least profiling of all: one further evaluation per profiled row. Each justified exchange lowers the cost, but
    a filter moves one place per window, and the order may stay one that no exchange of neighbours improves.

    Notes
    -----
    All wrong pairs that do not overlap are exchanged together. The window is then cleared: rows profiled before lack the bit
    their new neighbour needs, and keeping them would bias the counts.

    References
    ----------
    [babu2004] section 6.3.

    Examples
    --------
    >>> order = LocalSwaps(2, OrderSettings("local_swaps", window_rows=4, min_fill=4))
    >>> order.observe(np.full(4, 0b10, np.uint64), np.full(4, 0b11, np.uint64), costs=np.ones(2))
    True
    """

    has_whole_rows: ClassVar[bool] = False

    def __init__(
        self, filters: int, settings: OrderSettings | None = None, order: Sequence[int] | None = None, after: UInt64s | None = None
    ) -> None:
        super().__init__(filters, settings, order, after)
        self.own, self.following = np.zeros(filters, np.int64), np.zeros(filters, np.int64)

    def wanted(self, position: int) -> int:
        return 1 << int(self._order[position + 1]) if position + 1 < self.filters else 0

    def _learn(self, rows: ProfileRows, costs: Floats) -> Violation | None:
        then = self._now()
        gone = self.window.push(rows)
        then = self._lap("window", then)
        count_neighbours(gone, self._order, self.own, self.following, -1)
        count_neighbours(rows.bits[-len(self.window) :], self._order, self.own, self.following, +1)
        then = self._lap("view", then)
        wrong = self.violations(costs) if len(self.window) >= self._least_rows else []
        if wrong:
            self._exchange([found.row for found in wrong])
        self._lap("violations", then)
        return wrong[0] if wrong else None

    def _count_quietly(self, history: UInt64s, held: int, room: int, costs: Floats) -> int:
        alpha, least, counts = self.settings.alpha, self.settings.min_support, (self.own, self.following)
        return int(
            rows_before_neighbour_violation(
                *counts, self._order, history, held, room, costs, alpha, least, self.after, self._least_rows
            )
        )

    def violations(self, costs: Floats) -> list[Violation]:
        """Wrong pairs of neighbours from left to right; a pair that overlaps an earlier one is left for later."""
        found: list[Violation] = []
        row = 0
        while row + 1 < self.filters:
            here, there = int(self._order[row]), int(self._order[row + 1])
            left = self.own[row] / costs[here]
            right = self.settings.alpha * self.following[row] / costs[there]
            is_guard = bool(int(self.after[there]) >> here & 1)
            if left < right and self.following[row] >= self.settings.min_support and not is_guard:
                found.append(Violation(row, row + 1, float(left), float(right)))
                row += 1
            row += 1
        return found

    def _exchange(self, rows: list[int]) -> None:
        self.corrections += len(rows)
        order = self._order.copy()
        for row in rows:
            order[row], order[row + 1] = order[row + 1], order[row]
        self._order = order
        self._restart()

    def _forget(self, words: UInt64s) -> None:
        count_neighbours(words, self._order, self.own, self.following, -1)

    def _restart(self) -> None:
        self.window.clear()
        self._recount()

    def _recount(self) -> None:
        self.own[:] = 0
        self.following[:] = 0
        count_neighbours(self.window.bits, self._order, self.own, self.following, +1)
