"""Conditions of an event query, sorted by when they can be tested, and translated for the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.evaluate import evaluate
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import At, Reference, reference, references_of
from penstock.expressions.match_schema import reference_schema
from penstock.expressions.nodes import COMPARISONS, Call, Column, Expr, Literal, columns_of, transform
from penstock.expressions.typing import BOOL, DATE, FLOATS, INTEGERS, NULL, Typed, typed
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.operators.patterns import opcodes as op
from penstock.operators.patterns._machine import Programs

_RELATIONS = {"=": op.EQUAL, "<>": op.UNEQUAL, "<": op.LESS, "<=": op.LESS_EQUAL, ">": op.GREATER, ">=": op.GREATER_EQUAL}
_AGGREGATES = {"count": op.AGG_COUNT, "sum": op.AGG_SUM, "avg": op.AGG_AVG, "min": op.AGG_MIN, "max": op.AGG_MAX}
_INT_OPS = {"+": op.ADD_INT, "-": op.SUB_INT, "*": op.MUL_INT, "%": op.MOD_INT, "div": op.DIV_INT}
_FLOAT_OPS = {"+": op.ADD_FLOAT, "-": op.SUB_FLOAT, "*": op.MUL_FLOAT, "%": op.MOD_FLOAT, "/": op.DIV_FLOAT}
_WHOLE = (*INTEGERS, BOOL, DATE, TIMESTAMP)


class NotTranslated(Exception):
    """The machine has no instruction for a part of a condition."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An aggregate kept while a list of events grows: of which atom, over which derived column (-1: events themselves).

    Over all events so far, or over those before the current one: the two differ while a finished list is looked through.
    """

    atom: int
    column: int
    is_float: bool
    is_before: bool


class OwnCondition:
    """A condition on one event, which needs a few of its columns."""

    def __init__(self, expr: Expr, schema: Schema) -> None:
        read = {schema.index(name) for name in columns_of(expr)} or {0}
        self._places, scope = sorted(read), schema.select([schema.names[place] for place in sorted(read)])
        self._schema, self._test = scope.arrow, compile_expression(expr, scope)

    def mask(self, rows: pa.RecordBatch, chosen: Int64s) -> Bools:
        indices = pa.array(chosen)
        columns = [rows.column(place).take(indices) for place in self._places]
        return self._test.mask(pa.RecordBatch.from_arrays(columns, schema=self._schema))


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that involves more than one event.

    Parameters
    ----------
    bound, closed
        Numbers of the atoms it needs: with an event, and with a finished list.
    iterated
        The atom over whose events it runs, or -1; `needs_previous` exempts the first of them.
    absent
        The absence it restricts, or -1.
    program
        Its number among the programs; -1 when the machine has no instruction for it.
    """

    expr: Expr
    bound: frozenset[int]
    closed: frozenset[int]
    iterated: int = -1
    needs_previous: bool = False
    absent: int = -1
    program: int = -1


@dataclass
class Conditions:
    """All conditions of a query over rows of a schema.

    Attributes
    ----------
    local
        For each leaf (atoms first, then absences) what its own events must satisfy, over columns of a row.
    across
        Conditions that involve several events, or a particular one of a list.
    derived
        Expressions over a row whose values the machine reads; column k of its tables.
    """

    query: EventQuery
    schema: Schema
    local: list[list[Expr]] = field(default_factory=list)
    across: list[Condition] = field(default_factory=list)
    derived: list[Expr] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    _code: list[tuple[int, int, int, int, float]] = field(default_factory=list)
    _bounds: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        self._atoms = {leaf.variable: number for number, leaf in enumerate(self.query.atoms)}
        self._absences = {leaf.variable: number for number, leaf in enumerate(self.query.absences)}
        self.local = [[] for _ in range(len(self._atoms) + len(self._absences))]
        for condition in self.query.conditions:
            self._place(condition)

    @property
    def programs(self) -> Programs:
        code = np.array([item[:3] for item in self._code], np.int64).reshape(-1, 3)
        ints = np.array([item[3] for item in self._code], np.int64)
        floats = np.array([item[4] for item in self._code], np.float64)
        return Programs(code, ints, floats, np.array(self._bounds, np.int64))

    def derived_kinds(self) -> list[pa.DataType]:
        return [compile_expression(expr, self.schema).type for expr in self.derived]

    # -- placing ----------------------------------------------------------------------------------------------------------

    def _place(self, condition: Expr) -> None:
        refs = references_of(condition)
        typed(condition, self._reference_schema(refs))  # a mistake in types is reported here, whatever happens later
        variables = {ref.variable for ref in refs}
        alone = {(ref.at, ref.function) for ref in refs}
        if len(variables) == 1 and alone in ({(At.ONLY, "")}, {(At.CURRENT, "")}):
            (variable,) = variables
            place = self._atoms[variable] if variable in self._atoms else len(self._atoms) + self._absences[variable]
            self.local[place].append(_on_row(condition))
            return
        self.across.append(self._across(condition, refs))

    def _across(self, condition: Expr, refs: tuple[Reference, ...]) -> Condition:
        positive = [ref for ref in refs if ref.variable in self._atoms]
        iterated = {self._atoms[ref.variable] for ref in positive if ref.is_iterated}
        finished = {self._atoms[ref.variable] for ref in positive if ref.at is At.LAST or (ref.function and ref.at is At.ONLY)}
        absent = {self._absences[ref.variable] for ref in refs if ref.variable in self._absences}
        return Condition(
            condition,
            frozenset(self._atoms[ref.variable] for ref in positive),
            frozenset(finished),
            next(iter(iterated), -1),
            any(ref.needs_previous for ref in refs),
            next(iter(absent), -1),
            self._translated(condition, refs),
        )

    def _reference_schema(self, refs: tuple[Reference, ...]) -> Schema:
        return reference_schema(refs, self.schema)

    # -- translation ------------------------------------------------------------------------------------------------------

    def _translated(self, condition: Expr, refs: tuple[Reference, ...]) -> int:
        """Number of the program, or -1; a condition that cannot be translated leaves no trace."""
        before = len(self._code), len(self.derived), len(self.slots)
        try:
            self._emit(typed(condition, self._reference_schema(refs)))
        except NotTranslated:
            del self._code[before[0] :], self.derived[before[1] :], self.slots[before[2] :]
            return -1
        self._bounds.append(len(self._code))
        return len(self._bounds) - 2

    def _emit(self, node: Typed) -> None:
        names = columns_of(node.expr)
        if not names:
            self._constant(node)
        elif (refs := {reference(name) for name in names}) and self._is_of_one_event(refs):
            self._load(node, next(iter(refs)))
        elif isinstance(node.expr, Column):
            self._aggregate(reference(node.expr.name), node.type)
        else:
            assert isinstance(node.expr, Call)
            self._call(node, node.expr)

    def _is_of_one_event(self, refs: set[Reference]) -> bool:
        return len({(ref.variable, ref.at) for ref in refs}) == 1 and not any(ref.function for ref in refs)

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
            raise NotTranslated

    def _load(self, node: Typed, ref: Reference) -> None:
        is_float = node.type in FLOATS
        self._add(op.LOAD_FLOAT if is_float else op.LOAD_INT, self._register(ref), self._derive(_on_row(node.expr)))

    def _register(self, ref: Reference) -> int:
        """Twice the atom for its first event, one more for its last; then the absent, the current and the previous event."""
        atoms = len(self._atoms)
        if ref.variable in self._absences:
            return 2 * atoms
        if ref.at in (At.CURRENT, At.PREVIOUS):
            return 2 * atoms + (1 if ref.at is At.CURRENT else 2)
        return 2 * self._atoms[ref.variable] + (ref.at is not At.FIRST)

    def _derive(self, expr: Expr) -> int:
        if expr not in self.derived:
            self.derived.append(expr)
        return self.derived.index(expr)

    def _aggregate(self, ref: Reference, kind: pa.DataType) -> None:
        atom, is_before = self._atoms[ref.variable], ref.at is At.BEFORE
        if ref.function == "count" and not ref.attribute:
            self._add(op.AGG_EVENTS, 4 * self._slot(Slot(atom, -1, False, is_before)))
            return
        of = self.schema[ref.attribute].type
        column = self._derive(Column(ref.attribute))
        is_float = of in FLOATS
        self._add(_AGGREGATES[ref.function], 4 * self._slot(Slot(atom, column, is_float, is_before)), int(is_float))
        if ref.function in ("min", "max") and kind not in (*_WHOLE, *FLOATS, pa.string(), pa.binary()):
            raise NotTranslated

    def _slot(self, slot: Slot) -> int:
        if slot not in self.slots:
            self.slots.append(slot)
        return self.slots.index(slot)

    def _call(self, node: Typed, call: Call) -> None:
        kinds = [arg.type for arg in node.args]
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
        elif call.op == "cast" and kinds[0] in INTEGERS and node.type in FLOATS:
            self._emit(node.args[0])
            self._add(op.INT_TO_FLOAT, node.type.bit_width)
        elif call.op == "cast" and _is_widening(kinds[0], node.type):
            self._emit(node.args[0])
        else:
            self._arithmetic(node, call)

    def _comparison(self, relation: int, one: Typed, other: Typed) -> None:
        if any(isinstance(arg.expr, Literal) and arg.type not in (*_WHOLE, *FLOATS, NULL) for arg in (one, other)):
            raise NotTranslated  # texts are numbered batch by batch: a constant among them has no number
        self._emit(one)
        self._emit(other)
        self._add(op.CMP_FLOAT if one.type in FLOATS else op.CMP_INT, relation)

    def _arithmetic(self, node: Typed, call: Call) -> None:
        table = _FLOAT_OPS if node.type in FLOATS else _INT_OPS
        negation = op.NEG_FLOAT if node.type in FLOATS else op.NEG_INT
        if call.op not in table and call.op != "neg":
            raise NotTranslated
        for arg in node.args:
            self._emit(arg)
        bits = 64 if node.type == TIMESTAMP else node.type.bit_width
        self._add(negation if call.op == "neg" else table[call.op], bits)

    def _add(self, code: int, a: int = 0, b: int = 0, number: int = 0, value: float = 0.0) -> None:
        self._code.append((code, a, b, number, value))


def _on_row(expr: Expr) -> Expr:
    """The expression over the columns of the one event it reads."""
    return transform(expr, lambda column: replace(column, name=reference(column.name).attribute))


def _is_widening(source: pa.DataType, target: pa.DataType) -> bool:
    both = (source, target)
    if all(kind in INTEGERS for kind in both) or all(kind in FLOATS for kind in both):
        return bool(source.bit_width <= target.bit_width)
    return False
