"""Row patterns as a logical operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from penstock.expressions.match_output import RowsPerMatch
from penstock.expressions.row_queries import RowQuery, check_types, output_of, stored_columns
from penstock.model.schema import Schema
from penstock.plan.nodes.base import Keys, OverOne, RowTimes, Spread, enough
from penstock.plan.nodes.wording import length_text


@dataclass(frozen=True)
class RowPatternMatch(OverOne):
    """Matches of a row pattern (`MATCH_RECOGNIZE`) among the ordered rows of each partition.

    The key spreads the rows over shards; without key one shard has them all. Output time is the moment a match is decided.
    Punctuations end here.
    """

    query: RowQuery
    row_times: ClassVar[RowTimes] = RowTimes.OF_ANSWERS

    def __post_init__(self) -> None:
        check_types(self.query, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        return output_of(self.query, self.input.schema)

    @property
    def needs_every_row(self) -> str:
        return "MATCH_RECOGNIZE"

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

    def describe(self) -> list[str]:
        query = self.query
        key = f" by {', '.join(query.key)}" if query.key else ""
        within = "" if query.within is None else f" [within {length_text(query.within, self.has_clock_time)}]"
        rows = "all rows per match" if self.shows_all_rows else "one row per match"
        rows += " with rows" if query.omits_empty else " and rows in none" if query.shows_unmatched else ""
        # References are names with brackets; the marks around such a name say nothing here.
        defined = [f"{name}: {condition}".replace("`", "") for name, condition in query.definitions]
        measures = ", ".join(f"{name} = {expr}" for name, expr in query.measures).replace("`", "")
        shown = [f"measures {measures}"] if measures else []
        defined = [*(f"{name} = {' or '.join(listed)}" for name, listed in query.subsets), *defined]
        return [f"RowPatternMatch ({query.pattern}){key}{within}", f"{rows}, skip {query.after}", *defined, *shown]

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return set(self.needs)

    def keys_of(self, port: int) -> Keys:
        return self.query.key

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        return [enough(self.query.key, known[0])]

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return tuple(keys for keys in wanted if keys is not None and set(keys) <= set(self.shown_key))
