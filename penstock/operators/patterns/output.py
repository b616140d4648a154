"""Matches as rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.columnar.aggregate import aggregate_for
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import At, Reference, references_of
from penstock.expressions.match_output import (
    BRANCH,
    EVENT_NUMBER,
    MATCH_COUNT,
    MATCH_END,
    MATCH_ID,
    MATCH_START,
    VARIABLE,
    MatchOutput,
    RowsPerMatch,
    measured,
)
from penstock.expressions.match_schema import columns_shown, measure_scope, output_schema, reference_schema
from penstock.expressions.nodes import Expr, columns_of
from penstock.model.batch import Batch, Int64s
from penstock.model.event_patterns import Lists
from penstock.model.schema import Schema
from penstock.operators.patterns.identities import match_ids
from penstock.operators.patterns.match_set import MatchSet

#: Candidates whose lists can be counted in an integer.
_MOST_COUNTED = 62


class MatchRows:
    """Builds output rows from matches over stored rows.

    Parameters
    ----------
    query, output
        What was sought and how it is shown.
    schema
        Columns of the events.
    time_type
        Type of `match_start` and `match_end`.
    """

    def __init__(self, query: EventQuery, output: MatchOutput, schema: Schema, time_type: pa.DataType) -> None:
        self.query, self.output, self.schema = query, output.resolved(query), schema
        self._time_type = time_type
        self._shown = schema.select(output.columns or schema.names)
        structs = [schema.select(output.columns_of(leaf.variable) or schema.names) for leaf in query.atoms]
        self._struct_schemas = [pa.schema([pa.field(item.name, item.type) for item in shown]) for shown in structs]
        #: Each match has one event for each atom, and the same is shown of all.
        self._is_plain = len(query.terms) == 1 and not any(leaf.is_repeated for leaf in query.atoms)
        self._is_plain &= all(schema == self._struct_schemas[0] for schema in self._struct_schemas)
        self._scope = measure_scope(query, self.output, schema, time_type)
        self._measures = [(name, compile_expression(expr, self._scope)) for name, expr in self.output.measures]
        self.output_schema = output_schema(query, self.output, schema, time_type).arrow
        self._has_id = MATCH_ID in self.output_schema.names or any(MATCH_ID in columns_of(expr) for _, expr in self.output.measures)
        self._telling = [name for name in self.needed if not pa.types.is_nested(schema[name].type)]

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns of the events that must be stored, in the order of the schema."""
        return columns_shown(self.query, self.output, self.schema)

    def attributes_of(self, expr: Expr) -> set[str]:
        """Columns of events that a condition over complete matches reads."""
        return {ref.attribute for ref in references_of(expr) if ref.attribute}

    # -- rows -------------------------------------------------------------------------------------------------------------

    def rows(self, matches: MatchSet, stored: Batch) -> Batch:
        """The output of some matches; its time is when they were decided, its position their number."""
        columns = self._match_columns(matches, stored)
        if self._measures:
            scope = pa.RecordBatch.from_arrays([columns[name] for name in self._scope.names], schema=self._scope.arrow)
            columns |= {name: compiled(scope) for name, compiled in self._measures}
        if self.output.rows is RowsPerMatch.ALL:
            return self._event_rows(matches, stored, columns)
        if not self._measures:
            columns |= self._all_structs(matches, stored)
        rows = pa.RecordBatch.from_arrays([columns[name] for name in self.output_schema.names], schema=self.output_schema)
        return Batch(rows, matches.decided, matches.ids)

    def truth(self, expr: Expr, matches: MatchSet, stored: Batch) -> Int64s:
        """Matches for which a condition over their events is true, or does not apply: one of its variables has no event."""
        refs = references_of(expr)
        scope = reference_schema(refs, self.schema)
        columns = [self._referred(ref, matches, stored) for ref in refs]
        rows = pa.RecordBatch.from_arrays(columns, schema=scope.arrow)
        kept = compile_expression(expr, scope).mask(rows)
        for ref in refs:
            kept |= self._lengths(self._atom(ref), matches) == 0
        return np.flatnonzero(kept)

    def _match_columns(self, matches: MatchSet, stored: Batch) -> dict[str, pa.Array]:
        first = matches.rows[matches.starts[:-1]]
        columns = {name: stored.column(name).take(pa.array(first)) for name in self.query.key}
        times = stored.ts[matches.rows]
        whole = matches.starts[:-1]
        start = np.minimum.reduceat(times, whole) if len(whole) else times
        end = np.maximum.reduceat(times, whole) if len(whole) else times
        columns |= {MATCH_START: self._time(start), MATCH_END: self._time(end)}
        columns |= {MATCH_ID: pa.array(self._ids(matches, stored)), BRANCH: pa.array(matches.term)}
        if self.query.lists is Lists.COLLAPSE:
            columns[MATCH_COUNT] = self._counts(matches)
        for name in self._scope.names:
            if (ref := measured(name, self.query)) is not None:
                columns[name] = self._referred(ref, matches, stored)
        return columns

    def _ids(self, matches: MatchSet, stored: Batch) -> Int64s:
        """Numbers that are the same whoever found the matches, where anybody sees them."""
        if not self._has_id:
            return matches.ids
        atoms = matches.atoms + (matches.term.repeat(np.diff(matches.starts)) << 8)
        return match_ids(matches.starts, atoms, matches.rows, stored, self._telling)

    def _counts(self, matches: MatchSet) -> pa.Array:
        """How many matches each stands for: of k candidates for a list every part but the empty one, 2^k - 1."""
        counts, candidates = np.ones(matches.number, np.int64), np.zeros(matches.number, np.int64)
        for atom, leaf in enumerate(self.query.atoms):
            if leaf.is_repeated:
                lengths = self._lengths(atom, matches)
                candidates += lengths
                counts *= np.where(lengths > 0, (np.int64(1) << np.minimum(lengths, _MOST_COUNTED)) - 1, 1)
        return pa.array(counts, mask=candidates > _MOST_COUNTED)

    def _time(self, values: Int64s) -> pa.Array:
        times = pa.array(values)
        return times if times.type == self._time_type else times.cast(self._time_type)

    def _atom(self, ref: Reference) -> int:
        return next(number for number, leaf in enumerate(self.query.atoms) if leaf.variable == ref.variable)

    def _events_of(self, atom: int, matches: MatchSet) -> tuple[Int64s, Int64s]:
        """Rows an atom took, match by match, and the match of each."""
        mine = matches.atoms == atom
        owners = np.repeat(np.arange(matches.number), np.diff(matches.starts))
        return matches.rows[mine], owners[mine]

    def _lengths(self, atom: int, matches: MatchSet) -> Int64s:
        return np.bincount(self._events_of(atom, matches)[1], minlength=matches.number).astype(np.int64)

    def _referred(self, ref: Reference, matches: MatchSet, stored: Batch) -> pa.Array:
        rows, owners = self._events_of(self._atom(ref), matches)
        if ref.function:
            values = stored.column(ref.attribute).take(pa.array(rows)) if ref.attribute else pa.array(rows)
            aggregate = aggregate_for(ref.function, values.type)
            return aggregate.read(aggregate.accumulator.partial(values, owners, matches.number))
        chosen = np.full(matches.number, -1, np.int64)
        if ref.at is At.FIRST:
            rows, owners = rows[::-1], owners[::-1]
        chosen[owners] = rows  # of several the last assignment stays
        return stored.column(ref.attribute).take(pa.array(chosen, mask=chosen < 0))

    def _all_structs(self, matches: MatchSet, stored: Batch) -> dict[str, pa.Array]:
        """What is shown of the events of each variable."""
        names = [leaf.variable for leaf in self.query.atoms]
        if not self._is_plain:
            return {name: self._structs(atom, matches, stored) for atom, name in enumerate(names)}
        # All columns of all events in one call: a call costs more than the few rows of most answers.
        order = np.argsort(matches.atoms, kind="stable")
        whole = self._taken(self._struct_schemas[0], matches.rows[order], stored).to_struct_array()
        return {name: whole.slice(atom * matches.number, matches.number) for atom, name in enumerate(names)}

    def _structs(self, atom: int, matches: MatchSet, stored: Batch) -> pa.Array:
        rows, owners = self._events_of(atom, matches)
        lengths = np.bincount(owners, minlength=matches.number)
        schema = self._struct_schemas[atom]
        if self.query.atoms[atom].is_repeated:
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            lists = pa.ListArray.from_arrays(pa.array(offsets), self._taken(schema, rows, stored).to_struct_array())
            return lists.cast(self.output_schema.field(self.query.atoms[atom].variable).type)
        chosen = np.zeros(matches.number, np.int64)
        chosen[owners] = rows
        columns = self._taken(schema, chosen, stored).columns
        return pa.StructArray.from_arrays(columns, fields=list(schema), mask=pa.array(lengths == 0))

    def _taken(self, schema: pa.Schema, rows: Int64s, stored: Batch) -> pa.RecordBatch:
        """Some columns of some rows."""
        whole = pa.RecordBatch.from_arrays([stored.column(name) for name in schema.names], schema=schema)
        return whole.take(pa.array(rows))

    def _event_rows(self, matches: MatchSet, stored: Batch, columns: dict[str, pa.Array]) -> Batch:
        lengths = np.diff(matches.starts)
        owners = np.repeat(np.arange(matches.number), lengths)
        # By match, then time: lists of different variables may interleave.
        order = np.lexsort((stored.pos[matches.rows], stored.ts[matches.rows], owners))
        number = _numbered(owners, matches.atoms)[order]
        rows, owners, atoms = matches.rows[order], owners[order], matches.atoms[order]
        names = pa.array([leaf.variable for leaf in self.query.atoms])
        shown = {item.name: stored.column(item.name).take(pa.array(rows)) for item in self._shown}
        of_match = {name: column.take(pa.array(owners)) for name, column in columns.items()}
        marks = {VARIABLE: names.take(pa.array(atoms)), EVENT_NUMBER: pa.array(number)}
        values = {**shown, **of_match, **marks}
        built = pa.RecordBatch.from_arrays([values[name] for name in self.output_schema.names], schema=self.output_schema)
        return Batch(built, matches.decided[owners], matches.ids[owners] ^ np.arange(len(owners)))


def _numbered(owners: Int64s, atoms: Int64s) -> Int64s:
    """1, 2, ... within each run of equal match and atom."""
    fresh = np.ones(len(owners), np.bool_)
    fresh[1:] = (owners[1:] != owners[:-1]) | (atoms[1:] != atoms[:-1])
    start = np.maximum.accumulate(np.where(fresh, np.arange(len(owners)), 0)) if len(owners) else owners
    return np.arange(len(owners)) - start + 1
