"""The map side: from a stream's DataFrame to packets, without converting a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.columnar.masks import without_idle_masks
from penstock.expressions.nodes import Column
from penstock.expressions.spark_sql import spark_sql
from penstock.kernel.damage import BAD, set_damage_apart
from penstock.kernel.packing import KEEP, MARK, MISSING, PARTITION, POSITION, SYSTEM_TYPES, TIME, Route, pack
from penstock.lowering.prefix import Prefix
from penstock.runners.destinations import local_path
from penstock.runners.parquet_rows import parquet_rows
from penstock.runners.prefixed import fields_read, prefixed
from penstock.runners.spark.files import ParquetFiles
from penstock.runners.spark.packet_rows import PACKET_SCHEMA, packed_rows
from penstock.runners.spark.shard_ids import shard_ids
from penstock.runners.spark.workers import in_one_sentence, settle

#: What Spark runs over the Arrow batches of a partition.
Task: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

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
    if prefix.unread_required:
        yield _Item(f"({' OR '.join(f'{_quoted(name)} IS NULL' for name in prefix.unread_required)})", MISSING)
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


def packed(source: DataFrame | ParquetFiles, prefix: Prefix, route: Route) -> DataFrame:
    """Packets of one source entry."""
    if isinstance(source, ParquetFiles):
        return source.listing.mapInArrow(_speaking(reading_task(source.base, prefix, route)), PACKET_SCHEMA)
    crossed, system = crossing(source, prefix)
    return crossed.mapInArrow(_speaking(packing_task(route, system)), PACKET_SCHEMA)


def _speaking(task: Task) -> Task:
    return lambda batches: in_one_sentence(task(batches))


def packing_task(route: Route, system: tuple[str, ...]) -> Task:
    """The function of one map task; it is shipped, so it holds the route, the names of its columns and nothing else."""
    names = (*route.columns.names, *system)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = _Packing(route, first_position())
        for batch in batches:
            yield from packing.add(set_damage_apart(without_idle_masks(batch).rename_columns(names)))
        yield from packing.finish(lambda: _no_rows(names, route))

    return run


def reading_task(base: str, prefix: Prefix, route: Route) -> Task:
    """The function of a map task that is handed paths instead of rows, and does itself what Catalyst does elsewhere."""
    fields = fields_read(prefix)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = _Packing(route, first_position())
        root = local_path(base) if base else None
        # Spark deals files by size; within a task older ones come first, as they do from one micro-batch to the next.
        listed = sorted((row["modificationTime"], row["path"]) for batch in batches for row in batch.to_pylist())
        for _, path in listed:
            for rows in parquet_rows(local_path(path), root, fields, PACKET_ROWS):
                yield from packing.add(prefixed(prefix, set_damage_apart(rows)))
        yield from packing.finish(lambda: prefixed(prefix, _empty(pa.field(item.name, item.type) for item in fields)))

    return run


class _Packing:
    """Rows of a task on their way into packets; they have the columns of the entry and system columns.

    Parameters
    ----------
    base
        Position of the first row.
    """

    def __init__(self, route: Route, base: int) -> None:
        self._route = route
        self._ids = shard_ids(route.shards)
        self._base = base
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._has_sent = False

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= PACKET_ROWS:
            yield self._packets()

    def finish(self, no_rows: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The last packets. A task without rows still sends headers: an idle shard learns that the batch has come."""
        if not self._waiting and not self._has_sent:
            self._waiting.append(no_rows())
        if self._waiting:
            yield self._packets()
        settle()

    def _packets(self) -> pa.RecordBatch:
        rows = pa.concat_batches(_alike(self._waiting)) if len(self._waiting) > 1 else self._waiting[0]
        packets = pack(_timed(rows, self._route), self._route, self._base)
        found = [(self._ids[shard], *packet.encode(), None) for shard, packet in packets]
        self._base, self._has_sent = self._base + self._rows, True
        self._waiting, self._rows = [], 0
        return packed_rows(found)


def _alike(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with the same columns: only those with damage tell of it."""
    names = max((batch.schema.names for batch in batches), key=len)
    for batch in batches:
        told = batch.append_column(BAD, pa.nulls(batch.num_rows, pa.string())) if len(batch.schema.names) < len(names) else batch
        yield told.select(names)


def _timed(rows: pa.RecordBatch, route: Route) -> pa.RecordBatch:
    """Rows with their event time, which crosses once: where the query reads the column anyway, that one counts."""
    if TIME in rows.schema.names:
        return rows
    column = rows.column(dict(route.kept)[route.stream.timestamp])
    if route.stream.has_clock_time:
        column = column.cast(pa.timestamp("us", column.type.tz))
    return rows.append_column(TIME, column.cast(pa.int64()))


def _no_rows(names: tuple[str, ...], route: Route) -> pa.RecordBatch:
    added = names[len(route.columns) :]
    return _empty([*route.columns, *(pa.field(name, SYSTEM_TYPES.get(name, pa.string())) for name in added)])


def _empty(fields: Iterable[pa.Field]) -> pa.RecordBatch:
    schema = pa.schema(fields)
    return pa.RecordBatch.from_arrays([pa.array([], item.type) for item in schema], schema=schema)


def first_position() -> int:
    """A position that grows with the micro-batch and the task: sources without offsets of their own get a total order."""
    return (batch_id() << 38) + (partition_id() << 26)


def partition_id() -> int:
    """Which of the tasks of its stage this is."""
    return int(_task().partitionId())


def batch_id() -> int:
    """The micro-batch this task belongs to (0 outside of one)."""
    return int(_task().getLocalProperty("streaming.sql.batchId") or 0)


def query_id() -> str:
    """The streaming query this task belongs to; it stays the same with its checkpoint."""
    return str(_task().getLocalProperty("sql.streaming.queryId") or "")


def _task() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()
