"""An application: streams, continuous queries and destinations, run as one Spark query."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.errors import InvalidDeclaration, UserError
from penstock.language.application import parse_application, read_utf8
from penstock.lowering.heartbeats import heartbeat
from penstock.lowering.looped import looped
from penstock.lowering.stages import Job, build_job
from penstock.lowering.statistics import with_statistics
from penstock.lowering.tuning import check_decision, request, tuning
from penstock.model.declarations import Destination
from penstock.model.elements import Control
from penstock.operators.filtering.standing import FilterStanding
from penstock.plan.analysis.clock import tick_us
from penstock.plan.catalog import Catalog
from penstock.runners.destinations import refuse_shared_directories
from penstock.runners.memory import MemorySharing, size_in_bytes
from penstock.runners.spark.budget import BudgetController
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.control import control_frame
from penstock.runners.spark.delivery import Delivery, leaving, only_for_spark, shard_targets
from penstock.runners.spark.failures import QueryFailed, translated
from penstock.runners.spark.files import is_local_by_default
from penstock.runners.spark.kafka import KafkaPartitions, ask_partitions, asked_streams
from penstock.runners.spark.memory import MemoryController, begin_sharing
from penstock.runners.spark.ownership.directories import Claims, check_local_directories, claim_directories
from penstock.runners.spark.pipeline import Pipeline, build_pipeline
from penstock.runners.spark.quarantine import Quarantine
from penstock.runners.spark.reports import BatchReport, read_report, read_reports
from penstock.runners.spark.session import create_session, query_session
from penstock.runners.spark.sinks import Binding, MemorySink, Sink, make_sink
from penstock.runners.spark.sources import read_stream
from penstock.runners.spark.steered import FilterController

#: Python functions that answers can go to, by name.
Functions: TypeAlias = Mapping[str, Callable[..., None]]


class App:
    """Streams, queries and rules written as text, run on Spark.

    Examples
    --------
    >>> app = App.from_text("CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING rate;")
    >>> app.catalog.names()
    ['s']
    """

    def __init__(self, catalog: Catalog, functions: Functions | None = None, text: str = "", now_us: int = 0) -> None:
        self.catalog = catalog
        self.functions = dict(functions or {})
        self._text = text
        self._now_us = now_us

    @classmethod
    def from_text(cls, text: str, name: str = "app", functions: Functions | None = None) -> App:
        now_us = time.time_ns() // 1000
        return cls(parse_application(text, name, now=now_us), functions, text, now_us)

    @classmethod
    def from_file(cls, path: str | Path, functions: Functions | None = None) -> App:
        file = Path(path)
        if not file.is_file():
            raise UserError(f"there is no file '{file}'; give the path of an application in SQL")
        return cls.from_text(read_utf8(file), file.name, functions)

    def job(self, shards: int = 2) -> Job:
        """What runs: one stage, however many partitionings the queries need."""
        return looped(build_job(self.catalog, shards))

    def start(
        self,
        checkpoint: str | Path | Checkpoint,
        spark: SparkSession | None = None,
        shards: int | None = None,
        trigger: str | None = None,
        available_now: bool = False,
        policy: str = "round_robin",
        budget: str | None = None,
        quarantine: str | Path | None = None,
        watch_joins: bool = False,
        memory: str | None = None,
        append: bool = False,
    ) -> Run:
        """Start the queries and return at once.

        Parameters
        ----------
        checkpoint
            Directory that remembers progress and state; starting again with it goes on where the last run stopped.
        shards
            Parallel shards per stage, fixed with the first start; None: as many as the session has cores.
        trigger
            Time between micro-batches, such as "1 second"; None: as soon as possible.
        available_now
            Process what is there and stop.
        budget
            Time the operators may work per micro-batch, such as "800 ms"; what is left over waits in queues.
        watch_joins
            Measure how long values of join keys stay open, so that the memory of joins is estimated also where punctuations
            bound it. Rows then cost about a tenth more; answers and state are the same, with the same checkpoint.
        memory
            Limit for rows that joins which can spill keep in memory, such as "512 MB"; shared among them as they need it.
        append
            Go on beside the files of other checkpoints, under other names, in directories that hold such files. Without it they
            are refused, because all checkpoints count micro-batches from 0 and name files by these numbers.
        """
        place = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.prepare(place, quarantine, append)
        try:
            base = spark or create_session(self.catalog.name)
            settled = place.settled("shards", shards or base.sparkContext.defaultParallelism)
            app = self._as_of(place.settled("now_us", self._now_us))
            launch = _Launch(app, place, query_session(base, settled), settled, policy, watch_joins, memory, append)
            return launch.start(trigger, available_now, budget, _quarantine(place, quarantine))
        except BaseException:
            place.lock.release()
            raise

    def prepare(self, place: Checkpoint, quarantine: str | Path | None = None, append: bool = False) -> None:
        """Refuse what cannot be started, and take the checkpoint; needs no Spark, so it answers at once."""
        if not self.catalog.queries:
            raise InvalidDeclaration("there is no CREATE CQ, so there is nothing to run", f"application '{self.catalog.name}'")
        refused = _quarantine(place, quarantine)
        refuse_shared_directories(self.catalog, refused)
        place.lock.take()
        try:
            place.refuse_damaged()
            place.refuse_moved(self.catalog.name)
            self._refuse_other_plan(place)
            check_local_directories(self.catalog, place, refused, append)
        except BaseException:
            place.lock.release()
            raise

    def _refuse_other_plan(self, place: Checkpoint) -> None:
        """The first start settles the plan; Spark tells how many shards that has."""
        shards, now_us = place.recalled("shards"), place.recalled("now_us")
        if shards is not None and now_us is not None and place.last("offsets") is not None:
            app = self._as_of(now_us)
            place.check_plan(app.job(shards), app.catalog)

    def _as_of(self, now_us: int) -> App:
        """The application as the first start read it: BEGIN NOW means that time, also after a restart."""
        if not self._text or now_us == self._now_us:
            return self
        return App(parse_application(self._text, self.catalog.name, now=now_us), self.functions, self._text, now_us)

    def run(self, checkpoint: str | Path, timeout: float | None = None, **options: Any) -> Run:
        """Start, wait until the queries stop (or `timeout` seconds have passed), and stop them."""
        run = self.start(checkpoint, **options)
        try:
            run.wait(timeout)
        finally:
            run.stop()
        return run


def _quarantine(place: Checkpoint, given: str | Path | None) -> str:
    return str(given or place.directory / "quarantine")


class _Launch:
    """Everything between an application and its running query."""

    def __init__(
        self, app: App, checkpoint: Checkpoint, spark: SparkSession, shards: int, policy: str, watch_joins: bool,
        memory: str | None, append: bool,
    ) -> None:  # fmt: skip
        self.app = app
        self.checkpoint = checkpoint
        self.spark = spark
        self.shards = shards
        self.policy = policy
        self.watch_joins = watch_joins
        self.memory = memory
        self.append = append

    def start(self, trigger: str | None, available_now: bool, budget: str | None, quarantine: str) -> Run:
        job = self.app.job(self.shards)
        if self.watch_joins:
            job = with_statistics(job)
        self.checkpoint.settle_plan(job, self.app.catalog)
        if self.checkpoint.has_ended():
            raise UserError(
                f"the streams of checkpoint '{self.checkpoint.directory}' were ended by an earlier run, so no row can follow; "
                "use a new checkpoint"
            )
        self.checkpoint.control.note_stop(False)
        sharing = MemorySharing(job, size_in_bytes(self.memory)) if self.memory else None
        if not budget:
            self._forget_budget()
        begin_sharing(self.checkpoint.control, sharing)
        claims = claim_directories(self.app.catalog, self.checkpoint, quarantine, self.append, self.spark)
        control, loop = self.checkpoint.control.directory, self.checkpoint.loop
        goes_round = bool(job.stages[0].exchanges)
        turning = str(loop.directory) if goes_round else ""
        controls = control_frame(self.spark, str(control), self.shards, turning, tick_us(self.app.catalog))
        sinks = self._sinks(claims)
        pipeline = build_pipeline(
            job, lambda stream: read_stream(self.spark, stream, control), controls, uuid.uuid4().hex, self.policy,
            Quarantine(quarantine, claims.quarantine), direct="" if goes_round else only_for_spark(sinks),
            files=shard_targets(sinks), leaving=leaving(sinks),
        )  # fmt: skip
        ask_partitions(self.spark, asked_streams(job), self.checkpoint.control)
        delivery = Delivery(pipeline, sinks, loop)
        writer = pipeline.frame.writeStream.queryName(self.app.catalog.name.replace(".", "_"))
        writer = writer.foreachBatch(delivery).option("checkpointLocation", self.checkpoint.spark)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif trigger:
            writer = writer.trigger(processingTime=trigger)
        return Run(self.app, writer.start(), pipeline, delivery, sinks, self.checkpoint, budget, quarantine, sharing)

    def _forget_budget(self) -> None:
        """Shards remember their budget; a run without one must lift that of an earlier run."""
        control = self.checkpoint.control
        budgets = [detail for kind, detail in control.read(0, len(control)) if kind == "budget"]
        if budgets and budgets[-1]["rows"] is not None:
            control.append("budget", {"rows": None})

    def _sinks(self, claims: Claims) -> dict[str, list[Sink]]:
        found: dict[str, list[Sink]] = {}
        shards_write = is_local_by_default(self.spark)
        for query in self.app.catalog.queries.values():
            destinations = query.destinations or (Destination("memory"),)
            found[query.name] = [
                make_sink(
                    query.name, item, self.app.functions, Binding(claims.checkpoint, claims.mark_of(item), number, shards_write)
                )
                for number, item in enumerate(destinations)
            ]
        return found


class Run:
    """A running application."""

    def __init__(
        self, app: App, query: Any, pipeline: Pipeline, delivery: Delivery, sinks: Mapping[str, list[Sink]], checkpoint: Checkpoint,
        budget: str | None, quarantine: str, sharing: MemorySharing | None = None,
    ) -> None:  # fmt: skip
        self.app = app
        self.query = query
        self.pipeline = pipeline
        self.sinks = sinks
        self._delivery = delivery
        self.control = checkpoint.control
        self.quarantine = quarantine
        self._lock = checkpoint.lock
        self._lock.has_ended = self._has_ended
        self.budget = BudgetController(self.control, budget, self.report) if budget else None
        if self.budget:
            self.budget.start(lambda: bool(query.isActive))
        self.orders = FilterController(pipeline.job, checkpoint, self._last_report)
        if self.orders.is_needed:
            self.orders.start(lambda: bool(query.isActive))
        self.memory = MemoryController(sharing, self.control, self._last_report) if sharing else None
        if self.memory:
            self.memory.start(lambda: bool(query.isActive))

        topics = asked_streams(pipeline.job)
        self.partitions = KafkaPartitions(topics, self.control, self._last_report) if topics else None
        if self.partitions:
            self.partitions.start(lambda: bool(query.isActive))

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    def _has_ended(self) -> bool:
        try:
            return not self.is_active
        except Exception:  # Java is gone, and the query with it
            return True

    def report(self) -> BatchReport | None:
        """The last micro-batch with work, or None."""
        recent = self.reports()
        return recent[-1] if recent else None

    def reports(self) -> list[BatchReport]:
        return read_reports(_plain(progress) for progress in self.query.recentProgress)

    def _last_report(self) -> BatchReport | None:
        """The newest micro-batch alone: cheaper than all recent ones, for those who look often."""
        progress = self.query.lastProgress
        return None if progress is None else read_report(_plain(progress))

    def filters(self) -> tuple[FilterStanding, ...]:
        """How adaptive filters stand: order, estimated costs, re-orderings."""
        return self.orders.standings

    def results(self, query: str) -> pa.Table | None:
        """Answers so far of a query whose destination is memory."""
        for sink in self.sinks[query]:
            if isinstance(sink, MemorySink):
                return sink.table()
        place = f"application '{self.app.catalog.name}'"
        raise InvalidDeclaration(f"query '{query}' does not go to memory; write OUTPUT TO memory", place)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the query has ended. A failure is raised with Penstock's own message in front."""
        try:
            has_ended = bool(self.query.awaitTermination(timeout)) if timeout else bool(self.query.awaitTermination() or True)
        except Exception as failure:
            self._lock.release()
            raise translated(failure) from failure
        if has_ended:
            self._lock.release()
        return has_ended

    def process_all_available(self) -> None:
        """Wait until everything the sources have now is processed (tests and finite sources)."""
        try:
            self.query.processAllAvailable()
        except Exception as failure:
            raise translated(failure) from failure

    def decide(self, kind: str, detail: Mapping[str, Any] | None = None, timeout: float = 120) -> None:
        """Send a decision to all shards and wait until a micro-batch has carried it."""
        if not self.is_active:
            raise UserError(f"the application has stopped, so no micro-batch can carry the decision '{kind}'; start it again first")
        check_decision(self.pipeline.job, Control(0, kind, dict(detail or {})))
        self._await(self.control.append(kind, detail), kind, timeout)

    def tune(self, query: str, timeout: float = 120, **changes: Any) -> None:
        """Change parameters of a query's joins, such as `purge_threshold=100`, from the next micro-batch on.

        Raises
        ------
        InvalidConfiguration
            When no join of the query has such a parameter, or the value is not legal; nothing has changed then.
        """
        decision = tuning(self.pipeline.job, query, changes)
        self.decide(decision.kind, decision.detail, timeout)

    def propagate(self, query: str, timeout: float = 120) -> None:
        """Ask a query's joins for the punctuations they hold back: for those whose `registry` is `pull`."""
        decision = request(self.pipeline.job, query)
        self.decide(decision.kind, decision.detail, timeout)

    def heartbeat(self, stream: str, moment: datetime | int | str, partition: int | None = None, timeout: float = 120) -> None:
        """Say that nothing older than `moment` comes from a stream, or from one source partition of it; older rows are late then.

        Raises
        ------
        InvalidConfiguration
            When no query reads the stream, or the time or partition cannot be one of it; nothing has changed then.
        """
        decision = heartbeat(self.pipeline.job, stream, moment, partition)
        self.decide(decision.kind, decision.detail, timeout)

    def _await(self, number: int, kind: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self._decided() <= number:
            if not self.is_active:
                self.wait()
                raise QueryFailed(f"stopped before a micro-batch carried the decision '{kind}'; the next start will")
            if time.monotonic() > deadline:
                raise QueryFailed(f"no micro-batch carried the decision '{kind}' within {timeout:.0f} s; is the query stuck?")
            time.sleep(0.05)

    def _await_loop(self, timeout: float) -> None:
        """Wait for the micro-batches that bring round what the last one left."""
        deadline = time.monotonic() + timeout
        while self.is_active and not self._is_at_rest():
            if time.monotonic() > deadline:
                raise QueryFailed(f"rows still went round after {timeout:.0f} s; the next start goes on with them")
            time.sleep(0.02)

    def _is_at_rest(self) -> bool:
        """Whether the newest micro-batch sent nothing round, and is committed."""
        epoch, goes_round = self._delivery.last
        progress = self.query.lastProgress
        return not goes_round and progress is not None and int(_plain(progress)["batchId"]) >= epoch

    def _decided(self) -> int:
        """Decisions that the newest micro-batch and those before it have carried; only the newest is asked, as that is quick."""
        progress = self.query.lastProgress
        for source in _plain(progress)["sources"] if progress is not None else ():
            if "penstock_control" in source["description"] or "decisions" in str(source.get("endOffset")):
                return int(_offset(source.get("endOffset")))
        return 0

    def end(self, timeout: float = 120) -> None:
        """Declare all streams ended: windows close, groups are emitted, queues are emptied; then stop."""
        self._lift_budget()
        self.control.note_end()
        kinds = [kind for kind, _ in self.control.read(0, len(self.control))]
        if "end" in kinds:
            # Decided by a run that did not live to see it carried; it must not be said twice.
            self._await(kinds.index("end"), "end", timeout)
        else:
            self.decide("end", timeout=timeout)
        self._await_loop(timeout)
        self.stop()

    def drain(self, timeout: float = 120) -> None:
        """Finish the work that budgets left in queues, then stop; the streams may go on in a later run."""
        self._lift_budget()
        self.decide("continue", timeout=timeout)
        self._await_loop(timeout)
        self.stop()

    def _lift_budget(self) -> None:
        if self.budget:
            self.budget.stop()
        if self.is_active:
            self.control.append("budget", {"rows": None})

    def stop(self) -> None:
        """Stop now; a micro-batch under way is repeated by the next start, under the same number. Stopping twice is fine."""
        try:
            self.orders.stop()
            for controller in (self.budget, self.memory, self.partitions):
                if controller is not None:
                    controller.stop()
            if self.query.isActive:
                self.control.note_stop(True)
                self.query.stop()
        finally:
            self._lock.release()


def _plain(progress: Any) -> Mapping[str, Any]:
    """Progress as a mapping, whatever the Spark version hands out."""
    return progress if isinstance(progress, Mapping) else dict(progress)


def _offset(text: Any) -> int:
    import json

    if isinstance(text, str):
        text = json.loads(text)
    return int(text["decisions"]) if isinstance(text, Mapping) else 0
