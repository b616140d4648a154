"""Properties P-1 to P-13 of the PWJoin family, after every item, against the definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pwjoin_oracle import (
    KEYS,
    Item,
    Oracle,
    Stepper,
    brute_force,
    configs,
    frontier_items,
    ordered_items,
    row_windows,
)

from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.run import run_items
from penstock.operators.joins.pwjoin.trace import Fate, Items, Kind

ACCEPTED = {Fate.STORED, Fate.PURGED_ON_THE_FLY, Fate.DROPPED, Fate.EXPIRED, Fate.NULL}


def covered(key: int, marks: list[tuple[int, int, int]]) -> bool:
    return any(low <= key <= high for low, high, _ in marks)


def announced_singly(oracle: Oracle, key: int) -> bool:
    return any((key, key) in marks for marks in oracle.announced)


def check_everything(config: JoinConfig, items: list[Item]) -> Stepper:
    """Play items and compare fates, state, marks and results with what the definitions say, after each."""
    stepper, oracle, counts_by_key = Stepper(config, items), Oracle(config), dict.fromkeys(KEYS, 0)
    for number, item in enumerate(items):
        before = list(stepper.marks)
        results, marks = stepper.step()
        fate = oracle.step(number, item)
        if fate is not None:
            assert Fate(stepper.fates[number]) == fate, (number, item)
        # P-4: exactly what can still find a partner is stored.
        if config.drop:
            assert stepper.stored() == [oracle.stored(stream) for stream in range(config.streams)], number
        # P-2: no result after a mark that covers its key.
        assert not any(covered(items[parts[0]][3], before) for parts in results)
        for low, high, _ in marks:
            assert all(key in oracle.over for key in KEYS if low <= key <= high), (number, low, high)
            # P-3: a key leaves once, unless it was forgotten; a range may cover keys that left before.
            assert low < high or not covered(low, before) or config.forget_closed != "never"
            if low == high and low in counts_by_key:
                counts_by_key[low] += 1
        # P-5: what can leave has left, at the latest when somebody asks for it.
        for key in KEYS:
            if announced_singly(oracle, key) and key in oracle.over:
                assert covered(key, stepper.marks), (number, key)
    assert all(count <= 1 for count in counts_by_key.values()) or config.forget_closed != "never"
    accepted = {number for number in range(len(items)) if stepper.fates[number] in ACCEPTED and items[number][0] in (0, 3)}
    if config.on_violation != "trust_tuple":
        assert sorted(stepper.results) == brute_force(config, items, accepted)
    check_conservation(stepper)
    return stepper


def check_conservation(stepper: Stepper) -> None:
    """P-11: every tuple is somewhere."""
    counted = stepper.core.counters()
    fates = ("purged", "purged_on_the_fly", "dropped", "invalidated", "null_keys", "violations", "trusted", "late", "state")
    assert counted["tuples"] == sum(counted[name] for name in fates)


@pytest.mark.parametrize("streams", [2, 3, 4])
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p1_to_p5_p11_cluster_state_is_what_the_definitions_say_after_every_item(streams: int, data: st.DataObject) -> None:
    config = data.draw(configs(streams, rows=data.draw(st.booleans())))
    check_everything(config, data.draw(ordered_items(streams)))


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p1_to_p5_p11_split_state_is_what_the_definitions_say_after_every_item(data: st.DataObject) -> None:
    config = data.draw(configs(2, "split", rows=data.draw(st.booleans())))
    check_everything(config, data.draw(ordered_items(2)))


@pytest.mark.parametrize("state", ["cluster", "split"])
@pytest.mark.parametrize("options", [{"early_propagation": False}, {"drop": False}, {"forget_closed": "when_all_announced"}])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_options_change_when_things_leave_and_never_the_results(state: str, options: dict[str, Any], data: st.DataObject) -> None:
    config = data.draw(configs(2, state, **options))
    check_everything(config, data.draw(ordered_items(2)))


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p8_windows_of_rows_equal_brute_force_whatever_punctuations_arrive(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 3))
    config = JoinConfig(data.draw(st.tuples(*[row_windows] * streams)), data.draw(st.sampled_from(["cluster", "tables"])))
    items = data.draw(ordered_items(streams))
    trace = run_items(config, Items.of(items), collect=True)
    everything = {number for number, item in enumerate(items) if item[0] in (Kind.TUPLE, Kind.NULL_KEY)}
    assert sorted(map(tuple, trace.results.tolist())) == brute_force(config, items, everything)
    sizes = [window.size for window in config.windows]
    assert all(size is None or held <= size for size, held in zip(sizes, trace.state[-1].tolist(), strict=True))


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p6_without_punctuations_all_states_hold_and_emit_the_same(data: st.DataObject) -> None:
    config = data.draw(configs(2, rows=data.draw(st.booleans())))
    items = [item for item in data.draw(ordered_items(2)) if item[0] != Kind.PUNCTUATION]
    steppers = [Stepper(replace(config, state=state), items) for state in ("cluster", "split", "tables")]
    for _ in items:
        outputs = [stepper.step() for stepper in steppers]
        assert sorted(outputs[0][0]) == sorted(outputs[1][0]) == sorted(outputs[2][0])
        assert steppers[0].stored() == steppers[1].stored() == steppers[2].stored()
    for name in ("results", "inserts", "invalidated", "state", "propagated"):
        assert len({stepper.core.counters()[name] for stepper in steppers}) == 1


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p7_punctuations_never_make_the_state_larger(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 3))
    config = data.draw(configs(streams, rows=data.draw(st.booleans())))
    items = data.draw(ordered_items(streams))
    with_them, without = Stepper(config, items), Stepper(config.baseline(), items)
    for _ in items:
        with_them.step()
        without.step()
        assert all(one <= other for one, other in zip(with_them.stored(), without.stored(), strict=True))
    assert sorted(with_them.results) == sorted(without.results)


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p9_p12_any_cut_into_batches_and_every_state_give_the_same(data: st.DataObject) -> None:
    config = data.draw(configs(2, rows=data.draw(st.booleans())))
    items = data.draw(ordered_items(2))
    single, batched, split = Stepper(config, items), Stepper(config, items), Stepper(replace(config, state="split"), items)
    for _ in items:
        single.step()
    while batched.at < len(items):
        batched.step(data.draw(st.integers(1, len(items) - batched.at)))
    split.step(len(items))
    assert single.results == batched.results
    assert single.marks == batched.marks
    assert single.core.counters() == batched.core.counters()
    assert sorted(split.results) == sorted(single.results)
    assert [covered(key, split.marks) for key in KEYS] == [covered(key, single.marks) for key in KEYS]
    assert split.stored() == single.stored()


@pytest.mark.parametrize("state", ["cluster", "split", "tables"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_p1_p2_with_frontiers_results_do_not_depend_on_order(state: str, data: st.DataObject) -> None:
    streams = 2 if state == "split" else data.draw(st.integers(2, 3))
    config = data.draw(configs(streams, state, clock="frontier"))
    items = data.draw(frontier_items(streams))
    if state != "tables":
        check_everything(config, items)
    else:
        stepper = Stepper(config, items)
        stepper.step(len(items))
        everything = {number for number, item in enumerate(items) if item[0] in (Kind.TUPLE, Kind.NULL_KEY)}
        assert sorted(stepper.results) == brute_force(config, items, everything)


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_p13_any_interleaving_that_keeps_each_streams_order_gives_the_same_bag(data: st.DataObject) -> None:
    config = data.draw(configs(3, clock=data.draw(st.sampled_from(["frontier", "source_order"]))))
    items = data.draw(frontier_items(3) if config.clock == "frontier" else ordered_items(3))
    turns = data.draw(st.permutations([item[1] for item in items]))
    sources = [[number for number, item in enumerate(items) if item[1] == stream] for stream in range(3)]
    places = [iter(source) for source in sources]
    order = [next(places[stream]) for stream in turns]
    plain, mixed = Stepper(config, items), Stepper(config, [items[number] for number in order])
    plain.step(len(items))
    mixed.step(len(items))
    renamed = [tuple(order[number] for number in parts) for parts in mixed.results]
    assert sorted(renamed) == sorted(plain.results)


@pytest.mark.parametrize("policy", ["quarantine", "trust_tuple"])
@pytest.mark.parametrize("state", ["cluster", "split"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_rows_that_break_their_punctuation_are_refused_or_believed_and_never_lost(
    policy: str, state: str, data: st.DataObject
) -> None:
    config = data.draw(configs(2, state, on_violation=policy))
    check_everything(config, data.draw(ordered_items(2, ranges=False, violations=True)))


@pytest.mark.parametrize("state", ["cluster", "split", "tables"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_late_rows_are_refused_and_counted(state: str, data: st.DataObject) -> None:
    config = data.draw(configs(2, state))
    items = data.draw(ordered_items(2, lateness=True))
    trace = run_items(config, Items.of(items))
    newest, late = -1, 0
    for kind, _, ts, _, _ in items:
        late += kind in (Kind.TUPLE, Kind.NULL_KEY) and ts < newest
        newest = max(newest, ts)
    # Tuples that were refused do not move time on, but they are older than it anyway.
    assert trace.counters["late"] == late


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_few_markers_cost_repeated_marks_and_never_a_result(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 3))
    config = replace(data.draw(configs(streams)), max_drop_markers=data.draw(st.integers(0, 2)))
    items = data.draw(ordered_items(streams))
    stepper = Stepper(config, items)
    for _ in items:
        before = list(stepper.marks)
        results, _ = stepper.step()
        assert not any(covered(items[parts[0]][3], before) for parts in results)
        assert stepper.core.counters()["markers"] <= config.max_drop_markers
    everything = {number for number, item in enumerate(items) if item[0] in (Kind.TUPLE, Kind.NULL_KEY)}
    assert sorted(stepper.results) == brute_force(config, items, everything)


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_index_entries_that_outlive_their_tuples_change_nothing_else(data: st.DataObject) -> None:
    config = replace(data.draw(configs(2)), loner_ttl=data.draw(st.integers(1, 4)))
    items = data.draw(ordered_items(2))
    check_everything(config, items)


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_the_probe_order_changes_what_is_looked_at_and_never_the_results(data: st.DataObject) -> None:
    config = data.draw(configs(4, "tables"))
    items = Items.of(data.draw(ordered_items(4)))
    fixed = run_items(config, items, collect=True)
    selective = run_items(replace(config, probe_order="selectivity"), items, collect=True)
    assert sorted(map(tuple, fixed.results.tolist())) == sorted(map(tuple, selective.results.tolist()))
    assert fixed.counters["state"] == selective.counters["state"]
