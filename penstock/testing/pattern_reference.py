"""Slow, obvious evaluators of event queries: every combination for skip-till-any-match, a simulation of runs otherwise.

They see the whole stream at once, event by event, and share nothing with the engine but the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise
from math import nan
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import At, Reference, references_of
from penstock.expressions.nodes import Column, Expr
from penstock.expressions.typing import LONG, typed
from penstock.model.event_patterns import EventOrder, LastRun, Repeat, Strategy
from penstock.model.pattern_terms import Absence, Term
from penstock.model.schema import Field, Schema
from penstock.testing.expression_reference import value_of
from penstock.testing.reference import Row, aggregate

#: Events of each atom of a term, by place; an empty list for one not filled yet.
Binding: TypeAlias = tuple[tuple[Row, ...], ...]
#: Number of the term, and for each of its atoms the positions of its events.
Match: TypeAlias = tuple[int, tuple[tuple[int, ...], ...]]


def matches(query: EventQuery, rows: Sequence[Row], schema: pa.Schema) -> set[Match]:
    """All matches of a query in a stream that has ended."""
    reader = _Reader(query, Schema.from_arrow(schema))
    found: set[Match] = set()
    for trace in traces(query, rows):
        for number, term in enumerate(query.terms):
            bindings = reader.combinations(term, trace) if query.strategy is Strategy.ANY else reader.runs(term, trace)
            found |= {(number, tuple(tuple(row.pos for row in events) for events in binding)) for binding in bindings}
    return found


def traces(query: EventQuery, rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows of equal key in order, cut after terminal events and after long silence; each event once, if the query says so."""
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.ts, row.pos)):
        key = tuple(row.values[name] for name in query.key)
        if None not in key:
            by_key.setdefault(key, []).append(row)
    for events in by_key.values():
        yield from _cut(query, events)


def _cut(query: EventQuery, events: list[Row]) -> Iterator[list[Row]]:
    trace: list[Row] = []
    active = 0
    met: dict[Any, int] = {}
    for row in events:
        silent = query.trace_ttl is not None and trace and row.ts - active > query.trace_ttl
        ended = any(each.values[query.type_column] in query.terminal for each in trace)
        is_tie = trace and query.order is EventOrder.TIMESTAMP and trace[-1].ts == row.ts
        if silent or (ended and not is_tie):
            yield trace
            trace, met = [], {}
        # Types that nobody named tell of no event, unless any of them breaks a match.
        tells = row.values[query.type_column] in query.types or query.strategy is Strategy.PARTITION
        if tells and query.id_column and (name := row.values[query.id_column]) is not None:
            is_again = name in met and (query.within is None or row.ts - met[name] <= query.within)
            met[name] = row.ts
            if is_again:
                continue
        if not trace or row.values[query.type_column] in query.types:
            active = row.ts
        trace.append(row)
    if trace:
        yield trace


@dataclass
class _Run:
    binding: Binding

    @property
    def place(self) -> int:
        return sum(bool(events) for events in self.binding) - 1

    @property
    def last(self) -> Row:
        return self.binding[self.place][-1]


class _Reader:
    """Tests of a query on (partial) matches."""

    def __init__(self, query: EventQuery, schema: Schema) -> None:
        self.query, self.schema = query, schema
        self.atom_of = {leaf.variable: number for number, leaf in enumerate(query.atoms)}
        self.absent = {leaf.variable for leaf in query.absences}

    def before(self, one: Row, other: Row) -> bool:
        if self.query.order is EventOrder.TOTAL:
            return (one.ts, one.pos) < (other.ts, other.pos)
        return one.ts < other.ts

    def is_of(self, row: Row, types: tuple[str, ...]) -> bool:
        return row.values[self.query.type_column] in types

    # -- every combination ------------------------------------------------------------------------------------------------

    def combinations(self, term: Term, trace: list[Row]) -> Iterator[Binding]:
        for binding in self._ordered(term, trace, ()):
            if self._is_match(term, binding, trace):
                yield binding

    def _ordered(self, term: Term, trace: list[Row], chosen: Binding) -> Iterator[Binding]:
        place = len(chosen)
        if place == len(term.leaves):
            yield chosen
            return
        leaf = self.query.atoms[term.leaves[place]]
        candidates = [row for row in trace if self.is_of(row, leaf.types)]
        most = 1 if leaf.repeat is Repeat.ONCE else len(candidates)
        for size in range(1, most + 1):
            for events in combinations(candidates, size):
                rising = all(self.before(a, b) for a, b in pairwise(events))
                after = all(self.before(chosen[other][-1], events[0]) for other in term.predecessors[place])
                if rising and after:
                    yield from self._ordered(term, trace, (*chosen, events))

    def _is_match(self, term: Term, binding: Binding, trace: list[Row]) -> bool:
        events = [row for part in binding for row in part]
        start, end = min(row.ts for row in events), max(row.ts for row in events)
        if self.query.within is not None and end - start > self.query.within:
            return False
        if not self.query.reuse and len({row.pos for row in events}) < len(events):
            return False
        everything = frozenset(range(len(term.leaves)))
        return self.decidable_hold(term, binding, everything) and self.absences_hold(term, binding, trace)

    # -- conditions -------------------------------------------------------------------------------------------------------

    def decidable_hold(self, term: Term, binding: Binding, closed: frozenset[int]) -> bool:
        """Whether all conditions that can be judged are true: their events are there, lists they sum up are closed."""
        place = {atom: index for index, atom in enumerate(term.leaves)}
        for condition in self.query.conditions:
            refs = references_of(condition)
            if any(ref.variable in self.absent or self.atom_of[ref.variable] not in place for ref in refs):
                continue
            places = {place[self.atom_of[ref.variable]] for ref in refs}
            summed = {
                place[self.atom_of[ref.variable]] for ref in refs if ref.at is At.LAST or (ref.function and ref.at is At.ONLY)
            }
            if all(binding[index] for index in places) and summed <= closed and not self.holds(condition, refs, place, binding):
                return False
        return True

    def holds(
        self, condition: Expr, refs: Sequence[Reference], place: Mapping[int, int], binding: Binding, absent: Row | None = None
    ) -> bool:
        iterated = {ref.variable for ref in refs if ref.is_iterated}
        needs_previous = any(ref.needs_previous for ref in refs)
        if not iterated:
            return self._is_true(condition, refs, place, binding, 0, absent)
        (variable,) = iterated
        events = binding[place[self.atom_of[variable]]]
        numbers = range(1 if needs_previous else 0, len(events))
        return all(self._is_true(condition, refs, place, binding, number, absent) for number in numbers)

    def _is_true(
        self,
        condition: Expr,
        refs: Sequence[Reference],
        place: Mapping[int, int],
        binding: Binding,
        number: int,
        absent: Row | None,
    ) -> bool:
        row = {}
        for ref in refs:
            events = (absent,) if ref.variable in self.absent else binding[place[self.atom_of[ref.variable]]]
            row[str(ref)] = self._value(ref, [each for each in events if each is not None], number)
        schema = Schema(tuple(Field(str(ref), self._kind(ref)) for ref in refs))
        return value_of(typed(condition, schema), row) is True

    def _kind(self, ref: Reference) -> pa.DataType:
        if ref.function == "count" and not ref.attribute:
            return LONG
        if ref.function:
            return result_type(AggregateCall(ref.function, Column(ref.attribute)), self.schema)
        return self.schema[ref.attribute].type

    def _value(self, ref: Reference, events: Sequence[Row], number: int) -> Any:
        if ref.function:
            summed = events[:number] if ref.at is At.BEFORE else events
            if not ref.attribute:
                return len(summed)
            found = aggregate(AggregateCall(ref.function, Column(ref.attribute)), list(summed))
            # The evaluator of aggregates writes NaN as a text, to compare answers; here it is a number to compute with.
            return nan if found == "NaN" and pa.types.is_floating(self._kind(ref)) else found
        index = {At.ONLY: 0, At.FIRST: 0, At.CURRENT: number, At.PREVIOUS: number - 1, At.LAST: -1}[ref.at]
        return events[index].values[ref.attribute]

    def absences_hold(self, term: Term, binding: Binding, trace: list[Row]) -> bool:
        return not any(self._forbids(term, absence, row, binding) for absence in term.absences for row in trace)

    def _forbids(self, term: Term, absence: Absence, row: Row, binding: Binding) -> bool:
        leaf = self.query.absences[absence.number]
        events = [each for part in binding for each in part]
        start, end = min(each.ts for each in events), max(each.ts for each in events)
        within = self.query.within or 0
        inside = self.is_of(row, leaf.types)
        inside &= all(self.before(binding[place][-1], row) for place in absence.after) and (
            bool(absence.after) or row.ts >= end - within
        )
        inside &= all(self.before(row, binding[place][0]) for place in absence.before) and (
            bool(absence.before) or row.ts <= start + within
        )
        place = {atom: index for index, atom in enumerate(term.leaves)}
        for condition in self.query.conditions if inside else ():
            refs = references_of(condition)
            positive = [self.atom_of[ref.variable] for ref in refs if ref.variable not in self.absent]
            about = any(ref.variable == leaf.variable for ref in refs)
            if about and all(atom in place for atom in positive) and not self.holds(condition, refs, place, binding, row):
                return False
        return inside

    # -- runs -------------------------------------------------------------------------------------------------------------

    def runs(self, term: Term, trace: list[Row]) -> list[Binding]:
        """The matches of a chain, by the table of strategies, one group of simultaneous events after the other."""
        found: list[Binding] = []
        runs: list[_Run] = []
        total = self.query.order is EventOrder.TOTAL
        for (ts, _), group in groupby(trace, key=lambda row: (row.ts, row.pos if total else 0)):
            events = list(group)
            within = self.query.within
            expired = [run for run in runs if within is not None and ts - run.binding[0][0].ts > within]
            found += self._over(term, expired, trace)
            runs = [run for run in runs if run not in expired]
            grown: list[_Run] = []
            for run in runs:
                became = [new for event in events for new in self._steps(term, run, event)]
                grown += became
                if not became and self.query.strategy is Strategy.NEXT:
                    grown.append(run)
                elif not became:
                    found += self._over(term, [run], trace)
            empty: Binding = ((),) * len(term.leaves)
            grown += [new for event in events for new in self._step(term, empty, 0, event)]
            fresh = [run for run in grown if run not in runs]
            if not self._waits(term):
                found += [run.binding for run in fresh if self._is_complete(term, run, trace)]
            runs = [run for run in grown if run.place + 1 < len(term.leaves) or self._is_repeated(term, run.place)]
        return found + self._over(term, runs, trace)

    def _waits(self, term: Term) -> bool:
        return self.query.last_run is LastRun.MAXIMAL and self._is_repeated(term, len(term.leaves) - 1)

    def _over(self, term: Term, runs: list[_Run], trace: list[Row]) -> list[Binding]:
        """Of runs that cannot grow any more, those that are reported only then."""
        return [run.binding for run in runs if self._waits(term) and self._is_complete(term, run, trace)]

    def _is_repeated(self, term: Term, place: int) -> bool:
        return self.query.atoms[term.leaves[place]].is_repeated

    def _is_complete(self, term: Term, run: _Run, trace: list[Row]) -> bool:
        return run.place + 1 == len(term.leaves) and self._is_match(term, run.binding, trace)

    def _steps(self, term: Term, run: _Run, event: Row) -> list[_Run]:
        new = self._step(term, run.binding, run.place, event) if self._is_repeated(term, run.place) else []
        return [*new, *(self._step(term, run.binding, run.place + 1, event) if run.place + 1 < len(term.leaves) else [])]

    def _step(self, term: Term, binding: Binding, place: int, event: Row) -> list[_Run]:
        """The run with the event at a place, if it may stand there."""
        taken = [row for part in binding for row in part]
        if not self.is_of(event, self.query.atoms[term.leaves[place]].types):
            return []
        if taken and not self.before(taken[-1], event):
            return []
        if taken and self.query.within is not None and event.ts - taken[0].ts > self.query.within:
            return []
        number = self.query.position_column
        if taken and self.query.strategy is Strategy.STRICT and event.values[number] != taken[-1].values[number] + 1:
            return []
        new = tuple((*part, event) if index == place else part for index, part in enumerate(binding))
        closed = frozenset(range(place))
        return [_Run(new)] if self.decidable_hold(term, new, closed) else []


def named(query: EventQuery, found: set[Match], names: Mapping[int, str]) -> set[str]:
    """Matches as text, events by name and lists in brackets, for examples written by hand."""
    result = set()
    for number, binding in found:
        parts = []
        for atom, positions in zip(query.terms[number].leaves, binding, strict=True):
            text = " ".join(names[pos] for pos in positions)
            parts.append(f"[{text}]" if query.atoms[atom].is_repeated else text)
        result.add(" ".join(parts))
    return result
