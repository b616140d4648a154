"""A-Greedy: the order the greedy rule would choose now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.filtering._loops import best_column, count_rows, rows_before_greedy_violation, scan_row, violated_pair
from penstock.operators.filtering.contract import Floats, Violation, WholeRows
from penstock.operators.filtering.settings import Move, OrderSettings
from penstock.operators.filtering.window import Int64s, ProfileRows, UInt64s


class MatrixView:
    """`counts[i, j]`: profile rows rejected by the filter at position j among those that no position before i rejects.

    Only the upper triangle is meant. It is proportional, row by row, to the conditional probabilities the greedy rule
    compares, although only rejected rows are profiled. Rows are counted in and out as they enter and leave the
    window; a change of the order recomputes only the lines it touches.

    References
    ----------
    [babu2004] section 4.3, Figures 3 and 5. The condition printed in line 8 of Figure 3 is inverted.

    Examples
    --------
    >>> view = MatrixView(2)
    >>> view.count(np.array([0b01, 0b11, 0b10], np.uint64), np.array([0, 1]), +1)
    >>> view.counts.tolist()
    [[2, 2], [0, 1]]
    """

    def __init__(self, filters: int) -> None:
        self.counts = np.zeros((filters, filters), np.int64)

    def count(self, words: UInt64s, order: Int64s, sign: int) -> None:
        """Rows enter (+1) or leave (-1); either is relative to the present order, whenever they were profiled."""
        if len(words):
            count_rows(self.counts, order, words, sign)

    def recompute(self, row: int, order: Int64s, words: UInt64s) -> int:
        """Count a line anew; returns the number of scans of the window, which is 0 for the last line.

        Every profile row is rejected at one first position, so the last diagonal entry is what the others leave.
        """
        last = len(order) - 1
        if row == last > 0:
            self.counts[last, last] = len(words) - int(np.trace(self.counts[:last, :last]))
            return 0
        scan_row(words, order, row, self.counts[row])
        return 1

    def recount(self, order: Int64s, words: UInt64s) -> None:
        """Count everything anew."""
        self.counts[:] = 0
        self.count(words, order, +1)

    def move(self, moved: Sequence[int], row: int) -> None:
        """Columns have moved: those of the lines up to `row` move alike, lines below are to be recomputed."""
        self.counts[: row + 1] = self.counts[: row + 1][:, moved]


class AGreedy(WholeRows):
    """Keep filters in the order the greedy rule would choose now.

    A sample of rejected rows is shown to the filters that did not see it. When this profile contradicts the order, the
    order is repaired from the first wrong position on, at once, because the profile holds every conditional selectivity.
    Choose it when selectivities drift and depend on each other; with independent filters `Independent` is cheaper, with
    very expensive filters and slow drift `Sweep` is.

    Notes
    -----
    Differs from the paper: all rows of a chunk are counted before anything is compared (one row at a time is the published
    behaviour); a filter is moved forward by rotation, which reproduces the paper's worked example, unless
    `Move.SWAP` asks for the pseudo-code; with guards it always rotates, and the promise of at most 4 times the optimum
    is void.

    References
    ----------
    [babu2004] Babu, Motwani, Munagala, Nishizawa, Widom. Adaptive Ordering of Pipelined Stream Filters. SIGMOD 2004,
    Figures 3-5.

    Examples
    --------
    >>> import numpy as np
    >>> order = AGreedy(2, OrderSettings(window_rows=4, min_fill=4))
    >>> rejected_by_second, both_known = np.full(4, 0b10, np.uint64), np.full(4, 0b11, np.uint64)
    >>> order.observe(rejected_by_second, both_known, costs=np.ones(2))
    True
    >>> order.order()
    (1, 0)
    """

    def __init__(
        self, filters: int, settings: OrderSettings | None = None, order: Sequence[int] | None = None, after: UInt64s | None = None
    ) -> None:
        super().__init__(filters, settings, order, after)
        self.view = MatrixView(filters)
        # Exchanging places can move a guard behind what it guards; moving one filter forward cannot.
        self._rotates = self.settings.move is Move.ROTATE or bool(self.after.any())

    def _learn(self, rows: ProfileRows, costs: Floats) -> Violation | None:
        then = self._now()
        gone = self.window.push(rows)
        then = self._lap("window", then)
        fresh = rows.bits[-len(self.window) :]
        if len(gone) + len(fresh) > len(self.window):
            self._recount()  # less work than counting rows out and in
        else:
            self.view.count(gone, self._order, -1)
            self.view.count(fresh, self._order, +1)
        then = self._lap("view", then)
        found = self._repair(costs) if len(self.window) >= self._least_rows else None
        self._lap("violations", then)
        return found

    def _count_quietly(self, history: UInt64s, held: int, room: int, costs: Floats) -> int:
        alpha, least = self.settings.alpha, self.settings.min_support
        return int(
            rows_before_greedy_violation(
                self.view.counts, self._order, history, held, room, costs, alpha, least, self.after, self._least_rows
            )
        )

    def _repair(self, costs: Floats) -> Violation | None:
        """Correct from the smallest violated position on until none is left; it grows with each correction."""
        first: Violation | None = None
        while (found := self.violation(costs)) is not None:
            first = first or found
            self._correct(found.row, costs)
        return first

    def violation(self, costs: Floats) -> Violation | None:
        """The smallest position at which a later filter would do better, by more than `alpha` forgives."""
        alpha, counts = self.settings.alpha, self.view.counts
        row, column = violated_pair(counts, self._order, costs, alpha, self.settings.min_support, self.after)
        if row < 0:
            return None
        left, right = costs[self._order[row]], costs[self._order[column]]
        return Violation(int(row), int(column), counts[row, row] / left, alpha * counts[row, column] / right)

    def _correct(self, first: int, costs: Floats) -> None:
        """Figure 5: choose anew for every row from the violated one to the last that a move has touched."""
        self.corrections += 1
        row = last = first
        while row <= last:
            if row > first:
                self.scans += self.view.recompute(row, self._order, self.window.bits)
            best = int(best_column(self.view.counts, self._order, costs, row, self.after))
            last = max(last, best)
            if best != row:
                self._bring(best, row)
            row += 1

    def _bring(self, column: int, row: int) -> None:
        moved = list(range(self.filters))
        if self._rotates:
            moved.insert(row, moved.pop(column))
        else:
            moved[row], moved[column] = moved[column], moved[row]
        self._order = self._order[moved]
        self.view.move(moved, row)

    def _forget(self, words: UInt64s) -> None:
        self.view.count(words, self._order, -1)

    def _recount(self) -> None:
        self.view.recount(self._order, self.window.bits)

    def rows(self) -> list[list[int]]:
        """The view as the paper prints it: one list per position, from the diagonal on."""
        counts = self.view.counts
        return [counts[row, row:].tolist() for row in range(len(counts))]
