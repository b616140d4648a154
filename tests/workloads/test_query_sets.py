"""Query graphs of simulations: as published where something is published, and the same with the same seed."""

from __future__ import annotations

import csv
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.workloads.query_graphs import OperatorSketch, PortSketch, QueryGraph, QuerySketch
from penstock.workloads.query_sets import KINDS, published_queries, random_graph, simple_paths

GRAPHS = st.one_of(
    st.builds(simple_paths, st.integers(0, 99)),
    st.builds(published_queries, st.integers(0, 99)),
    st.builds(
        random_graph, st.integers(0, 99), st.integers(18, 28), st.integers(32, 48), st.integers(1, 5),
        weights=st.sampled_from([(1, 10), (5, 5)]),
    ),
)  # fmt: skip


def _operator(id: str, *ports: tuple[str, float, float]) -> OperatorSketch:
    return OperatorSketch(id, "select", tuple(PortSketch(source, cost, passing, 100) for source, cost, passing in ports))


#: A join of two streams with a selection in front of each.
JOIN = QueryGraph(
    (_operator("a", ("s1", 10.0, 0.5)), _operator("b", ("s2", 20.0, 0.1)), _operator("c", ("a", 40.0, 2.0), ("b", 60.0, 3.0))),
    (QuerySketch("q", "c"),), {"s1": 0.5, "s2": 0.5}, {},
)  # fmt: skip


@given(graph=GRAPHS)
def test_graphs_are_complete_and_in_topological_order(graph: QueryGraph) -> None:
    known = set(graph.shares)
    for operator in graph.operators:
        assert {port.source for port in operator.ports} <= known
        assert operator.id not in known
        known.add(operator.id)
    assert sum(graph.shares.values()) == pytest.approx(1.0)
    assert all(graph.consumers[stream] for stream in graph.shares)
    asked = {query.operator for query in graph.queries}
    assert {operator.id for operator in graph.operators if not graph.consumers[operator.id]} <= asked <= known


@given(graph=GRAPHS, load=st.floats(0.1, 3.0))
def test_rates_and_costs_give_the_load_asked_for(graph: QueryGraph, load: float) -> None:
    assert graph.load(graph.rates(load)) == pytest.approx(load)
    rates = dict.fromkeys(graph.shares, 100.0)
    assert graph.costing(load, rates).load(rates) == pytest.approx(load)


def test_work_follows_rows_through_joins() -> None:
    assert JOIN.work_ns == {"s1": 10.0 + 0.5 * 40.0, "s2": 20.0 + 0.1 * 60.0}
    assert JOIN.outputs_per_row["s1"] == {"a": 0.5, "b": 0.0, "c": 1.0}
    assert JOIN.rates(1.0) == {"s1": 0.5e9 / 28.0, "s2": 0.5e9 / 28.0}


def test_a_random_graph_has_a_leaf_for_every_query_and_a_tree_for_every_input() -> None:
    for queries, operators in ((20, 48), (24, 40), (28, 32)):
        graph = random_graph(5, queries, operators)
        assert len(graph.operators) == operators
        leaves = {operator.id for operator in graph.operators if not graph.consumers[operator.id]}
        assert leaves == {query.operator for query in graph.queries}
        assert len(leaves) == queries
        assert {operator.kind for operator in graph.operators} <= set(KINDS)
        assert all(1 <= query.weight <= 10 for query in graph.queries)
        assert all(4.0 <= seconds <= 8.0 for seconds in graph.validity_s.values())


def test_the_published_queries_are_those_of_the_text() -> None:
    graph = published_queries()
    kinds = Counter(operator.kind for operator in graph.operators)
    assert kinds.total() == 116
    assert kinds["join"] == 12
    assert all(len(operator.ports) == (2 if operator.kind == "join" else 1) for operator in graph.operators)
    passing = sorted(port.selectivity for operator in graph.operators for port in operator.ports)
    assert passing[0] < 0.1 < 0.9 < passing[-1] <= 1.0
    assert len({query.operator for query in graph.queries}) == 16


def test_the_list_has_a_line_for_every_port() -> None:
    lines = list(csv.DictReader(published_queries().to_csv().splitlines()))
    assert len(lines) == 116 + 12
    assert sum(bool(line["answers"]) for line in lines) == 16


def test_equal_seeds_give_equal_graphs() -> None:
    for make in (simple_paths, published_queries, random_graph):
        assert make(3) == make(3)
        assert make(3) != make(4)
