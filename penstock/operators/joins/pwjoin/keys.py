"""Join keys as numbers: what a core knows of a key is one integer, equal exactly where keys are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import hash_columns
from penstock.columnar.matching import equal_keys
from penstock.errors import InvalidPlan
from penstock.metadata.ordinals import has_ordinals, interval_pattern, limits, ordinal, ordinals, span, value_at
from penstock.model.batch import Int64s, int64s
from penstock.model.masks import comparable
from penstock.model.scalars import plain
from penstock.model.value_sets import ANY, Pattern, constant, one_of, one_of_array
from penstock.operators.joins.pwjoin._numbering import fill, number_keys
from penstock.operators.joins.pwjoin.trace import GREATEST_KEY, LEAST_KEY
from penstock.operators.segments import SegmentLog

_REMIX = np.uint64(0xD6E8FEB86659FD93)
_MOST_SEGMENTS = 16


class Codes(Protocol):
    """Two ways to number keys."""

    def of(self, columns: Sequence[pa.Array]) -> Int64s:
        """Numbers of keys, none of them NULL."""
        ...

    def singles(self, numbers: Int64s) -> list[tuple[Pattern, ...]]:
        """The keys of some numbers, as few patterns over the key columns."""
        ...


def codes_of(schemas: Sequence[pa.Schema], keys: Sequence[Sequence[str]]) -> OrdinalCodes | BookCodes:
    """The way to number the keys of a join: by their order where they have one, otherwise as they come."""
    kinds = [[schema.field(name).type for name in names] for schema, names in zip(schemas, keys, strict=True)]
    settled = [tuple(comparable(pa.array([], kind)).type for kind in row) for row in kinds]
    if any(len(row) != len(settled[0]) for row in settled):
        raise InvalidPlan("the inputs of a join have different numbers of key columns; name as many for each")
    for at, columns in enumerate(zip(*settled, strict=True)):
        if len(set(columns)) > 1 and not all(pa.types.is_integer(kind) for kind in columns):
            found = ", ".join(str(row[at]) for row in kinds)
            raise InvalidPlan(f"key column {at + 1} has the types {found}; cast them to one type")
    if len(settled[0]) == 1 and all(has_ordinals(row[0]) for row in kinds):
        wide = max((row[0] for row in kinds), key=lambda kind: kind.bit_width)
        return OrdinalCodes(wide)
    common = tuple(columns[0] if len(set(columns)) == 1 else pa.int64() for columns in zip(*settled, strict=True))
    return BookCodes(common)


class OrdinalCodes:
    """A single key column of integers, days, clock times or floats: the number is the place in the order of values.

    Ranges of values are ranges of numbers, and values that are closed in order cost one interval.

    Examples
    --------
    >>> codes = OrdinalCodes(pa.int64())
    >>> codes.of([pa.array([7, 9])]).tolist(), [str(pattern) for pattern, in codes.singles(np.array([7, 9]))]
    ([7, 9], ['{7,9}'])
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def of(self, columns: Sequence[pa.Array]) -> Int64s:
        return ordinals(columns[0])[0]

    def singles(self, numbers: Int64s) -> list[tuple[Pattern, ...]]:
        return [(one_of(value_at(number, self.kind) for number in numbers.tolist()),)] if len(numbers) else []

    def range(self, low: int, high: int) -> Pattern:
        """The values from one number to another; `*` for all numbers."""
        if (low, high) == (LEAST_KEY, GREATEST_KEY):
            return ANY
        least, greatest = limits(self.kind)
        return interval_pattern(max(low, least), min(high, greatest), self.kind)

    def bounds(self, pattern: Pattern) -> tuple[Int64s, Int64s]:
        """First and last numbers that a pattern closes."""
        if pattern.is_wildcard:
            return np.array([LEAST_KEY]), np.array([GREATEST_KEY])
        settled = pattern.normalised(self.kind, True)
        if settled.is_range:
            low, high = span(settled, self.kind)
            if (low, high) == (LEAST_KEY, GREATEST_KEY):
                # All values, but not the end: rows without a key may come.
                return np.array([LEAST_KEY, GREATEST_KEY]), np.array([GREATEST_KEY - 1, GREATEST_KEY])
            return (np.array([low]), np.array([high])) if low <= high else (np.empty(0, np.int64), np.empty(0, np.int64))
        found = [ordinal(value, self.kind) for value in settled.values if value is not None]
        numbers = np.array([number for number in found if number is not None], np.int64)
        return numbers, numbers


class BookCodes:
    """Keys of any types and several columns, numbered as they come; exact, because equal hashes are compared.

    Examples
    --------
    >>> book = BookCodes((pa.string(),))
    >>> book.of([pa.array(["x", "y", "x"])]).tolist(), book.of([pa.array(["y", "z"])]).tolist()
    ([0, 1, 0], [1, 2])
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.kinds = tuple(kinds)
        self._next = 0
        self._numbers: Int64s = np.empty(0, np.int64)
        self._hashes: Int64s = np.empty(0, np.int64)
        self._columns = [pa.array([], kind) for kind in self.kinds]
        self._table: Int64s = np.full(64, -1, np.int64)
        self._log = SegmentLog("keys")
        self._logged = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, columns: Sequence[pa.Array]) -> Int64s:
        settled = [self._settled(column, kind) for column, kind in zip(columns, self.kinds, strict=True)]
        hashes: Int64s = hash_columns(settled, len(settled[0])).view(np.int64).copy()
        places = self._places(hashes, settled)
        rows: Int64s = np.arange(len(places))
        while len(rows := rows[~equal_keys(settled, rows, self._columns, places[rows])]):
            # Another key has this hash: look under a further one.
            hashes[rows] = ((hashes[rows].view(np.uint64) ^ _REMIX) * _REMIX).view(np.int64)
            places[rows] = self._places(hashes[rows], [column.take(pa.array(rows)) for column in settled])
        return self._numbers[places]

    def _settled(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        found = comparable(column)
        return found if found.type == kind else found.cast(kind)

    def _places(self, hashes: Int64s, columns: Sequence[pa.Array]) -> Int64s:
        """Where in the book the keys stand; new ones are written down."""
        known = len(self._hashes)
        self._widen(known + len(hashes))
        all_hashes = np.concatenate([self._hashes, np.zeros(len(hashes), np.int64)])
        places, first = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
        total = number_keys(hashes, self._table, all_hashes, known, places, first)
        if total > known:
            fresh = pa.array(first[: total - known])
            self._hashes = all_hashes[:total]
            self._columns = [pa.concat_arrays([old, new.take(fresh)]) for old, new in zip(self._columns, columns, strict=True)]
            self._numbers = np.concatenate([self._numbers, np.arange(self._next, self._next + total - known)])
            self._next += total - known
        return places

    def _widen(self, keys: int) -> None:
        if 2 * keys > len(self._table):
            self._table = np.full(1 << (2 * keys).bit_length(), -1, np.int64)
            fill(self._table, self._hashes)

    def since(self, number: int) -> tuple[Int64s, list[pa.Array]]:
        """Numbers and keys that were written down from a number on."""
        start = int(np.searchsorted(self._numbers, number))
        return self._numbers[start:], [column.slice(start) for column in self._columns]

    @property
    def next_number(self) -> int:
        return self._next

    def take(self, numbers: Int64s) -> list[pa.Array]:
        places = pa.array(np.searchsorted(self._numbers, numbers))
        return [column.take(places) for column in self._columns]

    def matching(self, patterns: Sequence[Pattern]) -> Int64s:
        """Numbers of the keys that match a pattern per column."""
        mask = np.ones(len(self._numbers), np.bool_)
        for column, pattern in zip(self._columns, patterns, strict=True):
            if not pattern.is_wildcard:
                mask &= pattern.matches_array(column)
        return self._numbers[mask]

    def singles(self, numbers: Int64s) -> list[tuple[Pattern, ...]]:
        columns = self.take(numbers)
        if len(columns) == 1 and len(numbers):
            return [(one_of_array(columns[0]),)]
        # Each combination of several columns is a punctuation of its own, so there is an object for each anyway.
        return [tuple(map(constant, row)) for row in zip(*(map(plain, column.to_pylist()) for column in columns), strict=True)]

    def keep(self, needed: Int64s) -> None:
        """Strike out all keys but some; a struck key that comes again gets another number."""
        places = np.searchsorted(self._numbers, needed)
        self._columns = [column.take(pa.array(places)) for column in self._columns]
        self._numbers, self._hashes = self._numbers[places], self._hashes[places]
        self._table = np.full(max(64, 1 << (2 * len(places)).bit_length()), -1, np.int64)
        fill(self._table, self._hashes)
        self._log.clear()
        self._logged = 0

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Mapping[str, pa.RecordBatch]]:
        if len(self._log) >= _MOST_SEGMENTS:
            self._log.clear()
            self._logged = 0
        if self._logged < len(self._numbers):
            columns = [column.slice(self._logged) for column in self._columns]
            extra = [pa.array(values[self._logged :]) for values in (self._numbers, self._hashes)]
            self._log.add(pa.RecordBatch.from_arrays([*columns, *extra], schema=self._schema()))
            self._logged = len(self._numbers)
        return {"next": self._next, "log": self._log.next}, self._log.stored()

    def _schema(self) -> pa.Schema:
        named = [pa.field(f"key{at}", kind) for at, kind in enumerate(self.kinds)]
        return pa.schema([*named, pa.field("number", pa.int64()), pa.field("hash", pa.int64())])

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        self._next = meta["next"]
        self._log.reload(meta["log"], segments)
        *columns, numbers, hashes = self._log.whole(self._schema()).columns
        self._columns, self._numbers, self._hashes = list(columns), int64s(numbers), int64s(hashes)
        self._logged = len(self._numbers)
        self._table = np.full(max(64, 1 << (2 * self._logged).bit_length()), -1, np.int64)
        fill(self._table, self._hashes)
