"""An application: streams, continuous queries and destinations, run as one Spark query."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.errors import InvalidDeclaration, UserError
from penstock.language.application import parse_application, parse_policy, read_utf8
from penstock.lowering.jobs import Job
from penstock.lowering.looped import looped
from penstock.lowering.scheduling import check_policy
from penstock.lowering.stages import build_job
from penstock.model.service import ChosenPolicy
from penstock.plan.catalog import Catalog
from penstock.qos.contract_checks import refuse_unkeepable
from penstock.runners.destinations import refuse_shared_directories
from penstock.runners.editions.changes import Changes, changed, refuse_incompatible
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.admission import refuse_unfit
from penstock.runners.spark.driver.deployment import Functions
from penstock.runners.spark.driver.launch import Launch, LaunchOptions
from penstock.runners.spark.driver.policies import Policies, Told
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.driver.service import sheddable
from penstock.runners.spark.ownership.directories import check_local_directories
from penstock.runners.spark.processes.session import create_session, query_session


class App:
    """Streams, queries and rules written as text, run on Spark.

    Examples
    --------
    >>> app = App.from_text("CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING rate;")
    >>> app.catalog.names()
    ['s']
    """

    def __init__(self, catalog: Catalog, functions: Functions | None, text: str, now_us: int) -> None:
        self.catalog = catalog
        self.functions = dict(functions or {})
        self.text = text
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
        policy: str | ChosenPolicy | None = None,
        budget: str | None = None,
        quarantine: str | Path | None = None,
        watch_joins: bool = False,
        memory: str | None = None,
        append: bool = False,
        reset: Collection[str] = (),
        learn_prices: bool = True,
        force: bool = False,
        suspend: bool = False,
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
        policy
            Which piece of waiting work runs next: a strategy as behind SET POLICY, such as "threshold(memory='200 MB')". The
            newest wish holds: this one or that of the text if it is another than at the start before, else what was set last. It
            matters with a budget; answers are always the same.
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
        reset
            Queries that shall begin anew, without the state that the checkpoint has of them.
        learn_prices
            Whether shards are told what operators cost, as it is measured; otherwise they go by what they were told before, or
            by what is usual. It matters with a budget.
        force
            Start also if, by what earlier runs of the checkpoint have measured, a promise that must be kept would not be.
        suspend
            If more rows come than can be processed in time with all the loss that contracts allow, give queries no rows, those of
            least weight first, until the others are in time; whether they allow loss does not matter then. Without it all queries
            go on, and are late.

        Notes
        -----
        On a checkpoint of an earlier text, queries that are the same go on with their state, new ones begin, others end. One
        whose state would mean something else is refused, unless it is in `reset`.
        """
        place = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        told = self._told(policy)
        self.prepare(place, quarantine, append, reset, told.option, trigger)
        try:
            base = spark or create_session(self.catalog.name)
            shard_count = place.fixed_at_first_start("shards", shards or base.sparkContext.defaultParallelism)
            place.fixed_at_first_start("now_us", self._now_us)
            edition, _ = self.following(place, reset)
            job = edition.job(shard_count)
            sheddable(job)
            if not force:
                refuse_unfit(job, edition.catalog, place, base.sparkContext.defaultParallelism, trigger)
            place.settle_edition(edition)
            options = LaunchOptions(
                told,
                trigger,
                available_now,
                budget,
                _quarantine(place, quarantine),
                watch_joins,
                memory,
                append,
                learn_prices,
                suspend,
            )
            return Run(Launch(place, query_session(base, shard_count), shard_count, options, self.functions), edition)
        except BaseException:
            place.lock.release()
            raise

    def prepare(
        self, place: Checkpoint, quarantine: str | Path | None = None, append: bool = False, reset: Collection[str] = (),
        policy: str | ChosenPolicy | None = None, trigger: str | None = None,
    ) -> None:  # fmt: skip
        """Refuse what cannot be started, and take the checkpoint; needs no Spark, so it answers at once."""
        if not self.catalog.queries:
            raise InvalidDeclaration("there is no CREATE CQ, so there is nothing to run", f"application '{self.catalog.name}'")
        check_policy(self.catalog)
        refused, told = _quarantine(place, quarantine), self._told(policy)
        refuse_shared_directories(self.catalog, refused)
        refuse_unkeepable(self.catalog, trigger)
        place.lock.take()
        try:
            place.refuse_damaged()
            place.refuse_moved(self.catalog.name)
            edition, _ = self.following(place, reset)
            Policies(place).check_start(told, edition.catalog)
            refuse_shared_directories(edition.catalog, refused)
            check_local_directories(edition.catalog, place, refused, append)
        except BaseException:
            place.lock.release()
            raise

    def _told(self, policy: str | ChosenPolicy | None) -> Told:
        return Told(self.catalog.policy, parse_policy(policy) if isinstance(policy, str) else policy)

    def following(self, place: Checkpoint, reset: Collection[str] = ()) -> tuple[Edition, Changes]:
        """What a start with this text makes of the application of a checkpoint.

        Raises
        ------
        StateFormat
            When the state of a query would mean something else, and the query is not to begin anew.
        """
        known, shards = place.edition(), place.recall("shards")
        if known is None or shards is None or place.last("offsets") is None:
            # The first start settles what BEGIN NOW means, also for those that repeat it.
            first = Edition.first(self.catalog.name, self.text, place.recall("now_us") or self._now_us)
            return first, Changes(fresh=tuple(query.name for query in first.catalog.queries.values()))
        edition, changes = changed(known, shards, file=self.text, reset=reset, now_us=self._now_us)
        refuse_incompatible(changes, f"checkpoint '{place.directory}'")
        return edition, changes

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
