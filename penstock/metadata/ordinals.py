"""Values of ordered types as 64-bit integers, so that every closed set of them is a set of integer intervals.

Integers, days and microseconds are their own ordinals. Floats are numbered in their order, NaN last: between two
neighbouring floats lies nothing, so an open bound becomes a closed one at the next ordinal.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.masks import Mask, booleans, comparable, exact, is_whole
from penstock.model.scalars import NAN, plain
from penstock.model.value_sets import Pattern, between

Int64s = npt.NDArray[np.int64]

_FIRST_DAY = date(1970, 1, 1).toordinal()
_ALL_BUT_SIGN = np.int64(2**63 - 1)
_INFINITY = int(np.float64("inf").view(np.int64))


def has_ordinals(kind: pa.DataType | None) -> bool:
    """Whether values of the type can be numbered by 64-bit integers."""
    if kind is None:
        return False
    whole = is_whole(kind) and not pa.types.is_uint64(kind)
    return bool(whole or pa.types.is_floating(kind) or pa.types.is_date(kind))


def limits(kind: pa.DataType) -> tuple[int, int]:
    """Ordinals of the least and the greatest value of the type; the ends of a range that is infinite there."""
    if pa.types.is_floating(kind):
        return -_INFINITY, _INFINITY + 1
    integers = np.iinfo(kind.to_pandas_dtype() if pa.types.is_integer(kind) else np.int64)
    return int(integers.min), int(integers.max)


def ordinals(array: pa.Array) -> tuple[Int64s, Mask]:
    """Ordinals of a column and which rows are not NULL; a NULL row's ordinal has no meaning."""
    rows = comparable(array)
    valid = booleans(rows.is_valid()) if rows.null_count else np.ones(len(rows), np.bool_)
    if pa.types.is_int64(rows.type) and not rows.null_count:
        return rows.to_numpy(), valid
    if pa.types.is_floating(rows.type):
        return float_ordinals(rows.fill_null(0.0).to_numpy()), valid
    numbers = rows.view(pa.int32()) if pa.types.is_date(rows.type) else rows
    result: Int64s = numbers.cast(pa.int64()).fill_null(0).to_numpy()
    return result, valid


def float_ordinals(values: npt.NDArray[np.float64]) -> Int64s:
    """Number floats in their order, without gaps; -0.0 and 0.0 share a number.

    Examples
    --------
    >>> float_ordinals(np.array([-5e-324, -0.0, 0.0, 5e-324])).tolist()
    [-1, 0, 0, 1]
    """
    bits = values.view(np.int64)
    numbered = np.where(bits < 0, (bits ^ _ALL_BUT_SIGN) + 1, bits)
    return np.where(np.isnan(values), _INFINITY + 1, numbered)


def ordinal(value: Any, kind: pa.DataType) -> int | None:
    """Ordinal of one value; None when an attribute of this type cannot take it."""
    fitting = representable_or_none(plain(value), kind)
    if fitting is None:
        return None
    if pa.types.is_date(kind):
        return int(fitting.toordinal()) - _FIRST_DAY
    if pa.types.is_floating(kind):
        return int(float_ordinals(np.array([fitting]))[0])
    return int(fitting)


def representable_or_none(value: Any, kind: pa.DataType) -> Any:
    """The value in the type's Python form, or None."""
    if value is None:
        return None
    fitting = exact(value, kind)
    return fitting if isinstance(fitting, int | float | date) else None


def value_at(number: int, kind: pa.DataType) -> Any:
    """The value with this ordinal."""
    if pa.types.is_date(kind):
        return date.fromordinal(number + _FIRST_DAY)
    if not pa.types.is_floating(kind):
        return number
    if number > _INFINITY:
        return NAN
    bits = np.int64(number) if number >= 0 else np.int64(number - 1) ^ _ALL_BUT_SIGN
    return float(bits.view(np.float64)) + 0.0


def span(pattern: Pattern, kind: pa.DataType) -> tuple[int, int]:
    """First and last ordinal of a range that is normalised for the type; first > last when it holds nothing."""
    least, greatest = limits(kind)
    low = least if pattern.lo is None else max(_start(pattern, kind), least)
    return low, greatest if pattern.hi is None else min(_end(pattern, kind), greatest)


def _start(pattern: Pattern, kind: pa.DataType) -> int:
    if not pa.types.is_floating(kind):
        return int(pattern.lo.toordinal()) - _FIRST_DAY if pa.types.is_date(kind) else int(pattern.lo)
    near, side = _nearest(pattern.lo)
    return near + (side < 0 or (side == 0 and not pattern.lo_inclusive))


def _end(pattern: Pattern, kind: pa.DataType) -> int:
    if not pa.types.is_floating(kind):
        return int(pattern.hi.toordinal()) - _FIRST_DAY if pa.types.is_date(kind) else int(pattern.hi)
    near, side = _nearest(pattern.hi)
    return near - (side > 0 or (side == 0 and not pattern.hi_inclusive))


def _nearest(bound: Any) -> tuple[int, int]:
    """Ordinal of a float next to the bound, and whether that float lies below (-1), at (0) or above (1) it."""
    try:
        near = float(bound)
    except OverflowError:
        near = float("inf") if bound > 0 else float("-inf")
    number = int(float_ordinals(np.array([near]))[0])
    return number, 0 if bound is NAN else int(near > bound) - int(near < bound)


def interval_pattern(low: int, high: int, kind: pa.DataType) -> Pattern:
    """The range of values from one ordinal to another."""
    least, greatest = limits(kind)
    lo = None if low == least else value_at(low, kind)
    return between(lo, None if high == greatest else value_at(high, kind))
