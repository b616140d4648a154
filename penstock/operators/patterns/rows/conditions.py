"""What variables demand of a row, sorted by how it is tested.

A condition that reads only rows at a fixed distance from the tried one is evaluated for all rows at once, before the search.
The others depend on which rows the match has taken so far: they become programs of the same machine that tests conditions
of event patterns. Values they read of one row are computed for all rows beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidEventPattern
from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import COMPARISONS, Call, Column, Expr, Literal, columns_of, transform
from penstock.expressions.row_queries import RowQuery, scope_of
from penstock.expressions.row_references import FIRST, RowReference
from penstock.expressions.typing import BOOL, DATE, FLOATS, INTEGERS, NULL, Typed, place_of, typed
from penstock.model.schema import TIMESTAMP, Field, Schema
from penstock.operators.patterns import opcodes as op
from penstock.operators.patterns._machine import Programs

_RELATIONS = {"=": op.EQUAL, "<>": op.UNEQUAL, "<": op.LESS, "<=": op.LESS_EQUAL, ">": op.GREATER, ">=": op.GREATER_EQUAL}
_AGGREGATES = {"count": op.AGG_COUNT, "sum": op.AGG_SUM, "avg": op.AGG_AVG, "min": op.AGG_MIN, "max": op.AGG_MAX}
_INT_OPS = {"+": op.ADD_INT, "-": op.SUB_INT, "*": op.MUL_INT, "%": op.MOD_INT, "div": op.DIV_INT}
_FLOAT_OPS = {"+": op.ADD_FLOAT, "-": op.SUB_FLOAT, "*": op.MUL_FLOAT, "%": op.MOD_FLOAT, "/": op.DIV_FLOAT}
_WHOLE = (*INTEGERS, BOOL, DATE, TIMESTAMP)
#: Columns a machine can tell NULL of: one bit of a word each.
_MOST_DERIVED = 62

#: Registers: the tried row, or the first or last of a variable (-1: of all) after passing over some.
CURRENT, FROM_FIRST, FROM_LAST = 0, 1, 2


class _NotTranslated(Exception):
    """The machine has no instruction for a part of a condition."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An aggregate over the rows of a variable (-1: of all), of a derived column (-1: of the rows themselves)."""

    variable: int
    column: int
    is_float: bool


@dataclass
class RowConditions:
    """All conditions of a query over rows of a schema.

    Attributes
    ----------
    direct
        Per variable the condition that is evaluated for all rows at once, over columns and earlier rows; None for the others.
    program
        Per variable the number of its program, or -1.
    derived
        Expressions over a row, and rows at a fixed distance before it, whose values programs read.
    shifts
        Columns of earlier rows that `direct` and `derived` read: name and how many rows before.
    """

    query: RowQuery
    schema: Schema
    direct: list[Expr | None] = field(default_factory=list)
    program: list[int] = field(default_factory=list)
    derived: list[Expr] = field(default_factory=list)
    shifts: list[tuple[str, int]] = field(default_factory=list)
    registers: list[tuple[int, int, int]] = field(default_factory=lambda: [(CURRENT, -1, 0)])
    slots: list[Slot] = field(default_factory=list)
    _code: list[tuple[int, int, int, int, float]] = field(default_factory=list)
    _bounds: list[int] = field(default_factory=lambda: [0])
    _tried: str = ""

    def __post_init__(self) -> None:
        conditions = dict(self.query.definitions)
        for variable in self.query.variables:
            self._tried = variable
            self._place(conditions.get(variable))

    @property
    def scope(self) -> Schema:
        """Columns of a row, and those of earlier ones."""
        earlier = (Field(shifted_name(name, back), self.schema[name].type) for name, back in self.shifts)
        return Schema((*self.schema.fields, *earlier), self.schema.owner)

    @property
    def programs(self) -> Programs:
        code = np.array([item[:3] for item in self._code], np.int64).reshape(-1, 3)
        ints = np.array([item[3] for item in self._code], np.int64)
        floats = np.array([item[4] for item in self._code], np.float64)
        return Programs(code, ints, floats, np.array(self._bounds, np.int64))

    def _place(self, condition: Expr | None) -> None:
        refs = self.query.references_of(condition) if condition is not None else ()
        if condition is None or all(ref.is_current(self._tried) for ref in refs):
            self.direct.append(None if condition is None else self._on_row(condition))
            self.program.append(-1)
            return
        self.direct.append(None)
        self.program.append(self._translated(condition, refs))

    def _on_row(self, expr: Expr) -> Expr:
        """The expression over the columns of the one row it starts from."""
        return transform(expr, self._column_on_row)

    def _column_on_row(self, column: Column) -> Column:
        ref = self.query.reference(column.name)
        shift = (self.schema[ref.attribute].name, ref.back)
        if ref.back and shift not in self.shifts:
            self.shifts.append(shift)
        return replace(column, name=shifted_name(*shift))

    # -- translation ------------------------------------------------------------------------------------------------------

    def _translated(self, condition: Expr, refs: tuple[RowReference, ...]) -> int:
        try:
            self._emit(typed(condition, scope_of(refs, self.schema)))
        except _NotTranslated:
            raise InvalidEventPattern(
                f"'{condition}' cannot be tested while a match grows: between values of different rows there may stand "
                "comparisons, arithmetic, AND, OR and NOT; compute anything else of one row alone",
                place_of(condition),
            ) from None
        loads = sum(item[0] <= op.AGG_MAX for item in self._code[self._bounds[-1] :])
        if len(self.derived) > _MOST_DERIVED or loads > op.STACK:
            raise InvalidEventPattern(
                f"'{condition}' compares too many values of rows; at most {_MOST_DERIVED}", place_of(condition)
            )
        self._bounds.append(len(self._code))
        return len(self._bounds) - 2

    def _emit(self, node: Typed) -> None:
        refs = [self.query.reference(name) for name in sorted(columns_of(node.expr))]
        if not refs:
            self._constant(node)
        elif all(ref.is_navigation for ref in refs) and len({self._register(ref) for ref in refs}) == 1:
            is_float = node.type in FLOATS
            self._add(op.LOAD_FLOAT if is_float else op.LOAD_INT, self._numbered(refs[0]), self._derive(self._on_row(node.expr)))
        elif isinstance(node.expr, Column):
            self._aggregate(refs[0], node.type)
        else:
            assert isinstance(node.expr, Call)
            self._call(node, node.expr)

    def _constant(self, node: Typed) -> None:
        if isinstance(node.expr, Literal):
            value = pa.scalar(node.expr.value, node.type)
        else:
            value = evaluate(node.expr, pa.RecordBatch.from_pydict({"_": pa.array([0])}))[0]
        if not value.is_valid:
            self._add(op.CONST_NULL)
        elif node.type in FLOATS:
            self._add(op.CONST_FLOAT, value=value.as_py())
        elif node.type in _WHOLE:
            self._add(op.CONST_INT, number=int(value.value if node.type in (DATE, TIMESTAMP) else value.as_py()))
        else:
            raise _NotTranslated

    def _register(self, ref: RowReference) -> tuple[int, int, int]:
        if ref.is_current(self._tried):
            return CURRENT, -1, 0
        variable = self.query.variables.index(ref.variable) if ref.variable else -1
        return FROM_FIRST if ref.function == FIRST else FROM_LAST, variable, ref.offset

    def _numbered(self, ref: RowReference) -> int:
        register = self._register(ref)
        if register not in self.registers:
            self.registers.append(register)
        return self.registers.index(register)

    def _derive(self, expr: Expr) -> int:
        if expr not in self.derived:
            self.derived.append(expr)
        return self.derived.index(expr)

    def _aggregate(self, ref: RowReference, kind: pa.DataType) -> None:
        variable = self.query.variables.index(ref.variable) if ref.variable else -1
        if ref.argument is None:
            self._add(op.AGG_EVENTS, 4 * self._slot(Slot(variable, -1, False)))
            return
        of = typed(ref.argument, self.schema).type
        if of not in (*_WHOLE, *FLOATS, pa.string(), pa.binary()):
            raise _NotTranslated
        is_float = of in FLOATS
        slot = self._slot(Slot(variable, self._derive(ref.argument), is_float))
        self._add(_AGGREGATES[ref.function], 4 * slot, int(is_float))

    def _slot(self, slot: Slot) -> int:
        if slot not in self.slots:
            self.slots.append(slot)
        return self.slots.index(slot)

    def _call(self, node: Typed, call: Call) -> None:
        if call.op in COMPARISONS:
            self._comparison(_RELATIONS.get(call.op, op.NULL_SAFE), node.args[0], node.args[1])
        elif call.op == "between":
            self._comparison(op.GREATER_EQUAL, node.args[0], node.args[1])
            self._comparison(op.LESS_EQUAL, node.args[0], node.args[2])
            self._add(op.AND)
        elif call.op == "in":
            for number, item in enumerate(node.args[1:]):
                self._comparison(op.EQUAL, node.args[0], item)
                if number:
                    self._add(op.OR)
        elif call.op in ("and", "or"):
            for number, arg in enumerate(node.args):
                self._emit(arg)
                if number:
                    self._add(op.AND if call.op == "and" else op.OR)
        elif call.op in ("not", "is_null"):
            self._emit(node.args[0])
            self._add(op.NOT if call.op == "not" else op.IS_NULL)
        elif call.op == "cast":
            self._cast(node)
        else:
            self._arithmetic(node, call)

    def _cast(self, node: Typed) -> None:
        source, target = node.args[0].type, node.type
        self._emit(node.args[0])
        if source in INTEGERS and target in FLOATS:
            self._add(op.INT_TO_FLOAT, target.bit_width)
        elif not any(source in kinds and target in kinds and source.bit_width <= target.bit_width for kinds in (INTEGERS, FLOATS)):
            raise _NotTranslated

    def _comparison(self, relation: int, one: Typed, other: Typed) -> None:
        if any(isinstance(arg.expr, Literal) and arg.type not in (*_WHOLE, *FLOATS, NULL) for arg in (one, other)):
            raise _NotTranslated  # texts are numbered batch by batch: a constant among them has no number
        self._emit(one)
        self._emit(other)
        self._add(op.CMP_FLOAT if one.type in FLOATS else op.CMP_INT, relation)

    def _arithmetic(self, node: Typed, call: Call) -> None:
        table = _FLOAT_OPS if node.type in FLOATS else _INT_OPS
        negation = op.NEG_FLOAT if node.type in FLOATS else op.NEG_INT
        if call.op not in table and call.op != "neg":
            raise _NotTranslated
        for arg in node.args:
            self._emit(arg)
        bits = 64 if node.type == TIMESTAMP else node.type.bit_width
        self._add(negation if call.op == "neg" else table[call.op], bits)

    def _add(self, code: int, a: int = 0, b: int = 0, number: int = 0, value: float = 0.0) -> None:
        self._code.append((code, a, b, number, value))


def shifted_name(name: str, back: int) -> str:
    """What a column is called that holds the value of an earlier row."""
    return name if not back else f"PREV({name}, {back})"
