"""Operators over each other's answers: calls that touch become one job, with one kernel in each shard.

What `ps.join` and its relatives return is a DataFrame like any other, and knows from which calls it came. Handed to another
operator as it is, its rows need not leave the shard: the inner call becomes a query that the outer one reads. With something of
Spark's in between, each call stays a pipeline of its own in the same Spark query.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.declarations import StreamDeclaration
from penstock.model.durations import micros_of
from penstock.model.schema import TIMESTAMP, Schema
from penstock.plan.analysis.delays import Delays
from penstock.plan.analysis.propagate import delays
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.runners.memory import limits_of_joins
from penstock.runners.spark.data_path.files import ParquetFiles
from penstock.runners.spark.data_path.pipeline import OBSERVED, build_pipeline, direct_answers
from penstock.runners.spark.dataframes.event_time import with_time_marks
from penstock.runners.spark.processes.session import require

#: Makes the stream of the driver's decisions for a job of a run.
Controls: TypeAlias = Callable[[SparkSession, Job, str], DataFrame]

#: What the only output of a job is called.
ANSWER = "_answer"


@dataclass(frozen=True)
class Leaf:
    """A stream of Spark's that enters a call.

    Parameters
    ----------
    is_told_by_spark
        Only Spark's watermark tells how far it has come.
    keeps_watermark
        An operator of Spark's before it needs the watermark that is defined there, so there can be no other.
    """

    declaration: StreamDeclaration
    frame: DataFrame | ParquetFiles
    is_told_by_spark: bool = False
    keeps_watermark: bool = False

    @property
    def schema(self) -> Schema:
        return self.declaration.schema

    @property
    def mark(self) -> str:
        """Column with punctuations, if there is one."""
        return self.declaration.punctuations.column if self.declaration.punctuations else ""


@dataclass(frozen=True)
class Call:
    """One call of an operator: its inputs, by the names it gives them, and the query over them.

    Parameters
    ----------
    build
        Makes the query of a name in a catalog that has the inputs, under the names it is handed.
    quarantine
        Directory for rows of this call's own inputs that are refused; empty: they fail the query.
    memory_bytes
        Limit for rows that its join keeps in memory, over all shards; None: there is none.
    """

    inputs: Mapping[str, Leaf | Call]
    build: Callable[[str, Catalog, Mapping[str, str]], ContinuousQuery]
    quarantine: str = ""
    memory_bytes: int | None = None


def schema_of(part: Leaf | Call) -> Schema:
    """Columns of what a call reads."""
    return part.schema if isinstance(part, Leaf) else Composition.of(part).catalog.queries[ANSWER].plan.schema


@dataclass
class Composition:
    """All calls behind one DataFrame in one catalog."""

    catalog: Catalog = field(default_factory=lambda: Catalog("penstock"))
    frames: dict[str, DataFrame | ParquetFiles] = field(default_factory=dict)
    quarantines: dict[str, str] = field(default_factory=dict)
    timed_by_watermark: set[str] = field(default_factory=set)
    keeps_watermark: bool = False
    #: Directory for what operators refuse of rows that are no stream's any more: the outermost that is given.
    quarantine: str = ""
    #: Limits of memory, by query.
    limits: dict[str, int] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=lambda: {ANSWER})

    @classmethod
    def of(cls, call: Call) -> Composition:
        made = cls()
        made.add(ANSWER, call)
        return made

    def add(self, name: str, call: Call) -> None:
        self.quarantine = self.quarantine or call.quarantine
        # Inputs of the outer call keep their names: messages speak of them.
        names = {wanted: self._free(wanted) for wanted in call.inputs}
        for wanted, part in call.inputs.items():
            if isinstance(part, Leaf):
                self._add_leaf(names[wanted], part, call.quarantine)
            else:
                self.add(names[wanted], part)
        self.catalog.add_query(call.build(name, self.catalog, names))
        if call.memory_bytes is not None:
            self.limits[name] = call.memory_bytes

    def _add_leaf(self, name: str, leaf: Leaf, quarantine: str) -> None:
        self.catalog.add_stream(replace(leaf.declaration, name=name))
        self.frames[name] = leaf.frame
        self.quarantines[name] = quarantine
        self.keeps_watermark |= leaf.keeps_watermark
        if leaf.is_told_by_spark:
            self.timed_by_watermark.add(name)

    def _free(self, wanted: str) -> str:
        number, name = 1, wanted
        while name.lower() in self._taken:
            number += 1
            name = f"{wanted}{number}"
        self._taken.add(name.lower())
        return name

    @property
    def times(self) -> Delays:
        """What is known of the times in the answers; only columns of clock time count, because only these are Spark's."""
        plan = self.catalog.queries[ANSWER].plan
        found = delays(plan, self.catalog.queries)
        clocks = {item.name for item in plan.schema if item.type == TIMESTAMP}
        row_time = found.row_time if set(found.row_time) <= clocks else ()
        return Delays(found.rows, {name: delay for name, delay in found.columns.items() if name in clocks}, row_time)


class Answers(ClassicDataFrame):
    """A streaming DataFrame of answers that knows the call it came from.

    Parameters
    ----------
    is_fusable
        Whether another call may take in this one instead of its rows.
    controls
        As `composed` takes them.
    """

    def __init__(self, frame: DataFrame, call: Call, is_fusable: bool, controls: Controls | None) -> None:
        super().__init__(frame._jdf, frame.sparkSession)
        self.call = call
        self.is_fusable = is_fusable
        self._controls = controls

    def withWatermark(self, eventTime: str, delayThreshold: str) -> DataFrame:  # noqa: N802, N803 - as Spark calls it
        """Have Spark's operators take this column for event time.

        How late its values can be is known where windows bound it; then the delay is only added. Elsewhere it is the user's word.
        """
        column = next((name for name in self.columns if name.lower() == eventTime.lower()), eventTime)
        return _watermarked(self.call, column, delayThreshold, self._controls)


def composed(call: Call, is_fusable: bool = True, controls: Controls | None = None) -> Answers:
    """The DataFrame of a call, fused with the calls it reads.

    Parameters
    ----------
    controls
        Gives the stream of the driver's decisions, for calls that it steers.
    """
    made = Composition.of(call)
    for text in made.catalog.warnings:
        warnings.warn(text, stacklevel=3)  # where the user calls the function that calls this
    known = made.times
    columns = _trusted(known, made)
    delay = max((known.columns[name].below_frontier for name in columns), default=None)
    return Answers(_frame(made, delay, columns, known.row_time, controls), call, is_fusable, controls)


def _watermarked(call: Call, column: str, delay: str, controls: Controls | None) -> DataFrame:
    made = Composition.of(call)
    known = made.times
    added = micros_of(delay, "withWatermark")
    # Where Spark's watermark came in it cannot be put off here; Spark says so itself.
    if column in _trusted(known, made) and (not added or not made.keeps_watermark):
        return _frame(made, known.columns[column].below_frontier + added, (column,), known.row_time, controls)
    return _frame(made, None, (), (), controls).withWatermark(column, delay)


def _trusted(known: Delays, made: Composition) -> tuple[str, ...]:
    """Columns of which Spark's watermark may speak behind the job.

    Where Spark's own watermark came in it stays what it was: then only values that it is true of.
    """
    if not made.keeps_watermark:
        return tuple(known.columns)
    if made.timed_by_watermark != set(made.frames):
        return ()
    return tuple(name for name, delay in known.columns.items() if delay.below_frontier == 0)


def _frame(
    made: Composition, delay: int | None, columns: tuple[str, ...], row_time: tuple[str, ...], controls: Controls | None = None
) -> DataFrame:
    spark = next(iter(made.frames.values())).sparkSession
    job = build_job(made.catalog, require(spark), [ANSWER], filters_early=False)
    run = uuid.uuid4().hex
    tells = delay is not None and not made.keeps_watermark
    decided = controls(spark, job, run) if controls is not None else None
    pipeline = build_pipeline(
        job, lambda source: made.frames[source.name], decided, run, quarantine=made.quarantine, quarantines=made.quarantines,
        timed_by_watermark=frozenset(made.timed_by_watermark), delay=delay if tells else None, observed=metrics_of(run),
        decisions=limits_of_joins(job, made.limits),
    )  # fmt: skip
    return with_time_marks(direct_answers(pipeline.frame), columns, row_time)


def metrics_of(run: str) -> str:
    """What Spark's progress calls the reports of one pipeline; a query may hold several."""
    return f"{OBSERVED}-{run}"
