"""Run an application in the foreground: start Spark quietly, show what happens, stop when time, data or patience end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from penstock.errors import Interrupted, JavaEnded
from penstock.lowering.statistics import JoinMemory
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.data_path.sinks import MemorySink
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.driver.run_history import RunHistory, Summary
from penstock.runners.spark.processes.java_process import has_java_ended, kill_java
from penstock.runners.spark.processes.session import create_session
from penstock.runners.spark.terminal.display import Display, Row
from penstock.runners.spark.terminal.interrupts import Interrupt, interruptible

_LOOK_SECONDS = 1.0
#: What a run knows about the memory of its joins, beside the checkpoint's other records.
JOINS = "joins"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an application shall run; what is None is left to Spark and to `App.start`.

    Parameters
    ----------
    seconds
        Stop this long after the first batch; None: when the data end or somebody stops it.
    ends
        Declare the streams ended at the end, so that every window closes and every group is reported. Nothing can
        follow with the same checkpoint.
    log
        Where Spark's own messages go.
    watch_joins, memory, append, reset, force, suspend
        As in `App.start`.
    """

    checkpoint: Path
    seconds: float | None = None
    ends: bool = False
    trigger: str | None = None
    available_now: bool = False
    shards: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None
    budget: str | None = None
    quarantine: Path | None = None
    log: Path = Path("spark.log")
    watch_joins: bool = False
    memory: str | None = None
    append: bool = False
    reset: tuple[str, ...] = ()
    force: bool = False
    suspend: bool = False


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended; `signal` is 0 if nobody interrupted it."""

    summary: Summary
    signal: int
    quarantine: Path

    @property
    def has_refused(self) -> bool:
        """Whether the quarantine holds rows, of this run or an earlier one."""
        return any(self.quarantine.glob("epoch=*.parquet"))


def run_in_foreground(app: App, options: RunOptions, display: Display) -> RunOutcome:
    """Run until the end. A failure is raised in Penstock's words after the terminal is as before."""
    place = Checkpoint(options.checkpoint)
    with interruptible(at_once=kill_java) as interrupt:
        app.prepare(place, options.quarantine, options.append, options.reset, options.policy, options.trigger)
        try:
            return _with_spark(app, options, display, interrupt, place)
        except Exception as failure:
            raise _reason(failure, interrupt, options) from failure
        finally:
            place.lock.release()


def _reason(failure: Exception, interrupt: Interrupt, options: RunOptions) -> Exception:
    """What a person should hear of a failure: that Java has ended explains all that follows from it."""
    if interrupt.signal:
        return Interrupted(interrupt.signal)
    if has_java_ended():
        return JavaEnded(
            "Spark's Java process has ended, as it does when it is killed or memory runs out; nothing is lost: start again with "
            f"the same checkpoint (messages of Spark: {options.log})"
        )
    return failure


def _with_spark(app: App, options: RunOptions, display: Display, interrupt: Interrupt, place: Checkpoint) -> RunOutcome:
    display.say("starting Spark …")
    # The Java process keeps the descriptors it starts with, so it is quiet for good; here only errors are diverted.
    with redirected(options.log, 1, 2):
        spark = create_session(app.catalog.name, options.master, options.shards or 2, options.conf)
    try:
        if interrupt.signal:
            raise Interrupted(interrupt.signal)
        with redirected(options.log, 2):
            try:
                return _run_queries(app, options, display, interrupt, place, partial(app.start, place, spark=spark))
            finally:
                display.close()
    finally:
        if not has_java_ended():
            with redirected(options.log, 1, 2):
                spark.stop()


def _run_queries(
    app: App, options: RunOptions, display: Display, interrupt: Interrupt, place: Checkpoint, start: partial[Run]
) -> RunOutcome:
    display.say("starting the queries …")
    run = start(
        shards=options.shards, trigger=options.trigger, available_now=options.available_now,
        policy=options.policy, budget=options.budget, quarantine=options.quarantine,
        watch_joins=options.watch_joins, memory=options.memory, append=options.append,
        reset=options.reset, force=options.force, suspend=options.suspend,
    )  # fmt: skip
    learnt = map(JoinMemory.from_json, place.recall(JOINS) or ())
    history = RunHistory(app.catalog.name, run.job, run.filters, learnt)
    try:
        began = _watch(run, history, options, display, interrupt, place)
        if options.ends and not interrupt.signal and run.is_active:
            run.end()
    finally:
        run.stop()
    display.show(history.hear(run.reports()), time.monotonic() - began, partial(last_answers, run))
    _remember(place, history)
    return RunOutcome(history.summary(), interrupt.signal, Path(run.quarantine))


def _remember(place: Checkpoint, history: RunHistory) -> None:
    """For `penstock explain`, and for the estimates of the next run."""
    if joins := history.joins():
        place.remember(JOINS, [join.to_json() for join in joins])


def _watch(run: Run, history: RunHistory, options: RunOptions, display: Display, interrupt: Interrupt, place: Checkpoint) -> float:
    """Look once a second; returns when the time wished for began: with the first batch, before it workers start and compile."""
    began = time.monotonic()
    while not interrupt.wait(_LOOK_SECONDS):
        history.follow(run.job)
        before, news = history.batches, history.hear(run.reports())
        if news and not before:
            began = time.monotonic()
        if news:
            _remember(place, history)
        passed = time.monotonic() - began
        display.show(news, passed, partial(last_answers, run))
        if not run.is_active:
            run.wait()  # raises what made it fail
            break
        if options.seconds is not None and passed >= options.seconds and history.batches:
            break
    return began


def last_answers(run: Run, most: int) -> Mapping[str, Sequence[Row]]:
    """The newest answers of each query that goes to memory."""
    memories = {query: sink for query, sinks in run.sinks.items() for sink in sinks if isinstance(sink, MemorySink)}
    return {query: rows for query, sink in memories.items() if (rows := sink.newest(most))}


@contextmanager
def redirected(log: Path, *descriptors: int) -> Iterator[None]:
    """Send file descriptors into a file, for this process and those it starts meanwhile.

    Replacing `sys.stderr` would not do: the Java process inherits descriptors, and keeps them when they are restored here.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    _flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = {number: os.dup(number) for number in descriptors}
    try:
        for number in descriptors:
            os.dup2(target, number)
        yield
    finally:
        _flush()
        for number, original in kept.items():
            os.dup2(original, number)
            os.close(original)
        os.close(target)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
