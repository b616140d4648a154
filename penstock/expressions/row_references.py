"""How conditions and measures of a row pattern name the rows of a match.

They are ordinary expressions whose columns are the texts of references: `A.price` of the last row variable A has taken,
`FIRST(A.price)`, `LAST(A.price, 1)` of the one before, `PREV(…)` of the row that stands before another in the partition,
aggregates such as `SUM(A.price)` over the rows taken so far, and what the match itself has: `CLASSIFIER()`, the variable of
its last row, `CLASSIFIER(A)`, the one of the last row of A, and `MATCH_NUMBER()`. A name without variable means the rows of all
variables. A variable may be a subset of several.

Examples
--------
>>> from penstock.expressions.nodes import Column
>>> str(RowReference("A", "price", offset=1)), str(RowReference("", "price", back=2))
('LAST(A.price, 1)', 'PREV(price, 2)')
>>> str(RowReference("A", function="count")), str(RowReference("", function="sum", argument=Column("price"), is_final=True))
('COUNT(A.*)', 'FINAL SUM(price)')
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import UnknownColumn
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.nodes import Expr, columns_of, transform
from penstock.expressions.typing import LONG
from penstock.model.schema import Schema

FIRST, LAST = "first", "last"
CLASSIFIER, MATCH_NUMBER = "classifier", "match_number"
#: Aggregates over the rows of a variable.
AGGREGATED = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True, slots=True)
class RowReference:
    """A value of one row of a match, an aggregate over several, or a property of the match.

    Parameters
    ----------
    variable
        Whose rows; empty for those of all variables.
    attribute
        The column, for `first` and `last`.
    function
        `first`, `last`, an aggregate, `classifier` or `match_number`.
    offset
        How many further rows of the variable are passed over: from the first on, or from the last back.
    back
        How many rows of the partition before that one, whoever took them.
    is_final
        Over the whole match instead of up to the current row.
    argument
        What is aggregated, over columns of a row; None for the rows themselves.
    """

    variable: str = ""
    attribute: str = ""
    function: str = LAST
    offset: int = 0
    back: int = 0
    is_final: bool = False
    argument: Expr | None = None

    @property
    def is_aggregate(self) -> bool:
        return self.function in AGGREGATED

    @property
    def is_navigation(self) -> bool:
        return self.function in (FIRST, LAST)

    @property
    def attributes(self) -> set[str]:
        """Columns of a row that are read."""
        if self.is_navigation:
            return {self.attribute}
        return set() if self.argument is None else columns_of(self.argument)

    def __str__(self) -> str:
        text = self._aggregate() if not self.is_navigation else self._navigation()
        return f"FINAL {text}" if self.is_final else text

    def _navigation(self) -> str:
        text = self._prefix() + self.attribute
        if self.function == FIRST or self.offset or self.is_final:
            text = f"{self.function.upper()}({text}{f', {self.offset}' if self.offset else ''})"
        return f"PREV({text}{f', {self.back}' if self.back > 1 else ''})" if self.back else text

    def _aggregate(self) -> str:
        if not self.is_aggregate:
            return f"{self.function.upper()}({self.variable})"
        inner = f"{self._prefix()}*"
        if self.argument is not None:
            inner = str(transform(self.argument, lambda column: replace(column, name=self._prefix() + column.name)))
        return f"{self.function.upper()}({inner})"

    def _prefix(self) -> str:
        return f"{self.variable}." if self.variable else ""


def type_of_reference(ref: RowReference, schema: Schema) -> pa.DataType:
    """The type a reference has over rows of `schema`."""
    if ref.function == CLASSIFIER:
        return pa.string()
    if ref.function == MATCH_NUMBER or (ref.is_aggregate and ref.argument is None):
        return LONG
    if ref.is_aggregate:
        return result_type(AggregateCall(ref.function, ref.argument), schema)
    if ref.attribute not in schema:
        raise UnknownColumn(schema.owner, ref.attribute, schema.names)
    return schema[ref.attribute].type
