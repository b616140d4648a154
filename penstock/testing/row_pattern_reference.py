"""A slow, obvious evaluator of row patterns: every way to take rows, in the order of preference, and the first that works.

It sees the whole stream at once, partition by partition, and shares nothing with the engine but the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.expressions.match_output import RowsPerMatch
from penstock.expressions.row_queries import RowQuery, SkipTo, output_of, scope_of
from penstock.expressions.row_references import CLASSIFIER, FIRST, MATCH_NUMBER, RowReference
from penstock.expressions.typing import typed
from penstock.model.row_patterns import Alternation, Excluded, PartitionStart, Repeated, RowPattern, Variable
from penstock.model.row_patterns import Sequence as InSequence
from penstock.model.schema import Schema
from penstock.testing.expression_reference import value_of
from penstock.testing.reference import Row, comparable


class Unseen(str):
    """The variable of a row that is not shown."""

    __slots__ = ()


@dataclass(frozen=True)
class Match:
    """Number of its first row in the partition, and the variable that took each."""

    start: int
    labels: tuple[str, ...]


def matches(query: RowQuery, rows: Sequence[Row], schema: pa.Schema) -> Iterator[tuple[list[Row], list[Match]]]:
    """Each partition in order, and its matches, of a stream that has ended."""
    for partition in _partitions(query, rows):
        yield partition, _Reader(query, Schema.from_arrow(schema), partition).matches()


def answers(query: RowQuery, rows: Sequence[Row], schema: pa.Schema) -> list[tuple[Any, ...]]:
    """The rows of the output, partition by partition."""
    found: list[tuple[Any, ...]] = []
    for partition in _partitions(query, rows):
        found += _Reader(query, Schema.from_arrow(schema), partition).answers()
    return found


def _partitions(query: RowQuery, rows: Sequence[Row]) -> list[list[Row]]:
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.ts, row.pos)):
        by_key.setdefault(tuple(comparable(row.values[name]) for name in query.key), []).append(row)
    return list(by_key.values())


class _Reader:
    def __init__(self, query: RowQuery, schema: Schema, rows: list[Row]) -> None:
        self.query, self.schema, self.rows = query, schema, rows
        self.conditions = {
            name: typed(condition, scope_of(query.references_of(condition), schema)) for name, condition in query.definitions
        }

    # -- matches ----------------------------------------------------------------------------------------------------------

    def matches(self) -> list[Match]:
        found: list[Match] = []
        start = 0
        while start < len(self.rows):
            labels = next(self._ways(self.query.pattern, start, ()), None)
            if labels is None:
                start += 1
                continue
            found.append(Match(start, labels))
            start = self._next_start(start, labels) if labels else start + 1
        return found

    def _next_start(self, start: int, labels: tuple[str, ...]) -> int:
        after = self.query.after
        if after.to is SkipTo.PAST_LAST:
            return start + len(labels)
        places = [place for place, label in enumerate(labels) if label in self.query.members(after.variable)]
        if after.to is SkipTo.NEXT or not places:
            return start + 1
        target = places[0] if after.to is SkipTo.FIRST else places[-1]
        return start + target if target else start + 1

    def _ways(self, pattern: RowPattern, start: int, taken: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """All ways to go on with a pattern behind the rows taken, the preferred one first."""
        match pattern:
            case Variable():
                if self._fits(pattern.name, start, taken):
                    yield (*taken, pattern.name)
            case InSequence():
                yield from self._all_of(pattern.parts, start, taken)
            case Alternation():
                for part in pattern.parts:
                    yield from self._ways(part, start, taken)
            case Repeated():
                yield from self._times(pattern, 0, start, taken)
            case PartitionStart():
                if start + len(taken) == 0:
                    yield taken
            case Excluded():
                for longer in self._ways(pattern.part, start, taken):
                    yield (*taken, *map(Unseen, longer[len(taken) :]))

    def _all_of(self, parts: Sequence[RowPattern], start: int, taken: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not parts:
            yield taken
            return
        for longer in self._ways(parts[0], start, taken):
            yield from self._all_of(parts[1:], start, longer)

    def _times(self, pattern: Repeated, done: int, start: int, taken: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        is_enough, is_full = done >= pattern.least, done == pattern.most
        if is_enough and (pattern.is_reluctant or is_full):
            yield taken
        if not is_full:
            for longer in self._ways(pattern.part, start, taken):
                yield from self._times(pattern, done + 1, start, longer)
        if is_enough and not pattern.is_reluctant and not is_full:
            yield taken

    def _fits(self, variable: str, start: int, taken: tuple[str, ...]) -> bool:
        here = start + len(taken)
        if here == len(self.rows):
            return False
        if self.query.within is not None and self.rows[here].ts - self.rows[start].ts > self.query.within:
            return False
        if variable not in self.conditions:
            return True
        condition = self.conditions[variable]
        refs = self.query.references_of(condition.expr)
        values = {str(ref): self._value(ref, start, (*taken, variable), 0) for ref in refs}
        return value_of(condition, values) is True

    # -- values -----------------------------------------------------------------------------------------------------------

    def _value(self, ref: RowReference, start: int, labels: tuple[str, ...], number: int) -> Any:
        """What a reference means when `labels` have been taken from `start` on."""
        if ref.function == CLASSIFIER:
            return next((label for label in reversed(labels) if label in self.query.members(ref.variable)), None)
        if ref.function == MATCH_NUMBER:
            return number
        mine = [start + place for place, label in enumerate(labels) if label in self.query.members(ref.variable)]
        if ref.is_aggregate:
            return self._aggregated(ref, mine)
        if ref.function != FIRST:
            mine.reverse()
        if ref.offset >= len(mine) or mine[ref.offset] < ref.back:
            return None
        return self.rows[mine[ref.offset] - ref.back].values[ref.attribute]

    def _aggregated(self, ref: RowReference, mine: list[int]) -> Any:
        if ref.argument is None:
            return len(mine)
        argument = typed(ref.argument, self.schema)
        every = [value_of(argument, self.rows[place].values) for place in mine]
        values = [value for value in every if value is not None]
        if ref.function == "count":
            return len(values)
        if not values:
            return None
        if ref.function in ("min", "max"):
            return min(values) if ref.function == "min" else max(values)
        total = sum(values[1:], values[0])
        return total if ref.function == "sum" else total / len(values)

    # -- output -----------------------------------------------------------------------------------------------------------

    def answers(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for number, match in enumerate(self.matches(), 1):
            depths = list(range(len(match.labels)))
            is_all = self.query.rows is RowsPerMatch.ALL
            shown = [depth for depth in depths if not isinstance(match.labels[depth], Unseen)] if is_all else depths[-1:]
            if not match.labels and not (is_all and self.query.omits_empty):
                shown = [0]
            found += [self._answer(match, depth, number) for depth in shown]
        if self.query.shows_unmatched:
            found += [self._unmatched(row) for row in sorted({*range(len(self.rows))} - self._covered())]
        return found

    def _covered(self) -> set[int]:
        """Rows of matches, and rows at which a match without rows was found."""
        return {match.start + depth for match in self.matches() for depth in range(max(len(match.labels), 1))}

    def _unmatched(self, row: int) -> tuple[Any, ...]:
        measures, values = dict(self.query.measures), self.rows[row].values
        shown = [None if item.name in measures else values[item.name] for item in output_of(self.query, self.schema)]
        return tuple(map(comparable, shown))

    def _answer(self, match: Match, depth: int, number: int) -> tuple[Any, ...]:
        row = self.rows[match.start + depth].values
        measures = dict(self.query.measures)
        values: list[Any] = []
        for item in output_of(self.query, self.schema):
            if item.name not in measures:
                values.append(row[item.name])
                continue
            refs = self.query.references_of(measures[item.name])
            known = {}
            for ref in refs:
                labels = match.labels if ref.is_final else match.labels[: depth + 1]
                known[str(ref)] = self._value(ref, match.start, labels, number)
            values.append(value_of(typed(measures[item.name], scope_of(refs, self.schema)), known))
        return tuple(map(comparable, values))
