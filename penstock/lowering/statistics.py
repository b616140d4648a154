"""A job whose joins report how long values live, so that their memory can be estimated while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from penstock.kernel.graph import GraphNode
from penstock.lowering.stages import Job, Stage
from penstock.metadata.statistics import WatchedInput
from penstock.operators.watched import Watched
from penstock.plan.analysis.estimation import InputEstimate, JoinStatistics, bytes_per_row, watched_inputs
from penstock.plan.analysis.holdings import label
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.relational import WindowJoin, walk
from penstock.plan.rewrites.apply import rewritten


def joins_of(job: Job, catalog: Catalog) -> dict[str, WindowJoin]:
    """The joins of a job by the operator's name, as reports have it; `catalog` is what the job was built from."""
    found: dict[str, WindowJoin] = {}
    for query in rewritten(catalog).in_order():
        for node in walk(query.plan):
            if isinstance(node, WindowJoin) and repr(node) in job.placements:
                found[job.placements[repr(node)][1]] = node
    return found


def with_statistics(job: Job, catalog: Catalog) -> Job:
    """The same job with every join watched. State and answers are the same: a checkpoint of either fits the other."""
    inputs = {name: watched_inputs(node) for name, node in joins_of(job, catalog).items()}
    return replace(job, stages=tuple(_watched(stage, inputs) for stage in job.stages))


def _watched(stage: Stage, inputs: Mapping[str, tuple[WatchedInput, ...]]) -> Stage:
    nodes = tuple(_wrapped(node, inputs[node.id]) if node.id in inputs else node for node in stage.graph.nodes)
    return replace(stage, graph=replace(stage.graph, nodes=nodes))


def _wrapped(node: GraphNode, inputs: tuple[WatchedInput, ...]) -> GraphNode:
    return replace(node, make=partial(Watched, node.make, inputs))


class MemoryMonitor:
    """Estimates of all joins of a job, kept up to date by its reports.

    Parameters
    ----------
    job, catalog
        The job, made by `with_statistics`, and the application it was built from.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> from penstock.lowering.stages import build_job
    >>> catalog = parse_application('''
    ...   CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE CQ q AS SELECT a.k FROM a [RANGE 5], b [RANGE 5] WHERE a.k = b.k''')
    >>> monitor = MemoryMonitor(build_job(catalog, 2), catalog)
    >>> monitor.update({}); monitor.estimates()["WindowJoin1"][0].basis.value
    'window'
    """

    def __init__(self, job: Job, catalog: Catalog) -> None:
        self._joins = joins_of(job, catalog)
        self.statistics = {name: JoinStatistics(watched_inputs(node)) for name, node in self._joins.items()}

    def update(self, operators: Mapping[str, Mapping[str, int]]) -> None:
        """Take in the counters of one micro-batch, by operator."""
        for name, statistics in self.statistics.items():
            if name in operators:
                statistics.update(operators[name])

    def estimates(self) -> dict[str, tuple[InputEstimate, ...]]:
        """Memory of each input of each join."""
        return {name: self._of(name, node) for name, node in self._joins.items()}

    def _of(self, name: str, node: WindowJoin) -> tuple[InputEstimate, ...]:
        names = [label(part, keys) for part, keys in zip(node.parts, node.keys, strict=True)]
        return self.statistics[name].estimates(names, [bytes_per_row(part.schema) for part in node.parts])
