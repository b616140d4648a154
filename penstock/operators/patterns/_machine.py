"""The machine that tests conditions across events: a stack of integers, floats and NULL flags, without Python.

Results are those of `expressions.evaluate`: three-valued logic, NULL on overflow and division by zero, NaN equal to itself
and greater than every number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled
from penstock.operators.patterns import opcodes as op
from penstock.operators.patterns._functions import apply_function, compare_float, compare_int, fits


class Programs(NamedTuple):
    """All conditions of a query, one after the other: program p is `code[bounds[p] : bounds[p + 1]]`."""

    code: Any
    ints: Any
    floats: Any
    bounds: Any


class Values(NamedTuple):
    """Columns of the events, one row each: integers, the same bits as floats, and a bit per column that is NULL."""

    ints: Any
    floats: Any
    nulls: Any


class Scratch(NamedTuple):
    """Stack of the machine."""

    ints: Any
    floats: Any
    nulls: Any


def new_scratch() -> Scratch:
    return Scratch(np.zeros(op.STACK, np.int64), np.zeros(op.STACK), np.zeros(op.STACK, np.bool_))


@compiled
def _int_result(code: Any, bits: Any, a: Any, b: Any) -> Any:  # pragma: no cover - compiled
    """Value and whether it is NULL, of an integer operation."""
    result: Any = np.int64(0)
    is_null: Any = False
    # Signed overflow is undefined in compiled code, so sums and products are formed without sign.
    if code == op.ADD_INT:
        result = np.int64(np.uint64(a) + np.uint64(b))
        is_null = ((a ^ result) & (b ^ result)) < 0
    elif code == op.SUB_INT:
        result = np.int64(np.uint64(a) - np.uint64(b))
        is_null = ((a ^ b) & (a ^ result)) < 0
    elif code == op.MUL_INT:
        result = np.int64(np.uint64(a) * np.uint64(b))
        if b == -1:
            is_null = a == np.int64(-(2**63))
        else:
            is_null = b != 0 and result // b != a
    elif b == 0:
        is_null = True
    elif code == op.MOD_INT:
        result = np.int64(0) if b == -1 else a % b
        if result != 0 and (a < 0) != (b < 0):
            result -= b
    elif b == -1 and a == np.int64(-(2**63)):
        is_null = True
    else:
        result = a // b
        if result * b != a and (a < 0) != (b < 0):
            result += 1
    return result, is_null or not fits(bits, result)


@compiled
def _float_result(code: Any, bits: Any, a: Any, b: Any) -> Any:  # pragma: no cover - compiled
    result, is_null = 0.0, False
    if code == op.ADD_FLOAT:
        result = a + b
    elif code == op.SUB_FLOAT:
        result = a - b
    elif code == op.MUL_FLOAT:
        result = a * b
    elif b == 0.0:
        is_null = True
    elif code == op.DIV_FLOAT:
        result = a / b
    else:
        result = np.fmod(a, b)
    if bits == 32:
        result = np.float64(np.float32(result))
    return result, is_null


@compiled
def _aggregate(code: int, slot: int, is_float: bool, aggs: Any, faggs: Any) -> Any:  # pragma: no cover - compiled
    """Integer, float and whether NULL, of an aggregate; `slot` is its first cell (count, sum, least, greatest)."""
    count = aggs[slot]
    if code == op.AGG_EVENTS or code == op.AGG_COUNT:
        return abs(count), 0.0, False
    if count == 0 or (count < 0 and (code == op.AGG_SUM or code == op.AGG_AVG)):
        return np.int64(0), 0.0, True
    if code == op.AGG_AVG:
        total = faggs[slot + 1] if is_float else np.float64(aggs[slot + 1])
        return np.int64(0), total / count, False
    cell = slot + (1 if code == op.AGG_SUM else 2 if code == op.AGG_MIN else 3)
    return aggs[cell], faggs[cell], False


@compiled
def holds(  # pragma: no cover - compiled
    programs: Programs, number: int, registers: Any, values: Values, aggs: Any, faggs: Any, stack: Scratch
) -> bool:
    """Whether condition `number` is true; NULL is not."""
    ints, floats, nulls = stack.ints, stack.floats, stack.nulls
    top = -1
    for at in range(programs.bounds[number], programs.bounds[number + 1]):
        code, a, b = programs.code[at, 0], programs.code[at, 1], programs.code[at, 2]
        if code <= op.LOAD_FLOAT:
            top += 1
            event = registers[a]
            nulls[top] = (values.nulls[event] >> b) & 1 != 0
            if code == op.LOAD_INT:
                ints[top] = values.ints[b, event]
            else:
                floats[top] = values.floats[b, event]
        elif code == op.CMP_INT or code == op.CMP_FLOAT:
            top -= 1
            if a == op.NULL_SAFE and (nulls[top] or nulls[top + 1]):
                ints[top] = int(nulls[top] and nulls[top + 1])
                nulls[top] = False
            else:
                if code == op.CMP_INT:
                    ints[top] = int(compare_int(a, ints[top], ints[top + 1]))
                else:
                    ints[top] = int(compare_float(a, floats[top], floats[top + 1]))
                nulls[top] = nulls[top] or nulls[top + 1]
        elif code <= op.CONST_NULL:
            top += 1
            ints[top], floats[top] = programs.ints[at], programs.floats[at]
            nulls[top] = code == op.CONST_NULL
        elif code <= op.AGG_MAX:
            top += 1
            ints[top], floats[top], nulls[top] = _aggregate(code, a, b != 0, aggs, faggs)
        elif code == op.AND or code == op.OR:
            top -= 1
            # The value that decides alone: false for AND, true for OR.
            decisive = int(code == op.OR)
            one = not nulls[top] and ints[top] == decisive
            other = not nulls[top + 1] and ints[top + 1] == decisive
            nulls[top] = not (one or other) and (nulls[top] or nulls[top + 1])
            ints[top] = decisive if one or other else 1 - decisive
        elif code == op.NOT:
            ints[top] = 1 - ints[top]
        elif code == op.IS_NULL:
            ints[top] = int(nulls[top])
            nulls[top] = False
        elif code == op.INT_TO_FLOAT:
            floats[top] = np.float64(ints[top])
            if a == 32:
                floats[top] = np.float64(np.float32(ints[top]))
        elif code == op.NEG_INT:
            ints[top], is_null = _int_result(op.SUB_INT, a, np.int64(0), ints[top])
            nulls[top] = nulls[top] or is_null
        elif code == op.NEG_FLOAT:
            floats[top] = -floats[top]
        elif code <= op.DIV_INT:
            top -= 1
            ints[top], is_null = _int_result(code, a, ints[top], ints[top + 1])
            nulls[top] = nulls[top] or nulls[top + 1] or is_null
        elif code >= op.ABS_INT:
            top = apply_function(code, a, b, top, stack)
        else:
            top -= 1
            floats[top], is_null = _float_result(code, a, floats[top], floats[top + 1])
            nulls[top] = nulls[top] or nulls[top + 1] or is_null
    return not nulls[0] and ints[0] != 0
