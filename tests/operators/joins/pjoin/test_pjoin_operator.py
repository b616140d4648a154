"""PJoin and XJoin over rows: exact for every configuration, batching, interleaving and restart, spilled or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pjoin_cases import changes, configurations

from penstock.errors import InvalidConfiguration, InvalidPlan, PunctuationViolated
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.declarations import RowPolicy
from penstock.model.elements import Control, End, Heartbeat, Herald, Quarantined, Request
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import ANY, between, constant, one_of
from penstock.model.windows import Lifespan, Sliding, Unbounded
from penstock.operators.joins.pjoin.config import Access, PJoinConfig
from penstock.operators.joins.pjoin.operator import PJoin, XJoin
from penstock.operators.joins.pjoin.registry import EAGER, PULL
from penstock.operators.joins.pjoin.spill import EncodedStore, FileStore
from penstock.testing import reference
from penstock.testing.checks import check_all
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, broken_promises, rows_of
from penstock.testing.tapes import KEYS, Tape, batch_cuts, deliver, drive, merged, patterns, reborn, rows_in, split, tapes

WINDOWS = [Unbounded(), Unbounded()]

# Random registries often have no rule that purges.
pytestmark = pytest.mark.filterwarnings("ignore:no rule of the registry purges")


def schema_of(port: int, kind: pa.DataType | None = None) -> pa.Schema:
    return pa.schema({f"{port}.k": kind or pa.int64(), f"{port}.t": pa.string(), f"{port}.v": pa.int64()})


def maker(
    config: PJoinConfig | None = None,
    columns: Sequence[str] = ("k",),
    kind: pa.DataType | None = None,
    residual: str = "",
    life: Lifespan | None = None,
    join: type[PJoin] = PJoin,
) -> Callable[[], PJoin]:
    schemas = [schema_of(port, kind) for port in (0, 1)]
    keys = [[f"{port}.{name}" for name in columns] for port in (0, 1)]
    condition = parse(residual) if residual else None
    return lambda: join(schemas, keys, WINDOWS, pa.schema([*schemas[0], *schemas[1]]), condition, life, config)


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


@st.composite
def inputs(draw: st.DrawFn, keys: Sequence[Any] = KEYS, most: int = 12) -> list[Tape]:
    values = {"k": st.sampled_from(keys), "t": st.sampled_from(["", "a", "ab", None]), "v": st.integers(0, 3)}
    others = {"v": st.integers(0, 3).map(constant), "k": patterns(keys)}
    return [named(port, draw(tapes(values, "k", others, most))) for port in (0, 1)]


def expected(sides: Sequence[Tape], columns: Sequence[str] = ("k",), life: Lifespan | None = None, **more: Any) -> list[Any]:
    keys = [[f"{port}.{name}" for name in columns] for port in (0, 1)]
    return bag(reference.window_join([rows_in(tape) for tape in sides], keys, WINDOWS, life or Lifespan(), **more))


# -- properties -------------------------------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_p1_p2_p12_rows_equal_brute_force_and_no_row_breaks_a_promise_whatever_the_configuration(data: st.DataObject) -> None:
    sides = data.draw(inputs())
    arrivals = split(data.draw(merged(sides)), [schema_of(0), schema_of(1)], data.draw(batch_cuts()), data.draw(st.booleans()))
    join = data.draw(st.sampled_from([PJoin, PJoin, XJoin]))
    out = drive(maker(data.draw(configurations()), join=join)(), arrivals)
    assert bag(rows_of(out)) == expected(sides)
    assert broken_promises(out) == []


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_texts_and_several_columns_are_keys_and_residuals_decide_last(data: st.DataObject) -> None:
    sides = data.draw(inputs(("", "a", "ab", "b", None)))
    items = data.draw(merged(sides))
    columns = data.draw(st.sampled_from([("k",), ("k", "v"), ("t", "k")]))
    arrivals = split(items, [schema_of(0, pa.string()), schema_of(1, pa.string())], data.draw(batch_cuts()))
    config, life = data.draw(configurations()), data.draw(st.sampled_from([Lifespan(), Lifespan(5, 25)]))
    out = drive(maker(config, columns, pa.string(), "`0.v` < `1.v` + 1", life)(), arrivals)
    assert bag(rows_of(out)) == expected(sides, columns, life, residual=lambda row: row["0.v"] < row["1.v"] + 1)
    assert broken_promises(out) == []


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_p9_p10_the_shared_checks_hold_for_every_configuration(data: st.DataObject) -> None:
    make = maker(data.draw(configurations()), data.draw(st.sampled_from([("k",), ("k", "v")])))
    check_all(make, data.draw(merged(data.draw(inputs(most=8)))), [schema_of(0), schema_of(1)], data.draw(batch_cuts()))


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_p10_a_restart_changes_nothing_while_thresholds_and_registry_change(data: st.DataObject) -> None:
    sides = data.draw(inputs())
    arrivals = split(data.draw(merged(sides)), [schema_of(0), schema_of(1)], data.draw(batch_cuts()))
    make = maker(data.draw(configurations()))
    controls = data.draw(st.dictionaries(st.integers(0, 20), changes(), max_size=4))
    outs: list[list[Any]] = [[], []]
    for restarts, out in enumerate(outs):
        operator: Any = make()
        for at, (port, element) in enumerate(arrivals):
            operator = reborn(make, operator) if restarts else operator
            if at in controls:
                out += operator.on_control(Control(at, "pjoin", controls[at]))
            out += deliver(operator, port, element)
    assert list(map(str, outs[0])) == list(map(str, outs[1]))
    assert bag(rows_of(outs[0])) == expected(sides)
    assert broken_promises(outs[0]) == []


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_p11_every_row_is_accounted_for(data: st.DataObject) -> None:
    sides = data.draw(inputs())
    join = maker(data.draw(configurations()), life=Lifespan(3, 27))()
    arrivals = split(data.draw(merged(sides)), [schema_of(0), schema_of(1)], data.draw(batch_cuts()))
    seen = 0
    for port, element in arrivals:
        drive(join, [(port, element)])
        seen += element.num_rows if isinstance(element, Batch) else 0
        count = join.counters()
        assert seen == sum(count[name] for name in ("state_rows", "purged", "null_keys", "outside_life"))
    assert join.counters()["state_rows"] == 0


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_p9_the_same_values_are_announced_in_the_end_for_every_batching_order_and_configuration(data: st.DataObject) -> None:
    sides = data.draw(inputs())
    schemas = [schema_of(0), schema_of(1)]
    found = set()
    for _ in range(3):
        items = data.draw(merged(sides))
        out = drive(maker(data.draw(configurations()))(), split(items, schemas, data.draw(batch_cuts())))
        marks = [item for item in out if isinstance(item, Punctuation) and set(item.restricted) <= {"0.k", "1.k"}]
        found.add(tuple(key for key in range(6) if any(mark.matches({"0.k": key, "1.k": key}) for mark in marks)))
    assert len(found) == 1


# -- single behaviours ------------------------------------------------------------------------------------------------


def rows(port: int, *keys: int | None, ts: int = 1) -> Batch:
    made = [Row(ts, at, {f"{port}.k": key, f"{port}.t": "x", f"{port}.v": at}) for at, key in enumerate(keys)]
    return batch_of(made, schema_of(port))


def closing(port: int, **found: Any) -> Punctuation:
    return Punctuation.of(schema_of(port).names, 0, 0, **{f"{port}.{name}": pattern for name, pattern in found.items()})


def test_windows_are_refused() -> None:
    schemas = [schema_of(0), schema_of(1)]
    with pytest.raises(InvalidPlan, match="use a window join"):
        PJoin(schemas, [["0.k"], ["1.k"]], [Unbounded(), Sliding(5)], pa.schema([*schemas[0], *schemas[1]]))


def test_a_violation_fails_the_batch_and_emits_nothing_of_it() -> None:
    join = maker()()
    join.on_batch(1, rows(1, 5, 6))
    join.on_metadata(0, closing(0, k=constant(5)))
    before = join.counters()
    with pytest.raises(PunctuationViolated, match="match a punctuation that came before them"):
        join.on_batch(0, rows(0, 6, 5))
    assert join.counters() == before


def test_a_violating_row_is_quarantined_or_joined_with_what_is_stored() -> None:
    stored, mark = rows(1, 5, 6), closing(0, k=between(6, 9))
    for policy in (RowPolicy.QUARANTINE, RowPolicy.TRUST):
        # A lazy purge: what the violating row could meet is still stored.
        join = maker(PJoinConfig.published(9, on_violation=policy))()
        join.on_batch(1, stored)
        join.on_metadata(0, mark)
        out = join.on_batch(0, rows(0, 5, 6))
        refused = [item for item in out if isinstance(item, Quarantined)]
        keys = sorted(values[0] for values, _ in rows_of(out))
        if policy is RowPolicy.QUARANTINE:
            assert (keys, [item.batch.num_rows for item in refused], refused[0].reason) == ([5], [1], "punctuation-violated")
        else:
            assert (keys, refused) == ([5, 6], [])
        assert join.counters()["violations"] == 1
        assert join.counters()["state_rows_0"] == 1


def test_null_keys_are_counted_and_never_stored() -> None:
    join = maker()()
    join.on_batch(0, rows(0, None, 1, None))
    assert (join.counters()["null_keys"], join.counters()["state_rows"]) == (2, 1)


def test_a_request_is_answered_and_passed_on_even_if_there_is_nothing_to_say() -> None:
    join = maker(PJoinConfig(registry=PULL))()
    request = Request("propagate")
    assert list(join.on_metadata(0, request)) == [request]
    assert list(join.on_metadata(0, closing(0, k=constant(5)))) == []
    *answer, last = join.on_metadata(1, request)
    assert [mark.restricted for mark in answer] == [{"0.k": constant(5)}, {"1.k": constant(5)}]
    assert last is request
    herald, other = Herald(closing(0)), Request("other")
    assert [*join.on_metadata(0, herald), *join.on_metadata(0, other)] == [herald, other]


def test_the_end_of_one_input_purges_the_other_and_stops_storing_it() -> None:
    join = maker()()
    join.on_batch(1, rows(1, 1, 2, 3))
    join.on_metadata(0, closing(0, k=ANY))
    assert join.counters()["state_rows"] == 0
    join.on_batch(1, rows(1, 4))
    assert join.counters()["purged_on_the_fly"] == 1


def test_a_list_leaves_value_by_value() -> None:
    join = maker()()
    join.on_batch(0, rows(0, 1, 2))
    assert join.on_metadata(0, closing(0, k=one_of([1, 2, 4])))[0].restricted == {"0.k": constant(4)}
    assert join.on_metadata(1, closing(1, k=constant(1)))[0].restricted == {"0.k": constant(1)}


def test_a_control_changes_thresholds_and_registry_and_refuses_nonsense() -> None:
    join = maker(PJoinConfig(purge_threshold=5, registry=PULL))()
    join.on_batch(0, rows(0, 1))
    join.on_metadata(1, closing(1, k=constant(1)))
    assert join.counters()["state_rows"] == 1
    join.on_control(Control(1, "pjoin", {"purge_threshold": 2}))
    join.on_metadata(1, closing(1, k=constant(2)))
    assert (join.counters()["state_rows"], join.counters()["purge_threshold"]) == (0, 2)
    join.on_control(Control(2, "pjoin", {"registry": "eager"}))
    assert join.on_metadata(1, closing(1, k=constant(3)))
    assert join.on_control(Control(3, "somebody else", {"purge_threshold": 0})) == []
    for wrong in ({"purge_threshold": 0}, {"buckets": 3}, {"purge_treshold": 1}, {"registry": "egaer"}):
        with pytest.raises(InvalidConfiguration):
            join.on_control(Control(4, "pjoin", wrong))


def test_a_lower_memory_threshold_spills_at_once() -> None:
    join = maker(PJoinConfig(memory_rows=100, buckets=4))()
    join.on_batch(0, rows(0, *range(50)))
    join.on_control(Control(1, "pjoin", {"memory_rows": 10}))
    count = join.counters()
    assert count["memory_rows"] < 10
    assert count["state_rows"] == 50
    assert count["tuples_spilled"] > 40


def test_heartbeats_wait_for_left_over_results_unless_they_are_finished_first() -> None:
    for registry, held in ((EAGER, True), (EAGER.with_spilled_state(), False)):
        join = maker(PJoinConfig(memory_rows=1, buckets=1, registry=registry))()
        join.on_batch(0, rows(0, 7, ts=3))
        join.on_batch(1, rows(1, 7, ts=4))
        out = [*join.on_metadata(0, Heartbeat(9)), *join.on_metadata(1, Heartbeat(9))]
        beats = [item.ts for item in out if isinstance(item, Heartbeat)]
        assert beats == ([4] if held else [9])
        assert len(rows_of(out)) == (0 if held else 1)
        out += join.on_metadata(0, End())
        assert len(rows_of(out)) == 1
        assert broken_promises(out) == []


def test_idle_inputs_are_used_for_disk_joins() -> None:
    join = maker(PJoinConfig(memory_rows=2, buckets=1, registry=EAGER))()
    join.on_batch(0, rows(0, 1, 2))
    join.on_batch(1, rows(1, 1, 2))
    out = [*join.on_metadata(0, Heartbeat(1)), *join.on_metadata(1, Heartbeat(1))]
    assert rows_of(out) == []
    out = list(join.on_metadata(0, Heartbeat(1)))
    assert len(rows_of(out)) == 2


@pytest.mark.parametrize("in_files", [False, True])
def test_spilled_rows_are_not_held_decoded(in_files: bool, tmp_path: Path) -> None:
    schemas, store = [schema_of(0), schema_of(1)], FileStore(tmp_path) if in_files else EncodedStore()
    config = PJoinConfig(memory_rows=200, buckets=8)
    join = PJoin(schemas, [["0.k"], ["1.k"]], WINDOWS, pa.schema([*schemas[0], *schemas[1]]), None, None, config, store)
    results = 0
    for step in range(8):
        for port in (0, 1):
            results += len(rows_of(join.on_batch(port, rows(port, *range(step * 50, step * 50 + 100), ts=step))))
        held = sum(piece.num_rows for side in (0, 1) for piece in join.payload.pieces(side) if not piece.is_on_disk)
        assert held <= 2 * 200 + 2 * 100
        assert join.counters()["memory_rows"] < 200
    names = {name for name in join.snapshot().segments if name.startswith("spill")}
    assert names
    assert all(join.snapshot().segments[name].num_rows == 1 for name in names)
    assert store.num_bytes > 0
    assert list(tmp_path.iterdir()) == []  # files lose their names when they are written
    fresh = PJoin(schemas, [["0.k"], ["1.k"]], WINDOWS, pa.schema([*schemas[0], *schemas[1]]), None, None, config)
    fresh.restore(join.snapshot())
    out = fresh.on_metadata(0, End())
    # Every key of a step meets itself in the same and in the neighbouring steps.
    assert results + len(rows_of(out)) == 8 * 100 + 2 * 7 * 50


def test_forgetting_keys_closed_by_both_bounds_memory() -> None:
    for forget, bounded in (("both", True), ("never", False)):
        join = maker(PJoinConfig(forget_closed=forget), kind=pa.string())()
        for step in range(150):
            for port in (0, 1):
                row = Row(step, step, {f"{port}.k": f"key {step}", f"{port}.t": "", f"{port}.v": 0})
                join.on_batch(port, batch_of([row], schema_of(port, pa.string())))
                join.on_metadata(port, closing(port, k=constant(f"key {step}")))
        assert (join.counters()["closed_entries"] < 250) == bounded
        assert join.counters()["state_rows"] == 0


def test_dead_keys_and_rows_do_not_accumulate() -> None:
    join = maker(PJoinConfig(purge_access=Access.INDEX))()
    for step in range(40):
        keys = range(step * 500, step * 500 + 500)
        for port in (0, 1):
            join.on_batch(port, rows(port, *keys))
        for port in (0, 1):
            join.on_metadata(port, closing(port, k=between(step * 500, step * 500 + 499)))
    assert join.counters()["state_rows"] == 0
    assert join.engine.core.keys.number < 10_000
    assert sum(piece.num_rows for side in (0, 1) for piece in join.payload.pieces(side)) == 0
    assert join.counters()["closed_entries"] <= 6
