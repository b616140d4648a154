"""From a job and what a run has measured to an application that can be planned."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from penstock.kernel.work import Price
from penstock.lowering.jobs import Job
from penstock.lowering.scheduling import remembered_prices
from penstock.model.declarations import StreamDeclaration
from penstock.plan.analysis.knowledge import declared_rate
from penstock.plan.catalog import ContinuousQuery
from penstock.qos.capacity.application import Entrance, PlannedApplication, QueryParts, StateSize
from penstock.qos.capacity.batch_costs import ASSUMED, BatchCosts, fitted
from penstock.workloads.playback import Playback

#: Options of sources that limit the rows of a micro-batch.
_LIMITS = ("maxoffsetspertrigger", "max_rows_per_batch")
_FIGURES = tuple(item.name for item in fields(Price))


def queries_key(job: Job) -> str:
    """Tells one set of queries from another; destinations and the number of shards do not count."""
    plans = sorted(f"{query.name.lower()}={query.plan!r}" for query in _living(job))
    return hashlib.sha256("|".join(plans).encode()).hexdigest()[:16]


def _living(job: Job) -> Iterator[ContinuousQuery]:
    for catalog in job.plans.values():
        yield from (query for query in catalog.queries.values() if query.name in job.outputs)


def planned_application(
    job: Job, name: str, told: Iterable[Mapping[str, Any]] = (), costs: Mapping[str, Any] | None = None
) -> PlannedApplication:
    """What is known of an application in one stage.

    Parameters
    ----------
    job
        In one stage, as `looped` makes it.
    told
        Prices that a run has told its shards, oldest first.
    costs
        What a run has remembered of its micro-batches; None: nothing.
    """
    (stage,) = job.stages
    prices = {node: tuple(known) for node, known in remembered_prices(job, told).items()}
    measured = dict(costs["prices"]) if costs is not None else {}
    for node in stage.graph.nodes:
        known = measured.get(node.id, ())
        if len(known) == len(prices[node.id]):
            prices[node.id] = tuple(_price(figures) for figures in known)
    entries = {source.route.entry: source.route.stream for source in stage.sources}
    entrances = tuple(
        Entrance(entries[entry].name, (node.id, port), 1.0 if costs is None else costs["shares"].get(entry, 1.0))
        for node in stage.graph.nodes
        for port, (entry, _) in enumerate(node.sources)
        if entry in entries
    )
    streams = {stream.name: stream for stream in entries.values()}
    seen = {stream: float(rate) for stream, rate in (costs["rates"] if costs is not None else {}).items() if stream in streams}
    found = PlannedApplication(
        name,
        stage.graph.work_plan(prices),
        entrances,
        _queries(job),
        {stream: seen.get(stream) or declared_rate(declaration) or 0.0 for stream, declaration in streams.items()},
        ASSUMED,
        {} if costs is None else {node: StateSize(*size) for node, size in costs["state"].items() if node in prices},
        seen,
        {stream: most for stream, declaration in streams.items() if (most := _most_rows(declaration)) is not None},
        _unknown(job, costs),
    )
    return found if costs is None else replace(found, costs=_batch_costs(found, costs))


def _unknown(job: Job, costs: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What nobody has measured, in words."""
    if costs is None or not costs["prices"]:
        return ("what operators take and let pass",)
    return () if costs["plan"] == queries_key(job) else ("queries that have changed since the run measured them",)


def _batch_costs(application: PlannedApplication, costs: Mapping[str, Any]) -> BatchCosts:
    """What the run's micro-batches cost, beside the work of operators."""
    cores = int(costs["cores"])
    return fitted(
        costs["batches"], cores, application.measured_flow().operators_row_s / cores if application.measured_rates else 0.0
    )


def _price(figures: Mapping[str, Any]) -> Price:
    return Price(**{name: value for name, value in figures.items() if name in _FIGURES})


def _queries(job: Job) -> dict[str, QueryParts]:
    """Operators of each query, and the round in which it is answered."""
    (stage,) = job.stages
    levels = {node: level for level, node, _ in job.placements.values()}
    first = min(levels.values(), default=0)
    found = {}
    for query in stage.graph.answers:
        mine = tuple(node.id for node in stage.graph.nodes if query in node.queries)
        found[query] = QueryParts(mine, max((levels[node] for node in mine if node in levels), default=first) - first + 1)
    return found


def _most_rows(stream: StreamDeclaration) -> float | None:
    """Rows of a stream that a micro-batch takes at most; None: all there are."""
    options = {name.lower(): value for name, value in stream.source.options.items()}
    most = next((float(options[name]) for name in _LIMITS if options.get(name, "").isdigit()), 0.0)
    if not most or stream.source.format.lower() != "feed":
        return most or None
    # Ticks of the feed's clock, of which each stream of a workload has its share.
    feed = Playback.from_text(options)
    return most * feed.rows_per_second / feed.options.rate
