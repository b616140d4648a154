"""Worked examples of the specification, by name."""

from __future__ import annotations

import numpy as np
import pytest
from published_pwjoin_oracle import Item, Stepper

from penstock.errors import InvalidOption
from penstock.experiments.joins.items import Fate, Items, Kind, Trace
from penstock.experiments.joins.playing import play
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.joins.pwjoin.join import PWJoin
from penstock.model.windows import Rows, Sliding

BOTH = pytest.mark.parametrize("state", ["cluster", "split"])
ALL = pytest.mark.parametrize("state", ["cluster", "split", "tables"])


def row(stream: int, ts: int, key: int) -> Item:
    return (Kind.TUPLE, stream, ts, key)


def mark(stream: int, ts: int, key: int) -> Item:
    return (Kind.PUNCTUATION, stream, ts, key)


def beat(ts: int) -> Item:
    return (Kind.HEARTBEAT, 0, ts, 0)


def played(config: PWJoinConfig, items: list[Item]) -> Trace:
    return play(PWJoin(config, keep_results=True), Items.of(items))


def leaving(config: PWJoinConfig, *items: Item) -> list[tuple[int, int]]:
    """(key, time) of the output punctuations."""
    marks = played(config, list(items)).marks
    return list(zip(marks.lows.tolist(), marks.ts.tolist(), strict=True))


def value_list(stepper: Stepper, key: int, stream: int) -> list[int]:
    """Items of a value list."""
    memory, items = stepper.join.memory, []
    node = memory.lists[inode_of(stepper, key), stream, lay.HEAD]
    while node != lay.NONE:
        items.append(int(memory.nodes[node, lay.ITEM]))
        node = memory.nodes[node, lay.VALUE_NEXT]
    return items


def inode_of(stepper: Stepper, key: int) -> int:
    inodes = stepper.join.memory.inodes[: stepper.join.memory.numbers[lay.INODES_USED]]
    (found,) = np.flatnonzero((inodes[:, lay.KEY] == key) & (inodes[:, lay.STATUS] != lay.FREE))
    return int(found)


def prop_time(stepper: Stepper, key: int) -> int:
    return int(stepper.join.memory.inodes[inode_of(stepper, key), lay.PROP_TIME])


@ALL
def test_g6_each_stream_is_seen_through_its_own_inclusive_window(state: str) -> None:
    items = [row(0, 1, 7), row(1, 2, 7), row(0, 8, 7), row(1, 11, 7)]
    stepper = Stepper(PWJoinConfig.within(10, 5, state=state), items)  # type: ignore[arg-type]
    assert [stepper.step()[0] for _ in items] == [[], [(0, 1)], [], [(0, 3), (2, 3)]]


@ALL
@pytest.mark.parametrize(
    ("gap", "seconds", "total"), [(2, 1, 1000), (2, 5, 5000), (2, 15, 15000), (10, 1, 200), (10, 5, 1000), (10, 15, 3000)]
)
def test_g7_the_state_reaches_the_plateau_of_rate_times_window(state: str, gap: int, seconds: int, total: int) -> None:
    ts = np.repeat(np.arange(0, 20_000, gap), 2)
    streams = np.tile([0, 1], len(ts) // 2)
    keys = np.arange(len(ts))
    items = Items(np.zeros(len(ts), np.int8), streams, ts, keys, keys)
    config = PWJoinConfig.within(seconds * 1000, seconds * 1000, state=state, buckets=1024)  # type: ignore[arg-type]
    trace = play(PWJoin(config), items, np.arange(1000, 20_000, 1000))
    plateau = trace.samples["state"][trace.sampled_at > seconds * 1000]
    # The boundary belongs to the window: one more tuple per stream.
    assert set(plateau.tolist()) == {total + 2}


def test_g14_state_has_one_time_list_and_a_value_list_per_key() -> None:
    keys = [8, 10, 8, 8, 10, 4, 8]
    stepper = Stepper(PWJoinConfig.within(100, 100), [row(0, ts, key) for ts, key in enumerate(keys)])
    stepper.step(len(keys))
    memory = stepper.join.memory
    assert [memory.inodes[memory.nodes[node, lay.OWNER], lay.KEY] for node in stepper.time_list(0)] == keys
    assert [value_list(stepper, key, 0) for key in (8, 10, 4)] == [[0, 2, 3, 6], [1, 4], [5]]
    assert stepper.join.counters()["inodes"] == 3
    assert stepper.join.memory.numbers[lay.NODES_USED] == 7


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
    stepper = Stepper(PWJoinConfig.within(10, 5, state=state), items)  # type: ignore[arg-type]
    seen = []
    for _ in items:
        results, marks = stepper.step()
        counted = stepper.join.counters()
        seen.append((sorted(results), [key for key, _ in marks], *stepper.stored(), counted["markers"]))
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
    counted = stepper.join.counters()
    assert (counted["purged"], counted["purged_on_the_fly"], counted["dropped"], counted["propagated"]) == (1, 3, 1, 1)


def test_g15_the_schedule_knows_when() -> None:
    stepper = Stepper(PWJoinConfig.within(10, 5), [row(0, 1, 180), row(1, 2, 180), row(0, 4, 180), mark(0, 5, 180)])
    stepper.step(4)
    assert prop_time(stepper, 180) == 14
    assert stepper.join.counters()["scheduled"] == 1


@BOTH
def test_g16_the_four_cases_of_the_time_of_propagation(state: str) -> None:
    config = PWJoinConfig.within(10, 10, state=state)  # type: ignore[arg-type]
    assert leaving(config, mark(0, 20, 7), row(1, 25, 7)) == [(7, 20)]
    assert played(config, [mark(0, 20, 7), row(1, 25, 7)]).fates[1] == Fate.DROPPED
    assert leaving(config, row(0, 5, 7), mark(0, 20, 7)) == [(7, 20)]
    assert leaving(config, row(0, 15, 7), mark(0, 20, 7), beat(25), beat(26), mark(1, 40, 7)) == [(7, 26)]
    assert leaving(config, row(0, 18, 7), mark(0, 20, 7), mark(1, 22, 7)) == [(7, 22)]


@BOTH
def test_g20_one_announcing_stream_is_enough(state: str) -> None:
    hours = 3600
    config = PWJoinConfig.within(12 * hours, 12 * hours, state=state)  # type: ignore[arg-type]
    items = [row(0, 0, 5), mark(0, 0, 5), row(1, 12 * hours, 5), row(1, 12 * hours + 1, 5), row(1, 13 * hours, 5)]
    trace = played(config, items)
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
        config = PWJoinConfig.within(9, 9, 9, 9, state=state, buckets=1)  # type: ignore[arg-type]
        before = played(config, stored).totals
        after = played(config, [*stored, row(3, 2, 8)]).totals
        costs.append([after[name] - before[name] for name in ("lookups", "accessed", "results")])
    assert costs == [[3, 12, 2], [1, 4, 2]]


def test_g22_one_punctuation_purges_nothing_of_three_streams() -> None:
    items = [row(0, 1, 8), row(1, 2, 8), row(2, 3, 8), mark(0, 5, 8), mark(1, 6, 8), row(2, 7, 8), beat(12), row(2, 13, 8)]
    stepper = Stepper(PWJoinConfig.within(10, 20, 30), [*items, mark(2, 14, 8)])
    assert [stepper.step() for _ in range(3)] == [([], []), ([], []), ([(0, 1, 2)], [])]
    stepper.step()
    assert (stepper.stored(), prop_time(stepper, 8)) == ([{0}, {1}, {2}], 11)
    stepper.step()
    assert (stepper.stored(), prop_time(stepper, 8)) == ([{0}, {1}, set()], 11)
    assert stepper.step() == ([(0, 1, 5)], [])
    assert stepper.stored() == [{0}, {1}, set()]
    assert stepper.step() == ([], [(8, 12)])
    assert stepper.stored() == [set(), set(), set()]
    stepper.step()
    assert stepper.fates[7] == Fate.DROPPED
    assert stepper.join.counters()["markers"] == 1
    assert stepper.step() == ([], [])
    counted = stepper.join.counters()
    assert (counted["markers"], counted["inodes"]) == (0, 0)


def test_g23_a_later_announcement_brings_the_propagation_forward() -> None:
    items = [row(0, 1, 8), row(1, 2, 8), row(2, 3, 8), mark(0, 5, 8), mark(1, 6, 8), beat(7), row(2, 8, 8)]
    stepper = Stepper(PWJoinConfig.within(30, 4, 30), items)
    stepper.step(4)
    assert prop_time(stepper, 8) == 31
    stepper.step()
    assert prop_time(stepper, 8) == 6
    assert stepper.step() == ([], [(8, 7)])
    stepper.step()
    assert stepper.fates[6] == Fate.DROPPED


def test_g24_early_failing_looks_at_the_other_streams() -> None:
    trace = played(PWJoinConfig.within(9, 9), [row(1, 1, 4), row(0, 2, 4)])
    assert trace.results.tolist() == [[1, 0]]


def rows_example(probe: int) -> list[Item]:
    """b1 … b12 arrive in stream 1, and b4 and b7 are purged because stream 0 closes their keys."""
    items: list[Item] = [row(1, ts, ts) for ts in range(1, 13)]
    return [*items, mark(0, 12, 4), mark(0, 12, 7), row(0, 12, probe)]


def test_g25_a_window_of_rows_counts_purged_tuples() -> None:
    config = PWJoinConfig((Rows(10), Rows(10)))
    stepper = Stepper(config, rows_example(1))
    stepper.step(14)
    assert stepper.stored()[1] == {number - 1 for number in (3, 5, 6, 8, 9, 10, 11, 12)}
    assert stepper.step() == ([], [])
    assert played(config, rows_example(3)).results.tolist() == [[14, 2]]


def test_time_and_row_windows_may_be_mixed() -> None:
    config = PWJoinConfig((Sliding(5), Rows(1)))
    items = [row(0, 1, 4), row(1, 2, 4), row(1, 3, 9), row(0, 4, 4), row(1, 6, 4), row(0, 7, 4)]
    trace = played(config, items)
    assert sorted(map(tuple, trace.results.tolist())) == [(0, 1), (0, 4), (3, 4), (5, 4)]


@BOTH
def test_ascending_punctuations_are_remembered_as_one_interval(state: str) -> None:
    config = PWJoinConfig.within(10, 10, state=state)  # type: ignore[arg-type]
    items = Items.of([mark(0, ts, ts) for ts in range(5000)])
    trace = play(PWJoin(config), items, items.ts[-1:])
    assert (trace.totals["propagated"], trace.totals["markers"]) == (5000, 1)


def test_a_punctuation_on_several_keys_is_refused() -> None:
    with pytest.raises(InvalidOption, match="one key at a time"):
        play(PWJoin(PWJoinConfig.within(9, 9)), Items.of([(Kind.PUNCTUATION, 0, 1, 1, 9)]))
