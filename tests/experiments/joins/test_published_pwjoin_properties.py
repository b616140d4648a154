"""Properties P-1 to P-12 of the PWJoin family, after every item, against the definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from published_pwjoin_oracle import Item, Oracle, Stepper, brute_force, configs, ordered_items, row_windows

from penstock.experiments.joins.items import Fate, Kind
from penstock.experiments.joins.pwjoin.config import PWJoinConfig

ACCEPTED = {Fate.STORED, Fate.PURGED_ON_THE_FLY, Fate.DROPPED, Fate.EXPIRED}


def left(stepper: Stepper) -> set[int]:
    """Keys that have left."""
    return {key for key, _ in stepper.marks}


def tuples_of(items: list[Item]) -> set[int]:
    """Item numbers of the tuples."""
    return {number for number, item in enumerate(items) if item[0] == Kind.TUPLE}


def check_everything(config: PWJoinConfig, items: list[Item]) -> None:
    """Play items and compare fates, state, marks and results with what the definitions say, after each."""
    stepper, oracle = Stepper(config, items), Oracle(config)
    for number, item in enumerate(items):
        before = left(stepper)
        results, marks = stepper.step()
        fate = oracle.step(number, item)
        if fate is not None:
            assert Fate(stepper.fates[number]) == fate, (number, item)
        # P-4: exactly what can still find a partner is stored.
        assert stepper.stored() == [oracle.stored(stream) for stream in range(config.streams)], number
        # P-2: no result after a mark that covers its key.
        assert not any(items[parts[0]][3] in before for parts in results)
        # P-3: a key leaves once, unless it was forgotten.
        new = [key for key, _ in marks]
        assert config.forgets_closed or (len(set(new)) == len(new) and not before.intersection(new)), number
        # P-5: what can leave has left, and nothing else.
        assert left(stepper) == {key for key in oracle.over if any(key in keys for keys in oracle.announced)}, number
    accepted = {number for number in tuples_of(items) if stepper.fates[number] in ACCEPTED}
    assert sorted(stepper.results) == brute_force(config, items, accepted)
    check_conservation(stepper)


def check_conservation(stepper: Stepper) -> None:
    """P-11: every tuple is somewhere."""
    counted = stepper.join.counters()
    fates = ("purged", "purged_on_the_fly", "dropped", "invalidated", "violations", "state")
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
@pytest.mark.parametrize("options", [{"early_propagation": False}, {"forgets_closed": True}])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_options_change_when_things_leave_and_never_the_results(state: str, options: dict[str, Any], data: st.DataObject) -> None:
    config = data.draw(configs(2, state, **options))
    check_everything(config, data.draw(ordered_items(2)))


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p8_windows_of_rows_equal_brute_force_whatever_punctuations_arrive(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 3))
    config = PWJoinConfig(data.draw(st.tuples(*[row_windows] * streams)), data.draw(st.sampled_from(["cluster", "tables"])))
    items = data.draw(ordered_items(streams))
    stepper = Stepper(config, items)
    stepper.step(len(items))
    assert sorted(stepper.results) == brute_force(config, items, tuples_of(items))
    sizes = [window.size for window in config.windows]  # type: ignore[union-attr]
    assert all(size is None or len(held) <= size for size, held in zip(sizes, stepper.stored(), strict=True))


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
        assert len({stepper.join.counters()[name] for stepper in steppers}) == 1


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
    assert single.join.counters() == batched.join.counters()
    assert sorted(split.results) == sorted(single.results)
    assert left(split) == left(single)
    assert split.stored() == single.stored()


@pytest.mark.parametrize("state", ["cluster", "split"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_tuples_that_break_their_punctuation_are_refused_and_never_lost(state: str, data: st.DataObject) -> None:
    config = data.draw(configs(2, state))
    check_everything(config, data.draw(ordered_items(2, violations=True)))


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_few_markers_cost_repeated_marks_and_never_a_result(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 3))
    config = replace(data.draw(configs(streams)), most_markers=data.draw(st.integers(0, 2)))
    items = data.draw(ordered_items(streams))
    stepper = Stepper(config, items)
    for _ in items:
        before = left(stepper)
        results, _ = stepper.step()
        assert not any(items[parts[0]][3] in before for parts in results)
        assert stepper.join.counters()["markers"] <= config.most_markers
    assert sorted(stepper.results) == brute_force(config, items, tuples_of(items))
