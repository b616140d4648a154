"""The operator graph of one shard, as a recipe that can be shipped: who makes which operator, who feeds whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.kernel.contracts import Operator
from penstock.kernel.ingress import EntrySpec
from penstock.kernel.work import UNKNOWN_PRICE, PlannedOperator, Price, Terms, WorkPlan

#: An edge's start: (node, output); an empty output means the node's only one.
Port = tuple[str, str]
#: Begins the name of an output that another entry reads, here or in a later stage.
LOOP = "->"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operator: `make` builds it empty; `sources[i]` feeds its port i and is an entry or another node's output.

    `price` is what it is thought to cost until somebody has measured it.
    """

    id: str
    make: Callable[[], Operator]
    sources: tuple[Port, ...]
    queries: frozenset[str] = frozenset()
    price: Price = UNKNOWN_PRICE

    @property
    def prices(self) -> tuple[Price, ...]:
        """By port."""
        return (self.price,) * len(self.sources)


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
    #: What queries ask for, by output.
    terms: Mapping[str, Terms] = field(default_factory=dict)
    #: Outputs whose answers show whether they are in time.
    timed: frozenset[str] = frozenset()

    @cached_property
    def consumers(self) -> Mapping[Port, tuple[tuple[str, int], ...]]:
        """(node, port) pairs fed by each entry or output."""
        found: dict[Port, list[tuple[str, int]]] = {}
        for node in self.nodes:
            for port, source in enumerate(node.sources):
                found.setdefault(source, []).append((node.id, port))
        return {source: tuple(targets) for source, targets in found.items()}

    @cached_property
    def meeting(self) -> Mapping[str, frozenset[str]]:
        """For each entry the other ones whose rows meet its rows in some operator, as far as they do not come from here again."""
        back = {entry: self.outputs[output][0] for output, entry in self._loops.items()}
        groups = {name: {name} for name in (*(entry.name for entry in self.entries), *(node.id for node in self.nodes))}
        touching = [*((node.id, source) for node in self.nodes for source, _ in node.sources), *back.items()]
        for one, other in touching:
            joined = groups[one] | groups[other]
            groups |= dict.fromkeys(joined, joined)
        own = frozenset(entry.name for entry in self.entries) - back.keys()
        return {entry.name: (own & groups[entry.name]) - {entry.name} for entry in self.entries}

    @cached_property
    def _loops(self) -> Mapping[str, str]:
        """Outputs that come back to this graph, and the entries at which they do."""
        entries = {entry.name for entry in self.entries}
        return {output: output.removeprefix(LOOP) for output in self.outputs if output.removeprefix(LOOP) in entries}

    @property
    def answers(self) -> tuple[str, ...]:
        """Outputs that are a query's answers."""
        return tuple(output for output in self.outputs if not output.startswith(LOOP))

    @cached_property
    def answering(self) -> Mapping[str, tuple[str, ...]]:
        """For each node the queries whose answers leave there."""
        return {node.id: tuple(name for name in self.answers if self.outputs[name][0] == node.id) for node in self.nodes}

    @cached_property
    def places_behind(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """For each node the places its rows go to, round the loop too."""
        found: dict[str, list[tuple[str, int]]] = {node.id: [] for node in self.nodes}
        for (source, _), targets in self.consumers.items():
            if source in found:
                found[source] += targets
        for output, entry in self._loops.items():
            found[self.outputs[output][0]] += self.consumers.get((entry, ""), ())
        return {node: tuple(dict.fromkeys(places)) for node, places in found.items()}

    @cached_property
    def entrances(self) -> Mapping[str, tuple[int, ...]]:
        """For each node the ports that get rows from outside."""
        outside = {entry.name for entry in self.entries} - set(self._loops.values())
        return {node.id: tuple(port for port, (source, _) in enumerate(node.sources) if source in outside) for node in self.nodes}

    def work_plan(self, prices: Mapping[str, tuple[Price, ...]]) -> WorkPlan:
        """What strategies know of the operators that have prices; others run no more."""
        operators = (
            PlannedOperator(node.id, prices[node.id], self.places_behind[node.id], self.entrances[node.id], self.answering[node.id])
            for node in self.nodes
            if node.id in prices
        )
        return WorkPlan(tuple(operators), self.terms)
