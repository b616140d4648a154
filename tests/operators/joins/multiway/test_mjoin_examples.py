"""Worked examples of the multiway join: J1 to J3 and every edge case of the specification's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from mjoin_oracle import edge, fixed_order, make_join, report, schema_of

from penstock.errors import InvalidConfiguration, InvalidPlan
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, End, Heartbeat, Herald, Quarantined, Request
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import constant
from penstock.model.windows import Lifespan, Sliding, Unbounded
from penstock.operators.joins.matching.multiway.graph import Edge, JoinGraph, PipelinePlan
from penstock.operators.joins.matching.multiway.orders import LearnedOrder
from penstock.operators.joins.multiway_join import MOST_PROBES, MJoin
from penstock.testing.greedy_orders import GreedyOnWindow
from penstock.testing.streams import rows_of


def fixed(orders: Mapping[int, Sequence[int]]) -> Any:
    """Orders given as inputs; pipelines that are not named keep the order of inputs."""

    def policy(plan: PipelinePlan) -> LearnedOrder:
        ports = [vertex.port for vertex in plan.probes]
        return fixed_order(plan, [ports.index(port) for port in orders.get(plan.root, ports)])

    return policy


def batch(schema: pa.Schema, rows: Sequence[tuple[Any, ...]], ts: Sequence[int]) -> Batch:
    columns = [pa.array(list(column), item.type) for column, item in zip(zip(*rows, strict=True), schema, strict=True)]
    times = np.array(ts, np.int64)
    return Batch(pa.RecordBatch.from_arrays(columns, schema=schema), times, times * 8)


# -- J1 ---------------------------------------------------------------------------------------------------------------

PACKETS = [
    (1, 1, "a", 100), (2, 3, "a", 100), (3, 1, "b", 50), (4, 2, "a", 100), (5, 4, "a", 100), (6, 3, "b", 50), (7, 3, "c", 70),
    (8, 4, "c", 70), (9, 1, "c", 70), (10, 2, "c", 70), (12, 4, "b", 50), (13, 2, "b", 50), (16, 1, "d", 30),
]  # fmt: skip


def routers(orders: Mapping[int, Sequence[int]]) -> MJoin:
    """Streams are counted from 1 in the example and from 0 here; a window (now-10, now] is nine units long, both ends included."""
    schemas = [router(port) for port in range(4)]
    output = pa.schema([item for schema in schemas for item in schema])
    graph = JoinGraph.natural([[f"{port}.pid"] for port in range(4)])
    counted = {port - 1: [other - 1 for other in order] for port, order in orders.items()}
    return MJoin(schemas, graph, [Sliding(9)] * 4, output, fixed(counted))


def router(port: int) -> pa.Schema:
    return pa.schema({f"{port}.pid": pa.string(), f"{port}.size": pa.int64()})


def probes_by_counting(orders: Mapping[int, Sequence[int]]) -> list[int]:
    """Of each stream: a packet looks into one window after the other up to the first without its like."""
    found = [0, 0, 0, 0]
    for at, (ts, stream, pid, _) in enumerate(PACKETS):
        for other in orders[stream]:
            found[stream - 1] += 1
            if not any(other == seen and pid == like and before >= ts - 9 for before, seen, like, _ in PACKETS[:at]):
                break
    return found


@pytest.mark.parametrize(
    "orders",
    [
        {1: (3, 4, 2), 2: (1, 3, 4), 3: (1, 2, 4), 4: (1, 2, 3)},
        {1: (2, 4, 3), 2: (4, 3, 1), 3: (4, 2, 1), 4: (2, 3, 1)},
    ],
)
def test_j1_traffic_common_to_four_routers(orders: Any) -> None:
    join, found = routers(orders), []
    for ts, stream, pid, size in PACKETS:
        found += rows_of(join.on_batch(stream - 1, batch(router(stream - 1), [(pid, size)], [ts])))
        for port in range(4):
            join.on_metadata(port, Heartbeat(ts))
    assert [(ts, *values[:2]) for values, ts in found] == [(5, "a", 100), (10, "c", 70)]
    assert [join.counters()[f"probes_{port}"] for port in range(4)] == probes_by_counting(orders)


# -- J2 ---------------------------------------------------------------------------------------------------------------

ROOTS = ["a1 b1 c1", "a2 b2 c1", "a3 b1 c1", "a1 b3 c3", "a2 b3 c2", "a1 b2 c2"]
LEAVES = [[("a1", 1), ("a1", 2), ("a2", 3)], [("b1", 10), ("b3", 11)], [("c1", 7), ("c1", 8), ("c2", 9)]]
DROP_PROBES = {(1, 2, 3): 14, (1, 3, 2): 15, (2, 1, 3): 13, (2, 3, 1): 13, (3, 1, 2): 15, (3, 2, 1): 14}


def star_of_letters(**more: Any) -> tuple[MJoin, list[pa.Schema]]:
    schemas = [pa.schema({name: pa.string() for name in ("A", "B", "C")})]
    schemas += [pa.schema({f"{name}{port}": pa.string(), f"x{port}": pa.int64()}) for port, name in ((1, "A"), (2, "B"), (3, "C"))]
    edges = tuple(Edge(0, (name,), port, (f"{name}{port}",)) for port, name in ((1, "A"), (2, "B"), (3, "C")))
    output = pa.schema([item for schema in schemas for item in schema])
    return MJoin(schemas, JoinGraph(4, edges), [Unbounded()] * 4, output, **more), schemas


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_j2_a_star_join_makes_the_probes_of_its_order_and_the_same_five_rows(order: tuple[int, ...]) -> None:
    join, schemas = star_of_letters(orders=fixed({0: order}))
    for port, rows in enumerate(LEAVES, start=1):
        join.on_batch(port, batch(schemas[port], rows, [1] * len(rows)))
    out = join.on_batch(0, batch(schemas[0], [tuple(row.split()) for row in ROOTS], range(2, 8)))
    found = sorted((*values[:3], *values[4::2]) for values, _ in rows_of(out))
    first = [("a1", "b1", "c1", x, 10, z) for x in (1, 2) for z in (7, 8)]
    assert found == [*first, ("a2", "b3", "c2", 3, 11, 9)]
    assert join.counters()["probes_0"] == DROP_PROBES[order]
    assert join.counters()["false_survivors"] == 0


def test_j2_the_sampled_rows_have_the_drop_bits_of_the_example() -> None:
    class Remembering(LearnedOrder):
        def wanted(self, position: int) -> int:
            return 0b111

        def observe(self, bits: Any, known: Any) -> None:
            seen.extend(zip(bits.tolist(), known.tolist(), strict=True))

    def remembering(plan: PipelinePlan) -> Remembering:
        return Remembering(fixed_order(plan, range(len(plan.probes))).policy, plan.ancestors)

    seen: list[tuple[int, int]] = []
    join, schemas = star_of_letters(orders=remembering, share=1.0)
    for port, rows in enumerate(LEAVES, start=1):
        join.on_batch(port, batch(schemas[port], rows, [1] * len(rows)))
    seen.clear()
    join.on_batch(0, batch(schemas[0], [tuple(row.split()) for row in ROOTS], range(2, 8)))
    # Written S1, S2, S3 in the example, 000 not being sampled: 010, 100, 001, 010.
    assert seen == [(0b010, 0b111), (0b001, 0b111), (0b100, 0b111), (0b010, 0b111)]


# -- J3 ---------------------------------------------------------------------------------------------------------------


def two_leaves(*more: Edge) -> MJoin:
    """Inputs 0 and 1 are S0 and S2, inputs 2 and 3 are S3 and S4; S2 has two rows p and q. A further input is below S3."""
    graph = JoinGraph(4 + len(more), (edge(0, 1, "a"), edge(1, 2, "b", "a"), edge(1, 3, "c", "a"), *more))
    join = make_join(graph, [Unbounded()] * graph.ports)
    join.on_batch(1, batch(schema_of(1), [(1, 1, 7, 1), (1, 7, 1, 2)], [1, 1]))
    for port in range(2, graph.ports):
        join.on_batch(port, batch(schema_of(port), [(1, 0, 0, port + 1)], [port]))
    return join


def test_j3_a_row_whose_paths_all_have_witnesses_may_yield_nothing() -> None:
    join = two_leaves(edge(2, 4, "b"))
    before = join.counters()["false_survivors"]
    assert join.on_batch(0, batch(schema_of(0), [(1, 0, 0, 9)], [4])) == []
    assert join.counters()["false_survivors"] - before == 1


def test_j3_processed_as_a_star_around_its_centre_drops_both_pairs() -> None:
    """The tree of the example is also a star; pair by pair no false survivor is possible."""
    join = two_leaves()
    assert join.on_batch(0, batch(schema_of(0), [(1, 0, 0, 9)], [4])) == []
    counts = report(join, 0)[1]["counts"]
    assert counts == counts | {"tuples": 2, "survivors": 0, "false_survivors": 0}


# -- trees and cycles -------------------------------------------------------------------------------------------------


def test_an_order_that_names_a_child_before_its_parent_is_repaired() -> None:
    """The paper's example: with S3 a child of S2, the order 1,3,2,4,5 is never cheaper than 1,2,3,4,5."""
    edges = [edge(0, port, "a") for port in (1, 2, 4, 5)] + [edge(2, 3, "b")]
    distinct = [
        Edge(item.left, (f"{item.left}.{number}",), item.right, (f"{item.right}.k{number}",)) for number, item in enumerate(edges)
    ]
    plan = JoinGraph(6, tuple(distinct)).plan(0)
    assert [vertex.port for vertex in plan.probes] == [1, 2, 3, 4, 5]
    assert plan.repaired([0, 2, 1, 3, 4]) == (0, 1, 2, 3, 4)
    with pytest.raises(InvalidPlan, match="does not name each of its 5 probes once"):
        plan.repaired([0, 0, 1, 2, 3])


def test_equality_is_transitive_so_every_input_of_a_natural_join_probes_all_others_directly() -> None:
    chain = JoinGraph(4, (edge(0, 1, "a"), edge(1, 2, "a"), edge(2, 3, "a")))
    for root in range(4):
        plan = chain.plan(root)
        assert {vertex.parent for vertex in plan.probes} == {root}
        assert (plan.lead, plan.residuals) == ((), ())


def test_a_cyclic_graph_is_probed_along_its_shallowest_tree_and_the_rest_is_compared() -> None:
    plan = JoinGraph(3, (edge(0, 1, "a"), edge(1, 2, "b"), edge(0, 2, "c"))).plan(0)
    assert {(vertex.parent, vertex.port) for vertex in plan.probes} == {(0, 1), (0, 2)}
    assert plan.residuals == (((1, "1.b"), (2, "2.b")),)


def test_greedy_places_a_strong_probe_with_its_weak_parent() -> None:
    """Probe 1 is below probe 0; it drops everything, so the path to it pays although its parent alone drops nothing."""
    policy = GreedyOnWindow(((), (0,), ()), min_fill=4)
    bits = np.array([0b010, 0b010, 0b010, 0b110], np.uint64)
    policy.observe(bits, np.full(4, 0b111, np.uint64))
    assert policy.order() == (0, 1, 2)
    policy.observe(np.full(1000, 0b100, np.uint64), np.full(1000, 0b111, np.uint64))
    assert policy.order() == (2, 0, 1)


# -- edge cases -------------------------------------------------------------------------------------------------------


def test_a_disconnected_graph_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="no join predicate connects input 2, 3 with input 0"):
        JoinGraph(4, (edge(0, 1, "a"), edge(2, 3, "a")))


def test_graphs_and_parameters_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidPlan, match="between inputs"):
        JoinGraph(2, (edge(0, 2, "a"),))
    with pytest.raises(InvalidPlan, match="between inputs"):
        JoinGraph(2, (edge(0, 1, "a"), edge(1, 1, "a", "b")))
    with pytest.raises(InvalidConfiguration, match="alpha is 0"):
        GreedyOnWindow(((),), alpha=0)
    with pytest.raises(InvalidConfiguration, match="min_fill is 9"):
        GreedyOnWindow(((),), window_rows=5, min_fill=9)


def test_more_probes_than_a_profile_row_has_bits_are_refused() -> None:
    ports = MOST_PROBES + 2
    schemas = [pa.schema({f"{port}.k": pa.int64()}) for port in range(ports)]
    graph = JoinGraph.natural([[f"{port}.k"] for port in range(ports)])
    with pytest.raises(InvalidPlan, match="up to 65 probes; it orders at most 64"):
        MJoin(schemas, graph, [Sliding(1)] * ports, pa.schema([item for schema in schemas for item in schema]))


def pair(**more: Any) -> MJoin:
    return make_join(JoinGraph(3, (edge(0, 1, "a"), edge(0, 2, "b"))), [Sliding(5)] * 3, **more)


def test_a_row_without_key_is_dropped_by_its_first_probe_and_is_stored_until_it_expires() -> None:
    join = pair()
    assert join.on_batch(0, batch(schema_of(0), [(None, 1, 0, 0)], [1])) == []
    counters = join.counters()
    assert (counters["probes_0"], counters["drops"], counters["null_keys"], counters["state_rows"]) == (1, 1, 1, 1)
    for port in (1, 2):
        join.on_metadata(port, Heartbeat(7))
    assert (join.counters()["state_rows"], join.counters()["expired"]) == (0, 1)


def test_equal_rows_are_a_multiset_in_results_and_do_not_change_the_probes() -> None:
    join = pair()
    join.on_batch(1, batch(schema_of(1), [(1, 0, 0, 5)] * 3, [1, 1, 1]))
    join.on_batch(2, batch(schema_of(2), [(0, 1, 0, 6)] * 2, [1, 1]))
    out = join.on_batch(0, batch(schema_of(0), [(1, 1, 0, 7)] * 2, [2, 2]))
    assert len(rows_of(out)) == 2 * 3 * 2
    assert len(set(rows_of(out))) == 1
    assert join.counters()["probes_0"] == 2 * 2


def test_a_row_older_than_its_window_is_neither_inserted_nor_probed_but_refused_as_late() -> None:
    join = pair()
    for port in range(3):
        join.on_metadata(port, Heartbeat(20))
    before = join.counters()
    out = join.on_batch(0, batch(schema_of(0), [(1, 1, 0, 0), (2, 2, 0, 0)], [14, 3]))
    assert [(item.reason, item.batch.num_rows) for item in out if isinstance(item, Quarantined)] == [("late", 2)]
    assert join.counters() == {**before, "late": 2}


def test_a_late_row_that_is_still_in_its_window_joins_and_keeps_the_promise() -> None:
    join = pair()
    join.on_batch(0, batch(schema_of(0), [(1, 1, 0, 0)], [18]))
    join.on_batch(1, batch(schema_of(1), [(1, 0, 0, 1)], [19]))
    for port in range(3):
        join.on_metadata(port, Heartbeat(20))
    out = join.on_batch(2, batch(schema_of(2), [(0, 1, 0, 2), (0, 1, 0, 3)], [16, 14]))
    assert [ts for _, ts in rows_of([item for item in out if isinstance(item, Batch)])] == [20]


def test_a_window_that_reaches_beyond_all_times_ends_with_the_streams() -> None:
    join = make_join(JoinGraph(2, (edge(0, 1, "a"),)), [Sliding(FOREVER - 2), Sliding(5)])
    join.on_batch(0, batch(schema_of(0), [(1, 1, 0, 0)], [7]))
    assert [ts for _, ts in rows_of(join.on_batch(1, batch(schema_of(1), [(1, 1, 0, 0)], [8])))] == [8]
    for port in range(2):
        join.on_metadata(port, Heartbeat(FOREVER))
    assert join.counters()["state_rows"] == 0


def test_rows_outside_the_life_of_the_query_are_left_out() -> None:
    join = pair(life=Lifespan(5, 10))
    join.on_batch(0, batch(schema_of(0), [(1, 1, 0, 0)] * 3, [4, 5, 10]))
    assert (join.counters()["outside_life"], join.counters()["state_rows"]) == (2, 1)


def test_a_used_join_becomes_what_is_restored_into_it() -> None:
    join = pair()
    empty = join.snapshot()
    join.on_batch(0, batch(schema_of(0), [(1, 1, 0, 0)] * 3, [1, 2, 3]))
    join.on_batch(1, batch(schema_of(1), [(1, 1, 0, 0)], [3]))
    join.restore(empty)
    assert join.counters() == pair().counters()
    join.on_batch(1, batch(schema_of(1), [(1, 1, 0, 0)], [3]))
    assert join.on_batch(2, batch(schema_of(2), [(1, 1, 0, 0)], [3])) == []


def test_punctuations_and_ends_are_heard_and_other_marks_pass() -> None:
    join = pair()
    mark = Punctuation.of(("0.a", "0.b"), 0, 0, **{"0.a": constant(1)})
    herald, request = Herald(mark), Request("anything")
    assert [*join.on_metadata(0, mark), *join.on_metadata(0, End())] == []
    assert [*join.on_metadata(0, herald), *join.on_metadata(0, request)] == [herald, request]
