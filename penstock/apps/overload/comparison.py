"""The same load again and again: with contracts, and under each strategy that the optimizer knows; every run is alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.apps.overload.load import Capacity, Load, without_loss
from penstock.apps.overload.measuring import LOOK_SECONDS, TRIGGER, measured
from penstock.apps.overload.timeline import Bound, EntryRows, Losing, Moment, Timeline, notes_of
from penstock.errors import Interrupted
from penstock.model.elements import STATISTICS
from penstock.model.qos import Measure
from penstock.qos.optimizer.decision_table import DEFAULT
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.latency import oldest_due_us
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.driver.run_history import BatchStatus, RunHistory
from penstock.runners.spark.driver.service import ServiceCounts, sheddable

#: What the run with contracts is called, beside those with the names of strategies.
CONTRACTS = "contracts"
Show = Callable[[Timeline, BatchStatus | None], None]


@dataclass(slots=True)
class Outcome:
    """What was measured, and the runs that have come to their end; that with contracts is the first."""

    capacity: Capacity
    load: Load
    runs: list[Timeline] = field(default_factory=list)
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """What all runs share.

    Parameters
    ----------
    wait
        Sleeps between two looks; raises what shall end it all.
    """

    spark: SparkSession
    text: str
    folder: Path
    shards: int
    wait: Callable[[float], None]


def compare(
    stage: Stage, seconds: float, outcome_known: Callable[[Outcome], None], show: Show, done: Callable[[Timeline], None]
) -> Outcome:
    """Measure what the machine can take, run the queries with their contracts, then under each strategy.

    Parameters
    ----------
    outcome_known
        Told what was measured, before the first run.
    show, done
        Told of each look at the first run, and of each run at its end.
    """
    found = measured(stage.spark, stage.text, stage.folder / "measuring", stage.wait, stage.shards)
    outcome = Outcome(found.capacity, Load.beyond(found.capacity, seconds))
    outcome_known(outcome)
    for name in (CONTRACTS, *DEFAULT.strategies):
        try:
            run = _observed(stage, name, outcome, found.prices, show if name == CONTRACTS else _nothing)
        except Interrupted:
            if not outcome.runs:
                raise
            return outcome
        outcome.runs.append(run)
        done(run)
    outcome.is_whole = True
    return outcome


def _nothing(line: Timeline, status: BatchStatus | None) -> None:
    """Runs after the first are not shown while they go on."""


def _observed(stage: Stage, name: str, outcome: Outcome, prices: Mapping[str, Any], show: Show) -> Timeline:
    """One run as long as its stream lasts."""
    text, policy = (stage.text, None) if name == CONTRACTS else (without_loss(stage.text), name)
    checkpoint = Checkpoint(stage.folder / name)
    with ExitStack() as stack:
        budget = f"{outcome.capacity.budget_s * 1e9:.0f} ns"
        app = App.from_text(outcome.load.of(text), "overload")
        run = app.start(checkpoint, stage.spark, stage.shards, TRIGGER, policy=policy, budget=budget)
        stack.callback(run.stop)
        run.control.append(STATISTICS, {"operators": prices})
        observer = _Observer(run, name, checkpoint)
        while observer.line.second < outcome.load.seconds:
            if not run.is_active:
                run.wait()  # raises what made it fail
            observer.look()
            show(observer.line, observer.history.last)
            stage.wait(LOOK_SECONDS)
        return observer.line


class _Observer:
    """Turns the reports of a run into its timeline."""

    def __init__(self, run: Run, name: str, checkpoint: Checkpoint) -> None:
        self._run, self.history, self._decisions = run, RunHistory("overload", run.job), checkpoint.history
        self.line = Timeline(name, bounds_of(run), {each.entry: Losing(each.queries, each.most) for each in sheddable(run.job)})
        self._began_s: float | None = None
        self._served: Sequence[ServiceCounts] = ()

    def look(self) -> None:
        """What has happened since the last look."""
        reports = {report.epoch: report for report in self._run.reports()}
        for status in self.history.hear(reports.values()):
            self._hear(status, reports[status.epoch])
        if self._began_s is not None:
            self.line.notes = notes_of(self._decisions.entries(), self._began_s)

    def _hear(self, status: BatchStatus, report: BatchReport) -> None:
        if self._began_s is None:
            due_us = oldest_due_us(self._run.job, report)
            self._began_s = report.batch_ns / 1e9 if due_us is None else due_us / 1e6
        before = {counts.query: counts.answers for counts in self._served}
        self._served = status.service
        second = report.batch_ns / 1e9 - self._began_s
        rows = {entry: EntryRows(counted.get("read", 0) - counted.get("filtered", 0), counted.get("shed", 0))
                for entry, counted in report.entries.items()}  # fmt: skip
        latency_s = {
            served.query: served.latency_ms / 1000
            for served in status.service
            if served.latency_ms is not None and served.answers > before.get(served.query, 0)
        }
        self.line.moments.append(
            Moment(
                second, second + status.duration_ms / 1000, status.rows, status.policy, status.backlog, latency_s,
                self.line.left_out(rows),
            )
        )  # fmt: skip
        self.line.promises, self.line.readers = status.promises, status.readers


def bounds_of(run: Run) -> list[Bound]:
    """Latencies that queries promise; where they change with time, the strictest."""
    found = []
    for query, contract in run.job.contracts.items():
        latency = contract.of(Measure.LATENCY)
        if latency is not None:
            strictest = min(corner for piece in latency.graph.intervals for corner in (piece.y1, piece.y2))
            found.append(Bound(query, strictest, latency.priority))
    return found
