"""PWJoin and MWJoin as operators: exact for every batching, interleaving, restart and kind of key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidPlan, PunctuationViolated
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Heartbeat, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import between, constant, one_of
from penstock.model.windows import Lifespan, Rows, Sliding, Unbounded
from penstock.operators.joins.pwjoin.config import JoinConfig, JoinWindow
from penstock.operators.joins.pwjoin.operator import MWJoin, PWJoin
from penstock.operators.joins.window_join import WindowJoin
from penstock.testing import reference
from penstock.testing.checks import check_all
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, broken_promises, rows_of
from penstock.testing.tapes import KEYS, Tape, batch_cuts, drive, drive_with_restarts, merged, patterns, rows_in, split, tapes

Join = Callable[[], PWJoin]
STATES = ["cluster", "split", "tables"]


def schema_of(port: int, kind: pa.DataType | None = None) -> pa.Schema:
    return pa.schema({f"{port}.k": kind or pa.int64(), f"{port}.t": pa.string(), f"{port}.v": pa.int64()})


def maker(
    windows: Sequence[JoinWindow],
    state: str = "cluster",
    columns: Sequence[str] = ("k",),
    kind: pa.DataType | None = None,
    residual: str = "",
    life: Lifespan | None = None,
    **options: Any,
) -> Join:
    schemas = [schema_of(port, kind) for port in range(len(windows))]
    output = pa.schema([item for schema in schemas for item in schema])
    keys = [[f"{port}.{name}" for name in columns] for port in range(len(windows))]
    clock = "global_order" if any(isinstance(window, Rows) for window in windows) else "frontier"
    config = JoinConfig(tuple(windows), state, **{"clock": clock, **options})  # type: ignore[arg-type]
    make = MWJoin if state == "tables" else PWJoin
    condition = parse(residual) if residual else None
    return lambda: make(schemas, keys, windows, output, condition, life, config)


def named(port: int, tape: Tape) -> Tape:
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


lengths = st.sampled_from([Sliding(0), Sliding(1), Sliding(3), Sliding(7), Unbounded()])


def expected(sides: Sequence[Tape], windows: Sequence[Any], life: Lifespan | None = None, **more: Any) -> list[Any]:
    keys = more.pop("keys", [[f"{port}.k"] for port in range(len(sides))])
    return bag(reference.window_join([rows_in(tape) for tape in sides], keys, windows, life or Lifespan(), **more))


def announced_keys(out: Sequence[Any], keys: Sequence[Any] = range(6)) -> list[Any]:
    marks = [item for item in out if isinstance(item, Punctuation) and set(item.restricted) <= {"0.k", "1.k"}]
    return [key for key in keys if any(mark.matches({"0.k": key, "1.k": key}) for mark in marks)]


def schemas_of(ports: int, kind: pa.DataType | None = None) -> list[pa.Schema]:
    return [schema_of(port, kind) for port in range(ports)]


@pytest.mark.parametrize(("state", "ports"), [("cluster", 2), ("cluster", 3), ("split", 2), ("tables", 2), ("tables", 3)])
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_p1_p2_results_equal_brute_force_and_no_result_breaks_a_promise(state: str, ports: int, data: st.DataObject) -> None:
    sides = data.draw(inputs(ports, most=10 if ports < 3 else 6))
    windows = data.draw(st.lists(lengths, min_size=ports, max_size=ports))
    arrivals = split(data.draw(merged(sides)), schemas_of(ports), data.draw(batch_cuts()), data.draw(st.booleans()))
    out = drive(maker(windows, state)(), arrivals)
    assert bag(rows_of(out)) == expected(sides, windows)
    assert broken_promises(out) == []
    assert out[-1] == Heartbeat(FOREVER)


@pytest.mark.parametrize("state", STATES)
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_p9_p10_p13_batching_restarts_and_interleaving_change_nothing(state: str, data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    make, items = maker(windows, state), data.draw(merged(sides))
    plain = drive(make(), split(items, schemas_of(2)))
    cut = drive(make(), split(items, schemas_of(2), data.draw(batch_cuts())))
    other_order = drive(make(), split(data.draw(merged(sides)), schemas_of(2)))
    restarted = drive_with_restarts(make, split(items, schemas_of(2)))
    assert bag(rows_of(cut)) == bag(rows_of(other_order)) == bag(rows_of(plain))
    assert rows_of(restarted) == rows_of(plain)
    assert announced_keys(restarted) == announced_keys(cut) == announced_keys(plain)
    assert broken_promises(restarted) == []


@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_restarts_keep_every_counter_of_three_streams(data: st.DataObject) -> None:
    sides = data.draw(inputs(3, most=6))
    windows = data.draw(st.lists(lengths, min_size=3, max_size=3))
    make, items = maker(windows), split(data.draw(merged(sides)), schemas_of(3))
    plain, last = make(), make()
    drive(plain, items)

    def again() -> PWJoin:
        nonlocal last
        last = make()
        return last

    drive_with_restarts(again, items)
    # Index chains, intervals and schedules are built anew, so what it costs to walk them may differ.
    ignored = ("comparisons", "purge_scans", "markers", "bytes", "state_bytes", "schedule_operations", "marker_lookups")
    before, after = plain.counters(), last.counters()
    assert {name: (before[name], after[name]) for name in before if before[name] != after[name] and name not in ignored} == {}


@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_p12_split_cluster_and_columnar_joins_agree(data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    arrivals = split(data.draw(merged(sides)), schemas_of(2), data.draw(batch_cuts()))
    columnar = WindowJoin(schemas_of(2), [["0.k"], ["1.k"]], windows, pa.schema([*schema_of(0), *schema_of(1)]))
    outs = [drive(columnar, arrivals), *(drive(maker(windows, state)(), arrivals) for state in STATES)]
    assert bag(rows_of(outs[0])) == bag(rows_of(outs[1])) == bag(rows_of(outs[2])) == bag(rows_of(outs[3]))
    # Positions too: downstream operators order ties by them.
    positions = [sorted(pos for item in out if isinstance(item, Batch) for pos in item.pos.tolist()) for out in outs]
    assert positions[0] == positions[1] == positions[2] == positions[3]
    assert announced_keys(outs[0]) == announced_keys(outs[1]) == announced_keys(outs[2])


@pytest.mark.parametrize("state", ["cluster", "split"])
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_texts_and_several_columns_are_keys_and_residuals_decide_last(state: str, data: st.DataObject) -> None:
    sides = data.draw(inputs(2, ("", "a", "ab", "b", None)))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    columns = data.draw(st.sampled_from([("k",), ("k", "v"), ("t", "k")]))
    make = maker(windows, state, columns, pa.string(), "`0.v` < `1.v` + 1")
    keys = [[f"{port}.{name}" for name in columns] for port in (0, 1)]
    arrivals = split(data.draw(merged(sides)), schemas_of(2, pa.string()), data.draw(batch_cuts()))
    out = drive(make(), arrivals)
    assert bag(rows_of(out)) == expected(sides, windows, keys=keys, residual=lambda row: row["0.v"] < row["1.v"] + 1)
    assert broken_promises(out) == []
    assert rows_of(drive_with_restarts(make, arrivals)) == rows_of(out)


@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_floats_are_keys_nan_among_them(data: st.DataObject) -> None:
    sides = data.draw(inputs(2, (0.0, -0.0, 1.5, float("nan"), None)))
    windows = data.draw(st.lists(lengths, min_size=2, max_size=2))
    arrivals = split(data.draw(merged(sides)), schemas_of(2, pa.float64()), data.draw(batch_cuts()))
    out = drive(maker(windows, kind=pa.float64())(), arrivals)
    assert bag(rows_of(out)) == expected(sides, windows)
    assert broken_promises(out) == []


def in_rows(sides: Sequence[Tape], windows: Sequence[JoinWindow]) -> list[Any]:
    """Brute force over the global order (time, input, position)."""
    flat = sorted((row.ts, port, row.pos, row) for port, tape in enumerate(sides) for row in rows_in(tape))
    counted, ranks, numbers, streams = [0] * len(sides), [], [], [[] for _ in sides]
    for at, (_, port, _, _) in enumerate(flat):
        ranks.append(list(counted))
        counted[port] += 1
        numbers.append(counted[port])
        streams[port].append(at)
    found = []
    for parts in product(*streams):
        last = max(parts)
        rows = [flat[at][3] for at in parts]
        keys = {row.values[f"{port}.k"] for port, row in enumerate(rows)}
        fits = all(
            part == last
            or (isinstance(window, Rows) and (window.size is None or ranks[last][port] - window.size < numbers[part]))
            or (isinstance(window, Sliding) and flat[last][0] - flat[part][0] <= window.size)
            or isinstance(window, Unbounded)
            for port, (part, window) in enumerate(zip(parts, windows, strict=True))
        )
        if len(keys) == 1 and None not in keys and fits:
            found.append((tuple(value for row in rows for value in row.values.values()), flat[last][0]))
    return bag(found)


row_lengths = st.one_of(lengths, st.sampled_from([Rows(0), Rows(1), Rows(3), Rows(None)]))


@pytest.mark.parametrize("state", STATES)
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_p8_windows_of_rows_count_in_one_order_whatever_the_batching(state: str, data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    windows = [data.draw(st.sampled_from([Rows(1), Rows(2), Rows(4)])), data.draw(row_lengths)]
    items = data.draw(merged(sides))
    make = maker(windows, state)
    out = drive(make(), split(items, schemas_of(2), data.draw(batch_cuts())))
    assert bag(rows_of(out)) == in_rows(sides, windows)
    assert broken_promises(out) == []
    assert bag(rows_of(drive_with_restarts(make, split(items, schemas_of(2))))) == in_rows(sides, windows)


# -- worked examples --------------------------------------------------------------------------------------------------


def one(port: int, ts: int, key: int | None, number: int = 0) -> Batch:
    return batch_of([Row(ts, number, {f"{port}.k": key, f"{port}.t": "", f"{port}.v": number})], schema_of(port))


def closing(port: int, **pattern: Any) -> Punctuation:
    return Punctuation.of(schema_of(port).names, 0, 0, **{f"{port}.{name}": value for name, value in pattern.items()})


@pytest.mark.parametrize("state", ["cluster", "split"])
def test_a_range_of_keys_is_announced_as_one_punctuation_per_key_column(state: str) -> None:
    join = maker([Sliding(10), Sliding(10)], state)()
    join.on_batch(1, one(1, 1, 7))
    out = join.on_metadata(0, closing(0, k=between(5, 9)))
    assert [str(mark) for mark in out] == [
        "⟨0.k=[5,9], 0.t=*, 0.v=*, 1.k=*, 1.t=*, 1.v=*⟩",
        "⟨0.k=*, 0.t=*, 0.v=*, 1.k=[5,9], 1.t=*, 1.v=*⟩",
    ]
    assert join.counters()["state_rows"] == 0


@pytest.mark.parametrize("state", ["cluster", "split"])
def test_an_input_that_ends_lets_the_output_end(state: str) -> None:
    join = maker([Unbounded(), Unbounded()], state)()
    join.on_batch(1, one(1, 1, 7))
    (out,) = join.on_metadata(0, closing(0))
    assert isinstance(out, Punctuation)
    assert out.is_end_of_stream
    assert join.counters()["state_rows"] == 0


def test_g5_a_punctuation_on_another_column_purges_nothing_and_leaves_when_no_row_matches() -> None:
    join = maker([Sliding(10), Sliding(10)])()
    join.on_batch(1, one(1, 1, 180, 5))
    join.on_batch(0, one(0, 1, 180))
    assert join.on_metadata(1, closing(1, k=constant(180), v=constant(5))) == []
    assert join.counters()["state_rows"] == 2
    assert len(rows_of(join.on_batch(1, one(1, 2, 180, 6)))) == 1
    out = join.on_metadata(0, Heartbeat(12))
    assert [str(mark) for mark in out] == ["⟨0.k=*, 0.t=*, 0.v=*, 1.k=180, 1.t=*, 1.v=5⟩"]


@pytest.mark.parametrize(("policy", "joined"), [("quarantine", 0), ("trust_tuple", 1)])
def test_a_row_that_breaks_its_punctuation_is_refused_or_joined_with_what_is_stored(policy: str, joined: int) -> None:
    join = maker([Unbounded()] * 3, on_violation=policy)()
    for port in (0, 1, 2):
        join.on_batch(port, one(port, 1, 4))
    join.on_metadata(0, closing(0, k=constant(4)))
    out = join.on_batch(0, one(0, 2, 4))
    assert len(rows_of(out)) == joined
    assert [item.reason for item in out if isinstance(item, Quarantined)] == ["punctuation-violated"] * (1 - joined)


def test_a_row_that_breaks_its_punctuation_stops_the_join_by_default() -> None:
    join = maker([Unbounded(), Unbounded()])()
    join.on_metadata(0, closing(0, k=constant(4)))
    with pytest.raises(PunctuationViolated, match="input 0 at time 2 has a key that its input has closed"):
        join.on_batch(0, one(0, 2, 4))


def test_late_rows_are_refused() -> None:
    join = maker([Unbounded(), Unbounded()])()
    join.on_metadata(0, Heartbeat(10))
    (refused,) = join.on_batch(0, one(0, 2, 4))
    assert isinstance(refused, Quarantined)
    assert refused.reason == "late"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [(pa.string(), pa.int64(), "string, int64; cast them"), (pa.float64(), pa.int64(), "double, int64; cast them")],
)
def test_keys_of_different_types_are_refused(first: pa.DataType, second: pa.DataType, message: str) -> None:
    schemas = [pa.schema({"a": first}), pa.schema({"b": second})]
    with pytest.raises(InvalidPlan, match=message):
        PWJoin(schemas, [["a"], ["b"]], [Sliding(1), Sliding(1)], pa.schema([*schemas[0], *schemas[1]]))


@pytest.mark.parametrize(
    ("windows", "options", "message"),
    [
        ((Sliding(1),), {}, "2 to 32 inputs, not 1"),
        ((Sliding(1),) * 33, {}, "2 to 32 inputs, not 33"),
        ((Sliding(1),) * 3, {"state": "split"}, "split state joins two inputs"),
        ((Rows(1), Sliding(1)), {"clock": "frontier"}, "windows of rows need one order"),
        ((Sliding(1),) * 2, {"loner_ttl": -1}, "must not be negative"),
    ],
)
def test_impossible_configurations_are_refused(windows: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        JoinConfig(windows, **options)


def test_thirty_two_streams_join_with_one_look_up_per_row() -> None:
    windows = [Sliding(9)] * 32
    schemas = [pa.schema({f"{port}.k": pa.int64()}) for port in range(32)]
    join = PWJoin(schemas, [[f"{port}.k"] for port in range(32)], windows, pa.schema([f for s in schemas for f in s]))
    for port in range(32):
        out = join.on_batch(
            port, Batch(pa.RecordBatch.from_arrays([[5]], schema=schemas[port]), np.array([port // 8]), np.array([0]))
        )
    assert [batch.num_rows for batch in out] == [1]
    assert join.counters()["lookups"] == 32
    for port in range(32):
        marks = join.on_metadata(port, Punctuation((f"{port}.k",), (one_of([5, 6]),)))
        # Key 6 has no row and leaves with the first announcement, key 5 with the last.
        assert len(marks) == (32 if port in (0, 31) else 0)
    assert join.counters()["state_rows"] == 0


def test_state_stays_flat_while_keys_come_and_go() -> None:
    join = maker([Unbounded(), Unbounded()])()
    sizes = []
    for start in range(0, 20_000, 1000):
        keys = np.arange(start, start + 1000)
        for port in (0, 1):
            columns = [pa.array(keys), pa.nulls(1000, pa.string()), pa.array(keys)]
            join.on_batch(port, Batch(pa.RecordBatch.from_arrays(columns, schema=schema_of(port)), keys, keys))
            join.on_metadata(port, closing(port, k=between(None, start + 999)))
        sizes.append((join.counters()["state_rows"], join.counters()["markers"], sum(store.num_rows for store in join.stores)))
    assert set(sizes) == {(0, 0, 0)}
    assert join.counters()["results"] == 20_000
    assert len(join.snapshot().segments) <= 1


def test_only_new_rows_are_written_by_the_next_snapshot() -> None:
    join = maker([Unbounded(), Unbounded()])()
    join.on_batch(0, one(0, 1, 1))
    first = set(join.snapshot().segments)
    join.on_batch(0, one(0, 2, 2))
    join.on_metadata(0, closing(0, k=constant(1)))
    second = join.snapshot().segments
    assert first < set(second)
    join.on_metadata(1, closing(1, k=constant(1)))
    third = join.snapshot().segments
    assert set(second) - first < set(third)
    assert all(part.num_rows <= 2 for part in third.values())


@pytest.mark.parametrize("state", STATES)
@given(data=st.data())
@settings(max_examples=4, deadline=None)
def test_the_shared_checks_of_operators_hold(state: str, data: st.DataObject) -> None:
    from penstock.testing.checks import inputs as any_inputs

    check_all(maker([Sliding(5), Sliding(2)], state), data.draw(any_inputs(schemas_of(2))), schemas_of(2), data.draw(batch_cuts()))


def test_replacing_windows_keeps_the_other_choices() -> None:
    config = replace(JoinConfig.within(1, 1), drop=False, clock="frontier")
    schemas = [pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()})]
    join = PWJoin(schemas, [["a"], ["b"]], [Sliding(4), Unbounded()], pa.schema([*schemas[0], *schemas[1]]), config=config)
    assert (join.config.windows, join.config.drop) == ((Sliding(4), Unbounded()), False)
