"""Adaptive filters on ordinary streaming DataFrames."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.lowering.given_filters import Given, filtered_by
from penstock.lowering.stages import Job, build_job
from penstock.model.join_variants import HintValue
from penstock.model.order_hints import OrderHint
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.relational import Scan
from penstock.runners.spark.checkpoint import Checkpoint
from penstock.runners.spark.control import control_frame
from penstock.runners.spark.functions import Described, declared
from penstock.runners.spark.pipeline import answers, build_pipeline
from penstock.runners.spark.reports import BatchReport, read_report
from penstock.runners.spark.session import require
from penstock.runners.spark.steered import FilterController


def filter(
    frame: DataFrame | Described,
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
        measures what conditions cost and decides for all shards. Without one every shard decides for itself, from declared
        costs, or from what such conditions usually cost.
    quarantine
        Directory for rows that are late, bad, or that a condition could not judge (`on_error="dead_letter"`).
    options
        Further settings, as the hint ORDER takes them: `probability=0.02`, `window_rows=500`.

    Returns
    -------
    DataFrame
        The same columns; write it with `writeStream` in append mode, once.

    Examples
    --------
    ``ps.filter(packets, ["size > 100", "payload RLIKE 'attack'", is_suspicious], control="checkpoints/packets.orders")``
    """
    source, rows = declared("input", frame, False)
    mode = "global" if control else "shard"
    settings: dict[str, HintValue] = {"policy": policy, "mode": mode, **options}
    catalog = Catalog("penstock")
    catalog.add_stream(source)
    catalog.add_query(ContinuousQuery("answer", filtered_by(Scan(source), conditions, OrderHint(tuple(settings.items())))))
    spark = rows.sparkSession
    job, run = build_job(catalog, require(spark)), uuid.uuid4().hex
    controls = _controls(spark, job, run, Checkpoint(control)) if control else None
    pipeline = build_pipeline(job, lambda _: rows, controls, run, quarantine=str(quarantine))
    return answers(pipeline, pipeline.frame, "answer")


def _controls(spark: SparkSession, job: Job, run: str, checkpoint: Checkpoint) -> Any:
    """The stream of decisions, and somebody who makes them as long as the query runs."""
    watched = _Watched(spark, run)
    controller = FilterController(job, checkpoint, watched.report)
    controller.start(watched.is_expected)
    return control_frame(spark, str(checkpoint.control.directory), job.shards)


class _Watched:
    """The query that a user will start: it is known by what its shards report."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._spark = spark
        self._run = run
        self._query: Any = None

    def is_expected(self) -> bool:
        """Whether the query runs, or may still be started."""
        if self._query is not None:
            return bool(self._query.isActive)
        return self._spark.sparkContext._jsc is not None  # gone when the session is stopped

    def report(self) -> BatchReport | None:
        if self._query is not None:
            return _mine(self._query, self._run)
        for query in self._spark.streams.active:
            report = _mine(query, self._run)
            if report is not None:
                self._query = query
                return report
        return None


def _mine(query: Any, run: str) -> BatchReport | None:
    progress = query.lastProgress
    report = None if progress is None else read_report(_plain(progress))
    return report if report is not None and report.run == run else None


def _plain(progress: Any) -> Mapping[str, Any]:
    return progress if isinstance(progress, Mapping) else dict(progress)
