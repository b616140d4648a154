"""Streams for a star in which it changes which input seldom has a partner; and how fast joins are on them.

`python tests/operators/joins/multiway/mjoin_workload.py` prints the ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
from mjoin_oracle import fixed_order

from penstock.model.batch import Batch
from penstock.model.elements import Heartbeat
from penstock.model.windows import Sliding
from penstock.operators.joins.matching.multiway.graph import Edge, JoinGraph, PipelinePlan
from penstock.operators.joins.multiway_join import A_GREEDY, MJoin
from penstock.operators.joins.window_join import WindowJoin
from penstock.testing.greedy_orders import greedy


@dataclass(frozen=True, slots=True)
class Star:
    """A stream of facts and windows of dimensions, each on a key of its own.

    Parameters
    ----------
    misses
        For each phase and each dimension the share of facts that have no partner in it.
    correlated
        Dimension 1 misses what dimension 0 misses, as far as its share goes.
    """

    misses: Sequence[Sequence[float]]
    keys: int = 20_000
    batches: int = 10
    batch_rows: int = 8_192
    correlated: bool = False
    seed: int = 1

    @property
    def leaves(self) -> int:
        return len(self.misses[0])

    def schemas(self) -> list[pa.Schema]:
        root = pa.schema({f"k{leaf}": pa.int64() for leaf in range(self.leaves)} | {"v": pa.int64()})
        return [root, *(pa.schema({f"l{leaf}.k": pa.int64(), f"l{leaf}.v": pa.int64()}) for leaf in range(self.leaves))]

    def graph(self) -> JoinGraph:
        return JoinGraph(self.leaves + 1, tuple(Edge(0, (f"k{leaf}",), leaf + 1, (f"l{leaf}.k",)) for leaf in range(self.leaves)))

    def dimensions(self) -> list[tuple[int, Batch]]:
        """Each dimension holds all its even keys from the start."""
        keys, ts = np.arange(self.keys) * 2, np.zeros(self.keys, np.int64)
        return [
            (leaf + 1, Batch(pa.RecordBatch.from_arrays([pa.array(keys)] * 2, schema=schema), ts, np.arange(self.keys)))
            for leaf, schema in enumerate(self.schemas()[1:])
        ]

    def facts(self) -> list[Batch]:
        """Batches of all phases; an odd key has no partner."""
        coins, found = np.random.default_rng(self.seed), []
        for number in range(len(self.misses) * self.batches):
            shares = self.misses[number // self.batches]
            draws = [coins.random(self.batch_rows) for _ in range(self.leaves)]
            if self.correlated:
                draws[1] = draws[0]
            columns = [
                coins.integers(0, self.keys, self.batch_rows) * 2 + (draw < share)
                for draw, share in zip(draws, shares, strict=True)
            ]
            start = number * self.batch_rows
            values = np.arange(start, start + self.batch_rows)
            rows = pa.RecordBatch.from_arrays([pa.array(column) for column in (*columns, values)], schema=self.schemas()[0])
            found.append(Batch(rows, values + 1, values))
        return found

    def join(self, orders: Callable[[PipelinePlan], Any], **more: Any) -> MJoin:
        schemas = self.schemas()
        windows = [Sliding(0), *([Sliding(1 << 40)] * self.leaves)]
        output = pa.schema([item for schema in schemas for item in schema])
        return MJoin(schemas, self.graph(), windows, output, orders, **more)


def fixed(order: Sequence[int]) -> Callable[[PipelinePlan], Any]:
    """An order for facts; the pipelines of dimensions keep theirs."""
    return lambda plan: fixed_order(plan, order if len(plan.probes) == len(order) else range(len(plan.probes)))


def play(join: Any, star: Star, facts: Sequence[Batch]) -> float:
    """Seconds of work for all facts but the first batch, which makes the join build what it needs."""
    for port, batch in star.dimensions():
        join.on_batch(port, batch)
    start = 0.0
    for number, batch in enumerate(facts):
        start = process_time() if number == 1 else start
        join.on_batch(0, batch)
        for port in range(star.leaves + 1):
            join.on_metadata(port, Heartbeat(int(batch.ts[-1]) + 1))
    return process_time() - start


def drifting(phases: int = 3, leaves: int = 6, **more: Any) -> Star:
    """In each phase another dimension misses nearly everything, and the others hardly anything."""
    misses = [[0.95 if leaf == (leaves - 1 - phase * 2) % leaves else 0.02 for leaf in range(leaves)] for phase in range(phases)]
    return Star(misses, **more)


def natural(star: Star, kind: str) -> tuple[Any, list[pa.Schema]]:
    """All inputs on one key, to compare with the join that knows nothing else."""
    schemas = [pa.schema({f"{port}.k": pa.int64(), f"{port}.v": pa.int64()}) for port in range(star.leaves + 1)]
    keys, output = [[f"{port}.k"] for port in range(star.leaves + 1)], pa.schema([item for schema in schemas for item in schema])
    windows = [Sliding(1 << 20)] * (star.leaves + 1)
    if kind == "window":
        return WindowJoin(schemas, keys, windows, output), schemas
    return MJoin(schemas, JoinGraph.natural(keys), windows, output), schemas


def play_natural(join: Any, schemas: Sequence[pa.Schema], rounds: int = 14, rows: int = 4_096) -> tuple[float, int]:
    """Seconds of work for streams of equal rate, of which the last has few common keys; and the number of results."""
    coins, results, start = np.random.default_rng(3), 0, process_time()
    for number in range(rounds):
        for port, schema in enumerate(schemas):
            spread = 4_000_000 if port == len(schemas) - 1 else 100_000
            keys, ts = coins.integers(0, spread, rows), np.arange(number * rows, (number + 1) * rows)
            batch = Batch(pa.RecordBatch.from_arrays([pa.array(keys), pa.array(ts)], schema=schema), ts, ts)
            results += sum(out.num_rows for out in join.on_batch(port, batch) if isinstance(out, Batch))
        for port in range(len(schemas)):
            join.on_metadata(port, Heartbeat((number + 1) * rows))
    return process_time() - start, results


def main() -> None:
    star = drifting(leaves=8, keys=500_000, batches=4, batch_rows=65_536)
    facts, leaves = star.facts(), range(star.leaves)
    play(star.join(greedy), star, facts[:2])
    makers = {"written": fixed(leaves), "bad": fixed([0, 2, 4, 6, 1, 3, 5, 7]), "greedy": greedy, "agreedy": A_GREEDY}
    work = {}
    for name in makers:
        join = star.join(makers[name])
        work[name], counters = play(join, star, facts), join.counters()
        print(f"{name:8} {work[name]:.3f} s, {counters['probes_0']} probes and {counters['extra_probes']} extra")
    print(f"A-Greedy: {work['written'] / work['agreedy']:.2f} x written order, {work['bad'] / work['agreedy']:.2f} x a bad one")
    for kind in ("mjoin", "pwjoin", "window"):
        play_natural(*natural(star, kind), rounds=1)
        work[kind], results = play_natural(*natural(star, kind))
        print(f"{kind:8} {work[kind]:.3f} s, {results} results, {work[kind] / work['mjoin']:.2f} x the work of MJoin")


if __name__ == "__main__":
    main()
