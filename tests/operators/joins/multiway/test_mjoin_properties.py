"""The multiway join against brute force: any graph, any windows, orders that change before every chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from mjoin_oracle import GRAPHS, Shuffled, dense, joined, make_join, schema_of

from penstock.columnar import key_table
from penstock.expressions.parse import parse
from penstock.model.elements import FOREVER, Heartbeat
from penstock.model.windows import Sliding, Unbounded, Window
from penstock.operators.joins.matching.multiway.graph import JoinGraph, PipelinePlan
from penstock.operators.joins.multiway_join import MJoin
from penstock.operators.joins.storing import chained_rows as stores
from penstock.operators.joins.window_join import WindowJoin
from penstock.testing.checks import check_all
from penstock.testing.greedy_orders import GreedyOnWindow
from penstock.testing.reference import Row
from penstock.testing.streams import bag, broken_promises, rows_of
from penstock.testing.tapes import Tape, batch_cuts, drive, drive_with_restarts, merged, rows_in, split, tapes

lengths = st.sampled_from([Sliding(20), Sliding(9), Sliding(15), Unbounded(), Sliding(4), Sliding(1), Sliding(0)])
#: Mostly one value, so that predicates on several columns hold often.
few_keys = st.sampled_from([1] * 8 + [2, None])


def named(port: int, tape: Tape) -> Tape:
    return [
        Row(item.ts, item.pos, {f"{port}.{name}": value for name, value in item.values.items()}) if isinstance(item, Row) else item
        for item in tape
    ]


@st.composite
def inputs(draw: st.DrawFn, ports: int, keys: st.SearchStrategy[Any] = few_keys, most: int = 6) -> list[Tape]:
    columns = {"a": keys, "b": keys, "c": keys, "v": st.integers(0, 9)}
    return [named(port, draw(tapes(columns, "a", None, most))) for port in range(ports)]


def policies(start: int) -> Callable[..., Any]:
    return lambda plan: Shuffled(plan, start)


@st.composite
def cases(draw: st.DrawFn) -> tuple[JoinGraph, list[Window], list[Tape], dict[str, Any]]:
    graph = draw(st.sampled_from(list(GRAPHS.values())))
    windows = [draw(lengths) for _ in range(graph.ports)]
    most = {4: 6, 5: 4}.get(graph.ports, 8)
    more = {
        "orders": policies(draw(st.integers(0, 50))),
        "chunk_rows": draw(st.sampled_from([1, 2, 3, 100])),
        "share": draw(st.sampled_from([0.0, 0.5, 1.0])),
    }
    return graph, windows, draw(inputs(graph.ports, most=most)), more


@settings(max_examples=50, deadline=None)
@given(case=cases(), data=st.data(), cuts=batch_cuts())
def test_p5_results_come_once_each_whatever_order_rows_and_probes_come_in(
    case: Any, data: st.DataObject, cuts: frozenset[int]
) -> None:
    graph, windows, sides, more = case
    arrivals = split(data.draw(merged(sides)), [schema_of(port) for port in range(graph.ports)], cuts)
    out = drive(make_join(graph, windows, **more), arrivals)
    assert bag(rows_of(out)) == bag(joined([rows_in(tape) for tape in sides], graph, windows))
    assert broken_promises(out) == []


@pytest.mark.parametrize("chunk_rows", [1, 5, 1000])
@pytest.mark.parametrize("name", GRAPHS)
def test_p5_holds_on_dense_streams_with_equal_times_and_simultaneous_expiry(name: str, chunk_rows: int) -> None:
    graph = GRAPHS[name]
    streams, windows = dense(graph, seed=chunk_rows)
    schemas = [schema_of(port) for port in range(graph.ports)]
    half = [(port, row) for port, rows in enumerate(streams) for row in rows if row.ts < 4]
    beats = [(port, Heartbeat(4)) for port in range(graph.ports)]
    rest = [(port, row) for port, rows in enumerate(streams) for row in rows if row.ts >= 4]
    ends = [(port, Heartbeat(FOREVER)) for port in range(graph.ports)]
    arrivals = split([*half, *beats, *rest, *ends], schemas)
    join = make_join(graph, windows, orders=policies(chunk_rows), chunk_rows=chunk_rows, share=0.5)
    expected = joined(streams, graph, windows)
    assert expected
    assert bag(rows_of(drive(join, arrivals))) == bag(expected)


@settings(max_examples=20, deadline=None)
@given(sides=inputs(3, st.sampled_from(["", "x", "xy", None])), data=st.data())
def test_keys_of_any_type_are_compared_and_not_only_their_hashes(sides: list[Tape], data: st.DataObject) -> None:
    graph, windows = GRAPHS["triangle"], [Sliding(5), Sliding(9), Sliding(3)]
    arrivals = split(data.draw(merged(sides)), [schema_of(port, pa.string()) for port in range(3)])
    with pytest.MonkeyPatch.context() as patch:
        # All strings have one hash.
        patch.setattr(key_table, "hash_columns", lambda columns, rows: np.full(rows, 7, np.uint64))
        out = drive(make_join(graph, windows, pa.string(), orders=policies(3)), arrivals)
    assert bag(rows_of(out)) == bag(joined([rows_in(tape) for tape in sides], graph, windows))


@settings(max_examples=20, deadline=None)
@given(sides=inputs(3), windows=st.lists(lengths, min_size=3, max_size=3), data=st.data())
def test_on_one_key_it_gives_the_rows_times_and_positions_of_the_window_join(
    sides: list[Tape], windows: list[Window], data: st.DataObject
) -> None:
    schemas = [schema_of(port) for port in range(3)]
    keys = [["0.a"], ["1.a"], ["2.a"]]
    output = pa.schema([item for schema in schemas for item in schema])
    residual = parse("`0.v` < `2.v` + 3")
    arrivals = split(data.draw(merged(sides)), schemas)
    mine = drive(MJoin(schemas, JoinGraph.natural(keys), windows, output, residual=residual, orders=policies(1)), arrivals)
    theirs = drive(WindowJoin(schemas, keys, windows, output, residual), arrivals)
    assert bag(stamped(mine)) == bag(stamped(theirs))
    assert [item for item in mine if isinstance(item, Heartbeat)] == [item for item in theirs if isinstance(item, Heartbeat)]


def stamped(out: Sequence[Any]) -> list[Any]:
    return [
        (tuple(row.values()), ts, pos)
        for batch in out
        if not isinstance(batch, Heartbeat)
        for row, ts, pos in zip(batch.rows.to_pylist(), batch.ts.tolist(), batch.pos.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", ["natural", "star", "chain", "triangle", "square"])
@settings(max_examples=4, deadline=None)
@given(data=st.data(), cuts=batch_cuts())
def test_the_shared_checks_hold(name: str, data: st.DataObject, cuts: frozenset[int]) -> None:
    graph = GRAPHS[name]
    windows: list[Window] = [Sliding(3), Unbounded(), Sliding(6), Sliding(0)][: graph.ports]
    items = data.draw(merged(data.draw(inputs(graph.ports))))
    schemas = [schema_of(port) for port in range(graph.ports)]
    check_all(lambda: make_join(graph, windows, orders=policies(2), share=0.5, chunk_rows=2), items, schemas, cuts)


@settings(max_examples=12, deadline=None)
@given(sides=inputs(4, most=8), data=st.data())
def test_a_restart_before_every_element_changes_neither_answer_nor_learning(sides: list[Tape], data: st.DataObject) -> None:
    graph = GRAPHS["star"]
    arrivals = split(data.draw(merged(sides)), [schema_of(port) for port in range(4)], range(40))

    def make() -> MJoin:
        return make_join(graph, [Sliding(4)] * 4, share=1.0, orders=small_greedy)

    assert rows_of(drive_with_restarts(make, arrivals)) == rows_of(drive(make(), arrivals))


def small_greedy(plan: PipelinePlan) -> GreedyOnWindow:
    return GreedyOnWindow(plan.ancestors, min_fill=1)


@example(spare=0)
@example(spare=1)
@settings(max_examples=8, deadline=None)
@given(spare=st.integers(0, 4))
def test_forgetting_rows_at_once_or_late_gives_the_same_answer(spare: int) -> None:
    graph = GRAPHS["natural"]
    rows = [
        [Row(at * 2 + port, at, {f"{port}.a": at % 3, f"{port}.b": 0, f"{port}.c": 0, f"{port}.v": at}) for at in range(12)]
        for port in range(4)
    ]
    tape: list[tuple[int, Any]] = []
    for at in range(12):
        tape += [(port, rows[port][at]) for port in range(4)] + [(port, Heartbeat(at * 2)) for port in range(4)]
    tape += [(port, Heartbeat(FOREVER)) for port in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "SPARE_ROWS", spare)
        patch.setattr(stores, "MOST_SEGMENTS", 1 + spare)
        out = drive(make_join(graph, [Sliding(8)] * 4), split(tape, [schema_of(port) for port in range(4)]))
    assert bag(rows_of(out)) == bag(joined(rows, graph, [Sliding(8)] * 4))
