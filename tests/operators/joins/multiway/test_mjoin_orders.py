"""Orders that learn: they come near the best fixed order, follow a drift, survive a restart, and never change the answer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from mjoin_oracle import GRAPHS, dense, edge, joined, make_join, report, schema_of
from mjoin_workload import Star, drifting, fixed

from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Heartbeat
from penstock.model.windows import Sliding, Unbounded
from penstock.operators.filtering.settings import Algorithm, OrderSettings
from penstock.operators.joins.matching.multiway.graph import JoinGraph
from penstock.operators.joins.matching.multiway.orders import OrderBy
from penstock.operators.joins.multiway_join import MJoin
from penstock.testing.greedy_orders import greedy
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, rows_of
from penstock.testing.tapes import drive, reborn, split

ADAPTIVE = [Algorithm.AGREEDY, Algorithm.SWEEP, Algorithm.INDEPENDENT, Algorithm.LOCAL_SWAPS]


def misses_of(facts: Sequence[Batch], leaves: int) -> Any:
    """Which dimensions drop each fact; odd keys have no partner."""
    columns = [[batch.column(f"k{leaf}").to_numpy() % 2 == 1 for leaf in range(leaves)] for batch in facts]
    return np.concatenate([np.stack(batch, axis=1) for batch in columns])


def probes_of(misses: Any, order: Sequence[int]) -> int:
    """Probes that facts make in an order, by counting."""
    alive, total = np.ones(len(misses), np.bool_), 0
    for leaf in order:
        total += int(alive.sum())
        alive &= ~misses[:, leaf]
    return total


def probes_after_convergence(star: Star, orders: Callable[..., Any]) -> tuple[int, Any]:
    """Probes of the second half of the facts, and what these facts miss."""
    facts = star.facts()
    join, half = star.join(orders, share=0.2, chunk_rows=1024), len(facts) // 2
    for port, batch in star.dimensions():
        join.on_batch(port, batch)
    for batch in facts[:half]:
        join.on_batch(0, batch)
    before = join.counters()["probes_0"]
    for batch in facts[half:]:
        join.on_batch(0, batch)
    return join.counters()["probes_0"] - before, misses_of(facts[half:], star.leaves)


@pytest.mark.parametrize("orders", [greedy, OrderBy()], ids=["greedy", "agreedy"])
@pytest.mark.parametrize("correlated", [False, True])
def test_e13_a_star_makes_at_most_a_twentieth_more_probes_than_the_best_fixed_order(orders: Any, correlated: bool) -> None:
    star = Star([[0.5, 0.45, 0.3, 0.7]], keys=500, batches=24, batch_rows=2_048, correlated=correlated)
    probes, misses = probes_after_convergence(star, orders)
    costs = {order: probes_of(misses, order) for order in permutations(range(4))}
    assert probes <= 1.05 * min(costs.values())
    assert probes < 0.8 * max(costs.values())


def test_a_fixed_order_makes_the_probes_that_counting_predicts() -> None:
    star = Star([[0.5, 0.45, 0.3, 0.7]], keys=500, batches=4, batch_rows=1_000)
    probes, misses = probes_after_convergence(star, fixed((2, 0, 3, 1)))
    assert probes == probes_of(misses, (2, 0, 3, 1))


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_every_policy_follows_a_drift_and_makes_fewer_probes_than_the_written_order(algorithm: Algorithm) -> None:
    star = drifting(phases=2, leaves=4, keys=200, batches=12, batch_rows=2_048)
    settings = OrderSettings(algorithm, window_rows=200, min_fill=100, stage_rows=100)
    joins = [star.join(orders, share=0.3, chunk_rows=512) for orders in (OrderBy(settings), fixed(range(4)))]
    for join in joins:
        for port, batch in star.dimensions():
            join.on_batch(port, batch)
        for batch in star.facts():
            join.on_batch(0, batch)
    adaptive, written = (join.counters() for join in joins)
    assert adaptive["results"] == written["results"]
    assert adaptive["reorderings"] >= 2
    assert adaptive["probes_0"] < 0.75 * written["probes_0"]
    # In the second phase dimension 1, which is input 2, drops nearly everything.
    assert report(joins[0], 0)[0][0] == 2


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("name", ["natural", "star", "chain", "square with a diagonal", "square"])
def test_p5_holds_with_every_policy_of_adaptive_filters(algorithm: Algorithm, name: str) -> None:
    graph = GRAPHS[name]
    streams, windows = dense(graph, seed=5)
    items = [(port, row) for port, rows in enumerate(streams) for row in rows]
    arrivals = split(
        [*items, *((port, Heartbeat(FOREVER)) for port in range(graph.ports))], [schema_of(p) for p in range(graph.ports)]
    )
    settings = OrderSettings(algorithm, window_rows=8, min_fill=2, stage_rows=2)
    join = make_join(graph, windows, orders=OrderBy(settings), chunk_rows=3, share=1.0)
    assert bag(rows_of(drive(join, arrivals))) == bag(joined(streams, graph, windows))


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_restored_join_goes_on_learning_where_it_was(algorithm: Algorithm) -> None:
    star = drifting(phases=2, leaves=4, keys=100, batches=6, batch_rows=512)
    settings = OrderSettings(algorithm, window_rows=100, min_fill=20, stage_rows=20)

    def make() -> MJoin:
        return star.join(OrderBy(settings), share=0.3, chunk_rows=128)

    steady, restarted = make(), make()
    for port, batch in [*star.dimensions(), *((0, fact) for fact in star.facts())]:
        steady.on_batch(port, batch)
        restarted.on_batch(port, batch)
        restarted = reborn(make, restarted)  # type: ignore[assignment]  # it is what `make` makes
        assert restarted.counters() == steady.counters()
        assert restarted.snapshot().meta["pipelines"] == steady.snapshot().meta["pipelines"]


def test_a_strong_probe_behind_a_weak_parent_is_found() -> None:
    """0 - 2 - 3 and 0 - 1: input 2 drops nothing, input 3 everything, input 1 one row in ten."""
    graph = JoinGraph(4, (edge(0, 2, "a"), edge(2, 3, "b"), edge(0, 1, "c")))
    join = make_join(graph, [Unbounded()] * 4, orders=OrderBy(OrderSettings(min_fill=20)), share=1.0, chunk_rows=64)
    for port, values in ((1, {"a": 0, "b": 0, "c": 1}), (2, {"a": 1, "b": 1, "c": 0}), (3, {"a": 0, "b": 2, "c": 0})):
        row = Row(0, port, {f"{port}.{name}": value for name, value in values.items()} | {f"{port}.v": 0})
        join.on_batch(port, batch_of([row], schema_of(port)))
    assert report(join, 0)[0] == (1, 2, 3)
    rows = [Row(at, at, {"0.a": 1, "0.b": 0, "0.c": int(at % 10 > 0), "0.v": 0}) for at in range(400)]
    join.on_batch(0, batch_of(rows, schema_of(0)))
    assert report(join, 0)[0] == (2, 3, 1)


def test_the_maker_of_orders_can_be_shipped() -> None:
    settings = OrderSettings("sweep")
    assert pickle.loads(pickle.dumps(OrderBy(settings))) == OrderBy(settings)


def test_nothing_is_sampled_where_there_is_no_choice_and_with_a_share_of_nothing() -> None:
    two = make_join(GRAPHS["pair"], [Sliding(1)] * 2, share=1.0)
    none = make_join(GRAPHS["natural"], [Sliding(1)] * 4, share=0.0)
    for join in (two, none):
        join.on_batch(0, batch_of([Row(1, 1, {"0.a": 1, "0.b": 1, "0.c": 1, "0.v": 0})], schema_of(0)))
        assert (join.counters()["drops"], join.counters()["profiled"]) == (1, 0)
