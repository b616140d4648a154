"""Conditions of an event query, sorted by when they can be tested, and translated for the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.columnar.codes import Bools
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import At, Reference, reference, references_of
from penstock.expressions.match_schema import reference_schema
from penstock.expressions.nodes import Column, Expr, columns_of, transform
from penstock.expressions.typing import typed
from penstock.model.batch import Int64s
from penstock.model.schema import Schema
from penstock.operators.patterns.limits import growth_limits
from penstock.operators.patterns.translation import Aggregate, NotTranslated, Read, Translation


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
class PatternCondition:
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
        Its number among the programs; -1 when the machine has no instruction for it, and `missing` says which.
    """

    expr: Expr
    bound: frozenset[int]
    closed: frozenset[int]
    iterated: int = -1
    needs_previous: bool = False
    absent: int = -1
    program: int = -1
    missing: str = ""


@dataclass
class PatternConditions:
    """All conditions of a query over rows of a schema.

    Attributes
    ----------
    local
        For each leaf (atoms first, then absences) what its own events must satisfy, over columns of a row.
    across
        Conditions that involve several events, or a particular one of a list.
    translation
        Their programs, and what those read of a row.
    """

    query: EventQuery
    schema: Schema
    local: list[list[Expr]] = field(default_factory=list)
    across: list[PatternCondition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.translation = Translation(self, self.schema)
        self._atoms = {leaf.variable: number for number, leaf in enumerate(self.query.atoms)}
        self._absences = {leaf.variable: number for number, leaf in enumerate(self.query.absences)}
        self.local = [[] for _ in range(len(self._atoms) + len(self._absences))]
        for condition in self.query.conditions:
            self._place(condition)
        for limit in growth_limits(self.query, self.schema):
            self._place(limit)

    # -- placing ----------------------------------------------------------------------------------------------------------

    def _place(self, condition: Expr) -> None:
        refs = references_of(condition)
        typed(condition, reference_schema(refs, self.schema))  # a mistake in types is reported here, whatever happens later
        variables = {ref.variable for ref in refs}
        alone = {(ref.at, ref.function) for ref in refs}
        if len(variables) == 1 and alone in ({(At.ONLY, "")}, {(At.CURRENT, "")}):
            (variable,) = variables
            place = self._atoms[variable] if variable in self._atoms else len(self._atoms) + self._absences[variable]
            self.local[place].append(self.on_row(condition))
            return
        self.across.append(self._across(condition, refs))

    def _across(self, condition: Expr, refs: tuple[Reference, ...]) -> PatternCondition:
        positive = [ref for ref in refs if ref.variable in self._atoms]
        iterated = {self._atoms[ref.variable] for ref in positive if ref.is_iterated}
        finished = {self._atoms[ref.variable] for ref in positive if ref.at is At.LAST or (ref.function and ref.at is At.ONLY)}
        absent = {self._absences[ref.variable] for ref in refs if ref.variable in self._absences}
        return PatternCondition(
            condition,
            frozenset(self._atoms[ref.variable] for ref in positive),
            frozenset(finished),
            next(iter(iterated), -1),
            any(ref.needs_previous for ref in refs),
            next(iter(absent), -1),
            *self._translated(condition, refs),
        )

    # -- translation ------------------------------------------------------------------------------------------------------

    def _translated(self, condition: Expr, refs: tuple[Reference, ...]) -> tuple[int, str]:
        """The number of the program, or -1 and why there is none."""
        try:
            return self.translation.translate(typed(condition, reference_schema(refs, self.schema))), ""
        except NotTranslated as missing:
            return -1, str(missing)

    def resolve(self, name: str) -> Read:
        ref = reference(name)
        if not ref.function:
            return Read(self._register(ref))
        atom = self._atoms[ref.variable]
        argument = Column(ref.attribute) if ref.attribute else None
        return Read(2 * atom + 1, Aggregate(ref.function, atom, argument, ref.at is At.BEFORE))

    def _register(self, ref: Reference) -> int:
        """Twice the atom for its first event, one more for its last; then the absent, the current and the previous event."""
        atoms = len(self._atoms)
        if ref.variable in self._absences:
            return 2 * atoms
        if ref.at in (At.CURRENT, At.PREVIOUS):
            return 2 * atoms + (1 if ref.at is At.CURRENT else 2)
        return 2 * self._atoms[ref.variable] + (ref.at is not At.FIRST)

    def on_row(self, expr: Expr) -> Expr:
        """The expression over the columns of the one event it reads."""
        return transform(expr, lambda column: replace(column, name=reference(column.name).attribute))
