"""What variables demand of a row, sorted by how it is tested.

A condition that reads only rows at a fixed distance from the tried one is evaluated for all rows at once, before the search.
The others depend on which rows the match has taken so far: they become programs of the same machine that tests conditions
of event patterns. Values they read of one row are computed for all rows beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.errors import InvalidEventPattern
from penstock.expressions.nodes import Column, Expr, transform
from penstock.expressions.row_queries import RowQuery, scope_of
from penstock.expressions.row_references import FIRST, RowReference
from penstock.expressions.typing import place_of, typed
from penstock.model.schema import Field, Schema
from penstock.operators.patterns.translation import Aggregate, NotTranslated, Read, Translation

#: Registers: the tried row, or the first or last of a variable (-1: of all) after passing over some.
CURRENT, FROM_FIRST, FROM_LAST = 0, 1, 2


@dataclass
class RowConditions:
    """All conditions of a query over rows of a schema.

    Attributes
    ----------
    direct
        Per variable the condition that is evaluated for all rows at once, over columns and earlier rows; None for the others.
    program
        Per variable the number of its program, or -1.
    shifts
        Columns of earlier rows that conditions read: name and how many rows before.
    registers
        Rows that programs read: kind, variable, and how many to pass over. The first is the tried row.
    translation
        The programs, and what they read of a row and rows at a fixed distance before it.
    """

    query: RowQuery
    schema: Schema
    direct: list[Expr | None] = field(default_factory=list)
    program: list[int] = field(default_factory=list)
    shifts: list[tuple[str, int]] = field(default_factory=list)
    registers: list[tuple[int, int, int]] = field(default_factory=lambda: [(CURRENT, -1, 0)])
    _tried: str = ""

    def __post_init__(self) -> None:
        self.translation = Translation(self, self.schema)
        conditions = dict(self.query.definitions)
        for variable in self.query.variables:
            self._tried = variable
            self._place(conditions.get(variable))

    @property
    def scope(self) -> Schema:
        """Columns of a row, and those of earlier ones."""
        earlier = (Field(shifted_name(name, back), self.schema[name].type) for name, back in self.shifts)
        return Schema((*self.schema.fields, *earlier), self.schema.owner)

    def _place(self, condition: Expr | None) -> None:
        refs = self.query.references_of(condition) if condition is not None else ()
        if condition is None or all(self.query.is_current(ref, self._tried) for ref in refs):
            self.direct.append(None if condition is None else self.on_row(condition))
            self.program.append(-1)
            return
        self.direct.append(None)
        self.program.append(self._translated(condition, refs))

    def on_row(self, expr: Expr) -> Expr:
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
            return self.translation.translate(typed(condition, scope_of(refs, self.schema)))
        except NotTranslated as missing:
            message = f"'{condition}' cannot be tested while a match grows: {missing}"
            raise InvalidEventPattern(message, place_of(condition)) from None

    def resolve(self, name: str) -> Read:
        ref = self.query.reference(name)
        variable = self.query.names.index(ref.variable) if ref.variable else -1
        if ref.is_aggregate:
            return Read(0, Aggregate(ref.function, variable, ref.argument))
        if self.query.is_current(ref, self._tried):
            return Read(0)
        register = FROM_FIRST if ref.function == FIRST else FROM_LAST, variable, ref.offset
        if register not in self.registers:
            self.registers.append(register)
        return Read(self.registers.index(register))


def shifted_name(name: str, back: int) -> str:
    """What a column is called that holds the value of an earlier row."""
    return name if not back else f"PREV({name}, {back})"
