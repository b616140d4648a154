"""Expressions evaluated one row and one value at a time in plain Python: slow, and obviously right.

The judge of `penstock.expressions.evaluate`. Values are Python's: `None` for NULL, microseconds for a timestamp.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expressions.casts import BLANKS, FALSE_WORDS, FLOAT_BLANKS, FLOAT_FORM, INTEGER_FORM, TRUE_WORDS
from penstock.expressions.nodes import Column, Expr, Literal
from penstock.expressions.regex_readings import search_plan
from penstock.expressions.text import lower, upper
from penstock.expressions.typing import BOOL, DATE, FLOATS, INTEGERS, LONG, STRING, Typed, typed
from penstock.model.schema import TIMESTAMP, Schema

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def evaluate_slowly(expr: Expr, rows: pa.RecordBatch) -> list[Any]:
    """The values `expr` has over `rows`.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> rows = pa.RecordBatch.from_pydict({"a": pa.array([127, None], pa.int8())})
    >>> evaluate_slowly(parse("a + a"), rows)
    [None, None]
    """
    node = typed(expr, Schema.from_arrow(rows.schema))
    return [value_of(node, row) for row in plain_rows(rows)]


def plain_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dictionaries of plain values."""
    columns = [plain_values(column) for column in rows.columns]
    return [dict(zip(rows.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def plain_values(column: pa.Array) -> list[Any]:
    values: list[Any] = (column.cast(LONG) if column.type == TIMESTAMP else column).to_pylist()
    return values


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to Spark: NaN equals NaN, -0.0 equals 0.0, a truth value is no number."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return type(one) is type(other) and bool(one == other)


def value_of(node: Typed, row: Mapping[str, Any]) -> Any:
    """The value of a typed expression in one row."""
    expr = node.expr
    if isinstance(expr, Column):
        return row[expr.name]
    if isinstance(expr, Literal):
        return expr.value
    args = [value_of(arg, row) for arg in node.args]
    if expr.op in _NULL_AWARE:
        return _NULL_AWARE[expr.op](args)
    if any(arg is None for arg in args):
        return None
    if expr.op == "cast":
        return _cast(args[0], node.args[0].type, node.type)
    return _fitted(_STRICT[expr.op](*args), node.type)


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """The value as its type can hold it: integers that do not fit are NULL, floats are rounded."""
    if value is None:
        return None
    if kind in INTEGERS:
        limit = 2 ** (kind.bit_width - 1)
        return value if -limit <= value < limit else None
    if kind == pa.float32():
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value


def order(value: Any) -> Any:
    """A sort key: NaN after every number."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def _and(args: list[Any]) -> Any:
    return False if False in args else None if None in args else True


def _or(args: list[Any]) -> Any:
    return True if True in args else None if None in args else False


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[list[Any]], Any]:
    return lambda args: None if None in (args[0], args[1]) else test(order(args[0]), order(args[1]))


_equal = _compare(lambda a, b: a == b)
_at_least = _compare(lambda a, b: a >= b)


def _in(args: list[Any]) -> Any:
    return _or([_equal([args[0], item]) for item in args[1:]])


def _between(args: list[Any]) -> Any:
    return _and([_at_least([args[0], args[1]]), _at_least([args[2], args[0]])])


def _case(args: list[Any]) -> Any:
    for condition, value in zip(args[::2], args[1::2], strict=False):
        if condition is True:
            return value
    return args[-1] if len(args) % 2 else None


def _same_or_both_null(args: list[Any]) -> bool:
    return args[0] is args[1] is None or _equal(args) is True


_NULL_AWARE: dict[str, Callable[[list[Any]], Any]] = {
    "and": _and,
    "or": _or,
    "not": lambda args: None if args[0] is None else not args[0],
    "is_null": lambda args: args[0] is None,
    "isnan": lambda args: args[0] is not None and math.isnan(args[0]),
    "=": _equal,
    "<>": _compare(lambda a, b: a != b),
    "<": _compare(lambda a, b: a < b),
    "<=": _compare(lambda a, b: a <= b),
    ">": _compare(lambda a, b: a > b),
    ">=": _at_least,
    "<=>": _same_or_both_null,
    "in": _in,
    "between": _between,
    "case": _case,
    "coalesce": lambda args: next((arg for arg in args if arg is not None), None),
    "least": lambda args: min((arg for arg in args if arg is not None), key=order, default=None),
    "greatest": lambda args: max((arg for arg in args if arg is not None), key=order, default=None),
}


def _multiply(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return a * b if isinstance(a, int) else float(np.float64(a) * np.float64(b))


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    if isinstance(a, int):
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    return math.nan if math.isnan(a) or math.isnan(b) or math.isinf(a) else math.fmod(a, b)


def _integral_divide(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _divide(a: float, b: float) -> float | None:
    with np.errstate(all="ignore"):
        return None if b == 0 else float(np.float64(a) / np.float64(b))


def _to_long(value: float, direction: Callable[[float], int]) -> int | None:
    if math.isnan(value):
        return 0
    return None if math.isinf(value) else direction(value)


def _round(value: Any, digits: int = 0) -> Any:
    if isinstance(value, int) or not math.isfinite(value) or abs(value) >= 2.0**53:
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _power(a: float, b: float) -> float:
    if abs(a) == 1 and not math.isfinite(b):
        return math.nan
    with np.errstate(all="ignore"):
        return float(np.float64(a) ** np.float64(b))


def _substring(text: str, start: int, length: int = 2**31) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return "".join(text[position] for position in range(len(text)) if first <= position < first + length)


def _like(text: str, pattern: str) -> bool:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(piece, re.escape(piece[-1])) for piece in pieces)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _moment(micros: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=micros)


def _date_trunc(unit: str, micros: int) -> int:
    moment = _moment(micros)
    smaller = {"second": 1, "minute": 2, "hour": 3}.get(unit, 4)
    changes = dict(list({"microsecond": 0, "second": 0, "minute": 0, "hour": 0}.items())[:smaller])
    moment = moment.replace(**changes)  # type: ignore[arg-type]
    match unit:
        case "week":
            moment -= dt.timedelta(days=moment.weekday())
        case "month":
            moment = moment.replace(day=1)
        case "quarter":
            moment = moment.replace(day=1, month=(moment.month - 1) // 3 * 3 + 1)
        case "year":
            moment = moment.replace(day=1, month=1)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


_STRICT: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "div": _integral_divide,
    "neg": lambda a: -a,
    "abs": abs,
    "ceil": lambda a: a if isinstance(a, int) else _to_long(a, math.ceil),
    "floor": lambda a: a if isinstance(a, int) else _to_long(a, math.floor),
    "round": _round,
    "sqrt": lambda a: math.nan if a < 0 else math.sqrt(a),
    "power": _power,
    "like": _like,
    "rlike": lambda a, b: search_plan(b).found(a),
    "length": len,
    "lower": lower,
    "upper": upper,
    "substring": _substring,
    "concat": lambda *args: "".join(args),
    "trim": lambda a: a.strip(" "),
    "ltrim": lambda a: a.lstrip(" "),
    "rtrim": lambda a: a.rstrip(" "),
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda a, b: b in a,
    "year": lambda a: a.year,
    "month": lambda a: a.month,
    "day": lambda a: a.day,
    "hour": lambda a: _moment(a).hour,
    "minute": lambda a: _moment(a).minute,
    "second": lambda a: _moment(a).second,
    "date_trunc": _date_trunc,
}


def _cast(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    if source == target:
        return value
    if source == TIMESTAMP:
        return _moment(value).date() if target == DATE else value // 1_000_000
    if target == TIMESTAMP:
        return (value - dt.date(1970, 1, 1)).days * 86_400_000_000
    if source == STRING:
        return _read(value.strip(FLOAT_BLANKS if target in FLOATS else BLANKS), target)
    if target == STRING:
        return str(value).lower() if source == BOOL else str(value)
    if target == BOOL:
        return value != 0
    if target in FLOATS:
        return _fitted(float(value), target)
    return _fitted(int(value), target) if source not in FLOATS else _cut(value, target)


def _cut(value: float, target: pa.DataType) -> int | None:
    """A float without its fraction. The limits count as doubles, as in Spark: 2^63 becomes the largest bigint."""
    if not math.isfinite(value):
        return None
    bits = max(target.bit_width, 32)
    if math.floor(value) > float(2 ** (bits - 1) - 1) or math.ceil(value) < -(2 ** (bits - 1)):
        return None
    return _fitted(min(int(value), 2 ** (bits - 1) - 1), target)  # type: ignore[no-any-return]


def _read(text: str, target: pa.DataType) -> Any:
    if target == BOOL:
        return True if text.lower() in TRUE_WORDS else False if text.lower() in FALSE_WORDS else None
    if target in INTEGERS:
        return _fitted(int(text), target) if re.fullmatch(INTEGER_FORM, text) else None
    return _fitted(float(text), target) if re.fullmatch(FLOAT_FORM, text) else None
