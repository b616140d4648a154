"""The Spark data source `feed`: named workloads as batch tables and as streams that can be replayed by offset.

An offset is `{"tick": n, "began_us": t}`: how far the workload's clock has been read, and the wall-clock time at which
the query first began. The latter travels in the checkpoint, so after a restart rows have fallen due in the meantime, as
from any source that does not wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import InvalidOption
from penstock.runners.spark.data_path.source_registry import register_source
from penstock.runners.spark.data_path.workers import freeze_loaded_objects
from penstock.workloads.contracts import Rows
from penstock.workloads.playback import Playback

Offset = dict[str, int]

#: Source partitions with so little to say are read by one task: each costs ten milliseconds, whatever it reads.
_FEW_ROWS = 4096
#: Option: a file that tells, by being there, that no more rows shall come.
ENDS_WITH = "ends_with"


class Feed(DataSource):
    """Format `feed`.

    Options: `workload`, `stream`; `rate`, `arrivals` (constant, poisson), `schedule` ('10:3,20:1'), `seed`, `start`
    (event time of the start), `marks` (none, constant, range), `positions`; `disorder`, `late_fraction`, `late_by`,
    `duplicate_fraction`, `null_fraction`, `bad_fraction`; `partitions`, `total`, `rows_per_batch`,
    `max_rows_per_batch`; and the parameters of the workload. A schema given by the user selects columns by name and may
    ask for `part`, `off` and `mark`.
    """

    @classmethod
    def name(cls) -> str:
        return "feed"

    def _playback(self) -> Playback:
        return _playback(self.options)

    def schema(self) -> StructType:
        return from_arrow_schema(self._playback().schema.arrow)

    def reader(self, schema: StructType) -> FeedReader:
        return FeedReader(self._playback(), schema)

    def streamReader(self, schema: StructType) -> FeedStreamReader:  # noqa: N802  (the name is Spark's)
        return FeedStreamReader(self._playback(), schema, self.options.get(ENDS_WITH, ""))


class FeedReader(DataSourceReader):
    """All rows of a stream with an end, exactly those a streaming query sees."""

    def __init__(self, playback: Playback, schema: StructType) -> None:
        if playback.end is None:
            raise InvalidOption("a stream without end cannot be read as a table; set 'total'", "feed")
        self._playback, self._end, self._schema = playback, playback.end, _arrow_schema(playback, schema)

    def partitions(self) -> Sequence[InputPartition]:
        ranges = self._playback.ranges(0, self._end)
        return [InputPartition(rows) for rows in ranges or [Rows(0, self._playback.partitions, 0, 0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._playback.batches(partition.value, self._schema)


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Rows as they fall due by the wall clock, or a fixed number per micro-batch."""

    def __init__(self, playback: Playback, schema: StructType, ends_with: str = "") -> None:
        self._playback, self._schema = playback, _arrow_schema(playback, schema)
        self._ends_with = ends_with
        self._available_us: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"tick": 0, "began_us": _now_us()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._playback.max_rows_per_batch
        return ReadMaxRows(self._playback.rows_at(most)) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        if self._playback.rows_per_batch and self._playback.end is None:
            raise InvalidOption("with 'rows_per_batch' there is always more available; set 'total' as well", "feed")
        self._available_us = _now_us()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        if self._ends_with and os.path.exists(self._ends_with):
            return start
        now_us = _now_us() if self._available_us is None else self._available_us
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        tick = self._playback.next_tick(start["tick"], now_us - start["began_us"], max_rows)
        return {"tick": tick, "began_us": start["began_us"]}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        ranges = self._playback.ranges(start["tick"], end["tick"])
        if sum(rows.stop - rows.start for rows in ranges) <= _FEW_ROWS:
            return [InputPartition(ranges)] if ranges else []
        return [InputPartition([rows]) for rows in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for rows in partition.value:
            yield from self._playback.batches(rows, self._schema)
        freeze_loaded_objects()


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    register_source(spark, Feed)


def check(options: Mapping[str, str], schema: StructType) -> None:
    """Raise now what the first micro-batch would raise: unknown workloads, options and columns."""
    _arrow_schema(_playback(options), schema)


def _playback(options: Mapping[str, str]) -> Playback:
    return Playback.from_text({name.lower(): text for name, text in options.items() if name.lower() != ENDS_WITH})


def _arrow_schema(playback: Playback, schema: StructType) -> pa.Schema:
    """The requested columns in Arrow, refused here rather than in a task when there is no such column."""
    wanted: Any = to_arrow_schema(schema, timezone="UTC")
    for _ in playback.batches(Rows(0, playback.partitions, 0, 1), wanted):
        pass
    return wanted


def _now_us() -> int:
    return time.time_ns() // 1000
