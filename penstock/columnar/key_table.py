"""Find rows by key: a hash table whose entries lead to chains of rows, newest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar._key_table import NONE, NULL_KEY, WIDTH, chain_pairs, first_matches, insert_rows, move_entries
from penstock.columnar.hashing import UInt64s, fixed_words, hash_columns
from penstock.columnar.matching import is_one_to_one
from penstock.model.batch import Batch, Int64s
from penstock.model.masks import Mask

_FEWEST_ENTRIES = 1024


class KeyTable:
    """Finds the rows of a window by some columns.

    A key of one column of fixed width is that value; others are hashes, and whoever builds results compares the columns. Rows
    are put into chains when somebody looks for them, so that rows that leave before cost nothing.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.keys: Int64s = np.empty(0, np.int64)
        self.links: Int64s = np.empty(0, np.int64)
        self.table = _empty_table(_FEWEST_ENTRIES)
        self.stamp = 1
        self._used = self._chained = 0
        self.has_nulls = False

    def insert(self, batch: Batch, start: int) -> Mask | None:
        """Add the rows of a batch, which are the window's rows from `start` on; which of them have no key, None if all have."""
        columns = [batch.column(name) for name in self.columns]
        stop = start + batch.num_rows
        self.keys, self.links = (grown(array, stop, start) for array in (self.keys, self.links))
        self.keys[start:stop] = self._words(columns, batch.num_rows).view(np.int64)
        self.links[start:stop] = NONE
        nulls = [column.is_null().to_numpy(zero_copy_only=False) for column in columns if column.null_count]
        if not nulls:
            return None
        absent: Mask = np.logical_or.reduce(nulls)
        self.has_nulls = True
        self.links[start:stop][absent] = NULL_KEY
        return absent

    @staticmethod
    def _words(columns: Sequence[pa.Array], rows: int) -> UInt64s:
        words = fixed_words(columns[0]) if is_one_to_one(columns) else None
        return hash_columns(columns, rows) if words is None else words

    def keep(self, rows: Int64s) -> None:
        """Forget all other rows; those kept are numbered anew."""
        self.keys = self.keys[rows]
        self.links = np.where(self.links[rows] == NULL_KEY, NULL_KEY, NONE)
        self.has_nulls = bool((self.links == NULL_KEY).any())
        self.stamp += 1
        self._used = self._chained = 0
        if len(self.table) > 16 * max(len(rows), _FEWEST_ENTRIES):
            self.table = _empty_table(_FEWEST_ENTRIES)

    def chain(self, ts: Int64s) -> None:
        """Put all rows into their chains."""
        new = len(ts) - self._chained
        if not new:
            return
        entries = len(self.table)
        while 2 * (self._used + new) > entries:
            entries *= 2
        if entries > len(self.table):
            old, self.table = self.table, _empty_table(entries)
            if self._used:
                move_entries(old, self.stamp, self.table)
        self._used += insert_rows(self.table, self.stamp, self.links, ts, self.keys, self._chained, len(ts))
        self._chained = len(ts)

    def first(self, ts: Int64s, other: KeyTable, rows: Int64s, at: Int64s, before: int, after: int) -> Int64s:
        """For each of some rows of another index one partner within a span of time, -1 where there is none."""
        self.chain(ts)
        found: Int64s = first_matches(self.table, self.stamp, self.links, ts, other.keys, other.links, rows, at, before, after)
        return found

    def rest(self, ts: Int64s, first: Int64s, at: Int64s, before: int) -> tuple[Int64s, Int64s]:
        """All partners of which `first` found one: (number, row) pairs, without looking keys up again."""
        owners, rows = chain_pairs(first, self.links, ts, at, before)
        return owners, rows


def _empty_table(entries: int) -> npt.NDArray[np.int64]:
    """Stamps begin with 1, so that zeros are no entries."""
    return np.zeros((entries, WIDTH), np.int64)


def grown(array: Int64s, needed: int, used: int) -> Int64s:
    """The array, or a longer copy of its used part if it is too short."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), np.int64)
    larger[:used] = array[:used]
    return larger
