"""Functions that conditions across events may use, for the machine; results are those of `expressions.evaluate`."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import compiled
from penstock.operators.patterns import opcodes as op

#: As a double the largest bigint is this, one too large.
_TWO_63 = 2.0**63
#: Splits a double into two halves whose products are exact.
_SPLITTER = 134_217_729.0


@compiled
def compare_int(relation: int, a: int, b: int) -> bool:  # pragma: no cover - compiled
    if relation == op.EQUAL or relation == op.NULL_SAFE:
        return a == b
    if relation == op.UNEQUAL:
        return a != b
    if relation == op.LESS:
        return a < b
    if relation == op.LESS_EQUAL:
        return a <= b
    if relation == op.GREATER:
        return a > b
    return a >= b


@compiled
def compare_float(relation: int, a: float, b: float) -> bool:  # pragma: no cover - compiled
    if a == a and b == b:
        order = 0 if a == b else (-1 if a < b else 1)
    else:
        order = int(a != a) - int(b != b)
    return compare_int(relation, order, 0)


@compiled
def fits(bits: int, value: Any) -> bool:  # pragma: no cover - compiled
    """Whether a whole number fits in so many bits."""
    if bits >= 64:
        return True
    limit = np.int64(1) << (bits - 1)
    return bool(-limit <= value < limit)


@compiled
def _product(a: float, b: float) -> Any:  # pragma: no cover - compiled
    """A product as a double and what that is short of (Dekker)."""
    high = a * b
    c, d = a * _SPLITTER, b * _SPLITTER
    a_high, b_high = c - (c - a), d - (d - b)
    a_low, b_low = a - a_high, b - b_high
    return high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low


@compiled
def _rounded_long(size: float, scale: float) -> float:  # pragma: no cover - compiled
    """Round a number with so many digits that a step between doubles is no longer small beside a step of the result.

    What is rounded is the shortest decimal that reads back as the number: if one with few enough digits does, the number is
    rounded already; else the one with a digit more that is nearest decides, if it reads back, and else the number itself.
    """
    high, low = _product(size, scale)
    if high >= 2.0**53:
        return size
    below = np.floor(high)
    rest = (high - below) + low
    if rest < 0.0:
        below, rest = below - 1.0, rest + 1.0
    if below / scale == size or (below + 1.0) / scale == size:
        return size
    half_reads_back = below >= 2.0**52 or (below + 0.5) / scale == size
    up = rest >= (0.45 if half_reads_back else 0.5)
    return float((below + 1.0 if up else below) / scale)


@compiled
def rounded(value: float, digits: int) -> float:  # pragma: no cover - compiled
    """Half away from zero in the decimal digits a number is written with, as `numeric.rounded`."""
    size = abs(value)
    if not size < 2.0**53:
        return value
    scale = 10.0**digits
    if size * scale >= 2.0**49:
        return float(np.copysign(_rounded_long(size, scale), value))
    lower = np.rint(size * scale - 0.5)
    up = size >= (lower + 0.5) / scale
    return float(np.copysign((lower + (1.0 if up else 0.0)) / scale, value))


@compiled
def _whole(value: float) -> Any:  # pragma: no cover - compiled
    """A double without fraction as a bigint, and whether it is none; NaN is 0, as in Spark."""
    if value != value:
        return np.int64(0), False
    if value < -_TWO_63 or value >= _TWO_63:
        return np.int64(0), True
    return np.int64(value), False


@compiled
def _cut(value: float, bits: int) -> Any:  # pragma: no cover - compiled
    """A double as a whole number of so many bits, and whether it is none."""
    if value != value:
        return np.int64(0), True
    # The largest bigint is no double: the next one up is cut to it, as Spark does.
    if bits == 64 and value == _TWO_63:
        return np.int64(2**63 - 1), False
    result, is_null = _whole(np.trunc(value))
    return result, is_null or not fits(bits, result)


@compiled
def _power(a: float, b: float) -> float:  # pragma: no cover - compiled
    # C says that 1 to any power is 1; Java, and so Spark, says NaN for powers that are no finite number.
    if abs(a) == 1.0 and not np.isfinite(b):
        return np.nan
    return float(np.power(a, b))


@compiled
def _apply_to_one(code: int, a: int, b: int, top: int, stack: Any) -> None:  # pragma: no cover - compiled
    ints, floats, nulls = stack.ints, stack.floats, stack.nulls
    is_null = False
    if code == op.ABS_INT:
        is_null = ints[top] == np.int64(-1) << (a - 1)
        ints[top] = ints[top] if ints[top] >= 0 or is_null else -ints[top]
    elif code == op.ABS_FLOAT:
        floats[top] = abs(floats[top])
    elif code == op.FLOOR:
        ints[top], is_null = _whole(np.floor(floats[top]))
    elif code == op.CEIL:
        ints[top], is_null = _whole(np.ceil(floats[top]))
    elif code == op.ROUND:
        floats[top] = rounded(floats[top], b)
        if a == 32:
            floats[top] = np.float64(np.float32(floats[top]))
    elif code == op.SQRT:
        floats[top] = np.sqrt(floats[top])
    elif code == op.IS_NAN:
        ints[top] = int(not nulls[top] and floats[top] != floats[top])
        nulls[top] = False
    elif code == op.FIT_INT:
        is_null = not fits(a, ints[top])
    elif code == op.FLOAT_TO_INT:
        ints[top], is_null = _cut(floats[top], a)
    else:
        floats[top] = np.float64(np.float32(floats[top]))
    nulls[top] = nulls[top] or is_null


@compiled
def _takes_second(code: int, top: int, stack: Any) -> bool:  # pragma: no cover - compiled
    """Whether the second of two values is the one that LEAST, GREATEST and COALESCE choose."""
    if stack.nulls[top] or stack.nulls[top + 1]:
        return bool(stack.nulls[top])
    if code == op.LEAST_INT:
        return bool(stack.ints[top + 1] < stack.ints[top])
    if code == op.GREATEST_INT:
        return bool(stack.ints[top + 1] > stack.ints[top])
    if code == op.LEAST_FLOAT:
        return compare_float(op.LESS, stack.floats[top + 1], stack.floats[top])
    if code == op.GREATEST_FLOAT:
        return compare_float(op.GREATER, stack.floats[top + 1], stack.floats[top])
    return False


@compiled
def apply_function(code: int, a: int, b: int, top: int, stack: Any) -> int:  # pragma: no cover - compiled
    """Replace the arguments on top of the stack by the result; gives the new top."""
    if code < op.POWER:
        _apply_to_one(code, a, b, top, stack)
        return top
    if code == op.POWER:
        top -= 1
        stack.floats[top] = _power(stack.floats[top], stack.floats[top + 1])
        stack.nulls[top] = stack.nulls[top] or stack.nulls[top + 1]
        return top
    if code == op.CHOOSE:
        top -= 2
        chosen = top + 1 if not stack.nulls[top] and stack.ints[top] != 0 else top + 2
    else:
        top -= 1
        chosen = top + 1 if _takes_second(code, top, stack) else top
    stack.ints[top], stack.floats[top], stack.nulls[top] = stack.ints[chosen], stack.floats[chosen], stack.nulls[chosen]
    return top
