"""The Catalyst reading: Spark SQL text with the meaning `evaluate` gives an expression.

The text means the same whatever a session sets: arithmetic and casts are written with `try_` functions, so ANSI mode
changes nothing; conversions are written down, so the promotion rules of the other mode do not apply; clock time is
computed from microseconds in UTC, so the session's time zone does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa

from penstock.errors import Defect
from penstock.expressions.casts import FLOAT_BLANK_CLASS, FLOAT_FORM
from penstock.expressions.nodes import (
    APPLY,
    ARITHMETIC,
    COMPARISONS,
    TYPE_NAMES,
    Call,
    Column,
    Expr,
    Literal,
    depth_of,
    quoted,
    quoted_text,
)
from penstock.expressions.regex_readings import search_plan
from penstock.expressions.typing import (
    CLOCK_PARTS,
    DATE,
    FLOATS,
    INTEGERS,
    LONG,
    NUMBERS,
    STRING,
    TRUNCATIONS,
    Typed,
    typed,
)
from penstock.expressions.user_functions import has_functions
from penstock.model.schema import TIMESTAMP, Schema

_DAY_MICROS = 86_400_000_000
_SUFFIXES = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
#: First day of the unit, by the word Spark's `trunc` knows it.
_TRUNC_WORDS = {"week": "WEEK", "month": "MM", "quarter": "QUARTER", "year": "YEAR"}

Writer = Callable[[Typed, list[str]], str]


#: What the parser of Spark takes on the stack of a usual JVM is three times as deep: a level can become several in the text.
_DEEPEST_SQL = 100
_LONGEST_SQL = 200_000
#: How often the text of an operation repeats its operands.
_REPEATED = {"div": 2, "ceil": 4, "floor": 4, "cast": 2, "date_trunc": 4, "in": 2}


def spark_sql(expr: Expr, schema: Schema | None = None) -> str:
    """Write `expr` as Spark SQL.

    Parameters
    ----------
    expr
        The expression; its columns become quoted identifiers.
    schema
        Types of its columns. Without it conversions between operands are left to the session and calculations with
        timestamps are not understood.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> spark_sql(parse("price + 1 > 2.5"), Schema.of(price=pa.int32()))
    '(CAST(try_add(`price`, 1) AS DOUBLE) > 2.5D)'
    """
    return _write(_untyped(expr) if schema is None else typed(expr, schema))


def is_for_python(expr: Expr) -> bool:
    """Whether Catalyst cannot have the expression: it calls functions of Python, or is too much for Spark's own parser.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> [is_for_python(parse("+".join(["a"] * terms))) for terms in (100, 500)]
    [False, True]
    """
    return depth_of(expr) > _DEEPEST_SQL or has_functions(expr) or _length(expr) > _LONGEST_SQL


def _length(expr: Expr) -> int:
    """About how long the text gets."""
    if not isinstance(expr, Call):
        return 10
    return 10 + _REPEATED.get(expr.op, 1) * sum(_length(arg) for arg in expr.args)


def _untyped(expr: Expr) -> Typed:
    if isinstance(expr, Call):
        return Typed(expr, expr.to, tuple(_untyped(arg) for arg in expr.args))
    return Typed(expr, expr.type if isinstance(expr, Literal) else None)


def _write(node: Typed) -> str:
    if isinstance(node.expr, Column):
        return quoted(node.expr.name)
    if isinstance(node.expr, Literal):
        return literal_sql(node.expr.value, node.type)
    op, args = node.expr.op, [_write(arg) for arg in node.args]
    return _WRITERS[op](node, args) if op in _WRITERS else f"{op}({', '.join(args)})"


def literal_sql(value: object, kind: pa.DataType) -> str:
    """A constant of exactly this type.

    Examples
    --------
    >>> literal_sql(-5, pa.int64()), literal_sql(float("nan"), pa.float64()), literal_sql(7, TIMESTAMP)
    ('(-5L)', "double('NaN')", 'timestamp_micros(7L)')
    """
    if value is None:
        return "NULL" if kind == pa.null() else f"CAST(NULL AS {TYPE_NAMES[kind]})"
    if kind in INTEGERS:
        text = f"{value}{_SUFFIXES[kind]}"
        return f"({text})" if text.startswith("-") else text
    if kind in FLOATS:
        return _float_sql(float(str(value)), kind)
    if kind == TIMESTAMP:
        return f"timestamp_micros({value}L)"
    if kind == DATE:
        return f"DATE '{value}'"
    return quoted_text(str(value)) if kind == STRING else str(value).upper()


def _float_sql(value: float, kind: pa.DataType) -> str:
    if kind == pa.float64() and math.isfinite(value):
        return f"({value!r}D)" if math.copysign(1.0, value) < 0 else f"{value!r}D"
    word = repr(value) if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    return f"{TYPE_NAMES[kind].lower()}('{word}')"


def _arithmetic(node: Typed, args: list[str]) -> str:
    assert isinstance(node.expr, Call)
    kinds, op = [arg.type for arg in node.args], node.expr.op
    if op in ("+", "*") and node.type not in FLOATS:
        args = [_kept_apart(arg, text) for arg, text in zip(node.args, args, strict=True)]
    if TIMESTAMP in kinds:
        args = [_micros(arg) if kind == TIMESTAMP else arg for arg, kind in zip(args, kinds, strict=True)]
        moved = f"{_TRY[op]}({', '.join(args)})"
        return f"timestamp_micros({moved})" if node.type == TIMESTAMP else moved
    if op == "div":
        one, other = args
        return f"if({one} <=> {literal_sql(-(2**63), LONG)} AND {other} <=> -1L, NULL, {one} div nullif({other}, 0L))"
    if node.type in FLOATS and op not in ("/", "%"):
        return f"({args[0]} {op} {args[1]})"  # floats do not overflow: plain operators keep the text readable
    return f"{_TRY[op]}({', '.join(args)})"


def _kept_apart(node: Typed, text: str) -> str:
    """An operand of a sum or product of integers that Catalyst cannot dissolve.

    To Catalyst `a + (b + c)` and `(a + b) + c` are the same: it moves constants together and computes one for the other, though one
    may overflow where the other does not. It leaves what stands below another operator alone.
    """
    if node.type not in INTEGERS or not _has_sum(node):
        return text
    return f"{text} | {literal_sql(0, node.type)}"


def _has_sum(node: Typed) -> bool:
    is_sum = isinstance(node.expr, Call) and node.expr.op in ("+", "*") and node.type not in FLOATS
    return is_sum or any(_has_sum(arg) for arg in node.args)


def _negation(node: Typed, args: list[str]) -> str:
    if node.type in FLOATS:
        return f"(- {args[0]})"
    # Without a schema the zero is an int, which widens to whatever the column is.
    return f"try_subtract({literal_sql(0, node.type if node.type in INTEGERS else pa.int32())}, {args[0]})"


def _absolute(node: Typed, args: list[str]) -> str:
    if node.type not in INTEGERS:
        return f"abs({args[0]})"
    smallest = -(2 ** (node.type.bit_width - 1))
    return f"abs(nullif({args[0]}, {literal_sql(smallest, node.type)}))"


def _integral(node: Typed, args: list[str]) -> str:
    assert isinstance(node.expr, Call)
    if node.args[0].type in INTEGERS:
        return f"{node.expr.op}({args[0]})"
    low, high = literal_sql(-(2.0**63), pa.float64()), literal_sql(math.nextafter(2.0**63, 0), pa.float64())
    return f"{node.expr.op}(CASE WHEN {args[0]} BETWEEN {low} AND {high} OR isnan({args[0]}) THEN {args[0]} END)"


def _infix(op: str) -> Writer:
    return lambda _, args: "(" + f" {op} ".join(args) + ")"


def _contained(node: Typed, args: list[str]) -> str:
    items = args[1:]
    if node.args[0].type in FLOATS and any(isinstance(a.expr, Literal) and a.expr.value == 0.0 for a in node.args[1:]):
        # Spark looks long lists up by hash, which tells the two zeros apart.
        items += [literal_sql(zero, node.args[0].type) for zero in (0.0, -0.0)]
    return f"({args[0]} IN ({', '.join(items)}))"


def _searched(node: Typed, args: list[str]) -> str:
    pattern = node.args[1].expr
    assert isinstance(pattern, Literal)
    return f"({args[0]} RLIKE {quoted_text(search_plan(pattern.value).java)})"


def _case(_: Typed, args: list[str]) -> str:
    pairs = [f"WHEN {condition} THEN {value}" for condition, value in zip(args[::2], args[1::2], strict=False)]
    otherwise = [f"ELSE {args[-1]}"] if len(args) % 2 else []
    return " ".join(["CASE", *pairs, *otherwise, "END"])


def _cast(node: Typed, args: list[str]) -> str:
    source, target = node.args[0].type, node.type
    if source == TIMESTAMP and target == LONG:
        return _floored(_micros(args[0]), 1_000_000)
    if source == TIMESTAMP and target == DATE:
        return _date(args[0])
    if source == DATE and target == TIMESTAMP:
        return _midnight(args[0])
    if source == STRING and target in FLOATS:
        form = quoted_text(f"^{FLOAT_BLANK_CLASS}*{FLOAT_FORM.strip('^$')}{FLOAT_BLANK_CLASS}*$")
        return f"if({args[0]} RLIKE {form}, try_cast({args[0]} AS {TYPE_NAMES[target]}), NULL)"
    widens = source in NUMBERS and target in NUMBERS and NUMBERS.index(source) <= NUMBERS.index(target)
    return f"{'CAST' if widens else 'try_cast'}({args[0]} AS {TYPE_NAMES[target]})"


def _micros(timestamp: str) -> str:
    return f"unix_micros({timestamp})"


def _floored(micros: str, unit: int) -> str:
    """Whole units since the epoch; `div` alone would round times before it up."""
    return f"({micros} div {unit}L - if({micros} % {unit}L < 0L, 1L, 0L))"


def _date(timestamp: str) -> str:
    return f"date_from_unix_date(CAST({_floored(_micros(timestamp), _DAY_MICROS)} AS INT))"


def _midnight(date: str) -> str:
    return f"timestamp_micros(try_multiply(CAST(unix_date({date}) AS BIGINT), {_DAY_MICROS}L))"


def _clock_part(node: Typed, args: list[str]) -> str:
    assert isinstance(node.expr, Call)
    unit, cycle = CLOCK_PARTS[node.expr.op]
    return f"CAST(pmod({_micros(args[0])}, {unit * cycle}L) div {unit}L AS INT)"


def _truncated(node: Typed, args: list[str]) -> str:
    unit = node.args[0].expr
    assert isinstance(unit, Literal)
    length = TRUNCATIONS[unit.value.lower()]
    if length is None:
        return _midnight(f"trunc({_date(args[1])}, '{_TRUNC_WORDS[unit.value.lower()]}')")
    micros = _micros(args[1])
    return f"timestamp_micros(try_subtract({micros}, pmod({micros}, {length}L)))"


def _only_python(node: Typed, _: list[str]) -> str:
    raise Defect(f"'{node.expr}' calls a function of Python and was sent to Catalyst")


_WRITERS: dict[str, Writer] = {
    APPLY: _only_python,
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **{op: _infix(op) for op in COMPARISONS},
    "neg": _negation,
    "and": _infix("AND"),
    "or": _infix("OR"),
    "like": _infix("LIKE"),
    "rlike": _searched,
    "not": lambda _, args: f"(NOT {args[0]})",
    "is_null": lambda _, args: f"({args[0]} IS NULL)",
    "in": _contained,
    "between": lambda _, args: f"({args[0]} BETWEEN {args[1]} AND {args[2]})",
    "case": _case,
    "cast": _cast,
    "abs": _absolute,
    "ceil": _integral,
    "floor": _integral,
    "hour": _clock_part,
    "minute": _clock_part,
    "second": _clock_part,
    "date_trunc": _truncated,
}
