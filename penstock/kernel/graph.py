"""The operator graph of one shard, as a recipe that can be shipped: who makes which operator, who feeds whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.kernel.contracts import Operator
from penstock.kernel.ingress import EntrySpec

#: An edge's start: (node, output); an empty output means the node's only one.
Port = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operator: `make` builds it empty; `sources[i]` feeds its port i and is an entry or another node's output."""

    id: str
    make: Callable[[], Operator]
    sources: tuple[Port, ...]
    queries: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order, entries that guard the inputs, and which node output is which query's answer."""

    nodes: tuple[GraphNode, ...]
    entries: tuple[EntrySpec, ...]
    outputs: Mapping[str, Port] = field(default_factory=dict)
    #: Changes when stored state can no longer be read by this graph.
    fingerprint: str = ""
    #: Operators and entries that go on with what others have kept until now, by their names.
    heirs: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def consumers(self) -> Mapping[Port, tuple[tuple[str, int], ...]]:
        """(node, port) pairs fed by each entry or output."""
        found: dict[Port, list[tuple[str, int]]] = {}
        for node in self.nodes:
            for port, source in enumerate(node.sources):
                found.setdefault(source, []).append((node.id, port))
        return {source: tuple(targets) for source, targets in found.items()}

    @cached_property
    def downstream(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {node.id: [] for node in self.nodes}
        for (source, _), targets in self.consumers.items():
            if source in found:
                found[source] += [target for target, _ in targets]
        return {node: tuple(dict.fromkeys(targets)) for node, targets in found.items()}

    @cached_property
    def meeting(self) -> Mapping[str, frozenset[str]]:
        """For each entry the other ones whose rows meet its rows in some operator, as far as they do not come from here again."""
        returning = {f"->{entry.name}": entry.name for entry in self.entries}
        back = {returning[output]: port[0] for output, port in self.outputs.items() if output in returning}
        groups = {name: {name} for name in (*(entry.name for entry in self.entries), *(node.id for node in self.nodes))}
        touching = [*((node.id, source) for node in self.nodes for source, _ in node.sources), *back.items()]
        for one, other in touching:
            joined = groups[one] | groups[other]
            groups |= dict.fromkeys(joined, joined)
        own = frozenset(entry.name for entry in self.entries) - back.keys()
        return {entry.name: (own & groups[entry.name]) - {entry.name} for entry in self.entries}

    @cached_property
    def leaves(self) -> frozenset[str]:
        entries = {entry.name for entry in self.entries}
        return frozenset(node.id for node in self.nodes if any(source in entries for source, _ in node.sources))
