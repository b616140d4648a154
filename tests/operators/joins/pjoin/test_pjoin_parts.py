"""Configuration, registry, tuning, keys and spilled chunks of PJoin."""

from __future__ import annotations

import pickle
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pjoin_cases import registries

from penstock.columnar.hashing import UInt64s
from penstock.errors import InvalidConfiguration, StateUnwritable
from penstock.model.value_sets import between
from penstock.operators.joins.pjoin import keys as keys_module
from penstock.operators.joins.pjoin.config import PJoinConfig, UnboundedStateWarning
from penstock.operators.joins.pjoin.items import run_items
from penstock.operators.joins.pjoin.keys import KeyTable, common_kind
from penstock.operators.joins.pjoin.registry import EAGER, PAIRED, REFERENCE, Event, Listener, Registry, Rule
from penstock.operators.joins.pjoin.spill import EncodedStore, FileStore
from penstock.operators.joins.pjoin.trace import PUNCTUATION, TUPLE, Items
from penstock.operators.joins.pjoin.tuning import PurgeTuner, best_threshold

THRESHOLDS = ("purge_threshold", "memory_rows", "memory_bytes", "activation_share", "propagate_count", "propagate_time", "buckets")


@pytest.mark.parametrize("name", THRESHOLDS)
@pytest.mark.parametrize("value", [0, -1, "many"])
def test_thresholds_that_are_not_positive_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidConfiguration, match="greater than 0"):
        PJoinConfig(**{name: value})  # type: ignore[arg-type]


def test_unknown_choices_are_refused_with_what_there_is() -> None:
    with pytest.raises(InvalidConfiguration, match="Did you mean 'index'"):
        PJoinConfig(purge_access="indx")  # type: ignore[arg-type]


def test_a_registry_without_purge_is_warned_about() -> None:
    silent = Registry((Rule(Event.STATE_FULL, (Listener.STATE_RELOCATION,)),))
    with pytest.warns(UnboundedStateWarning, match="unbounded"):
        run_items(PJoinConfig(registry=silent), Items.of([]))
    run_items(PJoinConfig.xjoin(), Items.of([]))


@given(registry=registries())
@settings(max_examples=30, deadline=None)
def test_configurations_travel_as_json_and_as_pickles(registry: Registry) -> None:
    config = PJoinConfig(registry=registry, purge_threshold=7)
    assert PJoinConfig().changed(config.changeable_json()) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert Registry.from_json(registry.to_json()) == registry


def test_spilled_state_is_joined_between_purge_and_propagation() -> None:
    rules = [str(rule) for rule in EAGER.with_spilled_state().of(Event.NEW_PUNCTUATION)]
    assert rules == [
        "new_punctuation: state_purge",
        "new_punctuation if left_over: disk_join",
        "new_punctuation: index_build, propagation",
    ]


def test_a_purge_that_makes_room_spares_the_relocation() -> None:
    tape = [(TUPLE, 0, key) for key in range(3)]
    marks = [(PUNCTUATION, 1, key) for key in (0, 1)]
    for closed, spilled in ((marks, 0), ([], 4)):
        items = Items.of([*tape, *closed, (TUPLE, 0, 9)])
        trace = run_items(PJoinConfig.published(100, memory_rows=4, buckets=1), items)
        assert trace.totals["tuples_spilled"] == spilled


def test_paired_propagation_says_only_what_both_have_announced() -> None:
    tape = [(PUNCTUATION, 0, 1), (PUNCTUATION, 1, 2), (TUPLE, 1, 1), (PUNCTUATION, 1, 1), (PUNCTUATION, 0, 3), (PUNCTUATION, 0, 2)]
    trace = run_items(PJoinConfig.published(1, registry=PAIRED), Items.of(tape))
    assert trace.announced_item.tolist() == [3, 5]
    both = run_items(PJoinConfig.published(1, registry=REFERENCE), Items.of(tape))
    assert both.announced_item.tolist() == [0, 1, 4]


def test_the_start_of_the_purge_threshold_is_the_optimum_of_the_cost_model() -> None:
    assert [best_threshold(buckets, 10, 242, 5.6) for buckets in (16, 64)] == [17, 33]
    assert (best_threshold(64, 10, 0, 5), best_threshold(64, 10, 500, 0)) == (1, 10_000)


def test_the_tuner_turns_when_work_grows_and_stays_within_its_bounds() -> None:
    tuner, seen = PurgeTuner(64), []
    work = 0
    for purge in range(1, 2001):
        # Cheapest at about 100: far away both scans and probes cost more.
        work += int(100 + abs(np.log2(tuner.threshold / 100)) * 100)
        tuner.after_purge(purge, purge, work, 5 * purge, 50)
        seen.append(tuner.threshold)
    assert len(set(seen[1000:])) == 3
    assert 40 <= np.median(seen[1000:]) <= 260
    copy = PurgeTuner(64)
    copy.restore(tuner.to_json())
    assert copy == tuner


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.lists(st.sampled_from(["a", "b", "ab", "", "ba"]), min_size=1, max_size=8), min_size=1, max_size=4))
def test_keys_with_equal_hashes_get_different_numbers(parts: list[list[str]]) -> None:
    def same(columns: object, rows: int) -> UInt64s:
        return np.full(rows, 42, np.uint64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "hash_columns", same)
        table, known = KeyTable([pa.string()], 4), dict[str, int]()
        for part in parts:
            kids, _ = table.intern([pa.array(part)])
            for text, kid in zip(part, kids.tolist(), strict=True):
                assert known.setdefault(text, kid) == kid
    assert len(set(known.values())) == len(known)
    assert table.columns[0].to_pylist() == sorted(known, key=known.__getitem__)


def test_keys_of_different_width_are_compared_in_the_wider_type() -> None:
    assert common_kind(pa.int32(), pa.int64()) == pa.int64()
    table = KeyTable([pa.int64()], 4)
    first, _ = table.intern([pa.array([1, 2], pa.int32())])
    again, _ = table.intern([pa.array([2, 3], pa.int64())])
    assert [*first.tolist(), *again.tolist()] == [0, 1, 1, 2]
    assert table.matching([between(2, 3)]).tolist() == [False, True, True]


def test_a_full_disk_is_an_error_before_anything_is_lost(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "gone")
    with pytest.raises(StateUnwritable, match="cannot be spilled"):
        store.put("a", pa.RecordBatch.from_pydict({"x": [1]}))
    assert store.num_bytes == 0


def test_chunks_travel_between_stores_without_being_decoded(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"x": list(range(1000)), "text": ["same text"] * 1000})
    held, files = EncodedStore(), FileStore(tmp_path)
    held.put("a", rows)
    assert held.num_bytes < rows.nbytes / 2
    files.load("a", held.segments()["a"])
    held.clear()
    held.load("a", files.segments()["a"])
    assert held.get("a").equals(rows)
    assert files.get("a").equals(rows)
    assert list(tmp_path.iterdir()) == []  # not even while it is in use
    files.drop("a")
    assert files.num_bytes == 0
