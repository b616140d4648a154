"""Adaptive filters without a shuffle: rows cross into Python once, and those that pass cross back.

A conjunction keeps nothing that an answer depends on, so it needs neither shards nor a state store. Each task takes the order
and the costs that the driver has written for its micro-batch, repairs the order from its own rows if they contradict it, and
hands back, beside the rows that pass, one row with what the driver should know.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import FilterFailed
from penstock.expressions.spark_sql import spark_sql
from penstock.lowering.filters import FilterRecipe
from penstock.lowering.jobs import Job, SourceEntry
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Control, Quarantined
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.reports import COSTS, ORDER
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.data_path.exchange import batch_id, first_position, partition_id, query_id
from penstock.runners.spark.data_path.processor import REPORT
from penstock.runners.spark.data_path.quarantine import write_refused
from penstock.runners.spark.data_path.workers import freeze_loaded_objects


@dataclass(frozen=True)
class DirectFilter:
    """What a task must know; it is shipped.

    Parameters
    ----------
    log
        Directory of the driver's decisions; tasks read it, so they run on the driver's machine.
    """

    recipe: FilterRecipe
    source: SourceEntry
    run: str
    log: str
    quarantine: str = ""


def direct_filter(job: Job, run: str, log: str, quarantine: str) -> DirectFilter | None:
    """The only operator of a job, if it is a filter that the driver steers over a stream of which nothing is promised.

    Promises have to be kept by whoever filters the stream, which needs shards: then the answer is None.
    """
    if len(job.stages) != 1 or len(job.stages[0].sources) != 1 or len(job.stages[0].graph.nodes) != 1:
        return None
    (source,), (node,) = job.stages[0].sources, job.stages[0].graph.nodes
    stream = source.prefix.stream
    is_plain = not (stream.constraints or stream.generators) and stream.punctuations is None
    if not is_plain or not isinstance(node.make, FilterRecipe) or not node.make.settings.has_driver:
        return None
    return DirectFilter(node.make, source, run, log, quarantine)


def filtered_directly(frame: DataFrame, direct: DirectFilter, metrics: str) -> DataFrame:
    """Rows that meet all conditions. Catalyst has its part of them before anything crosses, and may push it into the source.

    `metrics` is what Spark's progress shall call the tasks' reports.
    """
    prefix, schema = direct.source.prefix, direct.recipe.schema
    if prefix.condition is not None:
        frame = frame.where(spark_sql(prefix.condition, prefix.stream.schema))
    items = [f"{spark_sql(expr, prefix.stream.schema)} AS _c{number}" for number, (_, expr) in enumerate(prefix.items)]
    columns = StructType([*from_arrow_schema(schema).fields, StructField(REPORT, StringType())])
    found = frame.selectExpr(*items).mapInArrow(filtering_task(direct), columns)
    observed = found.observe(metrics, f.collect_list(REPORT).alias("reports"))
    return observed.where(f.col(REPORT).isNull()).drop(REPORT)


def filtering_task(direct: DirectFilter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of one task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        epoch, position, work = batch_id(), first_position(), 0
        filtering = prepared(direct.recipe, direct.log, epoch)
        refused: list[Quarantined] = []
        for rows in batches:
            started = time.perf_counter_ns()
            kept = None
            for element in filtering.on_batch(0, _batch(rows, direct, position)):
                if isinstance(element, Batch):
                    kept = element.rows
                elif isinstance(element, Quarantined):
                    refused.append(element)
            position += rows.num_rows
            work += time.perf_counter_ns() - started
            if kept is not None and kept.num_rows:
                yield _answer(kept)
        _refuse(direct, epoch, refused)
        yield _reported(filtering, direct, work, epoch, sum(item.batch.num_rows for item in refused))
        freeze_loaded_objects()

    return run


def prepared(recipe: FilterRecipe, log: str, epoch: int) -> AdaptiveFilter:
    """The filter as the driver wants it in this micro-batch."""
    filtering = recipe()
    filtering.use_clock(time.perf_counter_ns)
    filtering.costs.set_costs(recipe.usual_costs())
    for control in decisions(ControlLog(log), recipe.label, epoch):
        filtering.on_control(control)
    return filtering


def decisions(log: ControlLog, label: str, epoch: int) -> list[Control]:
    """What the driver has decided for a micro-batch: the last order, and costs told since.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = ControlLog(folder)
    ...     numbers = [log.append(ORDER, {"operator": "f", "from": since}) for since in (2, 5)]
    ...     [control.epoch for control in decisions(log, "f", 4)], [control.epoch for control in decisions(log, "f", 5)]
    ([0], [1])
    """
    found: list[Control] = []
    for number in range(len(log) - 1, -1, -1):
        ((kind, detail),) = log.read(number, number + 1)
        if kind in (ORDER, COSTS) and detail.get("operator") == label and detail.get("from", 0) <= epoch:
            found.append(Control(number, kind, detail))
            if kind == ORDER:
                break
    return found[::-1]


def _batch(rows: pa.RecordBatch, direct: DirectFilter, position: int) -> Batch:
    schema = direct.recipe.schema
    columns = [column.cast(item.type) for column, item in zip(rows.columns, schema, strict=True)]
    named = pa.RecordBatch.from_arrays(columns, schema=schema)
    return Batch(named, _times(named, direct), position + np.arange(rows.num_rows))


def _times(rows: pa.RecordBatch, direct: DirectFilter) -> Int64s:
    """Event times, for profiles that grow old; a row without one is as good as any other."""
    stream = direct.source.prefix.stream
    column = rows.column(dict(direct.source.prefix.kept)[stream.timestamp])
    if stream.has_clock_time:
        column = column.cast(pa.timestamp("us", column.type.tz))
    found: Int64s = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def _refuse(direct: DirectFilter, epoch: int, refused: list[Quarantined]) -> None:
    if not refused:
        return
    if not direct.quarantine:
        text = f"{refused[0].text}; give a quarantine directory to keep such rows apart and go on"
        raise FilterFailed(text, f"filter '{direct.recipe.label}'")
    write_refused(direct.quarantine, epoch, 1, partition_id(), refused, f"{query_id()} {direct.recipe.label}")


def _answer(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column(pa.field(REPORT, pa.string()), pa.nulls(rows.num_rows, pa.string()))


def _reported(filtering: AdaptiveFilter, direct: DirectFilter, work: int, epoch: int, refused: int) -> pa.RecordBatch:
    label = direct.recipe.label
    report: dict[str, Any] = {
        "shard": partition_id(), "level": 1, "epoch": epoch, "restored": False, "state_written": 0, "read_ns": 0,
        "work_ns": work, "save_ns": 0, "backlog": 0, "refused": {"filter-failed": refused} if refused else {},
        "operators": {label: dict(filtering.counters())}, "entries": {}, "run": direct.run,
        "told": {label: filtering.driver_report()},
    }  # fmt: skip
    schema = direct.recipe.schema.append(pa.field(REPORT, pa.string()))
    columns = [pa.nulls(1, item.type) for item in direct.recipe.schema]
    return pa.RecordBatch.from_arrays([*columns, pa.array([json.dumps(report, separators=(",", ":"))])], schema=schema)
