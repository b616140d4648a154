"""Sets of queries on which scheduling strategies are compared, drawn with a seed."""

from __future__ import annotations

from itertools import count, islice

import numpy as np

from penstock.workloads.query_graphs import OperatorSketch, PortSketch, QueryGraph, QuerySketch

_MS = 1_000_000.0

#: Rows per second that the published set of queries can take, and the least size of a row in bytes.
CAPACITY, _LEAST_BYTES = 485.0, 16.0

#: What an operator of a random graph may be.
KINDS = ("select", "project", "join", "aggregate")


def simple_paths(seed: int, paths: int = 8) -> QueryGraph:
    """Queries that share nothing: a fast selective operator, then 2 to 5 slow ones; every stream brings the same load.

    Rows shrink to 70 % behind a third of the operators.

    Examples
    --------
    >>> graph = simple_paths(1)
    >>> len(graph.queries), {round(share * graph.work_ns[name] / 1e5) for name, share in graph.shares.items()} == {
    ...     round(next(iter(graph.shares.values())) * next(iter(graph.work_ns.values())) / 1e5)}
    (8, True)
    """
    draw = np.random.default_rng(seed)
    operators, queries = list[OperatorSketch](), list[QuerySketch]()
    for number in range(1, paths + 1):
        source, size = f"s{number}", 1000.0
        for place in range(int(draw.integers(3, 7))):
            cost, passing = ((5.0, 20.0), (0.2, 0.6)) if place == 0 else ((20.0, 120.0), (0.3, 1.0))
            port = PortSketch(source, draw.uniform(*cost) * _MS, draw.uniform(*passing), round(size))
            operators.append(OperatorSketch(f"q{number}.{place + 1}", "select", (port,)))
            source = operators[-1].id
            size *= 0.7 if draw.random() < 1 / 3 else 1.0
        queries.append(QuerySketch(f"q{number}", source))
    streams = [f"s{number}" for number in range(1, paths + 1)]
    even = QueryGraph(tuple(operators), tuple(queries), dict.fromkeys(streams, 1.0 / paths), {})
    needed = np.array([1.0 / even.work_ns[stream] for stream in streams])
    shares = dict(zip(streams, (needed / needed.sum()).tolist(), strict=True))
    return QueryGraph(even.operators, even.queries, shares, {})


def published_queries(seed: int = 16) -> QueryGraph:
    """Sixteen queries with 116 operators over five streams: selections, projections and symmetric hash joins.

    The publication gives these numbers, the rows per second that they can take, and that selectivities are spread over 0 to 1;
    everything else is drawn. Twelve queries join two streams, with selections and projections on both sides; four have a single
    path, and two of those share their first two operators with the query before.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 6.5.

    Examples
    --------
    >>> graph = published_queries()
    >>> len(graph.queries), len(graph.operators), len(graph.shares)
    (16, 116, 5)
    """
    return _Published(seed).graph()


class _Published:
    """Draws the queries one after the other."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        # Spread evenly, and dealt at random: no seed leaves a part of 0 to 1 out.
        self.selectivities = iter(self.draw.permutation((np.arange(200) + 0.5) / 200).tolist())
        self.operators: list[OperatorSketch] = []
        self.sizes: dict[str, float] = {}

    def graph(self) -> QueryGraph:
        streams = {f"s{number}": float(rate) for number, rate in enumerate((1.0, 0.8, 1.2, 0.6, 1.4), start=1)}
        self.sizes = dict.fromkeys(streams, 44.0)  # seven attributes and four stamps
        queries = [self.query(number, 8 if number % 4 == 0 else 7, list(streams)) for number in range(1, 17)]
        shares = {name: rate / sum(streams.values()) for name, rate in streams.items()}
        drawn = QueryGraph(tuple(self.operators), tuple(queries), shares, {})
        return drawn.costing(1.0, {name: CAPACITY * share for name, share in shares.items()})

    def query(self, number: int, operators: int, streams: list[str]) -> QuerySketch:
        name = f"q{number}"
        ids = (f"{name}.{place}" for place in count(1))
        chosen = self.draw.permutation(streams)[:2].tolist()
        if number % 4 == 0:
            shared = f"q{number - 1}.2" if number % 8 == 0 else chosen[0]
            return QuerySketch(name, self.chain(shared, list(islice(ids, operators))))
        sides = [self.chain(stream, list(islice(ids, 2))) for stream in chosen]
        joined = self.join(next(ids), sides)
        return QuerySketch(name, self.chain(joined, list(islice(ids, operators - 5))))

    def chain(self, source: str, ids: list[str]) -> str:
        """Selections and projections, one behind the other; the name of the last one."""
        for id in ids:
            kind = "project" if self.draw.random() < 1 / 3 else "select"
            passing = 1.0 if kind == "project" else self.passing()
            cost = self.draw.uniform(0.1, 0.5) * _MS
            self.operators.append(OperatorSketch(id, kind, (PortSketch(source, cost, passing, round(self.sizes[source])),)))
            self.sizes[id] = max(self.sizes[source] * 0.7, _LEAST_BYTES) if kind == "project" else self.sizes[source]
            source = id
        return source

    def join(self, id: str, sides: list[str]) -> str:
        ports = [PortSketch(side, self.draw.uniform(0.5, 2.0) * _MS, self.passing(), round(self.sizes[side])) for side in sides]
        self.operators.append(OperatorSketch(id, "join", tuple(ports)))
        self.sizes[id] = sum(self.sizes[side] for side in sides)
        return id

    def passing(self) -> float:
        return float(next(self.selectivities))


def random_graph(
    seed: int, queries: int = 24, operators: int = 40, inputs: int = 4, weights: tuple[int, int] = (1, 10)
) -> QueryGraph:
    """Trees of operators grown from their leaves, one leaf for every query, until the number of operators is reached.

    Fan-outs are drawn from a normal distribution around the mean that makes about two trees for every input. Weights are whole
    numbers, and validity 4 to 8 seconds, both uniform. Joins are with tables, so that every operator has one input.

    References
    ----------
    [wu2010] Wu Ji. Exploring Time Related Issues in Data Stream Processing. National University of Singapore, 2010. Section 4.8.

    Examples
    --------
    >>> graph = random_graph(1)
    >>> len(graph.queries), len(graph.operators), len(graph.shares)
    (24, 40, 4)
    """
    draw = np.random.default_rng(seed)
    parents, roots = _grown(draw, queries, operators, inputs)
    streams = [f"s{number}" for number in range(1, inputs + 1)]
    # Every input gets a tree; the rest goes anywhere.
    fed = dict(zip(draw.permutation(roots).tolist(), [*streams, *draw.choice(streams, len(roots)).tolist()], strict=False))
    found = []
    for number in reversed(range(operators)):  # parents have greater numbers than what they feed
        source = fed[number] if number in fed else f"o{parents[number]}"
        port = PortSketch(source, draw.uniform(1.0, 10.0) * _MS, 1.0, 100)
        found.append(OperatorSketch(f"o{number}", str(draw.choice(KINDS)), (port,)))
    asked = [QuerySketch(f"q{leaf}", f"o{leaf}", int(draw.integers(weights[0], weights[1] + 1))) for leaf in range(queries)]
    validity = {stream: float(draw.uniform(4.0, 8.0)) for stream in streams}
    return QueryGraph(tuple(found), tuple(asked), dict.fromkeys(streams, 1.0 / inputs), validity)


def _grown(draw: np.random.Generator, queries: int, operators: int, inputs: int) -> tuple[dict[int, int], list[int]]:
    """The parent of each operator but the roots, and the roots. Leaves have the first numbers."""
    inner = operators - queries
    mean = max((operators - 2 * inputs) / inner, 1.0) if inner else 1.0
    parents, free = dict[int, int](), list(draw.permutation(queries).tolist())
    for number in range(queries, operators):
        fan_out = max(round(float(draw.normal(mean, mean / 3))), 1)
        children = free[: min(fan_out, max(len(free) - inputs + 1, 1))]  # as many trees as inputs are left
        parents |= dict.fromkeys(children, number)
        free = [*free[len(children) :], number]
    return parents, free
