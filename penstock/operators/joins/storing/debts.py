"""What stored rows still owe the output: the answer whether they found a partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER

Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Debts:
    """One debt for each row, or in numbered windows one for each window a row is in; in the order of the rows.

    Parameters
    ----------
    due
        Greatest time a partner can have: once none that old can come, the debt is due.
    settled
        Whether the answer is known: a partner was found, or it was proven that none comes.
    first, starts
        In numbered windows, number of each row's first window and place of its first debt; `starts` ends with the number of
        all debts. None where every row has one debt.
    version
        How often the answers have changed; 0: none is known.
    oldest
        Least time of a row with an open debt, `FOREVER` when there is none; None: not known.

    Examples
    --------
    Row 0 is in windows 4 and 5, row 1 in window 5:

    >>> debts = Debts(np.array([9, 12, 12]), np.zeros(3, np.bool_), np.array([4, 5]), np.array([0, 2, 3]))
    >>> debts.settle(debts.places(np.array([0, 1]), np.array([5, 5])))
    array([1, 2])
    >>> rows, numbers = debts.owners(debts.overdue(horizon=10))
    >>> rows.tolist(), numbers.tolist()
    ([0], [4])
    """

    due: Int64s
    settled: Bools
    first: Int64s | None = None
    starts: Int64s | None = None
    version: int = 0
    oldest: int | None = None

    @classmethod
    def numbered(cls, due: Int64s, first: Int64s, counts: Int64s) -> Debts:
        return cls(due, np.zeros(len(due), np.bool_), first, _starts(counts))

    @classmethod
    def joined(cls, parts: Sequence[Debts]) -> Debts:
        """The debts of several runs one behind the other."""
        if len(parts) == 1:
            return parts[0]
        due = np.concatenate([part.due for part in parts])
        settled = np.concatenate([part.settled for part in parts])
        firsts = [part.first for part in parts if part.first is not None]
        if not firsts:
            return cls(due, settled)
        counts = np.concatenate([np.diff(part.starts) for part in parts if part.starts is not None])
        return cls(due, settled, np.concatenate(firsts), _starts(counts))

    @property
    def num_bytes(self) -> int:
        arrays = (self.due, self.settled, self.first, self.starts)
        return sum(array.nbytes for array in arrays if array is not None)

    def places(self, rows: Int64s, numbers: Int64s | None) -> Int64s:
        """Debts of the given rows, in the given windows."""
        if self.starts is None or self.first is None or numbers is None:
            return rows
        return self.starts[rows] + (numbers - self.first[rows])

    def owners(self, places: Int64s) -> tuple[Int64s, Int64s | None]:
        """Rows and window numbers of debts."""
        if self.starts is None or self.first is None:
            return places, None
        rows: Int64s = np.searchsorted(self.starts, places, "right") - 1
        return rows, self.first[rows] + (places - self.starts[rows])

    def settle(self, places: Int64s) -> Int64s:
        """Mark debts as settled; returns those that were not, each once."""
        before = self.settled.copy()
        self.settled[places] = True
        fresh = np.flatnonzero(self.settled & ~before)
        if len(fresh):
            self.version, self.oldest = self.version + 1, None
        return fresh

    def overdue(self, horizon: int, lost: Bools | None = None) -> Int64s:
        """Open debts no partner can settle: none older than `horizon` comes, or the row is among the `lost` ones."""
        if horizon == FOREVER:
            return np.flatnonzero(~self.settled)
        due = self.due < horizon
        if lost is not None:
            due |= self.spread(lost)
        return np.flatnonzero(due & ~self.settled)

    def spread(self, rows: Bools) -> Bools:
        """A mask of rows as a mask of debts."""
        return rows if self.starts is None else np.repeat(rows, np.diff(self.starts))

    def open_rows(self) -> Bools:
        """Which rows have a debt that is not settled."""
        if self.starts is None:
            return ~self.settled
        opened = _starts(~self.settled)
        result: Bools = opened[self.starts[1:]] > opened[self.starts[:-1]]
        return result

    def chosen(self, rows: Int64s) -> Debts:
        """The debts of some rows, in the order given."""
        if self.starts is None or self.first is None:
            return Debts(self.due[rows], self.settled[rows])
        counts = np.diff(self.starts)[rows]
        starts = _starts(counts)
        places = np.repeat(self.starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
        return Debts(self.due[places], self.settled[places], self.first[rows], starts)


def _starts(counts: Int64s | Bools) -> Int64s:
    """Where each of some lists begins if they stand one behind the other; and the end of the last."""
    return np.concatenate(([0], np.cumsum(counts)))
