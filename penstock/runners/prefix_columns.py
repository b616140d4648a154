"""The stateless prefix of a stream on columns: what Catalyst does where Spark reads the rows. Filters are left to packing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.evaluate import evaluate, mask
from penstock.expressions.nodes import Column, columns_of
from penstock.kernel.damage import BAD, is_damaged, set_damage_apart
from penstock.kernel.packing import KEEP, MARK, MISSING, PARTITION, POSITION, READ, ROW, TIME
from penstock.lowering.prefix import Prefix
from penstock.model.masks import Mask
from penstock.model.schema import Field


def fields_read(prefix: Prefix) -> tuple[Field, ...]:
    """Fields of the stream that `prefix_columns` looks at, in the order of the stream."""
    stream = prefix.stream
    names = {name for expr in (*(expr for _, expr in prefix.items), *prefix.conditions) for name in columns_of(expr)}
    names |= {*prefix.unread_required, *_only_looked_at(prefix)}
    names |= {stream.timestamp, stream.partition_column, stream.position_column}
    names |= {stream.punctuations.column} if stream.punctuations is not None else set()
    wanted = {name.lower() for name in names if name}
    return tuple(item for item in stream.schema if item.name.lower() in wanted)


def prefix_columns(prefix: Prefix, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The select list over rows that have the fields it reads, and system columns for packing.

    Rows whose values are sound may still compute damaged ones, such as the day after the last of the calendar; these are set
    apart too.
    """
    found = _computed(prefix, rows)
    made = [name for name, expr in prefix.items if not isinstance(expr, Column)]
    return set_damage_apart(found) if is_damaged(found.select(made)) else found


def _computed(prefix: Prefix, rows: pa.RecordBatch) -> pa.RecordBatch:
    stream = prefix.stream

    def column(name: str) -> pa.Array:
        return rows.column(stream.schema[name].name)

    columns = {name: evaluate(expr, rows) for name, expr in prefix.items}
    arrays = [columns[item.name].cast(item.type) for item in prefix.schema]
    time = column(stream.timestamp)
    system = {TIME: time.cast(pa.int64()) if not pa.types.is_timestamp(time.type) else time.view(pa.int64())}
    if prefix.condition is not None:
        system[KEEP] = pa.array(mask(prefix.condition, rows))
    if prefix.unread_required:
        system[MISSING] = pa.array(_without_value(rows, prefix.unread_required))
    if stream.partition_column:
        system[PARTITION] = column(stream.partition_column).cast(pa.int64())
    if stream.position_column:
        system[POSITION] = column(stream.position_column).cast(pa.int64())
    if stream.punctuations is not None:
        system[MARK] = column(stream.punctuations.column)
    if BAD in rows.schema.names:
        system[BAD] = rows.column(BAD)
    if prefix.filters:
        system[ROW] = pa.array(np.arange(rows.num_rows))
    system |= {f"{READ}{name}": _as(column(name), stream.schema[name].type) for name in _only_looked_at(prefix)}
    return pa.RecordBatch.from_arrays([*arrays, *system.values()], names=[*prefix.schema.names, *system])


def _only_looked_at(prefix: Prefix) -> list[str]:
    """What filters read, and by what rows are ranked that are left out."""
    return list(dict.fromkeys([*(name for item in prefix.filters for name in item.columns), *prefix.ranked]))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _without_value(rows: pa.RecordBatch, names: tuple[str, ...]) -> Mask:
    missing: Mask = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        missing |= rows.column(name).is_null().to_numpy(zero_copy_only=False)
    return missing
