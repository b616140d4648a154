"""Conditions across events as programs of the machine that compiled loops run.

Event patterns and row patterns name their events differently; everything else about a condition is the same. So the
translation asks for each name which event it is read of, and knows nothing of variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import COMPARISONS, Call, Column, Expr, Literal, columns_of
from penstock.expressions.text import constants
from penstock.expressions.typing import BOOL, DATE, FLOATS, INTEGERS, NULL, Typed, typed
from penstock.model.schema import TIMESTAMP, Schema
from penstock.operators.patterns import opcodes as op
from penstock.operators.patterns._machine import Programs
from penstock.operators.patterns.choices import choice_of

_RELATIONS = {"=": op.EQUAL, "<>": op.UNEQUAL, "<": op.LESS, "<=": op.LESS_EQUAL, ">": op.GREATER, ">=": op.GREATER_EQUAL}
_AGGREGATES = {"count": op.AGG_COUNT, "sum": op.AGG_SUM, "avg": op.AGG_AVG, "min": op.AGG_MIN, "max": op.AGG_MAX}
#: Arithmetic and functions by the type of their result: on whole numbers, on floats; and functions of floats.
_INT_OPS = {
    "+": op.ADD_INT,
    "-": op.SUB_INT,
    "*": op.MUL_INT,
    "%": op.MOD_INT,
    "div": op.DIV_INT,
    "neg": op.NEG_INT,
    "abs": op.ABS_INT,
}
_FLOAT_OPS = {
    "+": op.ADD_FLOAT,
    "-": op.SUB_FLOAT,
    "*": op.MUL_FLOAT,
    "%": op.MOD_FLOAT,
    "/": op.DIV_FLOAT,
    "neg": op.NEG_FLOAT,
    "abs": op.ABS_FLOAT,
    "sqrt": op.SQRT,
    "power": op.POWER,
}
_OF_FLOATS = {"floor": op.FLOOR, "ceil": op.CEIL, "isnan": op.IS_NAN}
_EXTREMES = {"least": (op.LEAST_INT, op.LEAST_FLOAT), "greatest": (op.GREATEST_INT, op.GREATEST_FLOAT)}
_MICROS_PER_DAY = 86_400_000_000
_WHOLE = (*INTEGERS, BOOL, DATE, TIMESTAMP)
#: Texts are numbered in their order, search by search.
TEXTS = (pa.string(), pa.binary())
_KINDS = (*_WHOLE, *FLOATS, *TEXTS)
#: Columns a machine can tell NULL of: one bit of a word each.
MOST_DERIVED = 62


class NotTranslated(Exception):
    """The machine has no instruction for a part of a condition; says which, and what to do."""


class Aggregate(NamedTuple):
    """An aggregate over the events of a variable (-1: of all); without argument, of the events themselves."""

    function: str
    variable: int
    argument: Expr | None
    is_before: bool = False


class Read(NamedTuple):
    """What a name stands for: a value of the event in a register, or an aggregate, while that register has some event."""

    register: int
    aggregate: Aggregate | None = None


class References(Protocol):
    """How the conditions of a query name what they read."""

    def resolve(self, name: str) -> Read:
        """What a column of a condition stands for."""
        ...

    def on_row(self, expr: Expr) -> Expr:
        """An expression that reads one event, over the columns of a row."""
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """An aggregate kept while a match grows: of which variable, over which derived column (-1: of the events themselves).

    Over all events so far, or over those before the current one: the two differ while a finished list is looked through.
    """

    variable: int
    column: int
    is_float: bool
    is_before: bool = False


@dataclass
class Translation:
    """Programs of several conditions, and what they read.

    Attributes
    ----------
    references, schema
        How names are understood, and the columns of a row.
    derived
        Expressions over a row whose values programs read; column k of the machine's tables.
    slots
        Aggregates; number k has the cells from 4 k on.
    """

    references: References
    schema: Schema
    derived: list[Expr] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    _code: list[tuple[int, int, int, int, float]] = field(default_factory=list)
    _bounds: list[int] = field(default_factory=lambda: [0])
    _height: int = 0
    #: A register that has an event whenever the condition is tested.
    _anywhere: int = 0

    @property
    def programs(self) -> Programs:
        code = np.array([item[:3] for item in self._code], np.int64).reshape(-1, 3)
        ints = np.array([item[3] for item in self._code], np.int64)
        floats = np.array([item[4] for item in self._code], np.float64)
        return Programs(code, ints, floats, np.array(self._bounds, np.int64))

    def translate(self, condition: Typed) -> int:
        """The number of the program; one that cannot be written leaves no trace.

        Raises
        ------
        NotTranslated
            The condition needs what the machine has not.
        """
        before = len(self._code), len(self.derived), len(self.slots)
        self._height = 0
        names = columns_of(condition.expr)
        self._anywhere = self.references.resolve(min(names)).register if names else 0
        try:
            self._emit(condition)
            if len(self.derived) > MOST_DERIVED:
                raise NotTranslated(f"all conditions together read more than {MOST_DERIVED} values of events; split the query")
        except NotTranslated:
            del self._code[before[0] :], self.derived[before[1] :], self.slots[before[2] :]
            raise
        self._bounds.append(len(self._code))
        return len(self._bounds) - 2

    def _emit(self, node: Typed) -> None:
        reads = [self.references.resolve(name) for name in sorted(columns_of(node.expr))]
        if not reads:
            self._constant(node)
        elif node.type == NULL:
            self._add(op.CONST_NULL)
        elif len({read.register for read in reads}) == 1 and not any(read.aggregate for read in reads):
            self._load(node, reads[0].register)
        elif isinstance(node.expr, Column):
            assert reads[0].aggregate is not None
            self._aggregate(node, reads[0].aggregate)
        else:
            assert isinstance(node.expr, Call)
            self._call(node, node.expr)

    # -- values -----------------------------------------------------------------------------------------------------------

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
            # A text has a number only among others, so it becomes a value that all events share.
            self._load(Typed(Literal(value.as_py(), node.type), node.type), self._anywhere)

    def _load(self, node: Typed, register: int) -> None:
        if node.type not in _KINDS:
            raise NotTranslated(f"'{node.expr}' has values of a type that cannot be compared")
        self._add(op.LOAD_FLOAT if node.type in FLOATS else op.LOAD_INT, register, self._derive(self.references.on_row(node.expr)))

    def _derive(self, expr: Expr) -> int:
        if expr not in self.derived:
            self.derived.append(expr)
        return self.derived.index(expr)

    def _aggregate(self, node: Typed, asked: Aggregate) -> None:
        if asked.argument is None:
            self._add(op.AGG_EVENTS, 4 * self._slot(Slot(asked.variable, -1, False, asked.is_before)))
            return
        of = typed(asked.argument, self.schema).type
        if of not in _KINDS:
            raise NotTranslated(f"'{node.expr}' has values of a type that cannot be compared")
        slot = self._slot(Slot(asked.variable, self._derive(asked.argument), of in FLOATS, asked.is_before))
        self._add(_AGGREGATES[asked.function], 4 * slot, int(of in FLOATS))

    def _slot(self, slot: Slot) -> int:
        if slot not in self.slots:
            self.slots.append(slot)
        return self.slots.index(slot)

    # -- operations -------------------------------------------------------------------------------------------------------

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
            self._folded(node.args, op.AND if call.op == "and" else op.OR)
        elif call.op in ("not", "is_null"):
            self._emit(node.args[0])
            self._add(op.NOT if call.op == "not" else op.IS_NULL)
        elif call.op == "coalesce":
            self._folded(node.args, op.COALESCE)
        elif call.op in _EXTREMES:
            self._folded(node.args, _EXTREMES[call.op][node.type in FLOATS])
        elif call.op == "case":
            self._case(node)
        elif call.op == "cast":
            self._cast(node)
        else:
            self._function(node, call)

    def _comparison(self, relation: int, one: Typed, other: Typed) -> None:
        self._emit(one)
        self._emit(other)
        self._add(op.CMP_FLOAT if one.type in FLOATS else op.CMP_INT, relation)

    def _folded(self, args: tuple[Typed, ...], code: int) -> None:
        for number, arg in enumerate(args):
            self._emit(arg)
            if number:
                self._add(code)

    def _case(self, node: Typed) -> None:
        """All values are computed, which is safe as nothing can fail; then the last choice is made first."""
        pairs = len(node.args) // 2
        for arg in node.args:
            self._emit(arg)
        if len(node.args) % 2 == 0:
            self._add(op.CONST_NULL)
        for _ in range(pairs):
            self._add(op.CHOOSE)

    def _cast(self, node: Typed) -> None:
        source, target = node.args[0].type, node.type
        is_known = target in (*INTEGERS, *FLOATS, BOOL) and source in (*INTEGERS, *FLOATS, BOOL)
        if not is_known and (source, target) != (DATE, TIMESTAMP):
            self._choice(node)
            return
        self._emit(node.args[0])
        if target == TIMESTAMP:
            self._add(op.CONST_INT, number=_MICROS_PER_DAY)
            self._add(op.MUL_INT, 64)
        elif target == BOOL:
            self._add(op.CONST_FLOAT if source in FLOATS else op.CONST_INT)
            self._add(op.CMP_FLOAT if source in FLOATS else op.CMP_INT, op.UNEQUAL)
        elif source in FLOATS:
            self._from_float(source, target)
        elif target in FLOATS:
            self._add(op.INT_TO_FLOAT, target.bit_width)
        elif source != BOOL and source.bit_width > target.bit_width:
            self._add(op.FIT_INT, target.bit_width)

    def _from_float(self, source: pa.DataType, target: pa.DataType) -> None:
        if target in INTEGERS:
            self._add(op.FLOAT_TO_INT, target.bit_width)
        elif source.bit_width > target.bit_width:
            self._add(op.FIT_FLOAT)

    def _function(self, node: Typed, call: Call) -> None:
        codes = _FLOAT_OPS if node.type in FLOATS else _INT_OPS
        bits = 64 if node.type == TIMESTAMP or node.type in TEXTS else node.type.bit_width
        if call.op == "round":
            self._emit(node.args[0])
            if node.type in FLOATS:
                self._add(op.ROUND, bits, int(next(iter(constants(node, 1)), 0)))
        elif call.op in _OF_FLOATS:
            self._emit(node.args[0])
            if node.args[0].type in FLOATS:  # whole numbers stay what they are
                self._add(_OF_FLOATS[call.op], bits)
        elif call.op in codes:
            for arg in node.args:
                self._emit(arg)
            self._add(codes[call.op], bits)
        else:
            self._choice(node)

    def _choice(self, node: Typed) -> None:
        choice = choice_of(node)
        if choice is None:
            raise NotTranslated(
                f"'{node.expr}' is computed of several events; between them there may stand comparisons, arithmetic, AND, OR, NOT, "
                "CASE, COALESCE, LEAST, GREATEST, ABS, ROUND, FLOOR, CEIL, SQRT, POWER and casts of numbers. Compute anything else "
                "of one event alone, or select among the matches in a query around this one"
            )
        self._case(choice)

    def _add(self, code: int, a: int = 0, b: int = 0, number: int = 0, value: float = 0.0) -> None:
        self._height += op.GROWTH.get(code, 0)
        if self._height > op.STACK:
            raise NotTranslated(f"it needs more than {op.STACK} values at a time; use smaller conditions joined by AND")
        self._code.append((code, a, b, number, value))
