"""A job as one streaming DataFrame: sources, packing, one transformWithState per stage."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from penstock.kernel.packets import Packet
from penstock.lowering.jobs import Job, SourceEntry, Stage
from penstock.model.declarations import StreamDeclaration
from penstock.model.elements import Control
from penstock.runners.spark.data_path.exchange import packed, packed_by_edition
from penstock.runners.spark.data_path.files import ParquetFiles
from penstock.runners.spark.data_path.packet_rows import PACKET_SCHEMA
from penstock.runners.spark.data_path.processor import FRONTIER, REPORT, StageHost
from penstock.runners.spark.data_path.quarantine import Quarantine
from penstock.runners.spark.data_path.stateful import ShardProcessor
from penstock.runners.spark.data_path.workers import freeze_loaded_objects

#: What differs between two descriptions of one plan: numbers of columns, addresses of objects, names of runs.
_NUMBERS = re.compile(r"#\d+L?|@[0-9a-f]+|\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")

#: Name of the metrics that Spark's progress carries for every micro-batch.
OBSERVED = "penstock"


@dataclass(frozen=True)
class Pipeline:
    """The DataFrame of a job: plain answers of its only query (`direct`), or packets of several."""

    job: Job
    frame: DataFrame
    direct: str


def build_pipeline(
    job: Job,
    read: Callable[[StreamDeclaration], DataFrame | ParquetFiles],
    controls: DataFrame | None,
    run: str,
    quarantine: Quarantine | str = "",
    quarantines: Mapping[str, str] | None = None,
    timed_by_watermark: frozenset[str] = frozenset(),
    delay: int | None = None,
    observed: str = OBSERVED,
    decisions: tuple[Control, ...] = (),
) -> Pipeline:
    """Connect the sources and stages of a job that stays as it is.

    Parameters
    ----------
    read
        Gives the DataFrame of a declared stream, or its files.
    quarantines, timed_by_watermark, delay, decisions
        As `StageHost` has them.
    observed
        Name of the metrics; a Spark query that holds several pipelines needs several names.
    """
    direct = next(iter(job.outputs)) if len(job.outputs) == 1 else ""
    frames: dict[str, DataFrame | ParquetFiles] = {}
    carried = controls
    for stage in job.stages:
        is_last = stage is job.stages[-1]
        arriving = _sources(stage, read, frames) + ([carried] if carried is not None else [])
        host = StageHost(
            stage, job.shards, run, direct if is_last else "", _schema(job, direct) if is_last else None, quarantine,
            quarantines or {}, timed_by_watermark, delay, name_of_readers(arriving) if any((quarantines or {}).values()) else "",
            decisions=decisions,
        )  # fmt: skip
        carried = _stage(host, reduce(DataFrame.unionByName, arriving))
    assert carried is not None
    if direct and delay is not None:
        # Before the metrics: no filter of the user's moves below these, so every report reaches the watermark.
        carried = carried.withWatermark(FRONTIER, "0 seconds")
    return Pipeline(job, _observed(carried, direct, observed), direct)


def name_of_readers(arriving: Sequence[DataFrame]) -> str:
    """A name for whoever reads these frames, by how Spark describes them; the same when a program starts again."""
    plans = [_NUMBERS.sub("", frame._jdf.queryExecution().logical().toString()) for frame in arriving]
    return hashlib.sha256("|".join(plans).encode()).hexdigest()


def _schema(job: Job, direct: str) -> pa.Schema | None:
    return job.outputs[direct].arrow if direct else None


def _sources(
    stage: Stage, read: Callable[[StreamDeclaration], DataFrame | ParquetFiles], frames: dict[str, DataFrame | ParquetFiles]
) -> list[DataFrame]:
    by_stream: dict[str, list[SourceEntry]] = {}
    for source in stage.sources:
        by_stream.setdefault(source.prefix.stream.name, []).append(source)
    for name, sources in by_stream.items():
        if name not in frames:
            frames[name] = read(sources[0].prefix.stream)
    return [packed(frames[name], sources) for name, sources in by_stream.items()]


def _stage(host: StageHost, arriving: DataFrame) -> DataFrame:
    columns = PACKET_SCHEMA
    if host.direct:
        assert host.output_schema is not None
        columns = StructType([*from_arrow_schema(host.output_schema).fields, StructField(REPORT, StringType())])
        columns = columns if host.delay is None else columns.add(FRONTIER, TimestampType())
    grouped = arriving.groupBy("shard")
    mode = "EventTime" if host.hears_watermark else "None"
    return grouped.transformWithStateInPandas(ShardProcessor(host), columns, "Append", mode)


def _observed(frame: DataFrame, direct: str, name: str) -> DataFrame:
    """Reports reach the driver with the micro-batch's progress, whoever writes the answers."""
    report = f.col(REPORT if direct else "report")
    return frame.observe(name, f.collect_list(report).alias("reports"))


def application_frame(
    host: StageHost,
    streams: Iterable[tuple[StreamDeclaration, bytes]],
    read: Callable[[StreamDeclaration], DataFrame | ParquetFiles],
    controls: DataFrame,
) -> DataFrame:
    """The sources and the only stage of an application. What tasks do is theirs to find out, micro-batch by micro-batch.

    Parameters
    ----------
    streams
        Each with what packing makes of its rows when the run begins, pickled.
    """
    arriving = [packed_by_edition(read(stream), stream, host.run, part) for stream, part in streams]
    return _observed(_stage(host, reduce(DataFrame.unionByName, [*arriving, controls])), host.direct, OBSERVED)


def direct_answers(frame: DataFrame) -> DataFrame:
    """The plain rows of the only query."""
    # A column that is read to the end is not dropped half-way: that would copy every row once more.
    last = FRONTIER if FRONTIER in frame.columns else REPORT
    return frame.where(f.col(last).isNull()).drop(REPORT, FRONTIER)


def answers(job: Job, frame: DataFrame, query: str) -> DataFrame:
    """The plain rows of one query from packets."""
    schema = job.outputs[query].arrow
    mine = frame.where(f.get_json_object("header", "$.k") == "output").where(f.get_json_object("header", "$.e") == query)
    return mine.select("header", "body").mapInArrow(_unpacking_task(schema), from_arrow_schema(schema))


def _unpacking_task(schema: pa.Schema) -> Callable[..., object]:
    def run(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            for header, body in zip(batch.column("header"), batch.column("body"), strict=True):
                packet = Packet.decode(header.as_py(), body.as_py())
                assert packet.batch is not None
                yield packet.batch.rows.cast(schema)
        freeze_loaded_objects()

    return run
