"""The map side: from a stream's DataFrame to packets, without converting a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.columnar.masks import without_idle_masks
from penstock.expressions.nodes import Column
from penstock.expressions.spark_sql import spark_sql
from penstock.kernel.packing import BAD, KEEP, MARK, PARTITION, POSITION, TIME, Route, pack
from penstock.lowering.prefix import Prefix
from penstock.runners.spark.packet_rows import PACKET_SCHEMA, packed_rows
from penstock.runners.spark.shard_ids import shard_ids
from penstock.runners.spark.workers import settle

#: A packing task cuts its rows into packets of about this size.
PACKET_ROWS = 1 << 19


@dataclass(frozen=True, slots=True)
class _Item:
    """A column on its way to a packing task: what Spark computes, and what the task calls it."""

    text: str
    name: str
    #: The column of the frame that is handed on as it is, if that is all.
    source: str = ""


def crossing(frame: DataFrame, prefix: Prefix) -> tuple[DataFrame, tuple[str, ...]]:
    """The select list and the columns packing needs, as Spark SQL: this part is Catalyst's. And what packing calls the latter."""
    items = [*_columns(prefix), *_system_columns(frame, prefix)]
    return frame.selectExpr(*_select_list(items)), tuple(item.name for item in items[len(prefix.items) :])


def _columns(prefix: Prefix) -> Iterator[_Item]:
    schema = prefix.stream.schema
    for number, (_, expr) in enumerate(prefix.items):
        source = schema[expr.name].name if isinstance(expr, Column) else ""
        # Plain names for the crossing: a qualified name such as `b.price` would be read as a field of a struct.
        yield _Item(spark_sql(expr, schema), f"_c{number}", source)


def _system_columns(frame: DataFrame, prefix: Prefix) -> Iterator[_Item]:
    stream = prefix.stream
    if stream.timestamp not in dict(prefix.kept):
        time = _quoted(stream.timestamp)
        yield _Item(f"unix_micros({time})" if stream.has_clock_time else f"CAST({time} AS BIGINT)", TIME)
    if prefix.condition is not None:
        yield _Item(f"({spark_sql(prefix.condition, stream.schema)})", KEEP)
    if stream.partition_column:
        yield _Item(f"CAST({_quoted(stream.partition_column)} AS BIGINT)", PARTITION)
    if stream.position_column:
        yield _Item(f"CAST({_quoted(stream.position_column)} AS BIGINT)", POSITION)
    if stream.punctuations is not None:
        yield _Item(_quoted(stream.punctuations.column), MARK, stream.punctuations.column)
    if BAD in frame.columns:
        yield _Item(BAD, BAD, BAD)


def _select_list(items: Sequence[_Item]) -> Iterator[str]:
    """Columns keep their names where they can: a list that only repeats the frame's columns is dropped by Catalyst."""
    taken = {item.name for item in items}
    for item in items:
        keeps = item.source.isidentifier() and item.source.lower() not in taken
        taken.add(item.source.lower())
        yield item.text if keeps or item.source == item.name else f"{item.text} AS {item.name}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def packed(frame: DataFrame, prefix: Prefix, route: Route) -> DataFrame:
    """Packets of one source entry."""
    crossed, system = crossing(frame, prefix)
    return crossed.mapInArrow(packing_task(route, system), PACKET_SCHEMA)


def packing_task(route: Route, system: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of one map task; it is shipped, so it holds the route, the names of its columns and nothing else."""
    ids = shard_ids(route.shards)
    names = (*route.columns.names, *system)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        base = first_position()
        waiting: list[pa.RecordBatch] = []
        rows = sequence = 0
        newest: dict[int, int] = {}
        last: pa.RecordBatch | None = None
        for batch in batches:
            last = batch
            waiting.append(without_idle_masks(batch))
            rows += batch.num_rows
            if rows >= PACKET_ROWS:
                yield _packets(waiting, names, route, base, sequence, ids, newest)
                base, sequence, waiting, rows = base + rows, sequence + 1, [], 0
        if waiting or last is None:
            # A task without rows still sends headers: an idle shard learns that the batch has come.
            yield _packets(waiting or [_no_rows(names, route)], names, route, base, sequence, ids, newest)
        settle()

    return run


def _packets(
    waiting: list[pa.RecordBatch], names: tuple[str, ...], route: Route, base: int, sequence: int, ids: tuple[int, ...],
    newest: dict[int, int],
) -> pa.RecordBatch:  # fmt: skip
    rows = pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]
    rows = _timed(rows.rename_columns(names), route)
    found = [(ids[shard], *packet.encode(), None) for shard, packet in pack(rows, route, base, sequence, newest)]
    return packed_rows(found)


def _timed(rows: pa.RecordBatch, route: Route) -> pa.RecordBatch:
    """Rows with their event time, which crosses once: where the query reads the column anyway, that one counts."""
    if TIME in rows.schema.names:
        return rows
    column = rows.column(dict(route.kept)[route.stream.timestamp])
    if route.stream.has_clock_time:
        column = column.cast(pa.timestamp("us", column.type.tz))
    return rows.append_column(TIME, column.cast(pa.int64()))


def _no_rows(names: tuple[str, ...], route: Route) -> pa.RecordBatch:
    types = {TIME: pa.int64(), PARTITION: pa.int64(), POSITION: pa.int64(), KEEP: pa.bool_()}
    fields = [*route.columns, *(pa.field(name, types.get(name, pa.string())) for name in names[len(route.columns) :])]
    return pa.RecordBatch.from_arrays([pa.array([], item.type) for item in fields], schema=pa.schema(fields))


def first_position() -> int:
    """A position that grows with the micro-batch and the task: sources without offsets of their own get a total order."""
    return (batch_id() << 38) + (partition_id() << 26)


def partition_id() -> int:
    """Which of the tasks of its stage this is."""
    return int(_task().partitionId())


def batch_id() -> int:
    """The micro-batch this task belongs to (0 outside of one)."""
    return int(_task().getLocalProperty("streaming.sql.batchId") or 0)


def _task() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()
