"""The same application under two strategies and one budget, at the same time: who waits, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.kernel.timing import AnswerTimes
from penstock.model.elements import STATISTICS
from penstock.model.service import ChosenPolicy
from penstock.qos.scheduling.capacities import time_ns
from penstock.qos.scheduling.trees import trees
from penstock.runners.prices import figures
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.driver.run_history import BatchStatus, RunHistory

#: Half a second of stream for each micro-batch; answers come within one where nothing waits.
TRIGGER_SECONDS, _TRIGGER = 0.5, "500 milliseconds"
#: The budget, as a part of what the usual load needs.
HEADROOM = 1.1
#: Micro-batches after which prices are known.
_MEASURED = 24
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """A load that doubles for a while.

    Parameters
    ----------
    rate
        Rows a second, usually.
    seconds
        How long it lasts: a quarter as usual, a third of it double, and the rest as usual.
    """

    rate: int = 12_000
    seconds: float = 60.0

    @property
    def burst(self) -> tuple[float, float]:
        return self.seconds / 4, self.seconds * 7 / 12

    @property
    def rows(self) -> int:
        begin, end = self.burst
        return round(self.rate * (self.seconds + end - begin))

    def of(self, text: str) -> str:
        """The application with this load."""
        begin, end = self.burst
        return (
            text.replace("'12000'", f"'{self.rate}'")
            .replace("'15:2,35:1'", f"'{begin:g}:2,{end:g}:1'")
            .replace("'840000'", f"'{self.rows}'")
        )


@dataclass(slots=True)
class Moment:
    """After one micro-batch: seconds since the stream began, latency of the queries that answered, and what the queues hold."""

    second: float
    latency_ms: Mapping[str, int]
    queue_rows: int
    queue_bytes: int


@dataclass(slots=True)
class Side:
    """One of the runs."""

    name: str
    run: Run
    history: RunHistory
    began: float = field(default_factory=time.time)
    moments: list[Moment] = field(default_factory=list)
    last: BatchStatus | None = None
    #: Answers, and the sum of their latencies in milliseconds, by query and since the burst began.
    served: dict[str, list[float]] = field(default_factory=dict)
    #: What operators took, and whole shards, in nanoseconds.
    work_ns: int = 0
    operators_ns: int = 0
    _before: Mapping[str, AnswerTimes] = field(default_factory=dict)

    def look(self, burst_begins: float) -> list[BatchStatus]:
        """What has happened since the last look."""
        reports = {report.epoch: report for report in self.run.reports()}
        news = self.history.hear(reports.values())
        for status in news:
            self._hear(status, reports[status.epoch], burst_begins)
        return news

    def _hear(self, status: BatchStatus, report: BatchReport, burst_begins: float) -> None:
        self.last = status
        second = report.batch_ns / 1e9 - self.began
        before = {query: times.rows for query, times in self._before.items()}
        latencies = {
            served.query: served.latency_ms
            for served in status.service
            if served.latency_ms is not None and served.answers > before.get(served.query, 0)
        }
        held = sum(counters.get("queue_bytes", 0) for counters in report.operators.values())
        self.moments.append(Moment(second, latencies, report.backlog, held))
        self.work_ns += report.work_ns
        self.operators_ns += sum(ports[2] for shard in report.measures for node in shard.values() for ports in node)
        if second >= burst_begins:
            self._count(report.times, status.latency_ms)
        self._before = report.times

    def _count(self, times: Mapping[str, AnswerTimes], batch_ms: int) -> None:
        for query, now in times.items():
            before = self._before.get(query, AnswerTimes())
            rows = now.rows - before.rows
            served = self.served.setdefault(query, [0.0, 0.0])
            served[0] += rows
            served[1] += (now.age_ns - before.age_ns) / 1e6 + rows * batch_ms

    @property
    def mean_latency_ms(self) -> float:
        """Of all answers since the burst began."""
        answers = sum(count for count, _ in self.served.values())
        return sum(total for _, total in self.served.values()) / max(answers, 1.0)

    @property
    def peak_bytes(self) -> int:
        return max((moment.queue_bytes for moment in self.moments), default=0)

    def is_done(self, rows: int) -> bool:
        read = min((reader.read for reader in self.last.readers), default=0) if self.last else 0
        return self.last is not None and read >= rows and not self.last.backlog


@dataclass(frozen=True, slots=True)
class Comparison:
    """How it went: the runs by name, what their budget was, and whether all gave the same answers."""

    load: Load
    sides: Mapping[str, Side]
    budget_ns: int
    answers: Mapping[str, int]
    are_equal: bool


def compare(
    spark: SparkSession, text: str, folder: Path, policies: Mapping[str, ChosenPolicy], load: Load,
    show: Callable[[Sequence[Side], float], None] = lambda sides, seconds: None, wait: Callable[[float], None] = time.sleep,
    shards: int = 2,
) -> Comparison:  # fmt: skip
    """Measure what the queries cost, then run them under every strategy at once; returns when nothing waits any more.

    Parameters
    ----------
    wait
        Sleeps between two looks; raises what shall end it all.
    """
    prices, budget_ns = measured(spark, text, folder / "measure", load.rate, wait, shards)
    with ExitStack() as stack:
        sides = []
        rounds = -(-shards // spark.sparkContext.defaultParallelism)
        for name, policy in policies.items():
            run = App.from_text(load.of(text), "burst").start(
                folder / name, spark, shards, _TRIGGER, policy=policy, learn_prices=False, budget=f"{budget_ns * rounds} ns"
            )
            stack.callback(run.stop)
            run.control.append(STATISTICS, {"operators": prices})
            sides.append(Side(name, run, RunHistory("burst", run.job)))
        began = time.monotonic()
        while not all(side.is_done(load.rows) for side in sides):
            for side in sides:
                side.look(load.burst[0])
                if not side.run.is_active:
                    side.run.wait()  # raises what made it fail
            show(sides, time.monotonic() - began)
            wait(_LOOK_SECONDS)
        for side in sides:
            side.run.end()
        found = [bags(side.run) for side in sides]
        counts = {query: len(rows) for query, rows in found[0].items()}
        return Comparison(load, {side.name: side for side in sides}, budget_ns, counts, all(each == found[0] for each in found))


def bags(run: Run) -> dict[str, list[str]]:
    """Answers of every query in one order, whenever they came."""
    return {query: sorted(_rows(run.results(query))) for query in run.sinks}


def _rows(table: pa.Table | None) -> Iterator[str]:
    if table is not None:
        yield from map(str, zip(*(column.to_pylist() for column in table.columns), strict=True))


def measured(
    spark: SparkSession, text: str, folder: Path, rate: int, wait: Callable[[float], None], shards: int
) -> tuple[dict[str, Any], int]:
    """What operators cost under the usual load, for a decision, and a budget for each shard and micro-batch that is a little more.

    The first seconds are left out: loops are compiled then.
    """
    load = Load(rate, 1e6)  # a burst that does not come
    with ExitStack() as stack:
        run = App.from_text(load.of(text), "burst").start(folder, spark, shards, _TRIGGER)
        stack.callback(run.stop)
        while (report := run.report()) is None or report.epoch < _MEASURED:
            if not run.is_active:
                run.wait()
            wait(_LOOK_SECONDS)
        learned = run.prices()
    (stage,) = run.job.stages
    plan = stage.graph.work_plan({node: tuple(prices) for node, prices in learned.items()})
    busy = sum(tree.price.rate * time_ns(tree.walk()) for tree in trees(plan))
    told = {node: [figures(price) for price in prices] for node, prices in learned.items()}
    return told, round(busy * TRIGGER_SECONDS / shards * HEADROOM)
