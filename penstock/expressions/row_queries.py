"""A query for row patterns: the pattern, what its variables demand, where the search goes on, and what is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from penstock.errors import InvalidEventPattern, TypeMistake, suggestion
from penstock.expressions.match_output import RowsPerMatch
from penstock.expressions.nodes import Expr, columns_of
from penstock.expressions.row_references import FIRST, LAST, MATCH_NUMBER, RowReference, type_of_reference
from penstock.expressions.typing import BOOL, NULL, place_of, type_of
from penstock.model.row_patterns import (
    MOST_VARIABLES,
    RowPattern,
    has_start,
    least_before,
    variables_of,
)
from penstock.model.schema import Field, Schema, sql_type


class SkipTo(StrEnum):
    """Where the search goes on behind a match."""

    PAST_LAST = "PAST LAST ROW"
    NEXT = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@dataclass(frozen=True, slots=True)
class AfterMatch:
    """`AFTER MATCH SKIP …`.

    Where the variable has taken no row, or only the first of the match, the search goes on at the next row: to start again
    at the same row would find the same match for ever.
    """

    to: SkipTo = SkipTo.PAST_LAST
    variable: str = ""

    def __str__(self) -> str:
        return f"{self.to} {self.variable}".strip()


@dataclass(frozen=True)
class RowQuery:
    """What is sought among the ordered rows of each partition; checks itself when built.

    Parameters
    ----------
    pattern
        Which variables take rows, one directly behind the other. Where it may take none, and takes none, a match without rows is
        found at a row, and the search goes on at the next.
    key
        Columns that make the partition; NULL is a value like any other, as in SQL.
    order_by
        The column of event time: rows are in its order, those of equal time in the order of their positions.
    definitions
        What a variable demands of a row; one without definition takes any row.
    measures
        Names and expressions that are shown.
    references
        What the columns of both mean, each under its text.
    subsets
        Names for the rows of several variables (`SUBSET`).
    omits_empty
        Whether matches without rows are left out where all rows of a match are shown.
    shows_unmatched
        Whether rows that are in no match are shown, too, once that is decided; their measures are NULL.
    rows
        One row per match, or all its rows.
    after
        Where the search goes on behind a match.
    within
        Greatest distance of the last row from the first, inclusive; None for no limit.
    most_steps
        Rows tried from one start before the query is stopped.
    """

    pattern: RowPattern
    key: tuple[str, ...]
    order_by: str
    definitions: tuple[tuple[str, Expr], ...] = ()
    measures: tuple[tuple[str, Expr], ...] = ()
    references: tuple[RowReference, ...] = ()
    rows: RowsPerMatch = RowsPerMatch.ONE
    after: AfterMatch = field(default_factory=AfterMatch)
    within: int | None = None
    most_steps: int = 10_000_000
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    omits_empty: bool = False
    shows_unmatched: bool = False

    def __post_init__(self) -> None:
        if not self.variables:
            raise InvalidEventPattern(f"the pattern ({self.pattern}) has no variable, so nothing can be found")
        if len(self.variables) > MOST_VARIABLES:
            raise InvalidEventPattern(f"the pattern has {len(self.variables)} variables; at most {MOST_VARIABLES} are possible")
        if self.within is not None and self.within < 0:
            raise InvalidEventPattern(f"WITHIN {self.within} allows no rows; give a length of 0 or more")
        self._check_names()
        for name, condition in self.definitions:
            for ref in self.references_of(condition):
                if ref.is_final or ref.function == MATCH_NUMBER:
                    raise InvalidEventPattern(f"{ref} cannot be known while the match grows; DEFINE {name} must do without it")

    def _check_names(self) -> None:
        members = [name for _, listed in self.subsets for name in listed]
        for name in (*dict(self.definitions), *members):
            if name not in self.variables:
                raise InvalidEventPattern(f"the pattern has no variable '{name}'; {suggestion(name, self.variables)}")
        if self.after.variable and self.after.variable not in self.names:
            raise InvalidEventPattern(
                f"the pattern has no variable '{self.after.variable}'; {suggestion(self.after.variable, self.names)}"
            )
        twins = {name for name, _ in self.subsets} & {*self.variables}
        if twins or len(dict(self.subsets)) < len(self.subsets):
            raise InvalidEventPattern(f"a name stands for one thing; SUBSET gives {', '.join(sorted(twins)) or 'one'} a second")

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return variables_of(self.pattern)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables, and behind them the names of subsets."""
        return (*self.variables, *(name for name, _ in self.subsets))

    def members(self, name: str) -> tuple[str, ...]:
        """The variables whose rows a name means; all for the empty one."""
        if not name:
            return self.variables
        return dict(self.subsets).get(name, (name,))

    def is_current(self, ref: RowReference, tried: str) -> bool:
        """Whether a reference stays at a fixed distance from the row that is tried for a variable."""
        return ref.function == LAST and not ref.offset and tried in self.members(ref.variable)

    @cached_property
    def _by_name(self) -> dict[str, RowReference]:
        return {str(ref): ref for ref in self.references}

    def reference(self, name: str) -> RowReference:
        return self._by_name[name]

    def references_of(self, expr: Expr) -> tuple[RowReference, ...]:
        """All references of an expression, in the order of their names; key columns are none."""
        return tuple(self._by_name[name] for name in sorted(columns_of(expr)) if name in self._by_name)

    @cached_property
    def measured(self) -> tuple[RowReference, ...]:
        """References of all measures, each once."""
        found = (ref for _, expr in self.measures for ref in self.references_of(expr))
        return tuple(dict.fromkeys(found))

    @property
    def numbers_matches(self) -> bool:
        return any(ref.function == MATCH_NUMBER for ref in self.measured)

    @cached_property
    def lookback(self) -> int:
        """How many rows before the start of a match conditions and measures may read."""
        before = least_before(self.pattern)
        reaches = [
            ref.back - self._rows_ahead(ref, name, before) for name, expr in self.definitions for ref in self.references_of(expr)
        ]
        reaches += [ref.back - self._rows_ahead(ref, "", before) for ref in self.measured]
        # A row is the first of its partition if none before it is known, so one must be.
        return max([int(has_start(self.pattern)), *reaches])

    def _rows_ahead(self, ref: RowReference, tried: str, before: dict[str, int]) -> int:
        """Rows of the match that certainly stand before the row a reference starts from."""
        if tried and self.is_current(ref, tried):
            return before[tried]
        least = min(before[name] for name in self.members(ref.variable))
        return least + (ref.offset if ref.function == FIRST else 0)


def scope_of(refs: tuple[RowReference, ...], schema: Schema) -> Schema:
    """The references as columns, each with its type."""
    return Schema(tuple(Field(str(ref), type_of_reference(ref, schema)) for ref in refs), schema.owner)


def check_types(query: RowQuery, schema: Schema) -> None:
    """Refuse conditions that are none, and expressions whose types do not fit."""
    for _, condition in query.definitions:
        kind = type_of(condition, scope_of(query.references_of(condition), schema))
        if kind not in (BOOL, NULL):
            raise TypeMistake(f"a condition must be true or false; '{condition}' is {sql_type(kind)}", place_of(condition))
    output_of(query, schema)


def output_of(query: RowQuery, schema: Schema) -> Schema:
    """Columns of the output: one row per match has the key and the measures, all rows also the other columns of a row."""
    scope = scope_of(query.measured, schema)
    measures = [Field(name, type_of(expr, scope)) for name, expr in query.measures]
    taken = {item.name.lower() for item in measures}
    ahead = [*query.key, *([query.order_by] if query.rows is RowsPerMatch.ALL else [])]
    first = [schema[name] for name in dict.fromkeys(ahead) if name.lower() not in taken]
    rest: list[Field] = []
    if query.rows is RowsPerMatch.ALL:
        shown = taken | {name.lower() for name in ahead}
        rest = [item for item in schema if item.name.lower() not in shown]
    return Schema((*first, *measures, *rest), "the matches")


def stored_columns(query: RowQuery, schema: Schema) -> tuple[str, ...]:
    """Columns of the rows that conditions, measures or the output need, in the order of the schema."""
    wanted = {name.lower() for name in query.key}
    refs = [*query.measured, *(ref for _, expr in query.definitions for ref in query.references_of(expr))]
    wanted |= {name.lower() for ref in refs for name in ref.attributes}
    if query.rows is RowsPerMatch.ALL:
        wanted |= {item.name.lower() for item in output_of(query, schema)}
    # Rows that nobody asks anything about must still be counted.
    wanted = wanted or {query.order_by.lower()}
    return tuple(name for name in schema.names if name.lower() in wanted)
