"""Which elements of an Arrow array a set of values or a range matches: the vectorised half of patterns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.scalars import NAN, family, type_family

Mask = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

#: The Python type that holds values of an Arrow type; a list of nothing else needs no check of each value.
_NATURAL: dict[str, type] = {"text": str, "bytes": bytes, "date": date}
_MISSING = object()


def comparable(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The array in the form patterns compare with: microseconds, days, 64-bit floats without -0.0, no dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_dictionary(kind):
        return comparable(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", tz=kind.tz), safe=False).view(pa.int64())
    if pa.types.is_date64(kind):
        return array.cast(pa.date32())
    # Arrow hashes -0.0 and 0.0 to different buckets; adding zero makes them one.
    return pc.add(array.cast(pa.float64()), 0.0) if pa.types.is_floating(kind) else array


def in_values(array: pa.Array, values: tuple[Any, ...]) -> Mask:
    """Rows whose value is one of `values`; NULL rows only when NULL is listed."""
    rows = comparable(array)
    mask = in_value_set(rows, value_set(values, rows.type))
    if None in values:
        mask |= booleans(rows.is_null())
    return mask


def in_value_set(rows: pa.Array, prepared: pa.Array) -> Mask:
    """Rows of a comparable column whose value is in a prepared set of the same type; NULL rows are not."""
    return booleans(pc.is_in(rows, prepared, skip_nulls=True))


def value_set(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """The values that the comparable type `kind` can hold, NULL left out, as an Arrow array."""
    if set(map(type, values)) == {_natural(kind)}:
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, OverflowError):
            pass  # some value is too large for the type: look at each one
    return pa.array(representable(values, kind), kind)


def representable(values: Iterable[Any], kind: pa.DataType) -> list[Any]:
    """The values an attribute of type `kind` can take, in that type's Python form."""
    found = (exact(value, kind) for value in values if value is not None)
    return [value for value in found if value is not _MISSING]


def exact(value: Any, kind: pa.DataType) -> Any:
    """`value` as a value of type `kind`, or a marker when no such value is equal to it."""
    expected = type_family(kind)
    if expected is not None and expected != family(value):
        return _MISSING
    if is_whole(kind):
        return _exact_integer(value, kind)
    if pa.types.is_floating(kind):
        return _exact_float(value)
    if pa.types.is_boolean(kind):
        return bool(value) if value in (0, 1) else _MISSING
    return _exact_decimal(value, kind) if pa.types.is_decimal(kind) else value


def is_whole(kind: pa.DataType) -> bool:
    """Whether values are integers: integer types, and timestamps, which patterns hold as microseconds."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _natural(kind: pa.DataType) -> type | None:
    if is_whole(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    return _NATURAL.get(type_family(kind) or "")


def is_natural(values: tuple[Any, ...], kind: pa.DataType) -> bool:
    """Whether all values already have the Python type of attribute type `kind`."""
    return set(map(type, values)) == {_natural(kind)}


def _exact_integer(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, int) and (not np.isfinite(float(value)) or value != int(value)):
        return _MISSING
    limits = np.iinfo(kind.to_pandas_dtype() if pa.types.is_integer(kind) else np.int64)
    whole = int(value)
    return whole if limits.min <= whole <= limits.max else _MISSING


def _exact_float(value: Any) -> Any:
    if value is NAN:
        return value
    try:
        near = float(value)
    except OverflowError:
        return _MISSING
    return near if near == value else _MISSING


def _exact_decimal(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(Decimal(value), kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _MISSING


def in_range(array: pa.Array, lo: Any, lo_inclusive: bool, hi: Any, hi_inclusive: bool) -> Mask:
    """Rows between two bounds of one family; None is an infinite end, NULL rows never match."""
    rows = comparable(array)
    valid = booleans(rows.is_valid())
    known = type_family(rows.type)
    if any(bound is not None and known not in (None, family(bound)) for bound in (lo, hi)):
        return np.zeros(len(rows), np.bool_)
    if lo is not None:
        valid &= _above(rows, lo, lo_inclusive)
    if hi is not None:
        valid &= ~_above(rows, hi, not hi_inclusive)
    return valid


def _above(rows: pa.Array, bound: Any, inclusive: bool) -> Mask:
    """Rows at or above a bound; what a NULL row gets is of no meaning."""
    kind = rows.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _integers_above(rows, bound, inclusive)
    if pa.types.is_floating(kind):
        return _floats_above(rows.fill_null(0.0).to_numpy(zero_copy_only=False), bound, inclusive)
    if pa.types.is_decimal(kind):
        if not np.isfinite(float(bound)):
            return np.full(len(rows), bound == float("-inf"), np.bool_)
        bound = Decimal(bound)
    compare = pc.greater_equal if inclusive else pc.greater
    return booleans(compare(rows, pa.scalar(bound)).fill_null(False))


def _integers_above(rows: pa.Array, bound: Any, inclusive: bool) -> Mask:
    values = (rows.cast(pa.uint8()) if pa.types.is_boolean(rows.type) else rows).fill_null(0).to_numpy()
    limits = np.iinfo(values.dtype)
    # Python compares integers with floats exactly, NumPy does not: bring the bound to an integer first.
    if bound is NAN or bound > limits.max:
        return np.zeros(len(values), np.bool_)
    if bound < limits.min:
        return np.ones(len(values), np.bool_)
    floor = math.floor(bound)
    at_least = inclusive and floor == bound
    above: Mask = values >= floor if at_least else values > floor
    return above


def _floats_above(values: npt.NDArray[np.float64], bound: Any, inclusive: bool) -> Mask:
    if bound is NAN:
        return np.isnan(values) if inclusive else np.zeros(len(values), np.bool_)
    try:
        near = float(bound)
    except OverflowError:
        near = float("inf") if bound > 0 else float("-inf")
    # When the bound lies between two floats, its neighbour decides: a larger one is in the range, a smaller one is not.
    at_least = inclusive if near == bound else near > bound
    # NaN is not smaller than anything, so the negation counts it as greater than every number.
    above: Mask = ~(values < near) if at_least else ~(values <= near)
    return above


def booleans(array: pa.Array) -> Mask:
    """A Boolean array without NULL as a NumPy mask that may be written to."""
    mask: Mask = np.array(array.to_numpy(zero_copy_only=False), np.bool_)
    return mask
