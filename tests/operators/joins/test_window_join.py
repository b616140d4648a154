"""The window join: worked examples, and exactness for every batching, interleaving and restart."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidPlan
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import constant
from penstock.model.windows import Framed, Lifespan, Sliding, Unbounded, Window
from penstock.operators.joins.window_join import WindowJoin
from penstock.plan.nodes import joins as join_nodes
from penstock.plan.nodes import relational as nodes
from penstock.testing import reference
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, broken_promises, rows_of
from penstock.testing.tapes import (
    KEYS,
    Tape,
    batch_cuts,
    drive,
    drive_with_restarts,
    merged,
    patterns,
    rows_in,
    split,
    tapes,
)

Join = Callable[[], WindowJoin]


def schema_of(port: int, kind: pa.DataType | None = None) -> pa.Schema:
    return pa.schema({f"{port}.k": kind or pa.int64(), f"{port}.t": pa.string(), f"{port}.v": pa.int64()})


def maker(
    windows: Sequence[Window],
    life: Lifespan | None = None,
    residual: str = "",
    columns: Sequence[str] = ("k",),
    kind: pa.DataType | None = None,
    heeds_punctuations: bool = True,
    memory: int | None = None,
) -> Join:
    schemas = [schema_of(port, kind) for port in range(len(windows))]
    output = pa.schema([item for schema in schemas for item in schema])
    keys = [[f"{port}.{name}" for name in columns] for port in range(len(windows))]
    condition = parse(residual) if residual else None

    def made() -> WindowJoin:
        join = WindowJoin(
            schemas, keys, windows, output, condition, life, heeds_punctuations=heeds_punctuations, memory_bytes=memory
        )
        join.spill_to(Path(tempfile.gettempdir()))
        return join

    return made


def named(port: int, tape: Tape) -> Tape:
    """The tape of one input, its columns called after the port."""
    renamed: Tape = []
    for item in tape:
        if isinstance(item, Row):
            renamed.append(Row(item.ts, item.pos, {f"{port}.{name}": value for name, value in item.values.items()}))
        elif isinstance(item, Punctuation):
            renamed.append(item.rename({name: f"{port}.{name}" for name in item.names}))
        else:
            renamed.append(item)
    return renamed


def values_of(keys: Sequence[Any] = KEYS) -> dict[str, st.SearchStrategy[Any]]:
    return {"k": st.sampled_from(keys), "t": st.sampled_from(["", "a", "ab", None]), "v": st.integers(0, 3)}


@st.composite
def inputs(draw: st.DrawFn, ports: int, keys: Sequence[Any] = KEYS, most: int = 10) -> list[Tape]:
    others = {"v": st.integers(0, 3).map(constant), "k": patterns(keys)}
    return [named(port, draw(tapes(values_of(keys), "k", others, most))) for port in range(ports)]


#: Bytes for rows in memory: no limit, none at all, some.
memories = st.sampled_from([None, 1, 700])
lengths = st.sampled_from([Sliding(0), Sliding(1), Sliding(3), Sliding(7), Unbounded()])


def expected(sides: Sequence[Tape], windows: Sequence[Window], life: Lifespan | None = None, **more: Any) -> list[Any]:
    keys = [[f"{port}.k"] for port in range(len(sides))]
    return bag(
        reference.window_join([rows_in(tape) for tape in sides], more.pop("keys", keys), windows, life or Lifespan(), **more)
    )


# -- worked examples --------------------------------------------------------------------------------------------------


def one(port: int, ts: int, number: int) -> tuple[int, Batch]:
    row = Row(ts, number, {f"{port}.k": 1, f"{port}.t": "", f"{port}.v": number})
    return port, batch_of([row], schema_of(port))


def test_g6_each_input_sees_the_other_through_its_own_inclusive_window() -> None:
    join = maker([Sliding(10), Sliding(5)])()
    found = []
    for port, ts, number in [(0, 1, 1), (1, 2, 2), (0, 8, 3), (1, 11, 4)]:
        # Both frontiers follow the global order of the example.
        join.on_metadata(0, Heartbeat(ts))
        join.on_metadata(1, Heartbeat(ts))
        results = rows_of(join.on_batch(*one(port, ts, number)))
        found.append(sorted((values[2], values[5]) for values, _ in results))
    assert found == [[], [(1, 2)], [], [(1, 4), (3, 4)]]


def test_rows_of_several_runs_of_the_second_input_all_find_the_third() -> None:
    def batch(port: int, keys: Sequence[int]) -> Batch:
        return batch_of([Row(0, key, {f"{port}.k": key, f"{port}.t": "", f"{port}.v": port}) for key in keys], schema_of(port))

    join = maker([Unbounded()] * 3)()
    # Runs of such different sizes stay apart.
    for port, keys in ((1, range(0, 40, 2)), (1, (1, 11, 21)), (1, (5,)), (2, range(40))):
        assert not rows_of(join.on_batch(port, batch(port, keys)))
    found = rows_of(join.on_batch(0, batch(0, range(40))))
    assert sorted(values[0] for values, _ in found) == sorted([*range(0, 40, 2), 1, 11, 21, 5])


@pytest.mark.parametrize(("gap", "seconds", "total"), [(2, 1, 1000), (2, 5, 5000), (10, 1, 200), (10, 5, 1000)])
def test_g7_the_state_reaches_the_plateau_of_rate_times_window(gap: int, seconds: int, total: int) -> None:
    """Milliseconds; a tenth of the published windows and state, so that the test is quick."""
    window = seconds * 1000 // 10
    join = maker([Sliding(window), Sliding(window)])()
    sizes = []
    for start in range(0, 4 * window, 100):
        ts = np.arange(start, start + 100, gap)
        for port in (0, 1):
            rows = pa.RecordBatch.from_arrays(
                [pa.array(ts * 2 + port), pa.nulls(len(ts), pa.string()), pa.array(ts)], schema=schema_of(port)
            )
            join.on_batch(port, Batch(rows, ts, ts))
        for port in (0, 1):
            join.on_metadata(port, Heartbeat(start + 100))
        sizes.append(join.counters()["state_rows"])
    plateau = total // 10
    batch_rows = 2 * (100 // gap)
    # Whole runs leave at once, and a run that is half useless is written anew: at most twice the useful rows stay.
    assert all(plateau - 2 <= size <= 2 * plateau + batch_rows for size in sizes[window // 100 + 1 :])
    assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2]) + batch_rows


G10_LEFT = [(0, "a", 1), (1, "b", 2), (2, "a", 3), (3, "c", 4), (5, "a", 5)]
G10_RIGHT = [(0, "b", 11), (2, "a", 12), (3, "a", 13), (4, "c", 14), (5, "a", 15)]
G10_WINDOWS = {
    0: [(1, 2, 11), (2, 1, 12), (2, 3, 12), (3, 1, 13), (3, 3, 13)],
    1: [(2, 3, 12), (3, 3, 13), (4, 4, 14), (5, 3, 15), (5, 5, 12), (5, 5, 13), (5, 5, 15)],
    2: [(5, 5, 15)],
}


def test_g10_each_window_holds_its_own_join() -> None:
    frame = Framed(4, 2, 2)
    schemas = [pa.schema({f"{port}.k": pa.string(), f"{port}.id": pa.int64()}) for port in (0, 1)]
    output = pa.schema([*schemas[0], *schemas[1]])
    join = WindowJoin(schemas, [["0.k"], ["1.k"]], [frame, frame], output, None, Lifespan(0, 8))
    found: list[tuple[int, int, int]] = []
    for port, side in enumerate((G10_LEFT, G10_RIGHT)):
        rows = [Row(ts, pos, {f"{port}.k": key, f"{port}.id": number}) for pos, (ts, key, number) in enumerate(side)]
        out = rows_of(join.on_batch(port, batch_of(rows, schemas[port])))
        found += [(ts, left, right) for (_, left, _, right), ts in out]
    # A pair comes once for each window that both of its rows are in.
    assert sorted(found) == sorted(pair for pairs in G10_WINDOWS.values() for pair in pairs)


def test_g5_a_punctuation_on_another_attribute_purges_nothing() -> None:
    join = maker([Unbounded(), Unbounded()])()
    join.on_batch(*one(0, 1, 7))
    join.on_metadata(1, Punctuation.of(schema_of(1).names, 0, 0, **{"1.k": constant(1), "1.v": constant(5)}))
    assert join.counters()["state_rows"] == 1
    assert len(rows_of(join.on_batch(*one(1, 2, 6)))) == 1


def test_rows_of_one_instant_join_in_a_window_of_length_zero() -> None:
    join = maker([Sliding(0), Sliding(0)])()
    join.on_batch(*one(0, 5, 1))
    assert len(rows_of(join.on_batch(*one(1, 5, 2)))) == 1
    assert rows_of(join.on_batch(*one(1, 6, 3))) == []


def test_a_join_of_landmark_windows_without_end_is_refused() -> None:
    from penstock.model.declarations import Source, StreamDeclaration
    from penstock.model.schema import Schema

    scans = [
        nodes.Scan(StreamDeclaration(name, Schema.of(k=pa.int64(), ts=pa.int64()), Source("feed"), "ts"), name)
        for name in ("a", "b")
    ]
    landmark = Framed(4, 0, 2)
    with pytest.raises(InvalidPlan, match="give the query BEGIN and END"):
        join_nodes.WindowJoin(tuple(scans), (("a.k",), ("b.k",)), (landmark, landmark))
    join_nodes.WindowJoin(tuple(scans), (("a.k",), ("b.k",)), (landmark, landmark), life=Lifespan(0, 100))
    with pytest.raises(InvalidPlan, match="500,000 of them, and 100,000 are allowed"):
        join_nodes.WindowJoin(tuple(scans), (("a.k",), ("b.k",)), (landmark, landmark), life=Lifespan(0, 1_000_000))


# -- properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ports", [2, 3, 4])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_p1_p2_results_equal_brute_force_and_no_result_breaks_an_output_promise(ports: int, data: st.DataObject) -> None:
    sides = data.draw(inputs(ports, most=10 if ports < 4 else 6))
    windows = data.draw(st.lists(lengths, min_size=ports, max_size=ports))
    arrivals = split(
        data.draw(merged(sides)), [schema_of(port) for port in range(ports)], data.draw(batch_cuts()), data.draw(st.booleans())
    )
    out = drive(maker(windows, memory=data.draw(memories))(), arrivals)
    assert bag(rows_of(out)) == expected(sides, windows)
    assert broken_promises(out) == []


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_join_that_ignores_punctuations_finds_the_same_and_lets_none_pass(data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    arrivals = split(data.draw(merged(sides)), [schema_of(0), schema_of(1)], data.draw(batch_cuts()), data.draw(st.booleans()))
    join = maker(windows, heeds_punctuations=False, memory=data.draw(memories))()
    out = drive(join, arrivals)
    assert bag(rows_of(out)) == expected(sides, windows)
    assert not [mark for mark in out if isinstance(mark, Punctuation)]
    assert join.counters()["purged"] == 0


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_windows_with_advance_join_number_by_number(data: st.DataObject) -> None:
    size, step = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 10))
    frames = [Framed(size, step, step), Framed(data.draw(st.integers(1, 8)), step, step + data.draw(st.integers(0, 2)))]
    life = data.draw(st.sampled_from([Lifespan(), Lifespan(2, 25), Lifespan(0, 20)]))
    if life.end != FOREVER and data.draw(st.booleans()):
        frames = [Framed(size, 0, step), Framed(size, 0, step)]
    sides = data.draw(inputs(2))
    arrivals = split(data.draw(merged(sides)), [schema_of(0), schema_of(1)], data.draw(batch_cuts()))
    out = drive(maker(frames, life, memory=data.draw(memories))(), arrivals)
    assert bag(rows_of(out)) == expected(sides, frames, life)
    assert broken_promises(out) == []


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_texts_and_several_columns_are_keys_and_residuals_decide_last(data: st.DataObject) -> None:
    texts = ("", "a", "ab", "b", None)
    sides = data.draw(inputs(2, texts))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    items = data.draw(merged(sides))
    columns = data.draw(st.sampled_from([("k",), ("k", "v"), ("t", "k")]))
    arrivals = split(items, [schema_of(0, pa.string()), schema_of(1, pa.string())], data.draw(batch_cuts()))
    join = maker(windows, residual="`0.v` < `1.v` + 1", columns=columns, kind=pa.string(), memory=data.draw(memories))()
    keys = [[f"{port}.{name}" for name in columns] for port in (0, 1)]
    out = drive(join, arrivals)
    assert bag(rows_of(out)) == expected(sides, windows, keys=keys, residual=lambda row: row["0.v"] < row["1.v"] + 1)
    assert broken_promises(out) == []


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p9_p10_p13_batching_restarts_and_interleaving_change_nothing(data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    schemas = [schema_of(0), schema_of(1)]
    make = maker(windows, memory=data.draw(memories))
    items = data.draw(merged(sides))
    plain = drive(make(), split(items, schemas))
    cut = drive(make(), split(items, schemas, data.draw(batch_cuts())))
    other_order = drive(make(), split(data.draw(merged(sides)), schemas))
    restarted = drive_with_restarts(make, split(items, schemas))
    assert bag(rows_of(cut)) == bag(rows_of(other_order)) == bag(rows_of(plain))
    assert rows_of(restarted) == rows_of(plain)
    assert announced_keys(restarted) == announced_keys(cut) == announced_keys(other_order) == announced_keys(plain)


def announced_keys(out: list[Any]) -> list[int]:
    """Which keys the output has closed in the end."""
    marks = [item for item in out if isinstance(item, Punctuation) and set(item.restricted) <= {"0.k", "1.k"}]
    return [key for key in range(6) if any(mark.matches({"0.k": key, "1.k": key}) for mark in marks)]


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p11_every_row_is_accounted_for(data: st.DataObject) -> None:
    sides = data.draw(inputs(3))
    windows = data.draw(st.lists(lengths, min_size=3, max_size=3))
    join = maker(windows, Lifespan(5, 25), memory=data.draw(memories))()
    arrivals = split(data.draw(merged(sides)), [schema_of(port) for port in range(3)], data.draw(batch_cuts()))
    seen = 0
    for port, element in arrivals:
        drive(join, [(port, element)])
        seen += element.num_rows if isinstance(element, Batch) else 0
        count = join.counters()
        known = ("state_rows", "purged", "expired", "dropped", "null_keys", "outside_life")
        assert seen == sum(count[name] for name in known)
    assert join.counters()["state_rows"] == 0


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_no_stored_row_is_useless_once_all_others_have_closed_its_key(data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    join = maker([Unbounded(), Unbounded()], memory=data.draw(memories))()
    closed: list[list[Punctuation]] = [[], []]
    for port, element in split(data.draw(merged(sides)), [schema_of(0), schema_of(1)]):
        drive(join, [(port, element)])
        if isinstance(element, Punctuation) and set(element.restricted) <= {f"{port}.k"}:
            closed[port].append(element)
        for side in (0, 1):
            other = 1 - side
            rows = join._rows[side]
            living = [(run.keys[0].to_pylist(), rows.living(run)) for run in rows]
            stored = [key for keys, alive in living for at, key in enumerate(keys) if alive is None or alive[at]]
            assert not any(mark.matches({f"{other}.k": key}) for key in stored for mark in closed[other])
