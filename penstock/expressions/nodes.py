"""The expression tree.

Three kinds of node suffice: a column, a literal, and a call of a named operation. The tree knows nothing of the parser
it came from, so it pickles small and a worker that receives one imports nothing but Arrow. What an operation means is
said by the readings: `typing`, `evaluate`, `spark_sql` and `intervals`.

Examples
--------
>>> price = Column("price")
>>> known = Call("not", (Call("is_null", (Column("item"),)),))
>>> cheap = Call("and", (Call("<", (price, Literal(10, pa.int32()))), known))
>>> str(cheap)
'price < 10 AND item IS NOT NULL'
>>> sorted(columns_of(cheap))
['item', 'price']
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.errors import InvalidPlan, Place
from penstock.model.nesting import DEEPEST_TREE, LARGEST_EXPRESSION, make_room, too_deep, too_large
from penstock.model.schema import TIMESTAMP

ARITHMETIC = ("+", "-", "*", "/", "%", "div")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
#: Operations written `name(argument, ...)`.
FUNCTIONS = (
    *("abs", "ceil", "floor", "round", "sqrt", "power", "isnan"),
    *("least", "greatest", "coalesce"),
    *("length", "lower", "upper", "substring", "concat", "trim", "ltrim", "rtrim"),
    *("startswith", "endswith", "contains"),
    *("year", "month", "day", "hour", "minute", "second", "date_trunc"),
)
#: Operations with a syntax of their own. `neg` is the unary minus; `case` takes condition, value, ..., and, when their
#: number is odd, the value otherwise; `in` takes the value sought first.
SPECIAL = ("neg", "and", "or", "not", "is_null", "in", "between", "like", "rlike", "case", "cast")
#: The operation of `user_functions.Apply`, the call of a function that a user has written.
APPLY = "apply"
#: Everything a `Call` may name.
OPERATIONS = frozenset((*ARITHMETIC, *COMPARISONS, *FUNCTIONS, *SPECIAL, APPLY))

#: Names by which Spark SQL knows the types an expression can have.
TYPE_NAMES: dict[pa.DataType, str] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    pa.binary(): "BINARY",
    pa.null(): "VOID",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name, case as written; a qualified name is one name with a dot until a resolver maps it."""

    name: str
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return to_text(self)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    Parameters
    ----------
    value
        A Python value; `None` for NULL, microseconds since the epoch for a timestamp, `datetime.date` for a date.
    type
        Its Arrow type; `pa.null()` for a NULL nobody gave a type.
    """

    value: Any
    type: pa.DataType
    place: Place | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # One NaN object for all: Python compares tuples by identity first, so NaN literals become equal to each other.
        if isinstance(self.value, float) and math.isnan(self.value):
            object.__setattr__(self, "value", math.nan)

    def __reduce__(self) -> tuple[object, ...]:
        return (Literal, (self.value, self.type, self.place))

    def __str__(self) -> str:
        return to_text(self)


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on expressions; `to` is the target of a cast and empty otherwise."""

    op: str
    args: tuple[Expr, ...]
    to: pa.DataType | None = None
    place: Place | None = field(default=None, compare=False, repr=False)
    #: Operations inside each other, and all parts, each as often as it is computed.
    depth: int = field(init=False, default=1, compare=False, repr=False)
    size: int = field(init=False, default=1, compare=False, repr=False)

    def __post_init__(self) -> None:
        assert self.op in OPERATIONS, f"unknown operation {self.op!r}"
        object.__setattr__(self, "depth", 1 + max((arg.depth for arg in self.args if isinstance(arg, Call)), default=0))
        object.__setattr__(self, "size", 1 + sum(arg.size if isinstance(arg, Call) else 1 for arg in self.args))
        if self.depth > DEEPEST_TREE:
            raise InvalidPlan(too_deep("the expression"), self.place)
        if self.size > LARGEST_EXPRESSION:
            raise InvalidPlan(too_large(), self.place)
        make_room(self.depth)

    def __reduce__(self) -> tuple[object, ...]:
        # A worker that receives a deep expression makes room for it as it is built again.
        return (Call, (self.op, self.args, self.to, self.place))

    @property
    def called(self) -> str:
        """The name under which an author knows the operation."""
        return self.op

    def __str__(self) -> str:
        return to_text(self)


Expr: TypeAlias = Column | Literal | Call

TRUE, FALSE = Literal(True, pa.bool_()), Literal(False, pa.bool_())


def depth_of(expr: Expr) -> int:
    """Operations inside each other; 0 for a column or a constant."""
    return expr.depth if isinstance(expr, Call) else 0


def reads_columns(expr: Expr) -> bool:
    """Whether the value can differ from row to row."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Column):
            return True
        if isinstance(part, Call):
            waiting += part.args
    return False


def columns_of(expr: Expr) -> set[str]:
    """Names of all columns the expression reads."""
    if isinstance(expr, Column):
        return {expr.name}
    if isinstance(expr, Literal):
        return set()
    return set().union(*(columns_of(arg) for arg in expr.args))


def transform(expr: Expr, change: Callable[[Column], Expr]) -> Expr:
    """The same expression with every column replaced by what `change` makes of it."""
    if isinstance(expr, Column):
        return change(expr)
    if isinstance(expr, Literal):
        return expr
    return replace(expr, args=tuple(transform(arg, change) for arg in expr.args))


def rename(expr: Expr, mapping: Mapping[str, str]) -> Expr:
    """The same expression over renamed columns; names not in `mapping` stay."""
    return transform(expr, lambda column: replace(column, name=mapping.get(column.name, column.name)))


def substitute(expr: Expr, mapping: Mapping[str, Expr]) -> Expr:
    """The same expression with columns replaced by the expressions that compute them."""
    return transform(expr, lambda column: mapping.get(column.name, column))


def conjuncts(expr: Expr) -> list[Expr]:
    """The parts that must all be true; none for TRUE itself.

    Examples
    --------
    >>> [str(part) for part in conjuncts(Call("and", (Call("and", (Column("a"), Column("b"))), Column("c"))))]
    ['a', 'b', 'c']
    """
    if isinstance(expr, Call) and expr.op == "and":
        return [part for arg in expr.args for part in conjuncts(arg)]
    return [] if expr == TRUE else [expr]


def conjoin(parts: Iterable[Expr]) -> Expr:
    """The expression that is true when all `parts` are; TRUE for none."""
    listed = tuple(parts)
    if not listed:
        return TRUE
    return listed[0] if len(listed) == 1 else Call("and", listed, place=listed[0].place)


def quoted(name: str) -> str:
    """A name as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A text as a string literal of Spark SQL.

    Examples
    --------
    >>> print(quoted_text("it's"))
    'it\\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

#: How tightly an operation binds in text; operands that bind less are put in parentheses.
_BINDING = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys((*COMPARISONS, "is_null", "in", "between", "like", "rlike"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%", "div"), 6),
    "neg": 7,
}
_TIGHTEST = 9


def to_text(expr: Expr) -> str:
    """Readable SQL that parses to the same expression."""
    if isinstance(expr, Column):
        plain = all(part.isidentifier() for part in expr.name.split("."))
        return expr.name if plain else quoted(expr.name)
    return _literal_text(expr) if isinstance(expr, Literal) else _call_text(expr)


def _literal_text(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    if value is None:
        return "NULL" if kind == pa.null() else f"CAST(NULL AS {TYPE_NAMES.get(kind, kind)})"
    if kind == pa.bool_():
        return str(value).upper()
    if kind == pa.string():
        return quoted_text(value)
    if kind == TIMESTAMP:
        return _timestamp_text(value)
    if kind == pa.date32():
        return f"DATE '{value.isoformat()}'"
    if kind == pa.int32() or (kind == pa.int64() and not -(2**31) <= value < 2**31):
        return str(value)
    if kind == pa.float64() and math.isfinite(value):
        return repr(value)
    if kind == pa.float64() or kind == pa.float32():
        return f"CAST('{value!r}' AS {TYPE_NAMES[kind]})"
    return f"{value}L" if kind == pa.int64() else f"CAST({value} AS {TYPE_NAMES.get(kind, kind)})"


def _timestamp_text(micros: int) -> str:
    try:
        moment = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:  # outside the years Python can name
        return f"timestamp_micros({micros})"
    return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(' ')}Z'"


def _call_text(call: Call) -> str:
    binding = _BINDING.get(call.op, _TIGHTEST)
    if call.op in FUNCTIONS or call.op == APPLY:
        return f"{call.called}({', '.join(map(to_text, call.args))})"
    if call.op == "case":
        return _case_text(call)
    if call.op == "cast":
        return f"CAST({to_text(call.args[0])} AS {TYPE_NAMES.get(call.to, call.to)})"
    if call.op in ("and", "or"):
        return f" {call.op.upper()} ".join(_operand(arg, binding + 1) for arg in call.args)
    # Comparisons do not associate; arithmetic does to the left.
    first = _operand(call.args[0], binding + (call.op not in ARITHMETIC))
    rest = [_operand(arg, binding + 1) for arg in call.args[1:]]
    return _special_text(call, first, rest) or f"{first} {call.op.upper()} {rest[0]}"


def _special_text(call: Call, first: str, rest: list[str]) -> str:
    match call.op:
        case "neg":
            return f"-{first}"
        case "is_null":
            return f"{first} IS NULL"
        case "in":
            return f"{first} IN ({', '.join(to_text(arg) for arg in call.args[1:])})"
        case "between":
            return f"{first} BETWEEN {rest[0]} AND {rest[1]}"
        case "not":
            inner = call.args[0]
            if isinstance(inner, Call) and inner.op == "is_null":
                return f"{_operand(inner.args[0], _BINDING['is_null'] + 1)} IS NOT NULL"
            return f"NOT {first}"
    return ""


def _case_text(call: Call) -> str:
    pairs = [f"WHEN {to_text(c)} THEN {to_text(v)}" for c, v in zip(call.args[::2], call.args[1::2], strict=False)]
    otherwise = [f"ELSE {to_text(call.args[-1])}"] if len(call.args) % 2 else []
    return " ".join(["CASE", *pairs, *otherwise, "END"])


def _operand(expr: Expr, needed: int) -> str:
    text = to_text(expr)
    if isinstance(expr, Call):
        return text if _BINDING.get(expr.op, _TIGHTEST) >= needed else f"({text})"
    # A minus sign before a number would otherwise read as a comment or as subtraction.
    return f"({text})" if text.startswith("-") else text
