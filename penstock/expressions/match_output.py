"""What a match looks like in the output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.errors import InvalidEventPattern
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import At, Reference, reference
from penstock.expressions.nodes import Column, Expr, transform
from penstock.model.event_patterns import Atom, Lists

#: What measures may name beside key columns and references: times of the first and last event, number, and term.
MATCH_START, MATCH_END, MATCH_ID, BRANCH = "match_start", "match_end", "match_id", "branch"
#: Where lists are collapsed: how many matches one stands for, NULL if they are too many to be counted.
MATCH_COUNT = "match_count"
#: Columns of an event row beside its own: the variable that took it, and its number among the events of that variable.
VARIABLE, EVENT_NUMBER = "variable", "event_number"


class RowsPerMatch(StrEnum):
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class MatchOutput:
    """The columns of the output.

    Parameters
    ----------
    rows
        One row per match, or one per event of it.
    measures
        Names and expressions over the match: key columns, `match_start`, `match_end`, `match_id`, `branch`, of
        collapsed lists `match_count`, and references: of a repeated variable to its first or last event, or aggregates. One to a
        variable that took no event is NULL.
    columns
        Columns of the events that are shown; none means all. Without measures, one row per match shows each variable as
        a struct of them, or a list of structs.
    own_columns
        Columns of single variables, where their events have fewer: by variable.
    """

    rows: RowsPerMatch = RowsPerMatch.ONE
    measures: tuple[tuple[str, Expr], ...] = ()
    columns: tuple[str, ...] = ()
    own_columns: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def columns_of(self, variable: str) -> tuple[str, ...]:
        """Columns that the struct of a variable has; none means all."""
        return dict(self.own_columns).get(variable, self.columns)

    def resolved(self, query: EventQuery) -> MatchOutput:
        """The same with variables as the query spells them; raises when a measure names what a match has not."""
        return replace(self, measures=tuple((name, _resolved(expr, query)) for name, expr in self.measures))


def measured(name: str, query: EventQuery) -> Reference | None:
    """What a column of a measure refers to; None for the key and for what belongs to the match itself."""
    if name in query.key or name in (MATCH_START, MATCH_END, MATCH_ID, BRANCH):
        return None
    if name == MATCH_COUNT and query.lists is Lists.COLLAPSE:
        return None
    return reference(name)


def _resolved(expr: Expr, query: EventQuery) -> Expr:
    return transform(expr, lambda column: _known(column, query))


def _known(column: Column, query: EventQuery) -> Column:
    found = measured(column.name, query)
    if found is None:
        return column
    leaf = query.leaves.get(found.variable.lower())
    if not isinstance(leaf, Atom):
        raise InvalidEventPattern(f"'{column.name}' names no event that a match has", column.place)
    if found.is_iterated:
        raise InvalidEventPattern(f"'{column.name}' runs over events; use [1], [last] or an aggregate in a measure", column.place)
    if leaf.is_repeated and not found.function and found.at is At.ONLY:
        name, one = leaf.variable, found.attribute
        raise InvalidEventPattern(
            f"'{column.name}' has a value for each event of the list {name}, and a measure shows one; write {name}[1].{one}, "
            f"{name}[last].{one}, or an aggregate such as max({name}.{one})",
            column.place,
        )
    if not leaf.is_repeated and not found.function:
        found = replace(found, at=At.ONLY)
    return replace(column, name=str(replace(found, variable=leaf.variable)))
