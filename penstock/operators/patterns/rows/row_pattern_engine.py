"""Row patterns over many partitions at once; knows no state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.codes import owned
from penstock.errors import TooManyRuns
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.row_queries import RowQuery, SkipTo, check_types
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER
from penstock.model.schema import Schema
from penstock.operators.patterns._events import Horizon, hash_matches, sort_by_code
from penstock.operators.patterns._machine import new_scratch
from penstock.operators.patterns.event_values import values_of
from penstock.operators.patterns.match_set import chosen_parts
from penstock.operators.patterns.rows._search import (
    PAST_LAST,
    TO_FIRST,
    TO_LAST,
    TO_NEXT,
    UNMATCHED,
    Found,
    Rows,
    RowSearchRules,
    search,
)
from penstock.operators.patterns.rows._trail import Machine, new_trail
from penstock.operators.patterns.rows.conditions import RowConditions, shifted_name
from penstock.operators.patterns.rows.program import Program

#: A row that only serves as an earlier row of others, and one that is in a match already.
BEHIND, COVERED = 1, 2
_SKIPS = {SkipTo.PAST_LAST: PAST_LAST, SkipTo.NEXT: TO_NEXT, SkipTo.FIRST: TO_FIRST, SkipTo.LAST: TO_LAST}


@dataclass(frozen=True, slots=True)
class RowMatches:
    """Matches over sorted rows.

    Attributes
    ----------
    order
        The stored row at each place of the sorted ones.
    floors
        Per match the place where its partition begins.
    starts, places, labels, hidden
        Places of the rows of match m, the variables that took them, and whether each is not shown, are
        `[starts[m], starts[m + 1])`.
    decided, ids
        When a match is known, and a number made of its rows.
    """

    order: Int64s
    floors: Int64s
    starts: Int64s
    places: Int64s
    labels: Int64s
    hidden: Int64s
    decided: Int64s
    ids: Int64s

    @property
    def number(self) -> int:
        return len(self.decided)

    @property
    def is_unmatched(self) -> npt.NDArray[np.bool_]:
        """Whether it is no match but a row that is in none."""
        result: npt.NDArray[np.bool_] = self.labels[self.starts[:-1]] == UNMATCHED
        return result

    def take(self, chosen: Int64s) -> RowMatches:
        starts, inside = chosen_parts(self.starts, chosen)
        return RowMatches(
            self.order,
            self.floors[chosen],
            starts,
            self.places[inside],
            self.labels[inside],
            self.hidden[inside],
            self.decided[chosen],
            self.ids[chosen],
        )


@dataclass(frozen=True, slots=True)
class RowSearchOutcome:
    """Matches, and of each stored row whether it is kept, what it then serves for (`BEHIND`, `COVERED`), and when to look again."""

    matches: RowMatches
    keep: npt.NDArray[np.bool_]
    roles: npt.NDArray[np.int8]
    due: Int64s


class RowPatternEngine:
    """A row query compiled for rows of a schema.

    Parameters
    ----------
    query
        What is sought.
    schema
        Columns of the rows.
    """

    def __init__(self, query: RowQuery, schema: Schema) -> None:
        self.query, self.schema = query, schema
        check_types(query, schema)
        self.conditions = conditions = RowConditions(query, schema)
        self._scope = conditions.scope
        self._direct = [None if expr is None else compile_expression(expr, self._scope) for expr in conditions.direct]
        self._derived = [compile_expression(expr, self._scope) for expr in conditions.translation.derived]
        self._table = Program(query.pattern).table
        self._program = np.array(conditions.program, np.int64)
        self._members = np.array([self._bits_of(name) for name in query.names], np.int64)
        self._registers = np.array(conditions.registers, np.int64)
        slots = [(slot.variable, slot.column, slot.is_float) for slot in conditions.translation.slots]
        self._slots = np.array(slots, np.int64).reshape(-1, 3)
        self._programs, self._scratch = conditions.translation.programs, new_scratch()
        self._rules = self._rules_of(query)

    def _rules_of(self, query: RowQuery) -> RowSearchRules:
        target = self._bits_of(query.after.variable) if query.after.variable else 0
        has_window = query.within is not None
        remembers = all(number < 0 for number in self.conditions.program)
        return RowSearchRules(
            has_window, query.within or 0, _SKIPS[query.after.to], target, remembers, query.most_steps, query.shows_unmatched
        )

    def _bits_of(self, name: str) -> int:
        """A bit for each variable whose rows a name means."""
        return sum(1 << self.query.variables.index(variable) for variable in self.query.members(name))

    def search(self, stored: Batch, codes: Int64s, number: int, roles: npt.NDArray[np.int8], horizon: Horizon) -> RowSearchOutcome:
        """Search partitions for what is decided from `horizon.old` on and before `horizon.new`.

        Parameters
        ----------
        stored
            Rows of some partitions, those of each in order.
        codes, number
            The partition of each row, and one more than the greatest.
        roles
            What rows serve for that were looked at before.
        """
        order = sort_by_code(owned(codes), number)
        bounds = _bounds(codes[order])
        wide = self._wide(stored, order, bounds)
        firsts, covered = (_behind_all(bounds, roles[order] & role != 0) for role in (BEHIND, COVERED))
        rows = Rows(owned(stored.ts[order]), self._bits(wide), bounds, firsts, covered)
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, column.type) for column in wide.columns], names=wide.schema.names)
        # A row that does not exist stands behind the last: what conditions compute of it, they compute of NULLs.
        values = values_of([pa.concat_arrays([derived(wide), derived(nothing)]) for derived in self._derived], len(order) + 1)
        machine = Machine(
            self._table, self._program, self._members, self._registers, self._slots, self._programs, values, self._scratch
        )
        longest = int(np.diff(rows.bounds).max(initial=0))
        trail = new_trail(machine, len(order), longest, self._rules.remembers)
        found, resume, covered, crowded = search(rows, machine, self._rules, trail, horizon.new)
        if crowded >= 0:
            self._refuse(stored, order[rows.bounds[crowded]])
        return RowSearchOutcome(self._matches(found, rows, order, stored, horizon), *self._kept(rows, resume, covered, order))

    def _bits(self, wide: pa.RecordBatch) -> Int64s:
        bits = np.zeros(wide.num_rows, np.int64)
        for number, condition in enumerate(self._direct):
            met = np.ones(wide.num_rows, np.bool_) if condition is None else condition.mask(wide)
            bits |= met.astype(np.int64) << number
        return bits

    def _wide(self, stored: Batch, order: Int64s, bounds: Int64s) -> pa.RecordBatch:
        """Sorted rows with columns of earlier ones beside their own."""
        own = stored.rows.take(pa.array(order))
        columns = [own.column(item.name) for item in self.schema]
        floors = np.repeat(bounds[:-1], np.diff(bounds))
        for name, back in self.conditions.shifts:
            earlier = np.arange(len(order)) - back
            columns.append(own.column(name).take(pa.array(earlier, mask=earlier < floors)))
        names = [*self.schema.names, *(shifted_name(*shift) for shift in self.conditions.shifts)]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _refuse(self, stored: Batch, row: int) -> None:
        key = ", ".join(f"{name} = {stored.column(name)[int(row)].as_py()!r}" for name in self.query.key)
        raise TooManyRuns(
            f"more than {self.query.most_steps} rows were tried from one start for {key or 'the stream'}; "
            "use a smaller WITHIN, stricter conditions, or a pattern with fewer ways to take the same rows"
        )

    def _kept(
        self, rows: Rows, resume: Int64s, covered: Int64s, order: Int64s
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int8], Int64s]:
        lengths = np.diff(rows.bounds)
        places, start = np.arange(len(order)), np.repeat(resume, lengths)
        due = np.full(len(resume), FOREVER, np.int64)
        if self._rules.has_window:
            waits = resume < rows.bounds[1:]
            due[waits] = rows.ts[resume[waits]] + self._rules.within
        keep, roles, when = np.empty(len(order), np.bool_), np.empty(len(order), np.int8), np.empty(len(order), np.int64)
        keep[order], when[order] = places >= start - self.query.lookback, np.repeat(due, lengths)
        roles[order] = np.where(places < start, BEHIND, 0) | np.where(places < np.repeat(covered, lengths), COVERED, 0)
        return keep, roles, when

    def _matches(self, found: Found, rows: Rows, order: Int64s, stored: Batch, horizon: Horizon) -> RowMatches:
        starts = np.concatenate([[0], np.cumsum(found.length)]).astype(np.int64)
        places = np.arange(starts[-1]) + np.repeat(found.first - starts[:-1], found.length)
        ids = hash_matches(starts, owned(found.labels), owned(stored.pos[order[places]]))
        # What the end of the stream decides is known then, not before the last promise.
        decided = np.maximum(found.decided, horizon.old)
        return RowMatches(order, rows.bounds[found.partition], starts, places, found.labels, found.hidden, decided, ids)


def _bounds(codes: Int64s) -> Int64s:
    """Where runs of equal codes begin, and the end."""
    if not len(codes):
        return np.zeros(1, np.int64)
    return np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1], [True]]))


def _behind_all(bounds: Int64s, marked: npt.NDArray[np.bool_]) -> Int64s:
    """The place behind the marked rows of each partition, which are its first."""
    ahead = np.concatenate([[0], np.cumsum(marked)])
    places: Int64s = bounds[:-1] + ahead[bounds[1:]] - ahead[bounds[:-1]]
    return places
