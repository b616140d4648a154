"""The vectorised reading: an expression over a record batch gives a column.

Results are Spark's: three-valued logic, NULL in gives NULL out unless an operation says otherwise, NaN equal to itself
and greater than every number, -0.0 equal to 0.0, `/` in double, `%` with the sign of the dividend.

One difference is deliberate. Where Spark in ANSI mode raises (division by zero, integer overflow, a cast of a value
that has no counterpart) Penstock gives NULL: an error in one row must not stop a stream. `spark_sql` writes text of the
same meaning, so the difference does not depend on where an expression runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import TypeMistake
from penstock.expressions import clock, logic, numeric, text
from penstock.expressions.applying import application
from penstock.expressions.casts import cast
from penstock.expressions.nodes import APPLY, COMPARISONS, Column, Expr, Literal, conjuncts, reads_columns
from penstock.expressions.numeric import Datum
from penstock.expressions.text import constants
from penstock.expressions.typing import BOOL, CLOCK_PARTS, FLOATS, Typed, place_of, type_name, typed
from penstock.expressions.user_functions import has_functions
from penstock.model.schema import TIMESTAMP, Schema

Function = Callable[..., Datum]
Reader = Callable[[pa.RecordBatch], Datum]


def evaluate(expr: Expr, rows: pa.RecordBatch) -> pa.Array:
    """The column `expr` has over `rows`; use `compile` where batches follow each other.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> rows = pa.RecordBatch.from_pydict({"price": [10, None, 7], "count": [4, 1, 0]})
    >>> evaluate(parse("price / count"), rows).to_pylist()
    [2.5, None, None]
    """
    return compile(expr, Schema.from_arrow(rows.schema))(rows)


def mask(expr: Expr, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows a predicate selects; a row for which it is NULL is not selected."""
    return compile(expr, Schema.from_arrow(rows.schema)).mask(rows)


def compile(expr: Expr, schema: Schema) -> Compiled:
    """Resolve names, choose functions and fold constants once, for rows of `schema`."""
    return Compiled(expr, schema)


@dataclass(frozen=True)
class Compiled:
    """An expression ready for the hot path; travels between processes as expression and schema."""

    expr: Expr
    schema: Schema
    type: pa.DataType = field(init=False, compare=False)
    _read: Reader = field(init=False, compare=False, repr=False)
    _steps: tuple[Compiled, ...] = field(init=False, compare=False, repr=False, default=())

    def __post_init__(self) -> None:
        node = typed(self.expr, self.schema)
        object.__setattr__(self, "type", node.type)
        object.__setattr__(self, "_read", _reader(node, self.schema))
        parts = conjuncts(self.expr) if has_functions(self.expr) else []
        if len(parts) > 1:
            object.__setattr__(self, "_steps", tuple(Compiled(part, self.schema) for part in parts))

    def __reduce__(self) -> tuple[object, ...]:
        return (Compiled, (self.expr, self.schema))

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        result = self._read(rows)
        return pa.repeat(result, rows.num_rows) if isinstance(result, pa.Scalar) else result

    def mask(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Rows for which the predicate is true; a user's function sees only rows that meet the conditions written before it."""
        if self._steps:
            return self._mask_in_steps(rows)
        if self.type not in (BOOL, pa.null()):
            raise TypeMistake(f"'{self.expr}' is a {type_name(self.type)}, not a condition", place_of(self.expr))
        chosen = self(rows)
        if chosen.null_count or chosen.type != BOOL:
            chosen = pc.fill_null(pc.cast(chosen, BOOL), False)
        result: npt.NDArray[np.bool_] = chosen.to_numpy(zero_copy_only=False)
        return result

    def _mask_in_steps(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        left = np.arange(rows.num_rows)
        for step in self._steps:
            reaching = rows if len(left) == rows.num_rows else rows.take(pa.array(left))
            left = left[step.mask(reaching)]
        result = np.zeros(rows.num_rows, np.bool_)
        result[left] = True
        return result


def _reader(node: Typed, schema: Schema) -> Reader:
    if isinstance(node.expr, Column):
        position = schema.index(node.expr.name)
        return lambda rows: rows.column(position)
    if isinstance(node.expr, Literal):
        constant = pa.scalar(node.expr.value, node.type)
        return lambda _: constant
    read = _application(_FUNCTIONS[node.expr.op](node), [_reader(arg, schema) for arg in node.args])
    if reads_columns(node.expr):
        return read
    folded = read(None)  # reads no column, so no rows are needed
    return lambda _: folded


def _application(function: Function, operands: list[Reader]) -> Reader:
    if len(operands) == 1:
        (only,) = operands
        return lambda rows: function(only(rows))
    if len(operands) == 2:
        first, second = operands
        return lambda rows: function(first(rows), second(rows))
    return lambda rows: function(*[operand(rows) for operand in operands])


def _sum(name: str) -> Callable[[Typed], Function]:
    def prepare(node: Typed) -> Function:
        if any(arg.type == TIMESTAMP for arg in node.args):
            return clock.shifted(name, node.type)
        return getattr(pc, name) if node.type in FLOATS else numeric.checked(name)

    return prepare


def _always(function: Function) -> Callable[[Typed], Function]:
    return lambda _: function


def _compared(op: str) -> Callable[[Typed], Function]:
    return lambda node: logic.comparison(op, *node.args)


def _rounded(node: Typed) -> Function:
    function = numeric.rounded(int(next(iter(constants(node, 1)), 0)))
    return lambda value, *_: function(value)


def _is_nan(value: Datum) -> Datum:
    return pc.fill_null(pc.is_nan(value), False)


_FUNCTIONS: dict[str, Callable[[Typed], Function]] = {
    "+": _sum("add"),
    "-": _sum("subtract"),
    "*": _sum("multiply"),
    "/": _always(numeric.divide),
    "%": _always(numeric.remainder),
    "div": _always(numeric.integral_divide),
    "neg": _always(numeric.negate),
    **{op: _compared(op) for op in COMPARISONS},
    "and": _always(logic.conjunction),
    "or": _always(logic.disjunction),
    "not": _always(pc.invert),
    "is_null": _always(pc.is_null),
    "in": logic.contained,
    "between": logic.between,
    "case": logic.choice,
    "coalesce": _always(pc.coalesce),
    "least": lambda node: logic.extreme(node, largest=False),
    "greatest": lambda node: logic.extreme(node, largest=True),
    "cast": lambda node: cast(node.args[0].type, node.type),
    "abs": _always(numeric.absolute),
    "ceil": _always(numeric.to_integral(pc.ceil)),
    "floor": _always(numeric.to_integral(pc.floor)),
    "round": _rounded,
    "sqrt": _always(pc.sqrt),
    "power": _always(numeric.power),
    "isnan": _always(_is_nan),
    "like": text.like,
    "rlike": text.rlike,
    "length": _always(pc.utf8_length),
    "lower": _always(text.changed_case(text.lower)),
    "upper": _always(text.changed_case(text.upper)),
    "substring": text.substring,
    "concat": _always(text.concatenated),
    "trim": _always(text.trimmed(pc.utf8_trim)),
    "ltrim": _always(text.trimmed(pc.utf8_ltrim)),
    "rtrim": _always(text.trimmed(pc.utf8_rtrim)),
    "startswith": text.tested(pc.starts_with),
    "endswith": text.tested(pc.ends_with),
    "contains": text.tested(pc.match_substring),
    **{name: _always(clock.calendar_part(number)) for number, name in enumerate(("year", "month", "day"))},
    **{name: _always(clock.clock_part(*length)) for name, length in CLOCK_PARTS.items()},
    "date_trunc": clock.truncated,
    APPLY: application,
}
