"""Distinct join keys under dense numbers, exact: what the compiled loops know of a key is its number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import fixed_words, hash_columns
from penstock.columnar.matching import equal_keys, is_one_to_one
from penstock.model.batch import Int64s
from penstock.model.masks import Mask, comparable
from penstock.model.value_sets import Pattern
from penstock.operators.joins.pjoin import _loops, layout

#: Keys nobody needs are looked for after a doubling and so many more.
_SPARE = 4096
_REMIX = np.uint64(0xD6E8FEB86659FD93)


def common_kind(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which keys of two inputs are compared."""
    kinds = [comparable(pa.array([], kind)).type for kind in (left, right)]
    if kinds[0] != kinds[1] and all(pa.types.is_integer(kind) for kind in kinds):
        return pa.int64()
    return kinds[0]


class KeyTable:
    """Numbers of keys, and per key a record for the compiled loops.

    A hash finds the number; where the hash cannot prove equality the columns are compared, and keys that share a hash get
    another one. So everything behind this table is exact without looking at a key again.

    Parameters
    ----------
    kinds
        Types of the key columns.
    buckets
        Hash buckets of the join.

    Examples
    --------
    >>> table = KeyTable([pa.string()], buckets=4)
    >>> table.intern([pa.array(["x", "y", "x"])])
    (array([0, 1, 0]), 0)
    >>> table.intern([pa.array(["y", "z"])])
    (array([1, 2]), 2)
    """

    def __init__(self, kinds: Sequence[pa.DataType], buckets: int) -> None:
        self.kinds = tuple(kinds)
        self.buckets = buckets
        self.number = 0
        self._settled_number = 0
        self.records = layout.empty_keys(1024)
        self._codes: Int64s = np.empty(1024, np.int64)
        self._table: Int64s = np.full(4096, -1, np.int64)
        self._chunks: list[list[pa.Array]] = [[] for _ in self.kinds]
        self._is_exact = is_one_to_one([pa.array([], kind) for kind in self.kinds])

    def intern(self, columns: Sequence[pa.Array]) -> tuple[Int64s, int]:
        """The number of each row's key, and the first number that is new."""
        settled = [self._settled(column, kind) for column, kind in zip(columns, self.kinds, strict=True)]
        start = self.number
        codes: Int64s = hash_columns(settled, len(settled[0])).view(np.int64)
        kids = self._numbered(codes, settled)
        if not self._is_exact:
            self._part_collisions(codes, kids, settled)
        return kids, start

    def _settled(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        found = comparable(column)
        return found if found.type == kind else found.cast(kind)

    def _numbered(self, codes: Int64s, columns: Sequence[pa.Array]) -> Int64s:
        self._reserve(len(codes))
        kids, first = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
        start = self.number
        self.number = _loops.intern(codes, self._table, self._codes, start, kids, first)
        if self.number > start:
            chosen = pa.array(first[: self.number - start])
            fresh = [column.take(chosen) for column in columns]
            for chunks, column in zip(self._chunks, fresh, strict=True):
                chunks.append(column)
            words = fixed_words(fresh[0]) if self._is_exact else self._codes[start : self.number].view(np.uint64)
            assert words is not None
            _loops.fresh_keys(self.records, words, start, self.buckets)
        return kids

    def _part_collisions(self, codes: Int64s, kids: Int64s, columns: Sequence[pa.Array]) -> None:
        """Rows whose number belongs to another key of the same hash get a number under a further hash."""
        rows: Int64s = np.arange(len(kids))
        while len(rows := rows[~equal_keys(columns, rows, self.columns, kids[rows])]):
            codes = codes.copy()
            codes[rows] = ((codes[rows].view(np.uint64) ^ _REMIX) * _REMIX).view(np.int64)
            part = pa.array(rows)
            kids[rows] = self._numbered(codes[rows], [column.take(part) for column in columns])

    @property
    def columns(self) -> list[pa.Array]:
        """Key columns; row k is the key of number k."""
        for at, chunks in enumerate(self._chunks):
            if len(chunks) != 1:
                self._chunks[at] = [pa.concat_arrays(chunks) if chunks else pa.array([], self.kinds[at])]
        return [chunks[0] for chunks in self._chunks]

    def slice(self, start: int) -> list[pa.Array]:
        """The keys from a number on."""
        return [column.slice(start) for column in self.columns]

    def take(self, kids: Int64s) -> list[pa.Array]:
        chosen = pa.array(kids)
        return [column.take(chosen) for column in self.columns]

    def matching(self, patterns: Sequence[Pattern]) -> Mask:
        """Which keys match a pattern per column."""
        mask = np.ones(self.number, np.bool_)
        for column, pattern in zip(self.columns, patterns, strict=True):
            if not pattern.is_wildcard:
                mask &= pattern.matches_array(column)
        return mask

    def is_stored(self) -> Mask:
        """Which keys have a stored tuple."""
        stored: Mask = (self.records.chain[:, : self.number] >= 0).any(axis=0)
        return stored

    def _reserve(self, rows: int) -> None:
        needed = self.number + rows
        if needed > len(self._codes):
            size = max(needed, 2 * len(self._codes))
            more = layout.empty_keys(size - len(self._codes))
            self.records = layout.Keys(*(np.concatenate(both, axis=-1) for both in zip(self.records, more, strict=True)))
            self._codes = np.concatenate([self._codes, np.empty(size - len(self._codes), np.int64)])
        if 2 * needed > len(self._table):
            self._table = np.full(1 << (2 * needed).bit_length(), -1, np.int64)
            _loops.fill_table(self._table, self._codes, self.number)

    def settle(self) -> Int64s | None:
        """Remove keys that no tuple and no pending punctuation has, when they are many; returns old number to new."""
        if self.number <= 2 * self._settled_number + _SPARE:
            return None
        needed = (self.records.pending[: self.number] > 0) | self.is_stored()
        kept = np.flatnonzero(needed)
        self._settled_number = len(kept)
        if 2 * len(kept) > self.number:
            return None
        renumbered = np.cumsum(needed) - 1
        columns = self.take(kept)
        self._chunks = [[column] for column in columns]
        self._codes[: len(kept)] = self._codes[kept]
        for field in self.records:
            field[..., : len(kept)] = field[..., kept]
        self.number = len(kept)
        self._table[:] = -1
        _loops.fill_table(self._table, self._codes, self.number)
        return renumbered
