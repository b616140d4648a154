"""Each erratum of the source on an example: as printed the algorithm fails, ours does not."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from published_pwjoin_oracle import Item, Stepper, brute_force, configs, ordered_items
from published_pwjoin_printed import PrintedJoin

from penstock.experiments.joins.items import Fate, Kind
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.model.windows import Rows

BOTH = pytest.mark.parametrize("state", ["cluster", "split"])


def row(stream: int, ts: int, key: int) -> Item:
    return (Kind.TUPLE, stream, ts, key)


def mark(stream: int, ts: int, key: int) -> Item:
    return (Kind.PUNCTUATION, stream, ts, key)


def beat(ts: int) -> Item:
    return (Kind.HEARTBEAT, 0, ts, 0)


def ours(config: PWJoinConfig, items: list[Item]) -> Stepper:
    stepper = Stepper(config, items)
    stepper.step(len(items))
    return stepper


def exact(config: PWJoinConfig, items: list[Item]) -> list[tuple[int, ...]]:
    return brute_force(config, items, {number for number, item in enumerate(items) if item[0] == Kind.TUPLE})


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_with_all_errata_corrected_the_printed_join_is_ours(data: st.DataObject) -> None:
    """So every difference below is the erratum's."""
    streams = data.draw(st.integers(2, 3))
    # The source forgets a value that all have closed.
    config = data.draw(configs(streams, forgets_closed=True))
    items = data.draw(ordered_items(streams))
    corrected, fast = PrintedJoin(config).play(items), ours(config, items)
    assert sorted(corrected.results) == sorted(fast.results)
    assert sorted(corrected.marks) == sorted(fast.marks)
    assert corrected.state() == fast.stored()


@BOTH
def test_er7_a_purged_tuple_is_not_read_when_its_node_leaves_the_window(state: str) -> None:
    config = PWJoinConfig.within(9, 9, state=state)  # type: ignore[arg-type]
    items = [row(1, 1, 5), row(0, 2, 5), mark(0, 3, 5), row(0, 20, 6)]
    with pytest.raises(TypeError, match="purged node"):
        PrintedJoin(config, "ER-7").play(items)
    # … and nothing is scheduled when the first item comes.
    assert ours(config, items).marks == [(5, 20)]


@BOTH
def test_er8_expired_nodes_of_a_value_list_are_skipped(state: str) -> None:
    config = PWJoinConfig.within(2, 9, state=state)  # type: ignore[arg-type]
    items = [row(0, 1, 5), row(0, 4, 5), row(1, 5, 5)]
    assert (None, 2) in PrintedJoin(config, "ER-8").play(items).results
    assert ours(config, items).results == exact(config, items) == [(1, 2)]


@BOTH
def test_er9_a_key_without_own_tuples_leaves_at_once(state: str) -> None:
    config = PWJoinConfig.within(9, 9, state=state)  # type: ignore[arg-type]
    items = [row(1, 1, 5), mark(0, 2, 5), beat(50)]
    assert PrintedJoin(config, "ER-9").play(items).marks == []
    stepper = ours(config, items)
    assert stepper.marks == [(5, 2)]
    assert stepper.stored() == [set(), set()]
    # Case 2a: the last own tuple had expired before the announcement.
    later = [row(0, 1, 5), beat(20), mark(0, 20, 5)]
    assert ours(config, later).marks == [(5, 20)]


@BOTH
def test_er10_deleting_a_key_releases_its_tuples(state: str) -> None:
    config = PWJoinConfig.within(None, None, state=state)  # type: ignore[arg-type]
    items = [row(0, 1, 5), mark(0, 2, 5), mark(1, 3, 5)]
    assert PrintedJoin(config, "ER-10").play(items).state() == [{0}, set()]
    assert ours(config, items).stored() == [set(), set()]


@BOTH
def test_er11_a_repeated_punctuation_is_not_one_of_another_stream(state: str) -> None:
    config = PWJoinConfig.within(9, 9, state=state)  # type: ignore[arg-type]
    items = [row(0, 1, 5), mark(0, 2, 5), mark(0, 3, 5), row(1, 4, 5)]
    assert PrintedJoin(config, "ER-11").play(items).results == []
    stepper = ours(config, items)
    assert stepper.results == exact(config, items) == [(0, 3)]
    assert stepper.fates[2] == Fate.REDUNDANT


def test_er12_early_failing_before_insertion_loses_results() -> None:
    config = PWJoinConfig.within(9, 9)
    items = [row(1, 1, 5), row(0, 2, 5)]
    assert PrintedJoin(config, "ER-12").play(items).results == []
    assert ours(config, items).results == exact(config, items) == [(1, 0)]


def test_er13_nothing_is_inserted_that_all_others_have_closed() -> None:
    config = PWJoinConfig.within(9, 9, 9)
    items = [row(0, 1, 5), row(1, 1, 5), mark(0, 2, 5), mark(1, 2, 5), row(2, 3, 5)]
    assert PrintedJoin(config, "ER-13").play(items).state()[2] == {4}
    stepper = ours(config, items)
    assert stepper.stored() == [{0}, {1}, set()]
    assert stepper.results == [(0, 1, 4)]


def test_er14_the_last_open_stream_is_purged_and_the_schedule_brought_forward() -> None:
    config = PWJoinConfig.within(30, 4, 30)
    items = [row(0, 1, 8), row(1, 2, 8), row(2, 3, 8), mark(0, 5, 8), mark(1, 6, 8)]
    assert PrintedJoin(config, "ER-14 purge").play(items).state()[2] == {2}
    assert ours(config, items).stored()[2] == set()
    later = [*items, beat(7), row(2, 8, 8)]
    assert PrintedJoin(config, "ER-14 order").play(later).marks == []
    assert ours(config, later).marks == [(8, 7)]
    assert ours(config, later).fates[6] == Fate.DROPPED


def test_er14_a_key_that_has_left_is_not_touched_again() -> None:
    config = PWJoinConfig.within(3, 30, 30)
    items = [row(0, 1, 8), row(1, 1, 8), mark(0, 2, 8), beat(9), mark(1, 10, 8), beat(99)]
    assert PrintedJoin(config, "ER-14 touch").play(items).marks == [(8, 9), (8, 10)]
    assert ours(config, items).marks == [(8, 9)]


@BOTH
def test_er18_a_tuple_at_the_boundary_still_joins(state: str) -> None:
    config = PWJoinConfig.within(10, 10, state=state)  # type: ignore[arg-type]
    items = [row(0, 4, 5), mark(0, 5, 5), row(1, 14, 5), row(1, 15, 5)]
    assert PrintedJoin(config, "ER-18").play(items).results == []
    stepper = ours(config, items)
    assert stepper.results == exact(config, items) == [(0, 2)]
    assert stepper.marks == [(5, 15)]


@BOTH
def test_er18_a_punctuation_at_the_time_of_its_last_tuple_counts(state: str) -> None:
    """The text asks for p.ts < T; processing order makes ≤ right."""
    config = PWJoinConfig.within(0, 0, state=state)  # type: ignore[arg-type]
    assert ours(config, [row(0, 4, 5), mark(0, 4, 5), beat(5)]).marks == [(5, 5)]


def test_er19_dropped_tuples_take_a_place_in_a_window_of_rows() -> None:
    config = PWJoinConfig((Rows(None), Rows(1)))
    # Key 5 has left because of stream 0; then a tuple of it pushes key 6 out of the window of stream 1.
    items = [mark(0, 1, 5), row(1, 2, 6), row(1, 3, 5), row(0, 4, 6)]
    assert PrintedJoin(config, "ER-19").play(items).results == [(3, 1)]
    stepper = ours(config, items)
    assert stepper.results == exact(config, items) == []
    assert stepper.fates[2] == Fate.DROPPED


def test_er19_before_the_window_is_full_nothing_leaves_it() -> None:
    config = PWJoinConfig((Rows(3), Rows(3)))
    stepper = ours(config, [row(0, 1, 5), row(0, 2, 6), row(0, 3, 7), row(0, 4, 8)])
    assert stepper.stored() == [{1, 2, 3}, set()]


def test_er19_the_last_row_of_an_announced_key_takes_it_along() -> None:
    config = PWJoinConfig((Rows(2), Rows(2)))
    items = [row(0, 1, 5), mark(0, 1, 5), row(0, 2, 6), row(0, 3, 7), row(1, 4, 5)]
    stepper = ours(config, items)
    assert stepper.marks == [(5, 3)]
    assert stepper.fates[4] == Fate.DROPPED


def test_er24_a_tuple_of_a_key_that_has_left_is_not_stored() -> None:
    config = PWJoinConfig.within(9, None, state="split")
    items = [mark(0, 1, 5), row(1, 2, 5)]
    # The printed probe does not know the flag; without a window of its own the tuple would stay for ever.
    assert PrintedJoin(replace(config, state="cluster"), "ER-24", "ER-13").play(items).state()[1] == {1}
    stepper = ours(config, items)
    assert stepper.stored() == [set(), set()]
    assert stepper.fates[1] == Fate.DROPPED
    assert stepper.marks == [(5, 1)]


@BOTH
def test_er26_keys_leave_without_tuples_of_the_other_stream(state: str) -> None:
    config = PWJoinConfig.within(3, 3, state=state)  # type: ignore[arg-type]
    items = [row(0, 1, 5), mark(0, 2, 5), row(0, 50, 6), beat(60)]
    assert PrintedJoin(config, "ER-26").play(items).marks == []
    assert ours(config, items).marks == [(5, 50)]


@BOTH
def test_er31_punctuations_and_heartbeats_move_time_on(state: str) -> None:
    config = PWJoinConfig.within(3, 3, state=state)  # type: ignore[arg-type]
    items = [row(0, 1, 5), mark(0, 2, 5), mark(1, 20, 9), beat(30)]
    assert (5, 20) not in PrintedJoin(config, "ER-31").play(items).marks
    assert ours(config, items).marks == [(5, 20), (9, 20)]


@BOTH
def test_er35_useless_punctuations_cost_bounded_memory(state: str) -> None:
    config = replace(PWJoinConfig.within(9, 9, state=state), most_markers=100)  # type: ignore[arg-type]
    # Every third value: nothing merges, so only the limit helps.
    items = [mark(0, ts, 3 * ts) for ts in range(2000)]
    assert len(PrintedJoin(config).play(items).entries) == 2000
    stepper = ours(config, items)
    counted = stepper.join.counters()
    assert 90 <= counted["markers"] <= 100
    assert counted["evicted_markers"] == 2000 - counted["markers"]
    # The oldest went first: the youngest still drops, the oldest does not.
    asked = ours(config, [*items, row(1, 2001, 0), row(1, 2001, 3 * 1999)])
    assert asked.fates[-2:].tolist() == [Fate.STORED, Fate.DROPPED]
