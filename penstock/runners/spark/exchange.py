"""The map side: from a stream's DataFrame to packets, without converting a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.expressions.spark_sql import spark_sql
from penstock.kernel.packing import BAD, KEEP, MARK, PARTITION, POSITION, TIME, Route, pack
from penstock.lowering.prefix import Prefix
from penstock.runners.spark.packet_rows import PACKET_SCHEMA, packed_rows
from penstock.runners.spark.shard_ids import shard_ids
from penstock.runners.spark.workers import settle

#: A packing task cuts its rows into packets of about this size.
PACKET_ROWS = 1 << 19


def with_system_columns(frame: DataFrame, prefix: Prefix) -> DataFrame:
    """The select list and the columns packing needs, as Spark SQL: this part is Catalyst's."""
    stream = prefix.stream
    # Plain names for the crossing: a qualified name such as `b.price` would be read as a field of a struct.
    items = [f"{spark_sql(expr, stream.schema)} AS _c{number}" for number, (_, expr) in enumerate(prefix.items)]
    if stream.timestamp not in dict(prefix.kept):
        time = _quoted(stream.timestamp)
        items.append(f"{f'unix_micros({time})' if stream.has_clock_time else f'CAST({time} AS BIGINT)'} AS {TIME}")
    if prefix.condition is not None:
        items.append(f"({spark_sql(prefix.condition, stream.schema)}) AS {KEEP}")
    if stream.partition_column:
        items.append(f"CAST({_quoted(stream.partition_column)} AS BIGINT) AS {PARTITION}")
    if stream.position_column:
        items.append(f"CAST({_quoted(stream.position_column)} AS BIGINT) AS {POSITION}")
    if stream.punctuations is not None:
        items.append(f"{_quoted(stream.punctuations.column)} AS {MARK}")
    if BAD in frame.columns:
        items.append(BAD)
    return frame.selectExpr(*items)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def packed(frame: DataFrame, prefix: Prefix, route: Route) -> DataFrame:
    """Packets of one source entry."""
    return with_system_columns(frame, prefix).mapInArrow(packing_task(route), PACKET_SCHEMA)


def packing_task(route: Route) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of one map task; it is shipped, so it holds the route and nothing else."""
    ids = shard_ids(route.shards)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        base = first_position()
        waiting: list[pa.RecordBatch] = []
        rows = sequence = 0
        newest: dict[int, int] = {}
        last: pa.RecordBatch | None = None
        for batch in batches:
            last = batch
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= PACKET_ROWS:
                yield _packets(waiting, route, base, sequence, ids, newest)
                base, sequence, waiting, rows = base + rows, sequence + 1, [], 0
        if waiting or last is None:
            # A task without rows still sends headers: an idle shard learns that the batch has come.
            yield _packets(waiting or [_no_rows(route)], route, base, sequence, ids, newest)
        settle()

    return run


def _packets(
    waiting: list[pa.RecordBatch], route: Route, base: int, sequence: int, ids: tuple[int, ...], newest: dict[int, int]
) -> pa.RecordBatch:
    rows = pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]
    rows = _timed(rows.rename_columns([*route.columns.names, *rows.schema.names[len(route.columns) :]]), route)
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


def _no_rows(route: Route) -> pa.RecordBatch:
    fields = [*route.columns, pa.field(TIME, pa.int64())]
    if route.stream.partition_column:
        fields.append(pa.field(PARTITION, pa.int64()))
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
