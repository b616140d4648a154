"""Worked examples of the specification, by name."""

from __future__ import annotations

import numpy as np
import pytest
from pwjoin_oracle import Item, Stepper

from penstock.model.windows import Rows, Sliding
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.run import run_items
from penstock.operators.joins.pwjoin.trace import Fate, Items, Kind

BOTH = pytest.mark.parametrize("state", ["cluster", "split"])
ALL = pytest.mark.parametrize("state", ["cluster", "split", "tables"])


def row(stream: int, ts: int, key: int) -> Item:
    return (Kind.TUPLE, stream, ts, key, key)


def mark(stream: int, ts: int, key: int, high: int | None = None) -> Item:
    return (Kind.PUNCTUATION, stream, ts, key, key if high is None else high)


def beat(ts: int) -> Item:
    return (Kind.HEARTBEAT, 0, ts, 0, 0)


def leaving(config: JoinConfig, *items: Item) -> list[tuple[int, int]]:
    """(key, time) of the output punctuations."""
    trace = run_items(config, Items.of(items))
    return list(zip(trace.marks.lows.tolist(), trace.marks.ts.tolist(), strict=True))


def time_list(stepper: Stepper, stream: int) -> list[int]:
    """Keys of the tuples in the time list of a stream."""
    memory, keys = stepper.core.memory, []
    node = memory.streams[stream, lay.FIRST]
    while node != lay.NONE:
        keys.append(int(memory.inodes[memory.nodes[node, lay.OWNER], lay.KEY]))
        node = memory.nodes[node, lay.TIME_NEXT]
    return keys


def value_list(stepper: Stepper, key: int, stream: int) -> list[int]:
    """Rows of a value list."""
    memory, rows = stepper.core.memory, []
    node = memory.lists[inode_of(stepper, key), stream, lay.HEAD]
    while node != lay.NONE:
        rows.append(int(memory.nodes[node, lay.ROW]))
        node = memory.nodes[node, lay.VALUE_NEXT]
    return rows


def inode_of(stepper: Stepper, key: int) -> int:
    inodes = stepper.core.memory.inodes[: stepper.core.memory.numbers[lay.INODES_USED]]
    (found,) = np.flatnonzero((inodes[:, lay.KEY] == key) & (inodes[:, lay.STATUS] != lay.FREE))
    return int(found)


def prop_time(stepper: Stepper, key: int) -> int:
    return int(stepper.core.memory.inodes[inode_of(stepper, key), lay.PROP_TIME])


@ALL
def test_g6_each_stream_is_seen_through_its_own_inclusive_window(state: str) -> None:
    items = [row(0, 1, 7), row(1, 2, 7), row(0, 8, 7), row(1, 11, 7)]
    stepper = Stepper(JoinConfig.within(10, 5, state=state), items)  # type: ignore[arg-type]
    assert [stepper.step()[0] for _ in items] == [[], [(0, 1)], [], [(0, 3), (2, 3)]]


@ALL
@pytest.mark.parametrize(
    ("gap", "seconds", "total"), [(2, 1, 1000), (2, 5, 5000), (2, 15, 15000), (10, 1, 200), (10, 5, 1000), (10, 15, 3000)]
)
def test_g7_the_state_reaches_the_plateau_of_rate_times_window(state: str, gap: int, seconds: int, total: int) -> None:
    ts = np.repeat(np.arange(0, 20_000, gap), 2)
    streams = np.tile([0, 1], len(ts) // 2)
    items = Items.columns(np.zeros(len(ts), np.int8), streams, ts, np.arange(len(ts)))
    trace = run_items(JoinConfig.within(seconds * 1000, seconds * 1000, state=state), items, sample_every=1000)  # type: ignore[arg-type]
    plateau = trace.samples["state"][trace.sampled_at > seconds * 1000]
    # The boundary belongs to the window: one more tuple per stream.
    assert set(plateau.tolist()) == {total + 2}


def test_g14_state_has_one_time_list_and_a_value_list_per_key() -> None:
    keys = [8, 10, 8, 8, 10, 4, 8]
    stepper = Stepper(JoinConfig.within(100, 100), [row(0, ts, key) for ts, key in enumerate(keys)])
    stepper.step(len(keys))
    assert time_list(stepper, 0) == keys
    assert [value_list(stepper, key, 0) for key in (8, 10, 4)] == [[0, 2, 3, 6], [1, 4], [5]]
    assert stepper.core.counters()["inodes"] == 3
    assert stepper.core.memory.numbers[lay.NODES_USED] == 7


@BOTH
def test_g15_full_trace(state: str) -> None:
    items = [
        row(0, 1, 180),
        row(1, 2, 180),
        row(0, 4, 180),
        mark(0, 5, 180),
        row(1, 9, 180),
        row(1, 12, 180),
        row(1, 14, 180),
        row(1, 15, 180),
        mark(1, 20, 180),
    ]
    stepper = Stepper(JoinConfig.within(10, 5, state=state), items)  # type: ignore[arg-type]
    seen = []
    for _ in items:
        results, marks = stepper.step()
        counted = stepper.core.counters()
        seen.append((sorted(results), [low for low, _, _ in marks], *stepper.stored(), counted["markers"]))
    assert seen == [
        ([], [], {0}, set(), 0),
        ([(0, 1)], [], {0}, {1}, 0),
        ([(2, 1)], [], {0, 2}, {1}, 0),
        ([], [], {0, 2}, set(), 0),
        ([(0, 4), (2, 4)], [], {0, 2}, set(), 0),
        ([(2, 5)], [], {2}, set(), 0),
        ([(2, 6)], [], {2}, set(), 0),
        ([], [180], set(), set(), 1),
        ([], [], set(), set(), 0),
    ]
    counted = stepper.core.counters()
    assert (counted["purged"], counted["purged_on_the_fly"], counted["dropped"], counted["propagated"]) == (1, 3, 1, 1)


def test_g15_the_schedule_knows_when() -> None:
    stepper = Stepper(JoinConfig.within(10, 5), [row(0, 1, 180), row(1, 2, 180), row(0, 4, 180), mark(0, 5, 180)])
    stepper.step(4)
    assert prop_time(stepper, 180) == 14
    assert stepper.core.counters()["scheduled"] == 1


@BOTH
def test_g16_the_four_cases_of_the_time_of_propagation(state: str) -> None:
    config = JoinConfig.within(10, 10, state=state)  # type: ignore[arg-type]
    assert leaving(config, mark(0, 20, 7), row(1, 25, 7)) == [(7, 20)]
    assert run_items(config, Items.of([mark(0, 20, 7), row(1, 25, 7)])).fates[1] == Fate.DROPPED
    assert leaving(config, row(0, 5, 7), mark(0, 20, 7)) == [(7, 20)]
    assert leaving(config, row(0, 15, 7), mark(0, 20, 7), beat(25), beat(26), mark(1, 40, 7)) == [(7, 26)]
    assert leaving(config, row(0, 18, 7), mark(0, 20, 7), mark(1, 22, 7)) == [(7, 22)]


@BOTH
def test_g20_one_announcing_stream_is_enough(state: str) -> None:
    hours = 3600
    config = JoinConfig.within(12 * hours, 12 * hours, state=state)  # type: ignore[arg-type]
    items = [row(0, 0, 5), mark(0, 0, 5), row(1, 12 * hours, 5), row(1, 12 * hours + 1, 5), row(1, 13 * hours, 5)]
    trace = run_items(config, Items.of(items), collect=True)
    assert trace.results.tolist() == [[0, 2]]
    assert (trace.marks.lows.tolist(), trace.marks.ts.tolist()) == ([5], [12 * hours + 1])
    assert [Fate(fate) for fate in trace.fates[3:]] == [Fate.DROPPED, Fate.DROPPED]


def test_g21_the_cluster_index_looks_once_and_only_at_partners() -> None:
    """Four tuples in the bucket of each table, two, one and one of them with value 8."""
    stored = [row(0, 1, 8), row(0, 1, 8), row(0, 1, 3), row(0, 1, 4)]
    stored += [row(1, 1, 8), row(1, 1, 3), row(1, 1, 4), row(1, 1, 5)]
    stored += [row(2, 1, 3), row(2, 1, 8), row(2, 1, 4), row(2, 1, 5)]
    costs = []
    for state in ("tables", "cluster"):
        config = JoinConfig.within(9, 9, 9, 9, state=state, buckets=1)  # type: ignore[arg-type]
        before = run_items(config, Items.of(stored)).counters
        after = run_items(config, Items.of([*stored, row(3, 2, 8)])).counters
        costs.append([after[name] - before[name] for name in ("lookups", "accessed", "results")])
    assert costs == [[3, 12, 2], [1, 4, 2]]


def test_g22_one_punctuation_purges_nothing_of_three_streams() -> None:
    items = [row(0, 1, 8), row(1, 2, 8), row(2, 3, 8), mark(0, 5, 8), mark(1, 6, 8), row(2, 7, 8), beat(12), row(2, 13, 8)]
    stepper = Stepper(JoinConfig.within(10, 20, 30), [*items, mark(2, 14, 8)])
    assert [stepper.step() for _ in range(3)] == [([], []), ([], []), ([(0, 1, 2)], [])]
    stepper.step()
    assert (stepper.stored(), prop_time(stepper, 8)) == ([{0}, {1}, {2}], 11)
    stepper.step()
    assert (stepper.stored(), prop_time(stepper, 8)) == ([{0}, {1}, set()], 11)
    assert stepper.step() == ([(0, 1, 5)], [])
    assert stepper.stored() == [{0}, {1}, set()]
    assert stepper.step() == ([], [(8, 8, 12)])
    assert stepper.stored() == [set(), set(), set()]
    stepper.step()
    assert stepper.fates[7] == Fate.DROPPED
    assert stepper.core.counters()["markers"] == 1
    assert stepper.step() == ([], [])
    counted = stepper.core.counters()
    assert (counted["markers"], counted["inodes"]) == (0, 0)


def test_g23_a_later_announcement_brings_the_propagation_forward() -> None:
    items = [row(0, 1, 8), row(1, 2, 8), row(2, 3, 8), mark(0, 5, 8), mark(1, 6, 8), beat(7), row(2, 8, 8)]
    stepper = Stepper(JoinConfig.within(30, 4, 30), items)
    stepper.step(4)
    assert prop_time(stepper, 8) == 31
    stepper.step()
    assert prop_time(stepper, 8) == 6
    assert stepper.step() == ([], [(8, 8, 7)])
    stepper.step()
    assert stepper.fates[6] == Fate.DROPPED


def test_g24_early_failing_looks_at_the_other_streams() -> None:
    trace = run_items(JoinConfig.within(9, 9), Items.of([row(1, 1, 4), row(0, 2, 4)]), collect=True)
    assert trace.results.tolist() == [[1, 0]]


def rows_example(probe: int) -> list[Item]:
    """b1 … b12 arrive in stream 1, and b4 and b7 are purged because stream 0 closes their keys."""
    items: list[Item] = [row(1, ts, ts) for ts in range(1, 13)]
    return [*items, mark(0, 12, 4), mark(0, 12, 7), row(0, 12, probe)]


def test_g25_a_window_of_rows_counts_purged_tuples() -> None:
    config = JoinConfig((Rows(10), Rows(10)))
    stepper = Stepper(config, rows_example(1))
    stepper.step(14)
    assert stepper.stored()[1] == {number - 1 for number in (3, 5, 6, 8, 9, 10, 11, 12)}
    assert stepper.step() == ([], [])
    assert run_items(config, Items.of(rows_example(3)), collect=True).results.tolist() == [[14, 2]]


def test_time_and_row_windows_may_be_mixed() -> None:
    config = JoinConfig((Sliding(5), Rows(1)))
    items = [row(0, 1, 4), row(1, 2, 4), row(1, 3, 9), row(0, 4, 4), row(1, 6, 4), row(0, 7, 4)]
    trace = run_items(config, Items.of(items), collect=True)
    assert sorted(map(tuple, trace.results.tolist())) == [(0, 1), (0, 4), (3, 4), (5, 4)]


@BOTH
def test_a_range_leaves_as_one_when_no_tuple_of_its_stream_holds_it_back(state: str) -> None:
    config = JoinConfig.within(10, 10, state=state)  # type: ignore[arg-type]
    items = [row(0, 1, 5), row(1, 1, 6), mark(0, 2, 1, 9), row(1, 3, 7), beat(11), beat(12)]
    stepper = Stepper(config, items)
    marks = [stepper.step()[1] for _ in items]
    # 6 has no tuple of stream 0 and leaves at once, 7 when somebody asks; the rest waits for the tuple with key 5.
    assert marks == [[], [], [(6, 6, 2)], [(7, 7, 3)], [], [(1, 9, 12)]]
    assert stepper.fates[3] == Fate.DROPPED


@BOTH
def test_ascending_punctuations_are_remembered_as_one_interval(state: str) -> None:
    config = JoinConfig.within(10, 10, state=state)  # type: ignore[arg-type]
    trace = run_items(config, Items.of([mark(0, ts, ts) for ts in range(5000)]))
    assert (trace.counters["propagated"], trace.counters["markers"]) == (5000, 1)
