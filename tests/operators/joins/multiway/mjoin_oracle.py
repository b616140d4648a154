"""A slow, obvious multiway join, and orders that change without reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.windows import Sliding, Window
from penstock.operators.filtering.policies.fixed import Fixed
from penstock.operators.joins.forgetting.extents import length_of
from penstock.operators.joins.matching.multiway.graph import Edge, JoinGraph, PipelinePlan
from penstock.operators.joins.matching.multiway.orders import LearnedOrder
from penstock.operators.joins.multiway_join import MJoin
from penstock.testing.reference import Row, comparable


class Shuffled:
    """Another order before every chunk, legal or not: a walk through all permutations that depends on the start."""

    def __init__(self, plan: PipelinePlan, start: int) -> None:
        self.probes, self.step = len(plan.probes), start

    def order(self) -> Sequence[int]:
        self.step += 1
        found, number = list(range(self.probes)), self.step * 7 + 3
        for end in range(self.probes - 1, 0, -1):
            number, other = divmod(number, end + 1)
            found[end], found[other] = found[other], found[end]
        return found

    def wanted(self, position: int) -> int:
        return (1 << self.probes) - 1

    def observe(self, bits: Any, known: Any) -> None:
        assert (bits != 0).all()
        assert ((bits & ~known) == 0).all()

    def snapshot(self) -> Mapping[str, Any]:
        return {"step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.step = state["step"]


def fixed_order(plan: PipelinePlan, order: Sequence[int]) -> LearnedOrder:
    """Always the same order."""
    return LearnedOrder(Fixed(len(plan.probes), order=tuple(order)), plan.ancestors)


def report(join: MJoin, root: int) -> tuple[tuple[int, ...], Mapping[str, Any]]:
    """Inputs in the order in which the rows of one input probe them now, and all that its pipeline did."""
    ports, state = [vertex.port for vertex in join._pipelines[root].plan.probes], join.snapshot().meta["pipelines"][root]
    return tuple(ports[number] for number in state["order"]), state


def schema_of(port: int, kind: pa.DataType | None = None) -> pa.Schema:
    """Three columns that may be joined on, and one that is carried along."""
    return pa.schema({f"{port}.{name}": kind or pa.int64() for name in "abc"} | {f"{port}.v": pa.int64()})


def make_join(graph: JoinGraph, windows: Sequence[Window], kind: pa.DataType | None = None, **more: Any) -> MJoin:
    schemas = [schema_of(port, kind) for port in range(graph.ports)]
    return MJoin(schemas, graph, windows, pa.schema([item for schema in schemas for item in schema]), **more)


def edge(one: int, other: int, left: str, right: str = "") -> Edge:
    """Columns are single letters."""
    return Edge(one, tuple(f"{one}.{name}" for name in left), other, tuple(f"{other}.{name}" for name in right or left))


GRAPHS = {
    "pair": JoinGraph(2, (edge(0, 1, "a"),)),
    "natural": JoinGraph.natural([["0.a"], ["1.a"], ["2.a"], ["3.a"]]),
    "natural, two columns": JoinGraph.natural([["0.a", "0.b"], ["1.b", "1.a"], ["2.a", "2.c"]]),
    "star": JoinGraph(4, (edge(0, 1, "a"), edge(0, 2, "b"), edge(0, 3, "c"))),
    "chain": JoinGraph(4, (edge(0, 1, "a"), edge(1, 2, "b"), edge(2, 3, "c", "a"))),
    "tree": JoinGraph(4, (edge(0, 2, "a"), edge(2, 1, "b"), edge(2, 3, "c"))),
    "tree with a branch": JoinGraph(5, (edge(0, 1, "a"), edge(1, 2, "b", "a"), edge(1, 3, "c", "a"), edge(2, 4, "b"))),
    "square": JoinGraph(4, (edge(0, 1, "a"), edge(1, 2, "b"), edge(2, 3, "c"), edge(3, 0, "b"))),
    "triangle": JoinGraph(3, (edge(0, 1, "a"), edge(1, 2, "b"), edge(0, 2, "c"))),
    "square with a diagonal": JoinGraph(
        4, (edge(0, 1, "a"), edge(1, 2, "b"), edge(2, 3, "c"), edge(3, 0, "b"), edge(0, 2, "c", "a"))
    ),
    "two columns equal one": JoinGraph(3, (edge(0, 1, "a"), edge(0, 1, "b", "a"), edge(1, 2, "b"))),
}


def dense(graph: JoinGraph, seed: int) -> tuple[list[list[Row]], list[Window]]:
    """Streams with many equal times, and windows of different lengths, so that rows often leave together."""
    coins = np.random.default_rng(seed)
    per_stream = {4: 9, 5: 8}.get(graph.ports, 14)
    streams = []
    for port in range(graph.ports):
        keys = [[None, 1, 1, 1, 1, 2][number] for number in coins.integers(0, 6, 3 * per_stream)]
        times = np.sort(coins.integers(0, 8, per_stream)).tolist()
        columns = zip(keys[::3], keys[1::3], keys[2::3], strict=True)
        values = [{f"{port}.{name}": value for name, value in zip("abc", row, strict=True)} for row in columns]
        streams.append([Row(ts, at, {**row, f"{port}.v": at}) for at, (ts, row) in enumerate(zip(times, values, strict=True))])
    return streams, [Sliding(int(length)) for length in coins.integers(1, 6, graph.ports)]


def fits(rows: Sequence[Row], graph: JoinGraph) -> bool:
    """Whether all predicates, exactly as they are written, hold for one row of each input."""
    for predicate in graph.edges:
        for (one, left), (other, right) in predicate.pairs():
            values = comparable(rows[one].values[left]), comparable(rows[other].values[right])
            if None in values or values[0] != values[1]:
                return False
    return True


def values_of(rows: Iterable[Row]) -> tuple[Any, ...]:
    return tuple(comparable(value) for row in rows for value in row.values.values())


def joined(streams: Sequence[Sequence[Row]], graph: JoinGraph, windows: Sequence[Window]) -> list[tuple[tuple[Any, ...], int]]:
    """Every combination of rows that the windows allow, with its newest time."""
    lengths = [length_of(window) for window in windows]
    found = []
    for rows in product(*streams):
        newest = max(row.ts for row in rows)
        if all(newest - row.ts <= length for row, length in zip(rows, lengths, strict=True)) and fits(rows, graph):
            found.append((values_of(rows), newest))
    return found
