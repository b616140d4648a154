"""From rows to matches: classes of events, traces, and the search for each term."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.codes import Bools, group_codes, owned
from penstock.columnar.known_texts import KnownTexts
from penstock.errors import InvalidEventPattern, TooManyRuns
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.nodes import conjoin
from penstock.expressions.typing import place_of
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER
from penstock.model.event_patterns import Absent, Atom, EventOrder, LastRun, Lists, Strategy
from penstock.model.schema import Schema
from penstock.operators.patterns._events import (
    Events,
    Horizon,
    Search,
    bridge_silence,
    hash_matches,
    rank_events,
    sort_by_code,
    split_traces,
)
from penstock.operators.patterns._lists import with_lists
from penstock.operators.patterns._machine import Values, new_scratch
from penstock.operators.patterns._runs import follow
from penstock.operators.patterns._scan import scan
from penstock.operators.patterns.conditions import OwnCondition, PatternConditions
from penstock.operators.patterns.event_values import values_of
from penstock.operators.patterns.match_set import MatchSet
from penstock.operators.patterns.tables import ANY, NAMED, TERMINAL, WATCHED, Watched, rules_of, tables_of

#: Columns stored beside a row's own: its class, its number in the whole stream, and what conditions read.
CLASS, NUMBER, DERIVED = "_class", "_number", "_derived"
#: Types whose class is remembered: a stream has few, but nobody promises it.
_MOST_CLASSES = 1_000


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search found, and for each row given which bits of its class to keep (0: none) and when to look again."""

    matches: MatchSet
    keep: Int64s
    due: Int64s


class Outlook(NamedTuple):
    """What constraints tell of the trace of each row: whether it is spent, since when final absences are settled, and which
    bits of its class are still of use.
    """

    is_spent: Bools
    settled: Int64s
    usable: Int64s


class Relevant(NamedTuple):
    """Rows the search must see, with the class and the number of the type of each; and how many of all were of unknown types."""

    rows: Int64s
    classes: Int64s
    kinds: Int64s
    unknown: int


class PatternEngine:
    """An event query compiled for rows of a schema; knows no state, everything it needs is handed in.

    Parameters
    ----------
    query
        What is sought.
    schema
        Columns of the events.
    watched
        Types that constraints need to see.

    Notes
    -----
    Terms without repetition, or with collapsed lists, under skip-till-any-match are sought by sequence scan and construction,
    all others by runs.
    """

    def __init__(self, query: EventQuery, schema: pa.Schema, watched: Watched | None = None) -> None:
        self._watched = watched or Watched((), frozenset())
        self._classes: dict[str, int] = {}
        self._kinds = {name: number for number, name in enumerate(self._watched.types)}
        self.query, self.schema = query, Schema.from_arrow(schema, "the event stream")
        names = sorted({*query.types, *query.terminal, *self._watched.types, *self._watched.relevant})
        self._known = frozenset(names)
        self._texts = KnownTexts(names)
        # What is not among them takes the last entry: nothing.
        self._class_by_text = np.array([*map(self._new_class, names), 0], np.int64)
        self._is_wanted = self.is_relevant(self._class_by_text)
        self._kind_by_text = np.array([self._kinds.get(name, -1) for name in [*names, ""]], np.int64)
        for name in (query.type_column, *query.key, *([query.position_column] if query.position_column else [])):
            self.schema.index(name)
        self.conditions = PatternConditions(query, self.schema)
        self.rules = rules_of(query)
        self._tables = [tables_of(term, query, self.conditions) for term in query.terms]
        self._programs, self._scratch = self.conditions.translation.programs, new_scratch()
        self._local = self._compiled_local()
        self._derived = [compile_expression(expr, self.schema) for expr in self.conditions.translation.derived]
        self._extra_schema = pa.schema(self.extra_fields)
        self._check_translated()

    @cached_property
    def reach(self) -> int:
        """How far behind the frontier an event can matter, where there is a window.

        A match that waits until its window is over must then still know what came a window before it, where that must be
        absent.
        """
        absences = [absence for term in self.query.terms for absence in term.absences]
        waits = self.query.last_run is LastRun.MAXIMAL or any(not absence.before for absence in absences)
        return self.rules.within * (2 if waits and any(not absence.after for absence in absences) else 1)

    @property
    def residual(self) -> list[int]:
        """Conditions (by number) that are tested on complete matches, because compiled loops cannot."""
        return [number for number, each in enumerate(self.conditions.across) if each.program < 0]

    @property
    def extra_fields(self) -> list[pa.Field]:
        """Columns the engine stores beside a row's own."""
        derived = [pa.field(f"{DERIVED}{number}", each.type) for number, each in enumerate(self._derived)]
        numbers = [pa.field(NUMBER, pa.int64())] if self.query.strategy is Strategy.STRICT else []
        return [pa.field(CLASS, pa.int64()), *numbers, *derived]

    def _is_scanned(self, number: int) -> bool:
        collapses = self.query.lists is Lists.COLLAPSE
        return self.rules.strategy == ANY and (collapses or not self._tables[number].is_repeated.any())

    def _compiled_local(self) -> list[OwnCondition | None]:
        return [OwnCondition(conjoin(parts), self.schema) if parts else None for parts in self.conditions.local]

    def _check_translated(self) -> None:
        grows = not all(map(self._is_scanned, range(len(self._tables))))
        for number in self.residual:
            condition = self.conditions.across[number]
            if grows or condition.absent >= 0:
                message = f"'{condition.expr}' cannot be tested while a match grows: {condition.missing}"
                raise InvalidEventPattern(message, place_of(condition.expr))

    # -- rows -------------------------------------------------------------------------------------------------------------

    def relevant(self, rows: pa.RecordBatch) -> Relevant:
        """Rows the search must see. A type is unknown that neither the query nor its constraints name, and so is none at all."""
        column = rows.column(self.query.type_column)
        if not KnownTexts.covers(column.type):
            classes, kinds = self.classify(rows)
            chosen = np.flatnonzero(self.is_relevant(classes))
            return Relevant(chosen, classes[chosen], kinds[chosen], self._unknown(column))
        # Most rows are of types nobody asked for: they are passed over before anything else is done.
        chosen, numbers, unknown = self._texts.chosen(column, self._is_wanted)
        classes = self._limited(self._class_by_text.take(numbers), rows, chosen)
        kinds = self._kind_by_text.take(numbers) if self._kinds else numbers
        still = self.is_relevant(classes)
        if still.all():
            return Relevant(chosen, classes, kinds, unknown)
        return Relevant(chosen[still], classes[still], kinds[still], unknown)

    def _unknown(self, column: pa.Array) -> int:
        """Values of a column of types that are not among the known ones."""
        counts = pc.value_counts(column).to_pylist()
        return sum(item["counts"] for item in counts if item["values"] not in self._known)

    def classify(self, rows: pa.RecordBatch) -> tuple[Int64s, Int64s]:
        """The class of each row: a bit per leaf whose type and own conditions it meets, and flags; and the number of its type."""
        column = rows.column(self.query.type_column)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        # A row without type takes the last entry: nothing.
        of_type = np.array([self._class_of_type(name) for name in names] + [0], np.int64)
        numbers = pc.fill_null(encoded.indices, len(names)) if encoded.indices.null_count else encoded.indices
        indices = numbers.to_numpy(zero_copy_only=False)
        kinds = np.array([self._kinds.get(name, -1) for name in names] + [-1], np.int64)
        return self._limited(of_type.take(indices), rows, np.arange(rows.num_rows)), kinds.take(indices)

    def _limited(self, classes: Int64s, rows: pa.RecordBatch, chosen: Int64s) -> Int64s:
        """Classes of chosen rows without the leaves whose own conditions a row does not meet."""
        for bit, condition in enumerate(self._local):
            if condition is not None:
                asked = np.flatnonzero(classes & 1 << bit != 0)
                classes[asked[~condition.mask(rows, chosen[asked])]] &= ~(1 << bit)
        return classes

    def _class_of_type(self, name: str) -> int:
        known = self._classes.get(name)
        if known is None and len(self._classes) < _MOST_CLASSES:
            known = self._classes[name] = self._new_class(name)
        return self._new_class(name) if known is None else known

    def _new_class(self, name: str) -> int:
        leaves: list[Atom | Absent] = [*self.query.atoms, *self.query.absences]
        bits = sum(1 << bit for bit, leaf in enumerate(leaves) if name in leaf.types)
        bits |= NAMED if name in self.query.types else 0
        bits |= WATCHED if name in self._watched.relevant else 0
        return bits | (TERMINAL if name in self.query.terminal else 0)

    def is_relevant(self, classes: Int64s) -> Bools:
        """Rows the search must see. A row of another type breaks contiguity in its partition, so none is left out then."""
        if self.ignored < 0:
            return np.ones(len(classes), np.bool_)
        relevant: Bools = classes & ~self.ignored != 0
        return relevant

    @cached_property
    def ignored(self) -> int:
        """Bits of a class that alone are no reason to look at a row; negative if every row is looked at."""
        if self.query.strategy is Strategy.PARTITION:
            return -1
        return NAMED if self.query.trace_ttl is None else 0

    @cached_property
    def may_rest(self) -> bool:
        """Whether events of a trace that has not matched need only be kept: no run grows, and no silence is waited for."""
        is_scanned = all(self._is_scanned(number) for number in range(len(self._tables)))
        return is_scanned and self.query.trace_ttl is None

    def extra_columns(self, rows: pa.RecordBatch, classes: Int64s) -> list[pa.Array]:
        """Values of `extra_fields`."""
        numbers = []
        if self.query.strategy is Strategy.STRICT:
            numbers = [pc.fill_null(rows.column(self.query.position_column).cast(pa.int64()), -2)]
        return [pa.array(classes), *numbers, *(each(rows) for each in self._derived)]

    # -- search -----------------------------------------------------------------------------------------------------------

    def search(
        self, stored: Batch, chosen: Int64s, classes: Int64s, codes: Int64s, number: int, horizon: Horizon, outlook: Outlook | None
    ) -> SearchOutcome:
        """Matches decided within the horizon among chosen rows, which are in order within each code.

        Parameters
        ----------
        stored, chosen
            Rows, and those of them to look at. Matches name rows by their place among all.
        classes, codes, outlook
            Of each row chosen.
        """
        order = sort_by_code(codes, number)
        view = self._view(stored, chosen, classes)
        events, active = self._events(view, codes, order, horizon, outlook)
        values = self._values(view.rows, order)
        keep, due = np.zeros(len(order), np.int64), np.full(len(events.ends), FOREVER, np.int64)
        found = []
        for term in range(len(self._tables)):
            search = Search(events, values, self._tables[term], self.rules, self._programs, self._scratch)
            matches, when, crowded = self._search_term(term, search, horizon, keep, order)
            if crowded >= 0:
                self._refuse(stored, chosen[order[events.bounds[crowded]]])
            due = np.minimum(due, when)
            found.append(matches)
        keep, due = self._kept(events, active, keep, due, horizon)
        rows_keep, rows_due = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        rows_keep[order], rows_due[order] = keep, due
        if outlook is not None:
            rows_keep = self._still_useful(classes, rows_keep, outlook.usable)
        united = self._united(found, view)
        return SearchOutcome(replace(united, rows=chosen[united.rows]), rows_keep, rows_due)

    def _view(self, stored: Batch, chosen: Int64s, classes: Int64s) -> Batch:
        """What the search reads of rows, and no more."""
        names = self._extra_schema.names[1:]
        if len(chosen) == stored.num_rows:
            columns, ts, pos = [stored.column(name) for name in names], stored.ts, stored.pos
        else:
            indices = pa.array(chosen)
            columns, ts, pos = [stored.column(name).take(indices) for name in names], stored.ts[chosen], stored.pos[chosen]
        return Batch(pa.RecordBatch.from_arrays([pa.array(classes), *columns], schema=self._extra_schema), ts, pos)

    def _events(
        self, stored: Batch, codes: Int64s, order: Int64s, horizon: Horizon, outlook: Outlook | None
    ) -> tuple[Events, Int64s]:
        ts, sorted_codes = stored.ts[order], codes[order]
        classes = int64s(stored.column(CLASS))[order]
        rank = rank_events(sorted_codes, ts, self.query.order is EventOrder.TOTAL)
        ttl = -1 if self.query.trace_ttl is None else self.query.trace_ttl
        bounds, ends, active = split_traces(sorted_codes, ts, rank, classes, ttl, horizon.new)
        numbers = np.zeros(0, np.int64)
        if self.query.strategy is Strategy.STRICT:
            numbers = int64s(stored.column(NUMBER))[order]
        if outlook is None:
            is_spent, settled = np.zeros(len(ends), np.bool_), np.full(len(ends), FOREVER, np.int64)
        else:
            last = order[bounds[1:] - 1] if len(ends) else order
            is_spent, settled = outlook.is_spent[last], outlook.settled[last]
        return Events(ts, rank, classes, numbers, bounds, ends, is_spent, settled), active

    def _values(self, rows: pa.RecordBatch, order: Int64s) -> Values:
        columns = [rows.column(f"{DERIVED}{number}") for number in range(len(self._derived))]
        return values_of(columns, len(order), order)

    def _search_term(
        self, term: int, search: Search, horizon: Horizon, keep: Int64s, order: Int64s
    ) -> tuple[MatchSet, Int64s, int]:
        """Matches of a term, when each trace must be looked at again, and a trace with too many runs or -1."""
        crowded = -1
        if self._is_scanned(term):
            found, due = scan(search, horizon, keep)
            matches, width = found.events.shape
            starts, places = np.arange(matches + 1) * width, np.tile(np.arange(width), matches)
            taken, decided = found.events.reshape(-1), found.decided
            if matches and search.tables.is_repeated.any():
                starts, places, taken = with_lists(search, found.events)
            rows = order[taken]
        else:
            runs, matches, due, crowded = follow(search, horizon, keep)
            starts, decided = runs.starts[: matches + 1], runs.decided[:matches]
            places, rows = runs.place[: starts[-1]], order[runs.event[: starts[-1]]]
        atoms = search.tables.atoms[places]
        none = np.zeros(0, np.int64)
        return MatchSet(np.full(matches, term), owned(decided), owned(starts), rows, atoms, none), due, crowded

    def _refuse(self, stored: Batch, row: int) -> None:
        key = ", ".join(f"{name} = {stored.column(name)[int(row)].as_py()!r}" for name in self.query.key)
        raise TooManyRuns(
            f"more than {self.query.most_runs} partial matches for {key or 'the stream'}; use a smaller WITHIN, a stricter "
            f"condition, {Strategy.NEXT}, or raise the limit"
        )

    def _kept(self, events: Events, active: Int64s, keep: Int64s, due: Int64s, horizon: Horizon) -> tuple[Int64s, Int64s]:
        """Bits to keep of each event, and when its trace must be looked at again."""
        lengths = np.diff(events.bounds)
        if self.rules.has_window:
            keep[events.ts < horizon.new - self.reach] = 0
        if self.query.trace_ttl is not None:
            # The last event of a trace tells when it falls silent, even if no match needs it.
            keep[active] |= NAMED
            bridge_silence(events.bounds, events.ts, events.classes, keep, self.query.trace_ttl)
            due = np.minimum(due, events.ts[active] + self.query.trace_ttl)
        keep[np.repeat(events.ends < horizon.new, lengths)] = 0
        return keep, np.repeat(due, lengths)

    def _still_useful(self, classes: Int64s, keep: Int64s, usable: Int64s) -> Int64s:
        """Bits to keep without those of branches that were given up; unless a complete match waits, or others lean on them."""
        is_waiting = any(tables.is_trailing for tables in self._tables)
        if self.rules.strategy != ANY or is_waiting or self.query.trace_ttl is not None or (usable == -1).all():
            return keep
        kept = keep & usable
        kept[classes & kept & ~NAMED == 0] = 0
        return kept

    def _united(self, found: list[MatchSet], stored: Batch) -> MatchSet:
        """All matches, in an order that depends on their events alone."""
        if len(found) == 1:
            return self._ordered(found[0], stored)
        ends = np.cumsum([0, *(len(each.rows) for each in found)])
        starts = [np.zeros(1, np.int64), *(each.starts[1:] + shift for each, shift in zip(found, ends, strict=False))]
        rows, atoms = (np.concatenate([getattr(each, name) for each in found]) for name in ("rows", "atoms"))
        term, decided = (np.concatenate([getattr(each, name) for each in found]) for name in ("term", "decided"))
        return self._ordered(MatchSet(term, decided, np.concatenate(starts), rows, atoms, np.zeros(0, np.int64)), stored)

    def _ordered(self, found: MatchSet, stored: Batch) -> MatchSet:
        if not found.number:
            return found
        atoms = found.atoms + (found.term.repeat(np.diff(found.starts)) << 8)
        ids = hash_matches(found.starts, atoms, stored.pos[found.rows])
        return replace(found, ids=ids).take(np.lexsort((ids, found.decided)))


def trace_codes(stored: Batch, key: tuple[str, ...]) -> tuple[Int64s, int]:
    """A number for each trace key."""
    codes, _, number = group_codes([stored.column(name) for name in key], stored.num_rows)
    return codes, number
