"""An edition of an application on Spark: what tasks must know of it, and where its answers go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from pyspark import cloudpickle

from penstock.lowering.jobs import Job, SourceEntry
from penstock.lowering.statistics import with_statistics
from penstock.model.declarations import Destination, StreamDeclaration
from penstock.plan.analysis.clock import tick_us
from penstock.plan.catalog import Catalog
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.data_path.files import is_local_by_default
from penstock.runners.spark.data_path.local_properties import SHARDS, encoded
from penstock.runners.spark.data_path.processor import StageHost
from penstock.runners.spark.data_path.quarantine import Quarantine
from penstock.runners.spark.data_path.sinks import Binding, Sink, Sinks, SparkSink, leaving, make_sink, shard_targets
from penstock.runners.spark.ownership.directories import Claims, claim_directories

#: Python functions that answers can go to, by name.
Functions: TypeAlias = Mapping[str, Callable[..., None]]


@dataclass(frozen=True)
class Deployment:
    """One edition: its job, its sinks, and what tasks are handed."""

    edition: Edition
    job: Job
    sinks: Sinks
    host: StageHost

    @property
    def catalog(self) -> Catalog:
        return self.edition.catalog

    @cached_property
    def entries(self) -> dict[str, tuple[SourceEntry, ...]]:
        """What packing makes of the rows of each stream."""
        found: dict[str, tuple[SourceEntry, ...]] = {}
        for source in self.job.stages[0].sources:
            found[source.prefix.stream.name] = (*found.get(source.prefix.stream.name, ()), source)
        return found

    @cached_property
    def early_filters(self) -> frozenset[str]:
        """Operators that run where rows are packed."""
        return frozenset(self.job.early_filters)

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """What tasks must know, pickled."""
        return {SHARDS: cloudpickle.dumps(self.host), **{name: cloudpickle.dumps(found) for name, found in self.entries.items()}}

    @cached_property
    def encoded_parts(self) -> str:
        """The same as one text."""
        return encoded(self.parts)

    @property
    def streams(self) -> list[tuple[StreamDeclaration, bytes]]:
        """Streams that somebody reads, as the newest text declares them, and what tasks must know to pack their rows."""
        return [(self.catalog.stream(name), self.parts[name]) for name in self.entries]

    @property
    def direct(self) -> str:
        """The query whose answers leave as plain columns; empty: all leave as packets."""
        return self.host.direct

    def directly(self) -> Deployment:
        """With plain columns, if there is only one query and only Spark can write its only destination."""
        if len(self.sinks) != 1 or self.job.stages[0].exchanges:
            return self
        ((query, mine),) = self.sinks.items()
        if len(mine) != 1 or not isinstance(mine[0], SparkSink):
            return self
        return replace(self, host=replace(self.host, direct=query, output_schema=self.job.outputs[query].arrow))

    def fits(self, running: Deployment) -> bool:
        """Whether the plan with which Spark runs another edition serves this one too."""
        is_read = self.entries.keys() <= running.entries.keys()
        return is_read and not running.direct and tick_us(self.catalog) in (0, tick_us(running.catalog))


@dataclass
class Deployments:
    """Makes deployments of editions; sinks of queries that stay are the same objects.

    Parameters
    ----------
    run
        Distinguishes queries that run at the same time in one worker.
    """

    checkpoint: Checkpoint
    spark: Any
    shards: int
    run: str
    watch_joins: bool
    quarantine: str
    append: bool
    functions: Functions
    _made: dict[int, Deployment] = field(default_factory=dict)
    _sinks: dict[tuple[str, int, int, str], Sink] = field(default_factory=dict)

    def of(self, edition: Edition) -> Deployment:
        """Directories become the checkpoint's own; they are refused if they are another's."""
        if edition.number not in self._made:
            self._made[edition.number] = self._make(edition)
        return self._made[edition.number]

    def base(self, edition: Edition, may_be_direct: bool) -> Deployment:
        """What Spark's plan is made for.

        Parameters
        ----------
        may_be_direct
            Whether answers may leave as plain columns: then nothing goes round the loop, and no micro-batch of another edition is
            repeated, because it would not find the columns it has.
        """
        self._made.clear()
        found = self.of(edition)
        self._made[edition.number] = found.directly() if may_be_direct else found
        return self._made[edition.number]

    def forget(self, edition: Edition) -> None:
        """An edition that did not come into force; another one may get its number."""
        self._made.pop(edition.number, None)

    def _make(self, edition: Edition) -> Deployment:
        job = edition.job(self.shards)
        if self.watch_joins:
            job = with_statistics(job)
        claims = claim_directories(edition.catalog, self.checkpoint, self.quarantine, self.append, self.spark)
        sinks = {query: self._sinks_of(edition, query, claims) for query in job.outputs}
        refused = Quarantine(self.quarantine, claims.quarantine)
        host = StageHost(
            job.stages[0], self.shards, self.run, quarantine=refused, files=shard_targets(sinks),
            leaving=leaving(sinks), edition=edition.number,
        )  # fmt: skip
        return Deployment(edition, job, sinks, host)

    def _sinks_of(self, edition: Edition, query: str, claims: Claims) -> list[Sink]:
        began = edition.began(query)
        assert began is not None
        destinations = edition.catalog.queries[query.lower()].destinations or (Destination("memory"),)
        return [self._sink(query, began.number, number, item, claims) for number, item in enumerate(destinations)]

    def _sink(self, query: str, generation: int, number: int, destination: Destination, claims: Claims) -> Sink:
        key = (query.lower(), generation, number, repr(destination))
        if key not in self._sinks:
            binding = Binding(claims.checkpoint, claims.mark_of(destination), number, is_local_by_default(self.spark))
            self._sinks[key] = make_sink(query, destination, self.functions, binding)
        return self._sinks[key]
