"""Matches of row patterns as rows: measures over the whole match, or up to each of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.codes import as_integers, order_codes, owned, validity
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.match_output import RowsPerMatch
from penstock.expressions.row_queries import RowQuery, scope_of
from penstock.expressions.row_references import CLASSIFIER, FIRST, MATCH_NUMBER, RowReference, type_of_reference
from penstock.expressions.typing import FLOATS, INTEGERS
from penstock.model.batch import Batch, Int64s
from penstock.model.schema import Schema
from penstock.operators.patterns.rows._search import NOBODY, run_aggregates
from penstock.operators.patterns.rows.row_pattern_engine import RowMatches


@dataclass(frozen=True, slots=True)
class _Frames:
    """Rows of the output: the match of each, the entry of its last row among those of all matches, and the match's last."""

    match: Int64s
    here: Int64s
    final: Int64s


class RowOutput:
    """Builds output rows from matches over stored rows.

    Parameters
    ----------
    query
        What was sought and how it is shown.
    schema
        Columns of the stored rows.
    shown
        Columns of the output.
    """

    def __init__(self, query: RowQuery, schema: Schema, shown: Schema) -> None:
        self.query, self.schema = query, schema
        self.output_schema = shown.arrow
        self._scope = scope_of(query.measured, schema)
        self._measures = [(name, compile_expression(expr, self._scope)) for name, expr in query.measures]
        self._arguments = {
            ref: compile_expression(ref.argument, schema) for ref in query.measured if ref.is_aggregate and ref.argument is not None
        }

    def rows(self, matches: RowMatches, stored: Batch, numbers: Int64s) -> Batch:
        """The output of some matches; `numbers` are those of `MATCH_NUMBER()`."""
        frames = self._frames(matches)
        columns = [self._referred(ref, frames, matches, stored, numbers) for ref in self.query.measured]
        scope = _batch(columns, self._scope.arrow, len(frames.here))
        values = {name: compiled(scope) for name, compiled in self._measures}
        if self.query.shows_unmatched:
            exists = pa.array(~matches.is_unmatched[frames.match])
            values = {name: pc.if_else(exists, column, pa.scalar(None, column.type)) for name, column in values.items()}
        last = matches.order[matches.places[frames.here]]
        built = [values[name] if name in values else stored.column(name).take(pa.array(last)) for name in self.output_schema.names]
        rows = _batch(built, self.output_schema, len(frames.here))
        depth = frames.here - matches.starts[frames.match]
        pos = matches.ids[frames.match]
        return Batch(rows, matches.decided[frames.match], pos ^ depth if self.query.rows is RowsPerMatch.ALL else pos)

    def _frames(self, matches: RowMatches) -> _Frames:
        lengths, final = np.diff(matches.starts), matches.starts[1:] - 1
        if self.query.rows is RowsPerMatch.ONE:
            return _Frames(np.arange(matches.number), final, final)
        shown = np.flatnonzero((matches.hidden == 0) & ((matches.labels != NOBODY) | (not self.query.omits_empty)))
        match = np.repeat(np.arange(matches.number), lengths)[shown]
        return _Frames(match, shown, final[match])

    # -- references -------------------------------------------------------------------------------------------------------

    def _referred(self, ref: RowReference, frames: _Frames, matches: RowMatches, stored: Batch, numbers: Int64s) -> pa.Array:
        last = frames.final if ref.is_final else frames.here
        if ref.function == CLASSIFIER:
            entries, exists = self._entries(ref, frames.match, last, matches)
            return pa.array(self.query.variables).take(pa.array(matches.labels[entries], mask=~exists))
        if ref.function == MATCH_NUMBER:
            return pa.array(numbers[frames.match])
        if ref.is_aggregate:
            return self._aggregated(ref, last, matches, stored)
        return self._navigated(ref, frames.match, last, matches, stored)

    def _is_mine(self, ref: RowReference, matches: RowMatches) -> npt.NDArray[np.bool_]:
        if not ref.variable:
            is_taken: npt.NDArray[np.bool_] = matches.labels >= 0
            return is_taken
        return np.isin(matches.labels, [self.query.variables.index(name) for name in self.query.members(ref.variable)])

    def _entries(self, ref: RowReference, match: Int64s, last: Int64s, matches: RowMatches) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """The entry a reference names among those of all matches, up to `last` of each, and whether there is one."""
        mine = self._is_mine(ref, matches)
        before = np.concatenate([[0], np.cumsum(mine)])
        low, high = before[matches.starts[match]], before[last + 1]
        chosen = low + ref.offset if ref.function == FIRST else high - 1 - ref.offset
        exists = (chosen >= low) & (chosen < high)
        entries = np.zeros(len(match), np.int64)
        entries[exists] = np.flatnonzero(mine)[chosen[exists]]
        return entries, exists

    def _navigated(self, ref: RowReference, match: Int64s, last: Int64s, matches: RowMatches, stored: Batch) -> pa.Array:
        entries, exists = self._entries(ref, match, last, matches)
        places = matches.places[entries] - ref.back
        exists &= places >= matches.floors[match]
        rows = matches.order[np.where(exists, places, 0)]
        return stored.column(ref.attribute).take(pa.array(rows, mask=~exists))

    def _aggregated(self, ref: RowReference, last: Int64s, matches: RowMatches, stored: Batch) -> pa.Array:
        mine = self._is_mine(ref, matches)
        if ref.argument is None:
            values = pa.array(mine)
        else:
            values = self._arguments[ref](stored.rows).take(pa.array(matches.order[matches.places]))
        return _read(ref, values, mine & validity(values), last, matches, type_of_reference(ref, self.schema))


def _read(
    ref: RowReference, values: pa.Array, chosen: npt.NDArray[np.bool_], last: Int64s, matches: RowMatches, kind: pa.DataType
) -> pa.Array:
    """The aggregate up to the entry `last` of each row of the output."""
    is_number, is_float = values.type in INTEGERS, values.type in FLOATS
    ints = as_integers(values) if is_number else np.zeros(len(values), np.int64)
    floats = as_integers(values).view(np.float64) if is_float else ints.astype(np.float64)
    ranks = order_codes(values)[0] if ref.function in ("min", "max") else ints
    found = run_aggregates(*map(owned, (matches.starts, chosen, ints, floats, ranks)))
    count, total, ftotal, least, greatest = (each[last] for each in found)
    if ref.function == "count":
        return pa.array(np.abs(count))
    if ref.function in ("min", "max"):
        at = least if ref.function == "min" else greatest
        return values.take(pa.array(at, mask=at < 0))
    sums = ftotal if is_float else total
    if ref.function == "avg":
        sums = sums.astype(np.float64) / np.maximum(count, 1)
    return pa.array(sums, kind, mask=count <= 0)


def _batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if not columns:  # Arrow would not know how many rows a batch without columns has
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
