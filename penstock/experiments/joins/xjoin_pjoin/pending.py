"""The punctuation set of one input: announced, not yet propagated. With the tuples' pids it is the punctuation index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.experiments.joins.xjoin_pjoin import layout
from penstock.experiments.joins.xjoin_pjoin.closed import ClosedKeys
from penstock.experiments.joins.xjoin_pjoin.state import State
from penstock.model.batch import Int64s
from penstock.model.masks import Mask

#: Rows of the table of punctuations. KID is the key number of a single key, and without meaning for a range.
_PID, _LOW, _HIGH, _KID = range(4)


class Released(NamedTuple):
    """A punctuation that may leave."""

    pid: int
    low: int
    high: int
    kid: int


class Pending:
    """Punctuations of one input in order of arrival, each with a number (pid) that its tuples are charged to.

    A tuple is charged to the first punctuation that matches it, when the index is built; a punctuation leaves when nothing
    is charged to it *and* nothing to an earlier one that overlaps it: tuples of both are charged to the earlier alone.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, Algorithms 1 and 2, both corrected: counts
    are kept and the search stops at the first match; overlapping punctuations wait for each other.
    """

    def __init__(self, side: int, state: State, closed: ClosedKeys) -> None:
        self._side = side
        self._state = state
        self._closed = closed
        #: The last punctuation in the index.
        self._built = -1
        self._table: Int64s = np.empty((4, 0), np.int64)

    def __len__(self) -> int:
        return len(self._table[_PID])

    def add(self, pid: int, low: int, high: int, kid: int) -> None:
        """A punctuation arrives; later ones have greater numbers."""
        self._table = np.append(self._table, [[pid], [low], [high], [kid]], axis=1)

    def build_index(self, scans: bool) -> None:
        """Charge tuples without punctuation to the first of the punctuations not yet indexed that matches them.

        A scan tests every tuple without punctuation; that many tests are counted then.
        """
        new = self._table[:, self._table[_PID] > self._built]
        for pid, low, high, kid in new.T.tolist():
            kids = np.array([kid]) if low == high else self._state.keys_between(low, high)
            without = int(self._state.book[layout.NULLS + self._side])
            charged = self._state.charge(self._side, kids, pid)
            self._state.add(layout.INDEX_TESTS, without if scans else charged)
            self._built = pid

    def release(self, is_paired: bool) -> list[Released]:
        """Remove and return what may leave, in order of arrival; paired: only what the other input has announced too."""
        pids, lows, highs, kids = self._table
        indexed = pids[pids <= self._built]
        charges = self._state.charges[indexed]
        is_free = np.zeros(len(pids), np.bool_)
        is_free[: len(indexed)] = charges == 0
        if is_paired:
            is_free &= self._is_closed_by_other(lows, highs, kids)
        holding = np.flatnonzero(charges)
        if (lows[holding] < highs[holding]).any() or (lows < highs)[is_free].any():
            for at in np.flatnonzero(is_free).tolist():
                earlier = holding[holding < at]
                is_free[at] = not ((lows[earlier] <= highs[at]) & (lows[at] <= highs[earlier])).any()
        released = [Released(*found) for found in self._table[:, is_free].T.tolist()]
        self._table = self._table[:, ~is_free]
        return released

    def _is_closed_by_other(self, lows: Int64s, highs: Int64s, kids: Int64s) -> Mask:
        """Which punctuations the other input has announced too, single keys or all of a range."""
        other = 1 - self._side
        found: Mask = self._state.keys.closed[other, kids] > 0
        for at in np.flatnonzero(lows < highs).tolist():
            found[at] = self._closed.covers(other, int(lows[at]), int(highs[at]))
        return found
