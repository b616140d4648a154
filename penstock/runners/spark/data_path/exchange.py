"""The map side: from a stream's DataFrame to packets, without converting a row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.columnar.masks import without_idle_masks
from penstock.errors import Defect
from penstock.expressions.nodes import Column, columns_of
from penstock.expressions.spark_sql import literal_sql, spark_sql
from penstock.kernel.damage import BAD, CALENDAR, CALENDAR_DAYS, can_be_damaged, is_damaged, set_damage_apart
from penstock.kernel.packing import KEEP, MARK, MISSING, PARTITION, POSITION, SYSTEM_TYPES, TIME, Route, pack
from penstock.lowering.jobs import SourceEntry
from penstock.lowering.prefix import Prefix, PrefixFilter
from penstock.model.declarations import StreamDeclaration
from penstock.model.schema import Field, Schema
from penstock.runners.decisions import NO_DECISIONS, Decisions
from penstock.runners.destinations import local_path
from penstock.runners.early_filters import EarlyFilters
from penstock.runners.early_shedding import early_shedder
from penstock.runners.parquet_rows import parquet_rows
from penstock.runners.prefix_columns import fields_read, prefix_columns
from penstock.runners.spark.data_path.files import ParquetFiles
from penstock.runners.spark.data_path.local_properties import decisions_of_batch, part_of_edition
from penstock.runners.spark.data_path.packet_rows import PACKET_SCHEMA, packed_rows
from penstock.runners.spark.data_path.shard_ids import shard_ids
from penstock.runners.spark.data_path.workers import freeze_loaded_objects, without_traceback

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


class Entry(Protocol):
    """One of the entries of a stream: what it takes of the rows that a task has read for all of them."""

    @property
    def route(self) -> Route: ...

    @property
    def filters(self) -> tuple[PrefixFilter, ...]:
        """Filters that packing runs."""

    def rows(self, read: pa.RecordBatch, is_sound: bool) -> pa.RecordBatch:
        """Columns of the entry and system columns; damage in columns that it does not read is none of its business."""

    def no_rows(self) -> pa.RecordBatch: ...


@dataclass(frozen=True, slots=True)
class Crossed:
    """An entry whose columns Catalyst has computed; `taken` are their places, in the order of `names`."""

    route: Route
    names: tuple[str, ...]
    taken: tuple[int, ...]
    filters: tuple[PrefixFilter, ...] = ()

    def rows(self, read: pa.RecordBatch, is_sound: bool) -> pa.RecordBatch:
        mine = pa.RecordBatch.from_arrays([read.column(place) for place in self.taken], names=list(self.names))
        return mine if is_sound else set_damage_apart(mine)

    def no_rows(self) -> pa.RecordBatch:
        added = self.names[len(self.route.columns) :]
        return _empty([*self.route.columns, *(pa.field(name, SYSTEM_TYPES.get(name, pa.string())) for name in added)])


@dataclass(frozen=True, slots=True)
class Declared:
    """An entry that is made of the declared columns of its stream: the task computes what Catalyst computes elsewhere."""

    route: Route
    prefix: Prefix

    @property
    def filters(self) -> tuple[PrefixFilter, ...]:
        return self.prefix.filters

    @property
    def fields(self) -> tuple[Field, ...]:
        return fields_read(self.prefix)

    def rows(self, read: pa.RecordBatch, is_sound: bool) -> pa.RecordBatch:
        names = [item.name for item in self.fields]
        mine = read.select([*names, BAD] if BAD in read.schema.names else names)
        return prefix_columns(self.prefix, mine if is_sound else set_damage_apart(mine))

    def no_rows(self) -> pa.RecordBatch:
        return prefix_columns(self.prefix, _empty(pa.field(item.name, item.type) for item in self.fields))


def crossing(frame: DataFrame, sources: Sequence[SourceEntry]) -> tuple[DataFrame, tuple[Crossed, ...]]:
    """The select lists of all entries of a stream and what packing needs, as Spark SQL: this part is Catalyst's.

    What several entries ask for is computed once, and crosses once.
    """
    found: dict[str, _Item] = {}
    entries = []
    for source in sources:
        items = [*_columns(source.prefix), *_system_columns(frame, source.prefix)]
        for item in items:
            found.setdefault(item.text, item)
        places = {text: place for place, text in enumerate(found)}
        names = (*source.route.columns.names, *(item.name for item in items[len(source.prefix.items) :]))
        entries.append(Crossed(source.route, names, tuple(places[item.text] for item in items)))
    return frame.selectExpr(*_select_list(list(found.values()))), tuple(entries)


def _columns(prefix: Prefix) -> Iterator[_Item]:
    schema = prefix.stream.schema
    for _, expr in prefix.items:
        source = schema[expr.name].name if isinstance(expr, Column) else ""
        yield _Item(spark_sql(expr, schema), "", source)


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
    said = [f"`{BAD}`"] if BAD in frame.columns else []
    hidden = [_complaint(stream.schema[name]) for name in _hidden(prefix)]
    if said and not hidden:
        yield _Item(BAD, BAD, BAD)
    elif hidden:
        yield _Item(f"nullif(concat_ws('; ', {', '.join([*said, *hidden])}), '')", BAD)


def _hidden(prefix: Prefix) -> list[str]:
    """Columns that Catalyst computes with, that can be damaged, and that do not cross: here nobody would see the damage."""
    exprs = [*(expr for _, expr in prefix.items if not isinstance(expr, Column)), *prefix.conditions]
    stream, kept = prefix.stream, dict(prefix.kept)
    names = {stream.schema[name].name: None for expr in exprs for name in columns_of(expr)}
    seen = {*kept, stream.timestamp, stream.punctuations.column if stream.punctuations is not None else ""}
    return [name for name in names if name not in seen and can_be_damaged(stream.schema[name].type)]


def _complaint(item: Field) -> str:
    """Spark SQL for what is wrong with a value of the column, or NULL; in the words of `set_damage_apart`."""
    name, place = _quoted(item.name), literal_sql(f"column '{item.name}' ", pa.string())
    if pa.types.is_string(item.type):
        return f"CASE WHEN NOT is_valid_utf8({name}) THEN concat({place}, 'is not UTF-8: ', make_valid_utf8({name})) END"
    is_time = pa.types.is_timestamp(item.type)
    number, unit = (f"unix_micros(CAST({name} AS TIMESTAMP))", "microseconds") if is_time else (f"unix_date({name})", "days")
    low, high = CALENDAR if is_time else CALENDAR_DAYS
    told = f"concat({place}, 'is outside the years 1 to 9999: ', {number}, ' {unit} after 1970')"
    return f"CASE WHEN {number} NOT BETWEEN {low} AND {high} THEN {told} END"


def _select_list(items: Sequence[_Item]) -> Iterator[str]:
    """Columns keep their names where they can: a list that only repeats the frame's columns is dropped by Catalyst."""
    taken = {f"_c{number}" for number in range(len(items))}
    for number, item in enumerate(items):
        keeps = item.source.isidentifier() and item.source.lower() not in taken
        taken.add(item.source.lower())
        # Plain names for the crossing: a qualified name such as `b.price` would be read as a field of a struct.
        yield item.text if keeps else f"{item.text} AS _c{number}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def packed(frame: DataFrame | ParquetFiles, sources: Sequence[SourceEntry]) -> DataFrame:
    """Packets of all entries of one stream, from one reading of it."""
    if any(source.prefix.filters for source in sources):
        raise Defect(f"filters of stream '{sources[0].prefix.stream.name}' are to run where nothing is told of decisions")
    if isinstance(frame, ParquetFiles):
        entries = declared_entries(sources)
        return frame.listing.mapInArrow(_without_traceback(reading_task(frame.base, lambda: Packing(entries))), PACKET_SCHEMA)
    crossed, taken = crossing(frame, sources)
    return crossed.mapInArrow(_without_traceback(packing_task(taken)), PACKET_SCHEMA)


def packed_by_edition(frame: DataFrame | ParquetFiles, stream: StreamDeclaration, run: str, given: bytes) -> DataFrame:
    """The same for entries that may be others in another micro-batch; `frame` has all declared columns.

    Parameters
    ----------
    given
        As `part_of_edition` has it.
    """
    name = stream.name

    def packing() -> Packing[Declared] | None:
        entries = declared_entries(part_of_edition(run, name, given) or ())
        return Packing(entries, decisions_of_batch(run), run) if entries else None

    if isinstance(frame, ParquetFiles):
        return frame.listing.mapInArrow(_without_traceback(reading_task(frame.base, packing)), PACKET_SCHEMA)
    return frame.mapInArrow(_without_traceback(declared_task(stream.schema, packing)), PACKET_SCHEMA)


def declared_entries(sources: Sequence[SourceEntry]) -> tuple[Declared, ...]:
    return tuple(Declared(source.route, source.prefix) for source in sources)


def _without_traceback(task: Task) -> Task:
    return lambda batches: without_traceback(task(batches))


def packing_task(entries: Sequence[Entry]) -> Task:
    """The function of one map task; it is shipped, so it holds the entries and nothing else."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = Packing(entries)
        for batch in batches:
            yield from packing.add(without_idle_masks(batch))
        yield from packing.finish()

    return run


def declared_task(schema: Schema, found: Callable[[], Packing[Declared] | None]) -> Task:
    """The function of a map task that is handed all declared columns of a stream."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = found()
        if packing is None:
            return
        for batch in batches:
            yield from packing.add(_as_declared(without_idle_masks(batch), schema))
        yield from packing.finish()

    return run


def _as_declared(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Columns with the types of the declaration: Spark writes time zones of its own."""
    fields = [*schema.arrow, *([rows.schema.field(BAD)] if BAD in rows.schema.names else [])]
    columns = [rows.column(item.name) for item in fields]
    cast = [column if column.type == item.type else column.cast(item.type) for column, item in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(cast, names=[item.name for item in fields])


def reading_task(base: str, found: Callable[[], Packing[Declared] | None]) -> Task:
    """The function of a map task that is handed paths instead of rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = found()
        if packing is None:
            return
        wanted = {item.name for entry in packing.entries for item in entry.fields}
        fields = [item for item in packing.entries[0].prefix.stream.schema if item.name in wanted]
        root = local_path(base) if base else None
        # Spark deals files by size; within a task older ones come first, as they do from one micro-batch to the next.
        listed = sorted((row["modificationTime"], row["path"]) for batch in batches for row in batch.to_pylist())
        for _, path in listed:
            for rows in parquet_rows(local_path(path), root, fields, PACKET_ROWS):
                yield from packing.add(rows)
        yield from packing.finish()

    return run


_Entries = TypeVar("_Entries", bound=Entry)


class Packing(Generic[_Entries]):
    """Rows of a task on their way into packets of every entry.

    Parameters
    ----------
    decisions
        What is decided about the filters of the entries, and about loss.
    run
        Whose reports these are.
    """

    def __init__(self, entries: Sequence[_Entries], decisions: Decisions = NO_DECISIONS, run: str = "") -> None:
        self.entries = entries
        self._decisions = decisions
        self._early_filters = EarlyFilters(decisions, time.perf_counter_ns)
        self._run = run
        self._ids = shard_ids(entries[0].route.shards)
        self._base = first_position()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._has_sent = False

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= PACKET_ROWS:
            yield self._packets()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last packets. A task without rows still sends headers: an idle shard learns that the batch has come."""
        if self._waiting:
            yield self._packets()
        elif not self._has_sent:
            yield packed_rows([row for entry in self.entries for row in self._encoded(entry, entry.no_rows())])
        yield from self._report()
        freeze_loaded_objects()

    def _report(self) -> Iterator[pa.RecordBatch]:
        """What filters did and tell; a shard passes it on with its own report."""
        counters = self._early_filters.counters()
        if counters:
            report = {"run": self._run, "operators": counters, "told": self._early_filters.driver_reports()}
            shard = self._ids[partition_id() % len(self._ids)]
            yield packed_rows([(shard, "", None, json.dumps(report, separators=(",", ":")))])

    def _packets(self) -> pa.RecordBatch:
        read = pa.concat_batches(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        is_sound = not is_damaged(read)
        self._early_filters.begin(read.num_rows)
        found = [row for entry in self.entries for row in self._encoded(entry, entry.rows(read, is_sound))]
        self._base, self._has_sent = self._base + self._rows, True
        self._waiting, self._rows = [], 0
        return packed_rows(found)

    def _encoded(self, entry: _Entries, rows: pa.RecordBatch) -> Iterator[tuple[int, str, bytes | None, None]]:
        entry_filter = self._early_filters.of(entry.filters)
        shedder = early_shedder(self._decisions, entry.route)
        for shard, packet in pack(_timed(rows, entry.route), entry.route, self._base, entry_filter, shedder):
            yield (self._ids[shard], *packet.encode(), None)


def _timed(rows: pa.RecordBatch, route: Route) -> pa.RecordBatch:
    """Rows with their event time, which crosses once: where the query reads the column anyway, that one counts."""
    if TIME in rows.schema.names:
        return rows
    column = rows.column(dict(route.kept)[route.stream.timestamp])
    if route.stream.has_clock_time:
        column = column.cast(pa.timestamp("us", column.type.tz))
    return rows.append_column(TIME, column.cast(pa.int64()))


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
