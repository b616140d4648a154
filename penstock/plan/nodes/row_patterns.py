"""Row patterns as a logical operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.expressions.match_output import RowsPerMatch
from penstock.expressions.row_queries import RowQuery, check_types, output_of, stored_columns
from penstock.model.schema import Schema
from penstock.plan.nodes.relational import OverOne


@dataclass(frozen=True)
class RowPatternMatch(OverOne):
    """Matches of a row pattern (`MATCH_RECOGNIZE`) among the ordered rows of each partition.

    The key spreads the rows over shards; without key one shard has them all. Output time is the moment a match is decided.
    Punctuations end here.
    """

    query: RowQuery

    def __post_init__(self) -> None:
        check_types(self.query, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        return output_of(self.query, self.input.schema)

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the input that the search or its output reads."""
        return stored_columns(self.query, self.input.schema)

    @property
    def shown_key(self) -> tuple[str, ...]:
        """Key columns that the output shows under their own name."""
        hidden = {name.lower() for name, _ in self.query.measures}
        return tuple(name for name in self.query.key if name.lower() not in hidden)

    @property
    def shows_all_rows(self) -> bool:
        return self.query.rows is RowsPerMatch.ALL
