"""The matrix view: conditional rejections of the profile window, relative to the order in force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.filtering._loops import count_rows, scan_row
from penstock.operators.filtering.window import Int64s, UInt64s


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
