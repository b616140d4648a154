"""A running application: look at it, tell it something, change it, end it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidDeclaration, PenstockError, UnknownQuery, UserError
from penstock.kernel.work import Price
from penstock.language.application import parse_policy
from penstock.lowering.heartbeats import heartbeat
from penstock.lowering.jobs import Job
from penstock.lowering.tuning import check_decision, tuning
from penstock.model.elements import BUDGET, PLAN, POLICY, Control
from penstock.operators.filtering.status import FilterStatus
from penstock.plan.catalog import Catalog
from penstock.qos.contract_checks import refuse_unkeepable
from penstock.runners.destinations import refuse_shared_directories
from penstock.runners.editions.changes import Changes, changed, refuse_incompatible
from penstock.runners.editions.edition import ADD, DROP, Edition, Step
from penstock.runners.spark.data_path.failures import QueryFailed, translated
from penstock.runners.spark.data_path.sinks import MemorySink, Sinks
from penstock.runners.spark.driver.admission import refuse_unfit
from penstock.runners.spark.driver.budget import decide_budget
from penstock.runners.spark.driver.controllers import Controllers
from penstock.runners.spark.driver.deployment import Deployment
from penstock.runners.spark.driver.launch import Launch
from penstock.runners.spark.driver.policies import Policies, policy_of_steps
from penstock.runners.spark.driver.progress import Progress
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.requests import Requests
from penstock.runners.spark.driver.service import sheddable

#: Jobs of a query among which those that were running when it was stopped must be.
_NEWEST_JOBS = 8


class Run:
    """A running application."""

    def __init__(self, launch: Launch, edition: Edition) -> None:
        self._launch = launch
        self.control = launch.checkpoint.control
        self.quarantine = launch.options.quarantine
        self._lock = launch.checkpoint.lock
        self._lock.has_ended = self._has_ended
        #: Held while queries come or go.
        self._changing = threading.RLock()
        self._is_restarting = False
        #: Why the run was stopped from inside.
        self._refusal: PenstockError | None = None
        self.edition = edition
        self._begin(edition)
        self._controllers = Controllers(launch, lambda: self.is_active, self.report, self._last_report, self._refuse)
        self._controllers.begin(self._deployment.job)
        self._requests = Requests(launch.checkpoint.requests, self)
        self._requests.start(lambda: self.is_active)

    def _begin(self, edition: Edition) -> None:
        self.query, self._delivery = self._launch.start(edition)
        self._progress = Progress(self.query)
        #: What Spark's plan was made for, and what is in force.
        self._base = self._deployment = self._delivery.current

    @property
    def job(self) -> Job:
        return self._deployment.job

    @property
    def catalog(self) -> Catalog:
        return self._deployment.catalog

    @property
    def sinks(self) -> Sinks:
        return self._deployment.sinks

    @property
    def is_active(self) -> bool:
        return bool(self._is_restarting or self.query.isActive)

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
        return self._progress.reports()

    def _last_report(self) -> BatchReport | None:
        """The newest micro-batch alone: cheaper than all recent ones, for those who look often."""
        return self._progress.last_report

    def filters(self) -> tuple[FilterStatus, ...]:
        """How adaptive filters stand: order, estimated costs, re-orderings."""
        return self._controllers.statuses()

    def prices(self) -> Mapping[str, Sequence[Price]]:
        """What operators cost, by port, as far as it has been measured."""
        return self._controllers.prices()

    def results(self, query: str) -> pa.Table | None:
        """Answers so far of a query whose destination is memory."""
        for sink in self.sinks[self._named(query)]:
            if isinstance(sink, MemorySink):
                return sink.table()
        place = f"application '{self.catalog.name}'"
        raise InvalidDeclaration(f"query '{query}' does not go to memory; write OUTPUT TO memory", place)

    def _named(self, query: str) -> str:
        """A query as the texts write it."""
        for name in self.sinks:
            if name.lower() == query.lower():
                return name
        raise UnknownQuery("the application", "query", query, self.sinks)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the query has ended. A failure is raised with Penstock's own message in front."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._has_terminated(None if deadline is None else max(deadline - time.monotonic(), 0.001)):
            if deadline is not None and time.monotonic() >= deadline:
                return False
        self._lock.release()
        self._raise_refusal()
        return True

    def _refuse(self, reason: PenstockError) -> None:
        """Stop for a reason that whoever waits for the run shall hear."""
        self._refusal = reason
        self.query.stop()

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def _has_terminated(self, timeout: float | None) -> bool:
        """Wait for the query of now; one that only makes room for another has not ended."""
        query = self.query
        try:
            has_ended = bool(query.awaitTermination(timeout)) if timeout else bool(query.awaitTermination() or True)
        except Exception as failure:
            self._lock.release()
            raise translated(failure) from failure
        with self._changing:
            return has_ended and query is self.query

    def process_all_available(self) -> None:
        """Wait until everything the sources have now is processed (tests and finite sources)."""
        try:
            self.query.processAllAvailable()
        except Exception as failure:
            self._raise_refusal()
            raise translated(failure) from failure
        self._raise_refusal()

    def decide(self, kind: str, detail: Mapping[str, Any] | None = None, timeout: float = 120) -> None:
        """Send a decision to all shards and wait until a micro-batch has carried it."""
        if not self.is_active:
            raise UserError(f"the application has stopped, so no micro-batch can carry the decision '{kind}'; start it again first")
        check_decision(self.job, Control(0, kind, dict(detail or {})))
        if kind == BUDGET:
            self._follow_budget((detail or {}).get("ns"))
        self._await(self.control.append(kind, detail), kind, timeout)

    def _follow_budget(self, ns: int | None) -> None:
        if ns is not None and self._base.direct:
            raise UserError(
                "what a budget leaves in queues goes on with the next micro-batch; this run has no way to start one, because Spark "
                "writes the answers of its only query directly: start it with a budget, such as --budget '800 ms'"
            )
        self._controllers.has_budget = ns is not None

    def tune(self, query: str, timeout: float = 120, **changes: Any) -> None:
        """Change parameters of a query's joins, such as `memory_bytes=100_000_000`, from the next micro-batch on.

        Raises
        ------
        InvalidConfiguration
            When no join of the query has such a parameter, or the value is not legal; nothing has changed then.
        """
        decision = tuning(self.job, query, changes)
        self.decide(decision.kind, decision.detail, timeout)

    def set_policy(self, name: str, timeout: float = 120, **parameters: Any) -> None:
        """Let another strategy choose the work, from the next micro-batch on; what waits stays where it is.

        It holds until the next one is set: by this call, in a text that is added, or by a start whose text or option has changed.

        Parameters
        ----------
        name
            As behind SET POLICY, with parameters or without.
        """
        written = parse_policy(name)
        self.decide(POLICY, {"name": written.name, **written.parameters, **parameters}, timeout)

    def add(self, text: str, timeout: float = 120, force: bool = False) -> Changes:
        """Add queries, from the next micro-batch on; they know nothing of earlier rows, and go on after a restart.

        Where they read streams that nobody has read so far, Spark's query is started again beneath this run, which takes some
        seconds; nothing is lost.

        Parameters
        ----------
        force
            Add them also if, by what was measured, a promise that must be kept would not be: of theirs or of other queries.

        Raises
        ------
        UserError
            When the text cannot be added, as it could not stand in the application; nothing has changed then.
        NotAdmitted
            When a promise could not be kept; nothing has changed then either.
        OutOfMemory
            When the limit of memory does not hold what one more join needs at least; nothing has changed then either.
        """
        return self._change([(ADD, text)], timeout, force)

    def drop(self, query: str, timeout: float = 120) -> Changes:
        """Drop a query, from the next micro-batch on: what it keeps is forgotten, windows that are open give no answer.

        Raises
        ------
        UserError
            When there is no such query, another one reads it, or it is the last.
        """
        return self._change([(DROP, self._named(query))], timeout)

    def _change(self, steps: list[Step], timeout: float, force: bool = True) -> Changes:
        with self._changing:
            if not self.is_active:
                raise UserError("the application has stopped, so nothing can be changed; start it again first")
            launch, now_us = self._launch, time.time_ns() // 1000
            edition, changes = changed(self.edition, launch.shards, later=steps, now_us=now_us)
            refuse_incompatible(changes, f"application '{edition.name}'")
            policies, wish = Policies(launch.checkpoint), policy_of_steps(steps, edition.name)
            policies.check(wish, edition.catalog)
            refuse_unkeepable(edition.catalog, launch.options.trigger)
            refuse_shared_directories(edition.catalog, self.quarantine)
            launch.deployments.forget(edition)
            deployment = launch.deployments.of(edition)
            for node in deployment.job.stages[0].graph.nodes:
                node.make()  # what would stop a shard stops here
            sheddable(deployment.job)
            if not force:
                cores = launch.spark.sparkContext.defaultParallelism
                refuse_unfit(deployment.job, edition.catalog, launch.checkpoint, cores, launch.options.trigger)
            sharing = self._controllers.shared_among(deployment.job)
            if deployment.fits(self._base):
                number = self.control.append(PLAN, edition.to_json())
                self._deployment = deployment
            else:
                number = self._restart(deployment)
            self.edition = edition
            self._controllers.change(deployment.job, sharing)
            number = policies.wish(wish) or number
        self._await(number, PLAN, timeout)
        return changes

    def _restart(self, deployment: Deployment) -> int:
        """Begin again with a plan of Spark's that reads other streams; the micro-batch under way is repeated as it was."""
        self._is_restarting = True
        try:
            self.query.stop()
            self._await_tasks(self.query)
            number = self.control.append(PLAN, deployment.edition.to_json())
            self._begin(deployment.edition)
            return number
        finally:
            self._is_restarting = False

    def _await_tasks(self, query: Any, seconds: float = 20) -> None:
        """Wait for tasks that a stopped query has left behind: they still hold the state that the next query reads."""
        context = self._launch.spark.sparkContext
        deadline = time.monotonic() + seconds
        while _active_tasks(context, str(query.runId)) and time.monotonic() < deadline:
            time.sleep(0.02)

    def heartbeat(self, stream: str, moment: datetime | int | str, partition: int | None = None, timeout: float = 120) -> None:
        """Say that nothing older than `moment` comes from a stream, or from one source partition of it; older rows are late then.

        Raises
        ------
        InvalidConfiguration
            When no query reads the stream, or the time or partition cannot be one of it; nothing has changed then.
        """
        decision = heartbeat(self.job, stream, moment, partition)
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
        progress = self._progress.last
        return not goes_round and progress is not None and int(progress["batchId"]) >= epoch

    def _decided(self) -> int:
        """Decisions that the newest micro-batch and those before it have carried; only the newest is asked, as that is quick."""
        progress = self._progress.last
        for source in progress["sources"] if progress is not None else ():
            if "penstock_control" in source["description"] or "decisions" in str(source.get("endOffset")):
                return int(_offset(source.get("endOffset")))
        return 0

    def end(self, timeout: float = 120) -> None:
        """Declare all streams ended: windows close, groups are emitted, queues are emptied; then stop."""
        if self.is_active:
            decide_budget(self.control, None)
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
        self.decide(BUDGET, {"ns": None}, timeout)
        self._await_loop(timeout)
        self.stop()

    def stop(self) -> None:
        """Stop now; a micro-batch under way is repeated by the next start, under the same number. Stopping twice is fine."""
        try:
            self._requests.stop()
            with self._changing:
                self._controllers.stop()
                if self.query.isActive:
                    self.control.note_stop(True)
                    self.query.stop()
                    self._await_tasks(self.query)
        finally:
            self._lock.release()


def _active_tasks(context: Any, group: str) -> int:
    """Tasks of a query's jobs that have not ended, also those that were told to; Spark calls the group of its jobs like the run.

    The scheduler itself is asked: what Spark shows of a stage is older than most tasks.
    """
    tracker, scheduler = context.statusTracker(), context._jsc.sc().taskScheduler()
    jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(group))[-_NEWEST_JOBS:]]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    found = [scheduler.taskSetManagerForAttempt(stage.stageId, stage.currentAttemptId) for stage in stages if stage is not None]
    return sum(tasks.get().runningTasks() for tasks in found if tasks.isDefined())


def _offset(text: Any) -> int:
    if isinstance(text, str):
        text = json.loads(text)
    return int(text["decisions"]) if isinstance(text, Mapping) else 0
