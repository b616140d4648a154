"""How rows become stored rows, and stored rows results.

A stored row speaks for rows of one group that lie in the same windows `first … last`. Its columns are `first`, `last`,
`ts` (the greatest time), the group's key `k0, k1, …` and cells `c0, c1, …`: partial aggregates when answers are reused,
the arguments themselves when every window is computed from scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columnar.aggregate import Accumulator, Aggregate, aggregate_for, greatest_of
from penstock.columnar.codes import Codes, canonical, group_codes, integer_codes
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.evaluate import Compiled, compile
from penstock.expressions.nodes import Expr
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Groups:
    """Results of some windows: one row per window and group, in no particular order."""

    windows: Int64s
    ts: Int64s
    keys: list[pa.Array]
    values: list[pa.Array]


class Layout:
    """Column plan of a grouping.

    Parameters
    ----------
    schema
        Of the input.
    keys
        Grouping columns, then partition columns that are not among them: both separate groups.
    aggregates
        What to compute.
    reuse
        Keep partial aggregates instead of rows.
    """

    def __init__(self, schema: Schema, keys: Sequence[str], aggregates: Sequence[AggregateCall], reuse: bool) -> None:
        self.keys, self.reuse = tuple(keys), reuse
        self._positions = [schema.index(key) for key in keys]
        self._arguments: list[Compiled] = []
        #: Each with the places of its arguments: none for `count(*)`, several for `max_by`.
        self._accumulators: list[tuple[Accumulator, tuple[int, ...]]] = []
        self._readers = [self._plan(call, schema) for call in aggregates]
        self._names = {schema.fields[at].name: f"k{i}" for i, at in enumerate(self._positions)}
        key_fields = [pa.field(f"k{i}", _plain(schema.fields[at].type)) for i, at in enumerate(self._positions)]
        argument_fields = [pa.field(f"c{i}", _plain(item.type)) for i, item in enumerate(self._arguments)]
        cell_fields = [pa.field(f"c{i}", item.type) for i, (item, _) in enumerate(self._accumulators)]
        own = [pa.field(name, pa.int64()) for name in ("first", "last", "ts")]
        #: Rows before they have windows, and rows as they are stored.
        self.prepared_schema = pa.schema([*key_fields, *argument_fields])
        self.schema = pa.schema([*own, *key_fields, *(cell_fields if reuse else argument_fields)])

    def _plan(self, call: AggregateCall, schema: Schema) -> tuple[int, Aggregate, pa.DataType]:
        """Number of the accumulator that serves the call; equal ones are shared."""
        places = tuple(self._place(item, schema) for item in call.inputs)
        kinds = [_plain(self._arguments[at].type) for at in places]
        aggregate = aggregate_for(call.function, _together(kinds), call.distinct)
        wanted = (aggregate.accumulator, places)
        if wanted not in self._accumulators:
            self._accumulators.append(wanted)
        return self._accumulators.index(wanted), aggregate, result_type(call, schema)

    def _place(self, argument: Expr, schema: Schema) -> int:
        known = [item.expr for item in self._arguments]
        if argument not in known:
            self._arguments.append(compile(argument, schema))
        return known.index(argument) if argument in known else len(known)

    def prepared(self, batch: Batch) -> Batch:
        """Key and argument columns of a batch."""
        keys = [canonical(batch.rows.column(at)) for at in self._positions]
        arguments = [item(batch.rows) for item in self._arguments]
        arguments = [column.cast(_plain(column.type)) for column in arguments]
        if not (keys or arguments):
            # A record batch without columns forgets how many rows it has; `count(*)` without keys needs `ts` alone.
            return Batch(pa.RecordBatch.from_arrays([], schema=self.prepared_schema), batch.ts, batch.pos)
        return batch.with_rows(pa.RecordBatch.from_arrays([*keys, *arguments], schema=self.prepared_schema))

    def stored(self, batch: Batch, first: Int64s, last: Int64s) -> pa.RecordBatch:
        """Prepared rows with their windows, as they are kept."""
        width = len(self.keys)
        columns = batch.rows.columns
        keys, arguments = columns[:width], columns[width:]
        if not self.reuse:
            return self._rows(first, last, batch.ts, keys, arguments)
        return self._aggregated(first, last, batch.ts, keys, arguments, group_codes([_panes(first, last), *keys]))

    def _aggregated(
        self, first: Int64s, last: Int64s, ts: Int64s, keys: list[pa.Array], arguments: list[pa.Array], found: Codes
    ) -> pa.RecordBatch:
        codes, representative, number = found
        nothing = pa.array(ts)
        cells = [item.partial(_input(arguments, places, nothing), codes, number) for item, places in self._accumulators]
        chosen = pa.array(representative)
        kept = [key.take(chosen) for key in keys]
        return self._rows(first[representative], last[representative], greatest_of(ts, codes, number), kept, cells)

    def _rows(self, first: Int64s, last: Int64s, ts: Int64s, keys: list[pa.Array], cells: list[pa.Array]) -> pa.RecordBatch:
        own = [pa.array(values, pa.int64()) for values in (first, last, ts)]
        return pa.RecordBatch.from_arrays([*own, *keys, *cells], schema=self.schema)

    def merged(self, rows: pa.RecordBatch, floor: int) -> pa.RecordBatch:
        """Stored rows of one group whose windows from `floor` on are the same become one row."""
        if not self.reuse:
            return rows
        first, last, ts = (int64s(rows.column(at)) for at in range(3))
        first = np.maximum(first, floor)
        keys, cells = self._split(rows)
        codes, representative, number = group_codes([_panes(first, last), *keys])
        if number == rows.num_rows:
            return rows
        joined = [item.merge(cell, codes, number) for (item, _), cell in zip(self._accumulators, cells, strict=True)]
        kept = [key.take(pa.array(representative)) for key in keys]
        return self._rows(first[representative], last[representative], greatest_of(ts, codes, number), kept, joined)

    def results(self, rows: pa.RecordBatch, index: Int64s, windows: Int64s) -> Groups:
        """Aggregates over windows, where stored row `index[i]` is in window `windows[i]`."""
        if not np.array_equal(index, np.arange(rows.num_rows)):
            rows = rows.take(pa.array(index))
        keys, cells = self._split(rows)
        by_key = group_codes(keys, rows.num_rows)
        by_window = integer_codes(windows)
        codes, representative, number = integer_codes(by_window.codes * by_key.number + by_key.codes)
        partials: list[pa.Array] = []
        for place, (item, places) in enumerate(self._accumulators):
            if self.reuse:
                partials.append(item.merge(cells[place], codes, number))
            else:
                partials.append(item.partial(_input(cells, places, rows.column(2)), codes, number))
        values = [_cast(aggregate.read(partials[at]), kind) for at, aggregate, kind in self._readers]
        kept = [key.take(pa.array(representative)) for key in keys]
        ts = greatest_of(int64s(rows.column(2)), codes, number)
        return Groups(windows[representative], ts, kept, values)

    def key_columns(self, rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
        """Columns of stored rows that hold some of the keys."""
        return [rows.column(f"k{self.keys.index(name)}") for name in names]

    def stored_names(self, names: Sequence[str]) -> list[str]:
        """Names of keys in stored and prepared rows."""
        return [self._names[name] for name in names]

    def key_type(self, name: str) -> pa.DataType:
        """Type of a key in stored rows and results."""
        return self.schema.field(self._names[name]).type

    def on_stored(self, mark: Punctuation) -> Punctuation:
        """A punctuation over keys, in the names of stored and prepared columns."""
        return mark.rename(self._names)

    def _split(self, rows: pa.RecordBatch) -> tuple[list[pa.Array], list[pa.Array]]:
        columns = rows.columns
        return columns[3 : 3 + len(self.keys)], columns[3 + len(self.keys) :]


def _panes(first: Int64s, last: Int64s) -> pa.Array:
    """One number for each pair: both never fall with position, so different pairs have different sums."""
    return pa.array(first + last)


def _together(kinds: list[pa.DataType]) -> pa.DataType:
    """The type of what an accumulator is given; `count(*)` is given any column without NULL."""
    if len(kinds) > 1:
        return pa.struct([(f"v{at}", kind) for at, kind in enumerate(kinds)])
    return kinds[0] if kinds else pa.int64()


def _input(columns: list[pa.Array], places: tuple[int, ...], nothing: pa.Array) -> pa.Array:
    """The columns at some places as one."""
    if len(places) > 1:
        return pa.StructArray.from_arrays([columns[at] for at in places], names=[f"v{at}" for at in range(len(places))])
    return columns[places[0]] if places else nothing


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type values are computed in: no dictionaries, and a number for the untyped NULL."""
    if pa.types.is_null(kind):
        return pa.float64()
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(column)) if pa.types.is_null(kind) else column.cast(kind)
