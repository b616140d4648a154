"""Comparisons, conditions and choices on Arrow columns.

Logic is three-valued. Numbers are ordered as in Spark: NaN equals itself and is greater than every other number, -0.0
equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.nodes import Literal
from penstock.expressions.numeric import Datum
from penstock.expressions.typing import FLOATS, Typed
from penstock.model.schema import TIMESTAMP

Function = Callable[..., Datum]


def may_be_nan(node: Typed) -> bool:
    """Whether a value can be NaN; a constant or an integer that became a double cannot, which saves a pass."""
    if node.type not in FLOATS:
        return False
    if isinstance(node.expr, Literal):
        return bool(node.expr.value is not None and node.expr.value != node.expr.value)
    return not (len(node.args) == 1 and pa.types.is_integer(node.args[0].type))


def _equal(one: Datum, other: Datum) -> Datum:
    return pc.or_kleene(pc.equal(one, other), pc.and_(pc.is_nan(one), pc.is_nan(other)))


def _less(one: Datum, other: Datum) -> Datum:
    return pc.or_kleene(pc.less(one, other), pc.and_(pc.is_nan(other), pc.invert(pc.is_nan(one))))


def _less_equal(one: Datum, other: Datum) -> Datum:
    return pc.or_kleene(pc.less_equal(one, other), pc.and_(pc.is_nan(other), pc.is_valid(one)))


def comparison(op: str, one: Typed, other: Typed) -> Function:
    """The function for `one op other`; the general form is taken only where NaN can occur."""
    if op == "<=>":
        equal = comparison("=", one, other)
        return lambda a, b: pc.or_(pc.fill_null(equal(a, b), False), pc.and_(pc.is_null(a), pc.is_null(b)))
    if not may_be_nan(one) and not may_be_nan(other):
        return _PLAIN[op]
    match op:
        case "=":
            return _equal if may_be_nan(one) and may_be_nan(other) else pc.equal
        case "<>":
            equal = comparison("=", one, other)
            return lambda a, b: pc.invert(equal(a, b))
        case "<":
            return _less if may_be_nan(other) else pc.less
        case "<=":
            return _less_equal if may_be_nan(other) else pc.less_equal
    mirrored = comparison({">": "<", ">=": "<="}[op], other, one)
    return lambda a, b: mirrored(b, a)


_PLAIN: dict[str, Function] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def between(node: Typed) -> Function:
    value, low, high = node.args
    above, below = comparison(">=", value, low), comparison("<=", value, high)
    return lambda v, lo, hi: pc.and_kleene(above(v, lo), below(v, hi))


def contained(node: Typed) -> Function:
    """`IN`: one hash lookup when the list is constant, else one comparison per item."""
    sought, *items = node.args
    constants = [item.expr for item in items if isinstance(item.expr, Literal)]
    if len(constants) < len(items):
        equals = [comparison("=", sought, item) for item in items]
        return lambda value, *rest: reduce(pc.or_kleene, [f(value, r) for f, r in zip(equals, rest, strict=True)])
    listed = [constant.value for constant in constants if constant.value is not None]
    if sought.type in FLOATS and 0.0 in listed:
        listed += [0.0, -0.0]  # a hash tells the two zeros apart
    options = pc.SetLookupOptions(value_set=pa.array(listed, sought.type), skip_nulls=True)
    has_null = len(constants) > sum(constant.value is not None for constant in constants)

    def apply(value: Datum, *_: Datum) -> Datum:
        found = pc.is_in(value, options=options)
        unknown = pc.invert(found) if has_null else pc.is_null(value)
        return pc.if_else(pc.or_(unknown, pc.is_null(value)), pa.scalar(None, pa.bool_()), found)

    return apply


def conjunction(*conditions: Datum) -> Datum:
    return reduce(pc.and_kleene, conditions)


def disjunction(*conditions: Datum) -> Datum:
    return reduce(pc.or_kleene, conditions)


def choice(node: Typed) -> Function:
    """`CASE`: the value of the first true condition. Every branch is computed, which is safe as none can raise."""
    nothing = pa.scalar(None, node.type)

    def apply(*operands: Datum) -> Datum:
        result = operands[-1] if len(operands) % 2 else nothing
        pairs = list(zip(operands[::2], operands[1::2], strict=False))
        for condition, value in reversed(pairs):
            result = pc.if_else(pc.fill_null(condition, False), value, result)
        return result

    return apply


#: Types Arrow finds no extremes of, with one that is ordered alike.
_STAND_INS = {pa.bool_(): pa.int8(), TIMESTAMP: pa.int64()}


def extreme(node: Typed, *, largest: bool) -> Function:
    """`least` and `greatest` of the operands that are not NULL."""
    pick = pc.max_element_wise if largest else pc.min_element_wise
    if node.type in _STAND_INS:
        stand_in = _STAND_INS[node.type]
        return lambda *operands: pc.cast(pick(*[pc.cast(each, stand_in) for each in operands]), node.type)
    if node.type not in FLOATS:
        return lambda *operands: pick(*operands)

    def better(kept: Datum, other: Datum) -> Datum:
        # Of equal numbers, which the two zeros are, the first is kept; Arrow orders zeros, and passes NaN over.
        wins = _less(kept, other) if largest else _less(other, kept)
        return pc.if_else(pc.or_(pc.fill_null(wins, False), pc.is_null(kept)), other, kept)

    return lambda *operands: reduce(better, operands)
