"""Processes as graphs: tasks, choices and parallel gateways joined by edges, and all the states they can reach.

A token runs along the edges. A task, like a `choice`, takes it from any edge that comes in and passes it to any one that goes
out; a `parallel` gateway needs a token on each edge that comes in and puts one on each that goes out; an `end` takes the last
token. A site map is such a graph with tasks only.

A graph must be sound: from every state the end can be reached, and at the end no token is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

from penstock.errors import InvalidWorkflow

NodeKind: TypeAlias = Literal["task", "silent", "choice", "parallel", "start", "end"]
KINDS: tuple[str, ...] = get_args(NodeKind)

#: Tokens on the edges, by number of the edge, ascending; an edge with two tokens stands twice.
Marking: TypeAlias = tuple[int, ...]

MOST_STATES = 20_000


class DirectedGraph(Protocol):
    """What is needed of a graph; `networkx.DiGraph` has it."""

    @property
    def nodes(self) -> Any:
        """Nodes with their attributes, a mapping."""
        ...

    @property
    def edges(self) -> Any:
        """Pairs of nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """One node; `label` is the type of event a task emits."""

    kind: NodeKind
    label: str


@dataclass(frozen=True, slots=True)
class Net:
    """A process graph.

    Examples
    --------
    >>> import networkx
    >>> site = networkx.DiGraph([("Browse", "Cart"), ("Cart", "Browse"), ("Cart", "Pay")])
    >>> sorted(reachability(net_of_graph(site, starts=["Browse"], ends=["Pay"])).labels)
    ['Browse', 'Cart', 'Pay']
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def net_of_graph(graph: DirectedGraph, starts: Iterable[Hashable] | None = None, ends: Iterable[Hashable] | None = None) -> Net:
    """A net from a graph whose nodes may carry `kind` and `label`.

    Parameters
    ----------
    starts, ends
        Where runs begin and end; by default nodes of kind `start` and `end`, else those without edges in or out.
    """
    keys = list(graph.nodes)
    place = {key: number for number, key in enumerate(keys)}
    nodes = tuple(_node(key, graph.nodes[key]) for key in keys)
    edges = tuple((place[one], place[other]) for one, other in graph.edges)
    begins = _chosen(starts, place) or _of_kind(nodes, "start") or _others(len(nodes), {other for _, other in edges})
    finishes = _chosen(ends, place) or _of_kind(nodes, "end") or _others(len(nodes), {one for one, _ in edges})
    if not begins or not finishes:
        raise InvalidWorkflow("the graph has no start or no end; mark nodes with kind 'start' and 'end', or name them")
    return Net(nodes, edges, begins, finishes)


def net_of_edges(edges: Iterable[tuple[str, str]], kinds: Mapping[str, Mapping[str, str]] | None = None) -> Net:
    """A net from pairs of names; a name is a task unless `kinds` says otherwise."""
    pairs = [(str(one), str(other)) for one, other in edges]
    attributes = {name: dict((kinds or {}).get(name, {})) for pair in pairs for name in pair}
    unknown = sorted(set(kinds or {}) - set(attributes))
    if unknown:
        raise InvalidWorkflow(f"no edge touches {', '.join(unknown)}")
    return net_of_graph(_Edges(attributes, pairs))


@dataclass(frozen=True, slots=True)
class _Edges:
    nodes: dict[str, dict[str, str]]
    edges: list[tuple[str, str]]


def _node(key: Hashable, attributes: Mapping[str, Any]) -> Node:
    kind = attributes.get("kind", "task")
    if kind not in KINDS:
        raise InvalidWorkflow(f"node '{key}' is of kind '{kind}'; there are {', '.join(KINDS)}")
    return Node(kind, str(attributes.get("label", key)))


def _of_kind(nodes: tuple[Node, ...], kind: NodeKind) -> tuple[int, ...]:
    return tuple(number for number, node in enumerate(nodes) if node.kind == kind)


def _others(count: int, numbers: set[int]) -> tuple[int, ...]:
    return tuple(number for number in range(count) if number not in numbers)


def _chosen(keys: Iterable[Hashable] | None, place: Mapping[Hashable, int]) -> tuple[int, ...]:
    chosen = tuple(keys or ())
    strange = [str(key) for key in chosen if key not in place]
    if strange:
        raise InvalidWorkflow(f"the graph has no node {', '.join(strange)}")
    return tuple(place[key] for key in chosen)


@dataclass(frozen=True, slots=True)
class StateGraph:
    """All states of a net; state 0 is the start, and every state can reach `final`.

    Attributes
    ----------
    steps
        Edges `(state, label, state)`; the label is "" where no event is emitted.
    """

    count: int
    final: int
    steps: tuple[tuple[int, str, int], ...]

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(label for _, label, _ in self.steps if label)


def reachability(net: Net, most_states: int = MOST_STATES) -> StateGraph:
    """Play the net from its start in all ways.

    Raises
    ------
    InvalidWorkflow
        The net deadlocks, cannot end from some state, leaves tokens behind, or has more states than allowed, which an
        unbounded net has. The message shows the events that lead there.
    """
    player = _Player(net, most_states)
    player.play()
    return player.finished()


#: The start has no token on any edge yet, the end has none any more.
_START: Marking = (-1,)
_FINAL: Marking = ()


class _Player:
    def __init__(self, net: Net, most_states: int) -> None:
        self.net, self.most_states = net, most_states
        self.into: list[list[int]] = [[] for _ in net.nodes]
        self.out_of: list[list[int]] = [[] for _ in net.nodes]
        for number, (one, other) in enumerate(net.edges):
            self.out_of[one].append(number)
            self.into[other].append(number)
        self.states: dict[Marking, int] = {_START: 0}
        self.came: list[tuple[int, str]] = [(-1, "")]
        self.steps: list[tuple[int, str, int]] = []

    def play(self) -> None:
        waiting = [_START]
        for marking in waiting:  # grows while it is walked
            state, moved = self.states[marking], False
            for label, after in self._moves(marking):
                moved = True
                if after not in self.states:
                    if len(self.states) >= self.most_states:
                        raise InvalidWorkflow(f"the graph has more than {self.most_states} states; it is unbounded or too large")
                    self.states[after] = len(self.states)
                    self.came.append((state, label))
                    waiting.append(after)
                self.steps.append((state, label, self.states[after]))
            if not moved and marking != _FINAL:
                raise InvalidWorkflow(
                    f"the process is stuck after {self._witness(state)}: nothing can happen, and it has not ended"
                )

    def finished(self) -> StateGraph:
        if _FINAL not in self.states:
            raise InvalidWorkflow("the process never ends: no run reaches an end")
        final = self.states[_FINAL]
        alive = _reaching(self.steps, final)
        for state in range(len(self.states)):
            if state not in alive:
                raise InvalidWorkflow(f"the process cannot end any more after {self._witness(state)}")
        return StateGraph(len(self.states), final, tuple(dict.fromkeys(self.steps)))

    def _moves(self, marking: Marking) -> Iterator[tuple[str, Marking]]:
        if marking == _START:
            for node in self.net.starts:
                yield from self._fire(node, ())
            return
        for node, here in enumerate(self.net.nodes):
            if here.kind == "parallel":
                if all(edge in marking for edge in self.into[node]):
                    yield from self._fire(node, _without(marking, self.into[node]))
            else:
                for edge in self.into[node]:
                    if edge in marking:
                        yield from self._fire(node, _without(marking, [edge]))

    def _fire(self, node: int, rest: Marking) -> Iterator[tuple[str, Marking]]:
        here = self.net.nodes[node]
        label = here.label if here.kind == "task" else ""
        if here.kind == "parallel" and node not in self.net.ends:
            yield label, tuple(sorted((*rest, *self.out_of[node])))
            return
        for edge in self.out_of[node]:
            yield label, tuple(sorted((*rest, edge)))
        if node in self.net.ends:
            if rest:
                left = ", ".join(f"before '{self.net.nodes[self.net.edges[edge][1]].label}'" for edge in rest)
                raise InvalidWorkflow(f"the process ends at '{here.label}' while something is still under way {left}")
            yield label, _FINAL

    def _witness(self, state: int) -> str:
        labels = []
        while state >= 0:
            state, label = self.came[state]
            labels.append(label)
        return ", ".join(label for label in reversed(labels) if label) or "its start"


def _without(marking: Marking, edges: list[int]) -> Marking:
    rest = list(marking)
    for edge in edges:
        rest.remove(edge)
    return tuple(rest)


def _reaching(steps: Iterable[tuple[int, str, int]], goal: int) -> set[int]:
    """States from which the goal can be reached."""
    into: dict[int, list[int]] = {}
    for one, _, other in steps:
        into.setdefault(other, []).append(one)
    found, waiting = {goal}, [goal]
    for state in waiting:
        for earlier in into.get(state, ()):
            if earlier not in found:
                found.add(earlier)
                waiting.append(earlier)
    return found
