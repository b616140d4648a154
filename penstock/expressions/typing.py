"""Types of expressions, and the casts an author may leave out.

`typed` turns an expression into a tree in which every node knows its type and every conversion is written down, so that
no reading has to know a promotion rule. The rules are those of Spark in ANSI mode: integers widen to the larger one, an
integer and a float meet in double, `/` is always double. Where Spark would guess (a text compared with a number, a date
with a timestamp) Penstock asks for a cast instead, because on a stream nobody looks at the rows a guess got wrong.

Clock time is counted in microseconds: `timestamp ± bigint` is a timestamp, the difference of two timestamps a bigint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.errors import Place, SyntaxMistake, TypeMistake, UnknownColumn
from penstock.expressions.java_regex import PatternMistake
from penstock.expressions.like import like_tokens
from penstock.expressions.nodes import APPLY, ARITHMETIC, COMPARISONS, TYPE_NAMES, Call, Column, Expr, Literal, quoted_text
from penstock.expressions.regex_readings import search_plan
from penstock.expressions.user_functions import Apply
from penstock.model.schema import TIMESTAMP, Schema, sql_type

INTEGERS: tuple[pa.DataType, ...] = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
FLOATS: tuple[pa.DataType, ...] = (pa.float32(), pa.float64())
NUMBERS = (*INTEGERS, *FLOATS)
BOOL, INT, LONG, DOUBLE, STRING, DATE, NULL = (
    *(pa.bool_(), pa.int32(), pa.int64()),
    *(pa.float64(), pa.string(), pa.date32(), pa.null()),
)
#: Units `date_trunc` knows, with their length in microseconds where that is fixed.
TRUNCATIONS: dict[str, int | None] = {
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": None,
    "month": None,
    "quarter": None,
    "year": None,
}
#: Parts of the time of day: microseconds of one, and how many there are before the count begins again.
CLOCK_PARTS = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}
MAX_ROUND_DIGITS = 15

Types: TypeAlias = Sequence[pa.DataType]


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression with its type; `args` are the operands, converted to the types the operation works on."""

    expr: Expr
    type: pa.DataType
    args: tuple[Typed, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """What an operation takes, one type per operand, and what it gives."""

    operands: tuple[pa.DataType, ...]
    result: pa.DataType


def type_of(expr: Expr, schema: Schema) -> pa.DataType:
    """Return the type of `expr` over rows of `schema`.

    Raises
    ------
    UnknownColumn
        A column is not in `schema`.
    TypeMistake
        An operation does not take what it is given.

    Examples
    --------
    >>> total = Call("*", (Column("price"), Column("count")))
    >>> type_of(total, Schema.of(price=pa.float32(), count=pa.int32()))
    DataType(double)
    """
    return typed(expr, schema).type


def typed(expr: Expr, schema: Schema) -> Typed:
    """Type every node and insert the casts Spark would insert."""
    if isinstance(expr, Column):
        if expr.name not in schema:
            raise UnknownColumn(schema.owner, expr.name, schema.names, expr.place)
        return Typed(expr, schema[expr.name].type)
    if isinstance(expr, Literal):
        return Typed(expr, expr.type)
    args = [typed(arg, schema) for arg in expr.args]
    signature = _RULES[expr.op](expr, [arg.type for arg in args])
    converted = tuple(convert(arg, kind) for arg, kind in zip(args, signature.operands, strict=True))
    return Typed(replace(expr, args=tuple(arg.expr for arg in converted)), signature.result, converted)


def convert(node: Typed, kind: pa.DataType) -> Typed:
    """The same value as `kind`: a literal of that type, or a cast."""
    if node.type == kind:
        return node
    if isinstance(node.expr, Literal) and (node.type == NULL or (node.type in NUMBERS and kind in NUMBERS)):
        value = node.expr.value
        widened = float(value) if value is not None and kind in FLOATS else value
        return Typed(Literal(widened, kind, node.expr.place), kind)
    return Typed(Call("cast", (node.expr,), kind, node.expr.place), kind, (node,))


def common_type(kinds: Types) -> pa.DataType | None:
    """The type in which values of all `kinds` can be compared; None when there is none."""
    found = NULL
    for kind in kinds:
        if kind in (NULL, found):
            continue
        if found == NULL:
            found = kind
        elif found in NUMBERS and kind in NUMBERS:
            found = _wider(found, kind)
        else:
            return None
    return found


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    # A float cannot hold every integer, so the two meet in double.
    if (one in INTEGERS) != (other in INTEGERS):
        return DOUBLE
    return NUMBERS[max(NUMBERS.index(one), NUMBERS.index(other))]


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the cast means the same in every session: none that depends on a time zone or on Java's formats does."""
    if source in (target, NULL):
        return True
    if source in NUMBERS or source == BOOL:
        return target in NUMBERS or target == BOOL or (target == STRING and source not in FLOATS)
    if source == STRING:
        return target in NUMBERS or target == BOOL
    if source == DATE:
        return bool(target in (TIMESTAMP, STRING))
    return bool(source == TIMESTAMP and target in (DATE, LONG))


def type_name(kind: pa.DataType) -> str:
    """The name an author knows the type by."""
    return sql_type(kind).lower() if kind in TYPE_NAMES else sql_type(kind)


def place_of(expr: Expr) -> Place | None:
    """The place of the expression or, failing that, of its first part that has one."""
    if expr.place or not isinstance(expr, Call):
        return expr.place
    return next((place for arg in expr.args if (place := place_of(arg))), None)


# Rules: from the call and the types of its operands to its signature.


def _mistake(call: Call, kinds: Types, wanted: str) -> TypeMistake:
    found = ", ".join(map(type_name, kinds))
    return TypeMistake(f"'{call.called}' is given {found} in '{call}'; {wanted}", place_of(call))


def _all(call: Call, kinds: Types, allowed: Types, target: pa.DataType, wanted: str) -> None:
    if any(kind not in allowed and kind not in (target, NULL) for kind in kinds):
        raise _mistake(call, kinds, wanted)


def _count(call: Call, kinds: Types, least: int, most: int) -> None:
    if not least <= len(kinds) <= most:
        number = str(least) if least == most else f"{least} or more" if most > 9 else f"{least} to {most}"
        raise TypeMistake(f"'{call.called}' takes {number} arguments and is given {len(kinds)} in '{call}'", place_of(call))


def _numeric(call: Call, kinds: Types) -> pa.DataType:
    _all(call, kinds, NUMBERS, NULL, "it takes numbers")
    kind = common_type(kinds)
    return DOUBLE if kind == NULL else kind


def _arithmetic(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 2, 2)
    if TIMESTAMP in kinds:
        return _clock_arithmetic(call, kinds)
    if DATE in kinds:
        raise _mistake(call, kinds, "cast the date to timestamp before calculating with it")
    kind = _numeric(call, kinds)
    if call.op == "/":
        return Signature((DOUBLE, DOUBLE), DOUBLE)
    if call.op == "div":
        if any(kind in FLOATS for kind in kinds):
            raise _mistake(call, kinds, "it takes integers; use floor(a / b) for others")
        return Signature((LONG, LONG), LONG)
    return Signature((kind, kind), kind)


def _clock_arithmetic(call: Call, kinds: Types) -> Signature:
    wanted = "a timestamp takes an INTERVAL or a bigint of microseconds, or '-' another timestamp"
    one, other = (kind if kind != NULL else LONG for kind in kinds)
    if call.op == "-" and one == other == TIMESTAMP:
        return Signature((TIMESTAMP, TIMESTAMP), LONG)
    if call.op in ("+", "-") and one == TIMESTAMP and other == LONG:
        return Signature((TIMESTAMP, LONG), TIMESTAMP)
    if call.op == "+" and one == LONG:
        return Signature((LONG, TIMESTAMP), TIMESTAMP)
    raise _mistake(call, kinds, wanted)


def _negation(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 1)
    kind = _numeric(call, kinds)
    return Signature((kind,), kind)


def _comparable(call: Call, kinds: Types) -> pa.DataType:
    kind = common_type(kinds)
    if kind is None or (kind not in TYPE_NAMES):
        raise _mistake(call, kinds, _comparison_hint(kinds))
    # Two NULLs without a type compare as anything does: the result is NULL.
    return BOOL if kind == NULL else kind


def _comparison_hint(kinds: Types) -> str:
    if STRING in kinds and TIMESTAMP in kinds:
        return "write TIMESTAMP '...' for a constant"
    if STRING in kinds and DATE in kinds:
        return "write DATE '...' for a constant"
    return "these cannot be compared; cast one of them"


def _comparison(call: Call, kinds: Types) -> Signature:
    least, most = {"between": (3, 3), "in": (2, 10**6)}.get(call.op, (2, 2))
    _count(call, kinds, least, most)
    return Signature((_comparable(call, kinds),) * len(kinds), BOOL)


def _boolean(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, *((1, 1) if call.op == "not" else (2, 10**6)))
    _all(call, kinds, (), BOOL, "it takes conditions")
    return Signature((BOOL,) * len(kinds), BOOL)


def _is_null(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 1)
    return Signature(tuple(kinds), BOOL)


def _case(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 2, 10**6)
    positions = range(len(kinds))
    is_value = [position % 2 == 1 or (position == len(kinds) - 1) for position in positions]
    conditions = [kind for kind, value in zip(kinds, is_value, strict=True) if not value]
    if any(kind not in (BOOL, NULL) for kind in conditions):
        raise _mistake(call, conditions, "WHEN takes conditions")
    result = _branches(call, [kind for kind, value in zip(kinds, is_value, strict=True) if value])
    return Signature(tuple(result if value else BOOL for value in is_value), result)


def _branches(call: Call, kinds: Types) -> pa.DataType:
    result = common_type(kinds)
    if result is None:
        raise _mistake(call, kinds, "all its values must have one type; cast them")
    return result


def _coalesce(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 10**6)
    result = _branches(call, kinds)
    return Signature((result,) * len(kinds), result)


def _extreme(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 2, 10**6)
    result = _comparable(call, kinds)
    return Signature((result,) * len(kinds), result)


def _cast(call: Call, kinds: Types) -> Signature:
    if not is_castable(kinds[0], call.to):
        raise TypeMistake(
            f"a {type_name(kinds[0])} cannot be cast to {type_name(call.to)} in '{call}'; "
            "declare the column with the type it should have",
            place_of(call),
        )
    return Signature((kinds[0],), call.to)


def _round(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 2)
    kind = _numeric(call, kinds[:1])
    if len(kinds) == 2:
        digits = _constant(call, 1, int)
        if not 0 <= digits <= MAX_ROUND_DIGITS:
            raise TypeMistake(f"'round' takes 0 to {MAX_ROUND_DIGITS} digits, not {digits}", place_of(call))
    return Signature((kind, *kinds[1:]), kind)


def _constant(call: Call, position: int, kind: type) -> Any:
    arg = call.args[position]
    if not isinstance(arg, Literal) or type(arg.value) is not kind:
        wanted = f"must be a constant {'text' if kind is str else 'integer'}"
        raise TypeMistake(f"argument {position + 1} of '{call.op}' {wanted} in '{call}'", place_of(call))
    return arg.value


def _fixed(operands: Types, result: pa.DataType) -> Callable[[Call, Types], Signature]:
    """An operation with one signature; numbers widen to the operand's type, nothing else is converted."""

    def rule(call: Call, kinds: Types) -> Signature:
        _count(call, kinds, len(operands), len(operands))
        for kind, operand in zip(kinds, operands, strict=True):
            allowed = NUMBERS if operand == DOUBLE else ()
            _all(call, [kind], allowed, operand, f"it takes {', '.join(map(type_name, operands))}")
        return Signature(tuple(operands), result)

    return rule


def _floor(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 1)
    kind = _numeric(call, kinds)
    return Signature((LONG if kind in INTEGERS else DOUBLE,), LONG)


def _isnan(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 1)
    _numeric(call, kinds)
    return Signature((DOUBLE,), BOOL)


def _with_constant_text(result: pa.DataType) -> Callable[[Call, Types], Signature]:
    """A test of a text against a pattern that is prepared once."""
    fixed = _fixed((STRING, STRING), result)

    def rule(call: Call, kinds: Types) -> Signature:
        signature = fixed(call, kinds)
        _constant(call, 1, str)
        return signature

    return rule


def _with_pattern(word: str, read: Callable[[str], object]) -> Callable[[Call, Types], Signature]:
    """A test against a pattern, which must be one that every reading understands alike."""
    fixed = _with_constant_text(BOOL)

    def rule(call: Call, kinds: Types) -> Signature:
        signature = fixed(call, kinds)
        pattern = _constant(call, 1, str)
        try:
            read(pattern)
        except PatternMistake as error:
            raise SyntaxMistake(f"{word} cannot use the pattern {quoted_text(pattern)}: {error}", place_of(call)) from None
        return signature

    return rule


def _substring(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 2, 3)
    _all(call, kinds[:1], (), STRING, "it takes a string, a start and a length")
    for position in range(1, len(kinds)):
        _constant(call, position, int)
    return Signature((STRING, *kinds[1:]), STRING)


def _concat(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 10**6)
    _all(call, kinds, (), STRING, "it takes strings; cast the others to string")
    return Signature((STRING,) * len(kinds), STRING)


def _calendar(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 1, 1)
    takes_date = call.op in ("year", "month", "day")
    _all(call, kinds, (DATE,) if takes_date else (), TIMESTAMP, "it takes a timestamp")
    return Signature((DATE if takes_date else TIMESTAMP,), INT)


def _date_trunc(call: Call, kinds: Types) -> Signature:
    _count(call, kinds, 2, 2)
    unit = _constant(call, 0, str)
    if unit.lower() not in TRUNCATIONS:
        raise TypeMistake(f"'date_trunc' knows {', '.join(TRUNCATIONS)}, not '{unit}'", place_of(call))
    _all(call, kinds[1:], (), TIMESTAMP, "it takes a unit and a timestamp")
    return Signature((STRING, TIMESTAMP), TIMESTAMP)


def _applied(call: Call, kinds: Types) -> Signature:
    """A user's function takes what it declares; numbers widen to it."""
    assert isinstance(call, Apply)
    wanted = tuple(kind for _, kind in call.function.parameters)
    _count(call, kinds, len(wanted), len(wanted))
    for kind, parameter in zip(kinds, wanted, strict=True):
        if common_type([kind, parameter]) != parameter:
            listed = ", ".join(f"{name} {type_name(each)}" for name, each in call.function.parameters)
            raise _mistake(call, kinds, f"it takes {listed}")
    return Signature(wanted, call.function.result)


_RULES: dict[str, Callable[[Call, Types], Signature]] = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys((*COMPARISONS, "in", "between"), _comparison),
    **dict.fromkeys(("and", "or", "not"), _boolean),
    **dict.fromkeys(("neg", "abs"), _negation),
    **dict.fromkeys(("ceil", "floor"), _floor),
    **dict.fromkeys(("least", "greatest"), _extreme),
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim"), _fixed((STRING,), STRING)),
    **dict.fromkeys(("startswith", "endswith", "contains"), _with_constant_text(BOOL)),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second"), _calendar),
    APPLY: _applied,
    "like": _with_pattern("LIKE", like_tokens),
    "rlike": _with_pattern("RLIKE", search_plan),
    "is_null": _is_null,
    "case": _case,
    "cast": _cast,
    "coalesce": _coalesce,
    "round": _round,
    "sqrt": _fixed((DOUBLE,), DOUBLE),
    "power": _fixed((DOUBLE, DOUBLE), DOUBLE),
    "isnan": _isnan,
    "length": _fixed((STRING,), INT),
    "substring": _substring,
    "concat": _concat,
    "date_trunc": _date_trunc,
}
