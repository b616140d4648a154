"""Arithmetic on Arrow columns with Spark's results, NULL where Spark in ANSI mode would raise."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: An Arrow array or scalar; scalars stand for a constant in every row.
Datum: TypeAlias = Any
Mask: TypeAlias = npt.NDArray[np.bool_]

_LONG = np.iinfo(np.int64)
#: Doubles from here on have no fractional half: rounding by scaling would lose digits.
_SCALABLE = 2.0**49
#: Sixteen digits before the point and fifteen behind it are more than decimals usually have.
_LONG_DECIMALS = Context(prec=40)


def values(datum: Datum) -> npt.NDArray[Any]:
    """The numbers of a column, with 1, which disturbs no operation, where it is NULL; a scalar gives one number."""
    if isinstance(datum, pa.Scalar):
        return np.asarray(1 if not datum.is_valid else datum.as_py(), datum.type.to_pandas_dtype())
    filled = datum.fill_null(1) if datum.null_count else datum
    result: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return result


def nulls(datum: Datum) -> Mask | np.bool_:
    """Where a column is NULL; one truth value for a scalar."""
    if isinstance(datum, pa.Scalar):
        return np.bool_(not datum.is_valid)
    if not datum.null_count:
        return np.bool_(False)
    result: Mask = datum.is_null().to_numpy(zero_copy_only=False)
    return result


def column(numbers: npt.NDArray[Any], missing: Mask | np.bool_, kind: pa.DataType) -> Datum:
    """The Arrow column of `numbers` with NULL where `missing`; a scalar when the numbers are one."""
    if numbers.ndim == 0:
        return pa.scalar(None if missing else numbers.item(), kind)
    mask = np.broadcast_to(missing, numbers.shape)
    return pa.array(numbers, kind, mask=mask if mask.any() else None)


def checked(name: str) -> Callable[[Datum, Datum], Datum]:
    """Addition, subtraction or multiplication of integers, NULL on overflow.

    Overflow is rare: the whole column is first tried in one checked pass, and only one that fails is looked at again.
    """
    fast = getattr(pc, f"{name}_checked")

    def apply(one: Datum, other: Datum) -> Datum:
        try:
            return fast(one, other)
        except pa.ArrowInvalid:
            return _with_overflow_as_null(name, one, other)

    return apply


def _with_overflow_as_null(name: str, one: Datum, other: Datum) -> Datum:
    a, b = values(one).astype(np.int64), values(other).astype(np.int64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        result = np.asarray(getattr(np, name)(a, b))
        limits = np.iinfo(one.type.to_pandas_dtype())
        if limits.bits < 64:
            overflown = (result < limits.min) | (result > limits.max)
        elif name == "multiply":
            # Wrapped products do not divide back, except the one whose quotient overflows too.
            divisor = np.where(b == 0, 1, b)
            overflown = (b != 0) & ((result // divisor != a) | ((b == -1) & (a == _LONG.min)))
        else:
            sign = b if name == "add" else ~b
            overflown = ((a ^ result) & (sign ^ result)) < 0
    kept = np.where(overflown, 0, result)
    return column(kept, nulls(one) | nulls(other) | overflown, one.type)


def negate(value: Datum) -> Datum:
    try:
        return pc.negate_checked(value)
    except pa.ArrowInvalid:
        return _with_overflow_as_null("subtract", pa.scalar(0, value.type), value)


def absolute(value: Datum) -> Datum:
    try:
        return pc.abs_checked(value)
    except pa.ArrowInvalid:
        smallest = np.iinfo(value.type.to_pandas_dtype()).min
        return pc.abs(without(value, pc.equal(value, pa.scalar(smallest, value.type))))


def without(value: Datum, refused: Datum) -> Datum:
    """The column with NULL where `refused` is true."""
    return pc.if_else(pc.fill_null(refused, False), pa.scalar(None, value.type), value)


def divide(one: Datum, other: Datum) -> Datum:
    """Quotient of doubles, NULL for division by zero of either sign."""
    return without(pc.divide(one, other), pc.equal(other, pa.scalar(0.0)))


def integral_divide(one: Datum, other: Datum) -> Datum:
    """Quotient of bigints, cut towards zero."""
    a, b = values(one), values(other)
    refused = (b == 0) | ((a == _LONG.min) & (b == -1))
    divisor = np.where(refused, 1, b)
    # NumPy rounds down; what is left over tells where that is not towards zero.
    floor, rest = np.divmod(a, divisor)
    quotient = np.asarray(floor + ((rest != 0) & ((a < 0) != (divisor < 0))))
    return column(quotient, nulls(one) | nulls(other) | refused, pa.int64())


def remainder(one: Datum, other: Datum) -> Datum:
    """Remainder with the sign of the dividend, NULL for division by zero."""
    a, b = values(one), values(other)
    refused = b == 0
    with np.errstate(invalid="ignore"):
        result = np.asarray(np.fmod(a, np.where(refused, np.ones_like(b), b)))
    return column(result, nulls(one) | nulls(other) | refused, one.type)


def power(one: Datum, other: Datum) -> Datum:
    numbers = np.broadcast_arrays(values(one), values(other))
    # Written out: for one exponent of a half NumPy takes the square root, which has other signs and no infinity.
    a, b = (np.ascontiguousarray(each) for each in numbers)
    with np.errstate(all="ignore"):
        result = np.power(a, b)
    # C says that 1 to any power is 1; Java, and so Spark, says NaN for powers that are no finite number.
    result = np.where((np.abs(a) == 1) & ~np.isfinite(b), np.nan, result).reshape(numbers[0].shape)
    return column(result, nulls(one) | nulls(other), pa.float64())


def to_integral(direction: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """`floor` or `ceil` as a bigint: NaN gives 0, as in Spark, and what does not fit NULL."""

    def apply(value: Datum) -> Datum:
        if value.type == pa.int64():
            return value
        whole = values(direction(value))
        # As a double the largest bigint is 2^63, which is one too large.
        overflown = (whole < float(_LONG.min)) | (whole >= float(_LONG.max))
        return column(saturated(whole, np.int64), nulls(value) | overflown, pa.int64())

    return apply


def saturated(numbers: npt.NDArray[Any], target: type[np.integer[Any]]) -> npt.NDArray[Any]:
    """Floats cut to integers the way Java does: NaN becomes 0, what is too large the largest integer."""
    limits = np.iinfo(target)
    known = np.where(np.isnan(numbers), 0.0, numbers.astype(np.float64))
    # The upper limit of bigint is no double; the next double is one too large and must not be converted.
    above, below = known >= float(limits.max), known <= float(limits.min)
    result = np.where(above | below, 0.0, known).astype(target)
    return np.asarray(np.where(above, limits.max, np.where(below, limits.min, result)), target)


def rounded(digits: int) -> Callable[[Datum], Datum]:
    """Round half away from zero in the decimal digits a number is written with: 2.675 becomes 2.68, as in Spark.

    A number is a tie exactly when the decimal half between two candidates reads back as this very double, so comparing
    with that double decides every case without going through text. Only numbers with too many digits for this take the
    slow way.
    """
    scale = 10.0**digits

    def apply(value: Datum) -> Datum:
        if pa.types.is_integer(value.type):
            return value
        exact = values(value).astype(np.float64)
        size = np.abs(exact)
        with np.errstate(invalid="ignore", over="ignore"):
            lower = np.rint(size * scale - 0.5)
            up = size >= (lower + 0.5) / scale
            # Decimals, in which Spark rounds, have no negative zero.
            result = np.copysign((lower + up) / scale, exact) + 0.0
            whole = ~np.isfinite(exact) | (size >= 2.0**53)
            result = np.where(whole, exact, result)
            slow = ~whole & (size * scale >= _SCALABLE)
        if slow.any():
            result = _rounded_slowly(exact, result, slow, digits)
        return column(np.asarray(result), nulls(value), value.type)

    return apply


def _rounded_slowly(exact: npt.NDArray[Any], result: npt.NDArray[Any], slow: Any, digits: int) -> npt.NDArray[Any]:
    unit = Decimal(1).scaleb(-digits)
    replaced = np.array(result, ndmin=1)
    for position in np.flatnonzero(np.atleast_1d(slow)):
        number = Decimal(repr(float(np.atleast_1d(exact)[position])))
        replaced[position] = float(number.quantize(unit, ROUND_HALF_UP, _LONG_DECIMALS))
    return replaced.reshape(np.shape(result))
