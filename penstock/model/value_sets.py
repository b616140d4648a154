"""Sets of values of one attribute, closed under intersection: the patterns of a punctuation.

A pattern is a wildcard, a constant, a range with any kind of bounds, a list, or empty. Constructors return the simplest
form, so equal sets written differently mostly compare equal; what depends on the attribute's type (`(3,4)` holds no
integer) is left to `Pattern.normalised`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.masks import (
    Int64s,
    Mask,
    comparable,
    in_range,
    in_value_set,
    in_values,
    is_natural,
    is_whole,
    representable,
)
from penstock.model.scalars import NAN, decode, encode, family, plain, readable, sort_key, type_family


class Kind(StrEnum):
    """The five forms of a pattern."""

    WILDCARD = "wildcard"
    CONSTANT = "constant"
    RANGE = "range"
    LIST = "list"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A set of values of one attribute; build it with `constant`, `between`, `one_of`, or take `ANY` or `EMPTY`.

    `*` matches NULL, a range never does, a constant or list only when NULL is written in it. NaN follows Spark: equal
    to itself, greater than every number. Clock times are integers of microseconds.

    Parameters
    ----------
    kind
        Which of the five forms.
    lo, hi
        Bounds of a range; None is an infinite end.
    lo_inclusive, hi_inclusive
        Whether the bounds belong to the range; False at an infinite end.
    listed
        Values of a constant or a list, sorted, without duplicates; None where `whole` has them.
    whole
        The same as 64-bit integers, for lists that come from data: they can be long, and no Python object is made of each.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 3.

    Examples
    --------
    >>> print(between(1, 10) & between(5, 20, lo_inclusive=False, hi_inclusive=False))
    (5,10]
    >>> print(one_of([1, 5, 9]) & between(2, 9))
    {5,9}
    >>> print((between(1, 10) & between(5, 20, lo_inclusive=False)).normalised(pa.int64(), nullable=True))
    [6,10]
    """

    kind: Kind
    lo: Any = None
    lo_inclusive: bool = False
    hi: Any = None
    hi_inclusive: bool = False
    listed: tuple[Any, ...] | None = ()
    whole: Int64s | None = None

    @property
    def values(self) -> tuple[Any, ...]:
        """Values of a constant or a list, sorted, without duplicates; none for other forms."""
        if self.listed is None:
            assert self.whole is not None
            object.__setattr__(self, "listed", tuple(self.whole.tolist()))
        return self.listed or ()

    @property
    def numbers(self) -> Int64s | None:
        """The values as ascending 64-bit integers; None where they are something else."""
        if self.whole is None and self.has_values and set(map(type, self.values)) == {int}:
            try:
                object.__setattr__(self, "whole", np.array(self.values, np.int64))
            except OverflowError:
                return None
        return self.whole

    @property
    def num_values(self) -> int:
        """How many values a constant or a list has; none for other forms."""
        return len(self.values) if self.whole is None else len(self.whole)

    @property
    def has_values(self) -> bool:
        """Whether it is a constant or a list."""
        return self.kind is Kind.CONSTANT or self.kind is Kind.LIST

    @property
    def has_null(self) -> bool:
        """Whether NULL is one of its values."""
        return self.whole is None and self.has_values and None in self.values

    def _identity(self) -> tuple[Any, ...]:
        return (self.kind, self.lo, self.lo_inclusive, self.hi, self.hi_inclusive, self.values)

    def __eq__(self, other: object) -> bool:
        # Comparing tuples, not fields, lets the one NaN object equal itself.
        return self._identity() == other._identity() if isinstance(other, Pattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy from another process must hold this process's NaN object.
        return (_rebuild, self._identity())

    @property
    def is_wildcard(self) -> bool:
        return self.kind is Kind.WILDCARD

    @property
    def is_constant(self) -> bool:
        return self.kind is Kind.CONSTANT

    @property
    def is_range(self) -> bool:
        return self.kind is Kind.RANGE

    @property
    def is_empty(self) -> bool:
        return self.kind is Kind.EMPTY

    @property
    def value(self) -> Any:
        """The value of a constant."""
        (only,) = self.values
        return only

    @property
    def family(self) -> str | None:
        """Family of a range's bounds; None when both ends are infinite."""
        bound = self.hi if self.lo is None else self.lo
        return None if bound is None else family(bound)

    def matches(self, value: Any) -> bool:
        """Whether `value` belongs to the set."""
        value = plain(value)
        if self.is_range:
            return self._in_range(value)
        if not self.has_values:
            return self.is_wildcard
        key = sort_key(value)
        position = bisect_left(self.values, key, key=sort_key)
        return position < len(self.values) and sort_key(self.values[position]) == key

    def _in_range(self, value: Any) -> bool:
        if value is None or self.family not in (None, family(value)):
            return False
        key = sort_key(value)
        if self.lo is not None:
            low = sort_key(self.lo)
            if key < low or (key == low and not self.lo_inclusive):
                return False
        if self.hi is not None:
            high = sort_key(self.hi)
            return key < high or (key == high and self.hi_inclusive)
        return True

    def matches_array(self, array: pa.Array | pa.ChunkedArray) -> Mask:
        """Which rows of a column belong to the set."""
        if self.has_values:
            return self._in_values(comparable(array))
        if self.is_range:
            return in_range(array, self.lo, self.lo_inclusive, self.hi, self.hi_inclusive)
        return np.full(len(array), self.is_wildcard, np.bool_)

    def _in_values(self, rows: pa.Array) -> Mask:
        if self.whole is not None and rows.type == pa.int64():
            return in_value_set(rows, pa.array(self.whole))
        return in_values(rows, self.values)

    def __and__(self, other: Pattern) -> Pattern:
        """Values that belong to both sets."""
        if self.is_wildcard or other.is_empty:
            return other
        if other.is_wildcard or self.is_empty:
            return self
        if self.has_values and other.has_values:
            return self._shared(other)
        if self.has_values:
            return self._within(other)
        if other.has_values:
            return other._within(self)
        return self._meet(other)

    def _shared(self, other: Pattern) -> Pattern:
        """Intersection of two lists."""
        if self.whole is not None and other.whole is not None:
            both = np.intersect1d(self.whole, other.whole, assume_unique=True)
            return self if len(both) == len(self.whole) else one_of_sorted(both)
        shared = set(self.values).intersection(other.values)
        return self if len(shared) == len(self.values) else one_of(shared)

    def _within(self, span: Pattern) -> Pattern:
        """Intersection of a list and a range."""
        if self.whole is not None:
            return one_of_sorted(self.whole[span.matches_array(pa.array(self.whole))])
        return one_of(filter(span._in_range, self.values))

    def _meet(self, other: Pattern) -> Pattern:
        """Intersection of two ranges: of each pair of bounds the stricter."""
        if None not in (self.family, other.family) and self.family != other.family:
            return EMPTY
        low, high = max(self, other, key=_low_key), min(self, other, key=_high_key)
        return between(low.lo, high.hi, low.lo_inclusive, high.hi_inclusive)

    def issubset(self, other: Pattern) -> bool:
        """Whether `other` holds every value of this set.

        Without the attribute's type a range is never found inside a list, even if it holds only listed integers.
        """
        if self.is_empty or other.is_wildcard:
            return True
        if self.is_wildcard or other.is_empty:
            return False
        if self.has_values:
            return self & other == self
        return other.is_range and self._meet(other) == self

    def joined(self, other: Pattern) -> Pattern | None:
        """The one range that holds what two ranges hold, or None when a gap lies between them.

        Examples
        --------
        >>> print(between(1, 3, hi_inclusive=False).joined(between(3, 5)))
        [1,5]
        """
        if None not in (self.family, other.family) and self.family != other.family:
            return None
        first, second = sorted((self, other), key=_low_key)
        if first.hi is not None and second.lo is not None:
            end, start = sort_key(first.hi), sort_key(second.lo)
            if start > end or (start == end and not (first.hi_inclusive or second.lo_inclusive)):
                return None
        last = max(first, second, key=_high_key)
        return between(first.lo, last.hi, first.lo_inclusive, last.hi_inclusive)

    def normalised(self, kind: pa.DataType, nullable: bool = True) -> Pattern:
        """The simplest pattern with the same values among those an attribute of this type can take."""
        if self.has_values:
            return self._normalised_values(kind, nullable)
        if not self.is_range:
            return self
        known = type_family(kind)
        if None not in (known, self.family) and known != self.family:
            return EMPTY
        if pa.types.is_boolean(kind):
            return one_of(filter(self._in_range, (False, True)))
        if is_whole(kind) or pa.types.is_date(kind):
            closed = _closed_dates(self) if pa.types.is_date(kind) else _closed_integers(self)
        else:
            closed = _without_extreme_bounds(self) if known == "number" else self
        return ANY if closed == _EVERY_VALUE and not nullable else closed

    def _normalised_values(self, kind: pa.DataType, nullable: bool) -> Pattern:
        if (self.whole is not None and is_whole(kind)) or is_natural(self.values, kind):
            return self
        null = [None] if nullable and None in self.values else []
        return one_of(null + representable(self.values, kind))

    def to_json(self) -> Any:
        """A JSON value `from_json` turns back without loss."""
        if self.is_range:
            bounds = ("[" if self.lo_inclusive else "(") + ("]" if self.hi_inclusive else ")")
            return {"range": [encode(self.lo), encode(self.hi)], "bounds": bounds}
        if self.whole is not None:
            return {"in": self.whole.tolist()}
        return {"in": [encode(value) for value in self.values]} if self.has_values or self.is_empty else "*"

    @classmethod
    def from_json(cls, coded: Any) -> Pattern:
        """Inverse of `to_json`."""
        if coded == "*":
            return ANY
        if "in" in coded:
            numbers = _whole(coded["in"])
            return one_of(map(decode, coded["in"])) if numbers is None else one_of_sorted(numbers)
        lo, hi = map(decode, coded["range"])
        return between(lo, hi, coded["bounds"][0] == "[", coded["bounds"][1] == "]")

    def __str__(self) -> str:
        if self.is_range:
            low = "-∞" if self.lo is None else readable(self.lo)
            high = "∞" if self.hi is None else readable(self.hi)
            return f"{'[' if self.lo_inclusive else '('}{low},{high}{']' if self.hi_inclusive else ')'}"
        if self.is_constant:
            return readable(self.value)
        if self.has_values:
            return "{" + ",".join(map(readable, self.values)) + "}"
        return "*" if self.is_wildcard else "∅"


#: Matches every value, NULL included.
ANY = Pattern(Kind.WILDCARD)
#: Matches nothing.
EMPTY = Pattern(Kind.EMPTY)
_EVERY_VALUE = Pattern(Kind.RANGE)
#: Lists of integers from this length on are worth an array.
_LONG = 16


def constant(value: Any) -> Pattern:
    """The set of one value; NULL is a value here."""
    return Pattern(Kind.CONSTANT, listed=(plain(value),))


def between(lo: Any = None, hi: Any = None, lo_inclusive: bool = True, hi_inclusive: bool = True) -> Pattern:
    """The values from `lo` to `hi`; None is an infinite end.

    Examples
    --------
    >>> print(between(3, 3), between(3, 3, lo_inclusive=False), between(None, 5, hi_inclusive=False))
    3 ∅ (-∞,5)
    """
    lo, hi = plain(lo), plain(hi)
    if lo is not None and hi is not None:
        low, high = sort_key(lo), sort_key(hi)
        if low[0] != high[0] or low > high:
            return EMPTY
        if low == high:
            return constant(lo) if lo_inclusive and hi_inclusive else EMPTY
    return Pattern(Kind.RANGE, lo, lo_inclusive and lo is not None, hi, hi_inclusive and hi is not None)


def one_of(values: Iterable[Any]) -> Pattern:
    """The listed values; `EMPTY` for none, a constant for one.

    Examples
    --------
    >>> print(one_of([5, 1, 5]), one_of([4]), one_of([]))
    {1,5} 4 ∅
    """
    distinct = set(map(plain, values))
    # Values of one ordered type need no key each: lists derived from data can be long.
    ordered = distinct if set(map(type, distinct)) in ({int}, {str}) else None
    return _listed(tuple(sorted(distinct, key=sort_key) if ordered is None else sorted(ordered)))


def one_of_array(array: pa.Array | pa.ChunkedArray) -> Pattern:
    """The list of the values of a column, NULL left out; no Python code per row."""
    known = comparable(array).drop_null()
    if pa.types.is_integer(known.type) and not pa.types.is_uint64(known.type):
        return one_of_sorted(np.unique(known.cast(pa.int64()).to_numpy()))
    distinct = pc.unique(known)
    ordered = distinct.take(pc.sort_indices(distinct))
    if not pa.types.is_integer(ordered.type) and not pa.types.is_floating(ordered.type):
        return _listed(tuple(ordered.to_pylist()))
    values = ordered.to_numpy().tolist()
    if values and values[-1] != values[-1]:
        values[-1] = NAN  # Arrow sorts NaN last, too
    return _listed(tuple(values))


def one_of_sorted(numbers: Int64s) -> Pattern:
    """The list of these integers, which ascend without duplicates; the array must not be changed afterwards.

    Examples
    --------
    >>> print(one_of_sorted(np.array([3, 5])))
    {3,5}
    """
    if not len(numbers):
        return EMPTY
    return Pattern(Kind.LIST if len(numbers) > 1 else Kind.CONSTANT, listed=None, whole=numbers)


def _whole(values: list[Any]) -> Int64s | None:
    """A long list of integers as an array; None for anything else."""
    if len(values) < _LONG or set(map(type, values)) != {int}:
        return None
    try:
        return np.unique(np.array(values, np.int64))
    except OverflowError:
        return None


def _listed(values: tuple[Any, ...]) -> Pattern:
    if not values:
        return EMPTY
    return Pattern(Kind.LIST if len(values) > 1 else Kind.CONSTANT, listed=values)


def _rebuild(kind: Kind, lo: Any, lo_inclusive: bool, hi: Any, hi_inclusive: bool, values: tuple[Any, ...]) -> Pattern:
    return Pattern(kind, plain(lo), lo_inclusive, plain(hi), hi_inclusive, tuple(map(plain, values)))


def _low_key(pattern: Pattern) -> tuple[Any, ...]:
    # An exclusive bound starts after the inclusive one at the same value.
    return (0,) if pattern.lo is None else (1, sort_key(pattern.lo), not pattern.lo_inclusive)


def _high_key(pattern: Pattern) -> tuple[Any, ...]:
    return (1,) if pattern.hi is None else (0, sort_key(pattern.hi), pattern.hi_inclusive)


def _closed_integers(pattern: Pattern) -> Pattern:
    """The same integers with inclusive bounds."""
    lo, hi = pattern.lo, pattern.hi
    if lo is NAN or lo == math.inf or hi == -math.inf:
        return EMPTY
    if lo is not None and lo != -math.inf:
        lo = math.ceil(lo) + (not pattern.lo_inclusive and lo == math.ceil(lo))
    if hi is not None and hi is not NAN and hi != math.inf:
        hi = math.floor(hi) - (not pattern.hi_inclusive and hi == math.floor(hi))
    return between(None if lo == -math.inf else lo, None if hi is NAN or hi == math.inf else hi)


def _closed_dates(pattern: Pattern) -> Pattern:
    """The same days with inclusive bounds."""
    lo, hi, day = pattern.lo, pattern.hi, timedelta(days=1)
    if (lo == date.max and not pattern.lo_inclusive) or (hi == date.min and not pattern.hi_inclusive):
        return EMPTY
    if lo is not None and not pattern.lo_inclusive:
        lo += day
    if hi is not None and not pattern.hi_inclusive:
        hi -= day
    return between(lo, hi)


def _without_extreme_bounds(pattern: Pattern) -> Pattern:
    """The same numbers, with an infinite end where no number lies beyond: -inf is the least one, NaN the greatest."""
    low, high = (-math.inf if pattern.lo is None else pattern.lo), (NAN if pattern.hi is None else pattern.hi)
    lo_inclusive, hi_inclusive = pattern.lo_inclusive or pattern.lo is None, pattern.hi_inclusive or pattern.hi is None
    bounded = between(low, high, lo_inclusive, hi_inclusive)
    if not bounded.is_range:
        return bounded
    lo = None if low == -math.inf and lo_inclusive else low
    return between(lo, None if high is NAN and hi_inclusive else high, lo_inclusive, hi_inclusive)
