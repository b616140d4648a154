"""All stages of a job as one: what crosses from one to the next goes round a loop, into the next micro-batch.

A stateful stage costs as much as everything else in a micro-batch of a few thousand rows. In one stage all operators share one
kernel, one budget and one commit; rows that need another partitioning pay one more, short micro-batch. Answers are the same,
because only frontiers decide what is final. What queries ask of the service holds as before.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from penstock.kernel.graph import Graph
from penstock.kernel.work import Terms
from penstock.lowering.jobs import Exchange, Job, Stage


def looped(job: Job) -> Job:
    """The job in one stage. Nodes stay in topological order, because stages are."""
    if len(job.stages) == 1:
        return job
    graphs = [stage.graph for stage in job.stages]
    exchanges: dict[str, Exchange] = {}
    for stage in job.stages:
        exchanges |= stage.exchanges
    terms: dict[str, Terms] = {}
    for graph in graphs:
        terms |= graph.terms
    whole = Graph(
        tuple(node for graph in graphs for node in graph.nodes),
        tuple(entry for graph in graphs for entry in graph.entries),
        {name: port for graph in graphs for name, port in graph.outputs.items()},
        hashlib.sha256("|".join(["loop", *(graph.fingerprint for graph in graphs)]).encode()).hexdigest()[:16],
        terms=terms,
        timed=frozenset().union(*(graph.timed for graph in graphs)),
    )
    sources = tuple(source for stage in job.stages for source in stage.sources)
    return replace(job, stages=(Stage(job.stages[0].level, whole, sources, exchanges),))
