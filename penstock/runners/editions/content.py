"""What a query means for its state: operators by their content, whatever they are called and wherever they stand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from penstock.kernel.graph import GraphNode
from penstock.lowering.filters import FilterRecipe
from penstock.lowering.jobs import Generation, Job, Stage
from penstock.lowering.stages import build_generations
from penstock.model.declarations import StreamDeclaration
from penstock.operators.base import Stateless
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.relational import Scan

#: Operators whose state decides no answer.
_WITHOUT_STATE = (Stateless, AdaptiveFilter)


def meaning(catalog: Catalog, query: str) -> str:
    """A name for all that a query does, with the queries it reads, but for where its answers go and where its rows come from.

    Other queries do not count, nor does the number of shards.
    """
    own = _with_read(catalog, query.lower())
    alone = replace(catalog, queries={name: each for name, each in catalog.queries.items() if name in own})
    job = build_generations([Generation(0, alone, frozenset({query.lower()}), frozenset({query.lower()}))], 2)
    parts = [repr(catalog.queries[query.lower()].life), repr(job.outputs)]
    for stage in job.stages:
        parts += [stage.graph.fingerprint, repr(stage.graph.entries), *(repr(source.route.keys) for source in stage.sources)]
    return _hash(*parts)


def _with_read(catalog: Catalog, query: str) -> set[str]:
    found, waiting = set[str](), [query]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [each.lower() for each in catalog.queries[name].depends_on]
    return found


def streams_of(catalog: Catalog, query: str) -> list[StreamDeclaration]:
    """Streams whose rows reach a query, also through others."""
    plans = [catalog.queries[name].plan for name in sorted(_with_read(catalog, query.lower()))]
    found = {node.stream.name: node.stream for plan in plans for node in walk(plan) if isinstance(node, Scan)}
    return list(found.values())


@dataclass(frozen=True)
class Contents:
    """Operators with state of a query and the entries of its streams, each by its content."""

    states: dict[str, str]
    entries: dict[str, str]


def contents(job: Job, query: str) -> Contents:
    """The operators that a query uses in a job of one stage; `states` and `entries` have names by content."""
    (stage,) = job.stages
    found = _Contents(stage)
    used = [node for node in stage.graph.nodes if query in node.queries]
    states = {found.of(node.id): node.id for node in used if not isinstance(node.make(), _WITHOUT_STATE)}
    known = {entry.name for entry in stage.graph.entries}
    entries = {found.of(source): source for node in used for source, _ in node.sources if source in known}
    return Contents(states, entries)


class _Contents:
    """Hashes of the operators of a stage, and of everything below them."""

    def __init__(self, stage: Stage) -> None:
        self._nodes = {node.id: node for node in stage.graph.nodes}
        self._sources = {source.route.entry: source for source in stage.sources}
        self._senders = {
            exchange.entry: (stage.graph.outputs[output], exchange.keys) for output, exchange in stage.exchanges.items()
        }
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        if name not in self._known:
            self._known[name] = self._node(self._nodes[name]) if name in self._nodes else self._entry(name)
        return self._known[name]

    def _node(self, node: GraphNode) -> str:
        # An adaptive filter is called what its operator is called.
        recipe = node.make.named("") if isinstance(node.make, FilterRecipe) else node.make
        return _hash(repr(recipe), *(f"{self.of(source)}{output}" for source, output in node.sources))

    def _entry(self, name: str) -> str:
        if name in self._senders:
            (sender, output), keys = self._senders[name]
            return _hash(self.of(sender), output, repr(keys))
        route, prefix = self._sources[name].route, self._sources[name].prefix
        filters = [item.content for item in prefix.filters]
        return _hash(prefix.stream.name, repr(prefix.items), repr(prefix.conditions), repr(filters), repr(route.keys))


def _hash(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
