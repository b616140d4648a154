"""Adaptive filters on ordinary streaming DataFrames."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.lowering.given_filters import Given, filtered_by
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.hint_options import HintValue
from penstock.model.order_hints import OrderHint
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.data_path.control import control_frame
from penstock.runners.spark.data_path.files import ParquetFiles
from penstock.runners.spark.dataframes.composing import Call, Composition, Leaf, composed, metrics_of
from penstock.runners.spark.dataframes.event_time import with_marks_of
from penstock.runners.spark.dataframes.filter_tasks import direct_filter, filtered_directly
from penstock.runners.spark.dataframes.inputs import Described, Stream, input_of
from penstock.runners.spark.driver.filter_orders import FilterController
from penstock.runners.spark.driver.reports import BatchReport, read_report

#: What the one stream is called inside.
_INPUT = "frame"


def filter(
    frame: Stream,
    conditions: Sequence[Given],
    policy: str = "agreedy",
    control: str | Path = "",
    quarantine: str | Path = "",
    **options: HintValue,
) -> DataFrame:
    """Rows that meet all conditions, which are tried in an order that follows the data.

    Parameters
    ----------
    conditions
        Each is a condition in SQL, a function of pandas series whose parameters are called like the columns it reads, or a
        `Filter`, which can say what it costs, what guards it, and that it may not be profiled. Comparisons of columns in SQL
        are left to Catalyst.
    policy
        "agreedy", "sweep", "local_swaps", "independent", or "fixed" for the order as given.
    control
        Directory in which the driver remembers profiles and decisions; one for each checkpoint, kept with it. It then
        measures what conditions cost and decides for all tasks; between its decisions tasks follow what their own rows say.
        Without one every shard decides for itself, from declared costs, or from what such conditions usually cost.
    quarantine
        Directory for rows that a condition could not judge (`on_error="dead_letter"`); where shards are needed, see the
        notes, for late and bad ones as well.
    options
        Further settings, as the hint ORDER takes them: `probability=0.02`, `window_rows=500`.

    Returns
    -------
    DataFrame
        The same columns; write it with `writeStream` in append mode, once.

    Notes
    -----
    Under a driver on the same machine rows cross into Python once and those that pass cross back: no shuffle, no state store,
    and a late row is a row like any other. Shards are needed, and late rows refused, where the driver's directory is out of
    the tasks' reach (a cluster), where there is none, and for a stream with punctuations or constraints.

    Examples
    --------
    ``ps.filter(packets, ["size > 100", "payload RLIKE 'attack'", is_suspicious], control="checkpoints/packets.orders")``
    """
    hint = OrderHint(tuple({"policy": policy, "mode": "both" if control else "shard", **options}.items()))
    source = input_of("ps.filter", _INPUT, frame, fuses=not control)
    if isinstance(source, Leaf) and isinstance(source.frame, ParquetFiles):
        # Catalyst has a part of the conditions, and what passes goes back to it.
        source = replace(source, frame=source.frame.read_by_spark())
    call = Call({_INPUT: source}, partial(_build, conditions, hint), str(quarantine))
    if not control:
        return composed(call)
    checkpoint = Checkpoint(control)
    direct = _filtered_directly(call, checkpoint, frame.frame if isinstance(frame, Described) else frame)
    return composed(call, is_fusable=False, controls=partial(_controls, checkpoint)) if direct is None else direct


def _filtered_directly(call: Call, checkpoint: Checkpoint, given: DataFrame | ParquetFiles) -> DataFrame | None:
    """The rows without shards, where tasks reach the driver's directory and nothing is promised of the stream."""
    frame = given.read_by_spark() if isinstance(given, ParquetFiles) else given
    if not frame.sparkSession.sparkContext.master.startswith("local"):
        return None
    run, job = uuid.uuid4().hex, build_job(Composition.of(call).catalog, 1, filters_early=False)
    direct = direct_filter(job, run, str(checkpoint.control.directory.absolute()), call.quarantine)
    if direct is None:
        return None
    _steer(frame.sparkSession, job, run, checkpoint)
    return with_marks_of(filtered_directly(frame, direct, metrics_of(run)), frame.schema)


def _controls(checkpoint: Checkpoint, spark: SparkSession, job: Job, run: str) -> DataFrame:
    _steer(spark, job, run, checkpoint)
    return control_frame(spark, str(checkpoint.control.directory), job.shards)


def _build(conditions: Sequence[Given], hint: OrderHint, name: str, catalog: Catalog, names: Mapping[str, str]) -> ContinuousQuery:
    return ContinuousQuery(name, filtered_by(catalog.read(names[_INPUT]), conditions, hint))


def _steer(spark: SparkSession, job: Job, run: str, checkpoint: Checkpoint) -> None:
    """Somebody who hears the query and decides as long as it runs."""
    watched = _Watched(spark, run)
    FilterController(job, checkpoint, watched.report).start(watched.is_expected)


class _Watched:
    """The query that a user will start: it is known by what its shards report."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._spark = spark
        self._run = run
        self._query: Any = None
        self._seen: int | None = None

    def is_expected(self) -> bool:
        """Whether the query runs, or may still be started."""
        if self._query is not None:
            return bool(self._query.isActive)
        return self._spark.sparkContext._jsc is not None  # gone when the session is stopped

    def report(self) -> BatchReport | None:
        if self._query is not None:
            newest = _newest(self._query)
            if newest == self._seen:
                return None
            self._seen = newest
            return _mine(self._query, self._run)
        for query in self._spark.streams.active:
            report = _mine(query, self._run)
            if report is not None:
                self._query = query
                return report
        return None


def _mine(query: Any, run: str) -> BatchReport | None:
    progress = query.lastProgress
    report = None if progress is None else read_report(_plain(progress), metrics_of(run))
    return report if report is not None and report.run == run else None


def _newest(query: Any) -> int | None:
    """Number of the micro-batch finished last; asked often, so without the whole progress, which holds all reports."""
    progress = query._jsq.lastProgress()
    return None if progress is None else int(progress.batchId())


def _plain(progress: Any) -> Mapping[str, Any]:
    return progress if isinstance(progress, Mapping) else dict(progress)
