"""Properties P-1 to P-13 of the PWJoin family, after every item, against the definitions."""

from __future__ import annotations

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
    ordered_items,
)

from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.trace import Fate

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
            # P-3: a key leaves once; a range may cover keys that left before.
            assert low < high or not covered(low, before)
            if low == high and low in counts_by_key:
                counts_by_key[low] += 1
        # P-5: what can leave has left, at the latest when somebody asks for it.
        for key in KEYS:
            if announced_singly(oracle, key) and key in oracle.over:
                assert covered(key, stepper.marks), (number, key)
    assert all(count <= 1 for count in counts_by_key.values())
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
@settings(max_examples=60, deadline=None)
def test_p1_to_p5_p11_cluster_state_is_what_the_definitions_say_after_every_item(streams: int, data: st.DataObject) -> None:
    config = data.draw(configs(streams, rows=data.draw(st.booleans())))
    check_everything(config, data.draw(ordered_items(streams)))


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_p1_to_p5_p11_split_state_is_what_the_definitions_say_after_every_item(data: st.DataObject) -> None:
    config = data.draw(configs(2, "split", rows=data.draw(st.booleans())))
    check_everything(config, data.draw(ordered_items(2)))


@pytest.mark.parametrize("state", ["cluster", "split"])
@pytest.mark.parametrize("options", [{"early_propagation": False}, {"drop": False}, {"forget_closed": "when_all_announced"}])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_options_change_when_things_leave_and_never_the_results(state: str, options: dict[str, Any], data: st.DataObject) -> None:
    config = data.draw(configs(2, state, **options))
    check_everything(config, data.draw(ordered_items(2)))
