"""Worked examples G-8 to G-12 of XJoin and PJoin, the clock of partial disk joins, and the registry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from published_pjoin_cases import pairs

from penstock.errors import InvalidOption
from penstock.experiments.joins.items import Fate, Items, Kind
from penstock.experiments.joins.playing import play
from penstock.experiments.joins.xjoin_pjoin import layout
from penstock.experiments.joins.xjoin_pjoin.config import Access, DiskJoin, PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.joins.xjoin_pjoin.registry import EAGER, PAIRED, REFERENCE, Event
from penstock.experiments.joins.xjoin_pjoin.state import State

A, B = 0, 1
Pairs = list[tuple[int, int]]


def items(*entries: tuple[str, int] | tuple[str, int, int] | str) -> Items:
    """Entries ("a", 5) tuple of A, ("b.", 5) and ("b.", 5, 9) punctuations of B, "idle"; each at its own number as time."""
    rows: list[tuple[int, ...]] = []
    for at, entry in enumerate(entries):
        if isinstance(entry, str):
            rows.append((Kind.IDLE, 0, at, 0))
        else:
            name, *keys = entry
            rows.append((Kind.PUNCTUATION if name.endswith(".") else Kind.TUPLE, "ab".index(name[0]), at, *keys))
    return Items.of(rows)


# -- XJoin: one bucket, tuples of one key, the clock in brackets -------------------------------------------------------


class OneBucket:
    """The steps of XJoin by hand."""

    def __init__(self) -> None:
        self.state = State(1)

    def arrive(self, side: int, item: int) -> Pairs:
        kids = self.state.number_keys(np.array([7]))
        return self.sorted(self.state.join(np.array([side]), kids, item, np.zeros(1, np.int8))[1])

    def flush(self, side: int) -> None:
        assert self.state.relocate()[0] == side

    def disk_join(self) -> Pairs:
        return self.sorted(self.state.complete(0))

    def sorted(self, found: object) -> Pairs:
        return sorted((left, right) for left, right in np.asarray(found).T.tolist())

    @property
    def clock(self) -> int:
        return int(self.state.book[layout.CLOCK])


def test_g8_each_pair_comes_once_although_one_side_was_flushed() -> None:
    join = OneBucket()
    assert (join.arrive(A, 1), join.clock) == ([], 1)
    join.flush(A)
    assert join.clock == 2
    assert (join.arrive(B, 11), join.clock) == ([], 3)
    assert (join.arrive(B, 12), join.clock) == ([], 4)
    assert (join.disk_join(), join.clock) == ([(1, 11), (1, 12)], 5)
    assert join.state.completed.tolist() == [5]
    assert (join.arrive(A, 2), join.clock) == ([(2, 11), (2, 12)], 6)
    assert (join.disk_join(), join.clock) == ([], 7)


def test_partial_disk_joins_remember_by_the_clock_what_they_have_produced() -> None:
    join = OneBucket()
    join.arrive(A, 1)
    join.flush(A)
    join.arrive(B, 11)
    assert join.state.probe_away(A, 0).tolist() == [[1], [11]]
    assert join.state.probes[A, 0].tolist() == [[2, 4]]
    join.arrive(B, 12)
    assert join.state.probe_away(A, 0).tolist() == [[1], [12]]
    assert join.state.probe_away(A, 0).tolist() == [[], []]
    join.flush(B)
    join.arrive(A, 2)
    assert join.state.probe_away(B, 0).tolist() == [[2, 2], [11, 12]]
    join.arrive(B, 13)
    # Stage 3: (1, 13) is all that is left; (2, 13) met in memory.
    assert join.disk_join() == [(1, 13)]
    assert join.state.probes == {}


def test_relocation_takes_the_largest_portion_and_of_equal_ones_the_first() -> None:
    state = State(4)
    kids = state.number_keys(np.arange(40))
    for side in (B, A):
        state.join(np.full(40, side), kids, 40 * side, np.zeros(40, np.int8))
    sizes = state.sizes(layout.MEMORY).copy()
    assert state.relocate() == (A, sizes.max())
    assert state.sizes(layout.DISK)[A, int(np.argmax(sizes[A]))] == sizes.max()
    second, _ = state.relocate()
    assert second == (A if np.count_nonzero(sizes[A] == sizes.max()) > 1 else B)


def test_one_key_larger_than_memory_is_spilled_again_and_again() -> None:
    trace = play(PJoin(PJoinConfig.xjoin(memory_rows=3)), items(*[("a", 1)] * 20, *[("b", 1)] * 20))
    assert trace.totals["results"] == 400
    assert trace.samples["memory_rows"].max() < 3


# -- PJoin -------------------------------------------------------------------------------------------------------------


def test_g9_a_punctuation_leaves_when_nothing_is_charged_to_it() -> None:
    join, fates = PJoin(PJoinConfig(registry=EAGER)), np.zeros(5, np.int8)
    tape = items(("b", 5), ("b", 5), ("b", 7), ("b.", 5), ("a.", 5))
    join.process(tape, fates, 0, 4)
    assert join.state.charges.max() == 2
    assert len(join.pending[B]) == 1
    join.process(tape, fates, 4, 5)
    # A's own ⟨5⟩ says the same and is suppressed.
    assert (join.output().marks.lows.tolist(), join.output().marks.streams.tolist()) == ([5], [B])
    assert join.counters()["suppressed"] == 1
    assert [len(pending) for pending in join.pending] == [0, 0]
    assert join.stored().tolist() == [0, 1]
    left = np.flatnonzero(join.state.slots.home >= 0)
    assert join.state.slots.pid[left].tolist() == [-1]


@pytest.mark.parametrize("access", Access)
def test_g10_overlapping_punctuations_wait_for_the_tuple_charged_to_the_first(access: Access) -> None:
    join, fates = PJoin(PJoinConfig(registry=EAGER, purge_access=access), keep_results=True), np.zeros(5, np.int8)
    tape = items(("b", 7), ("b.", 1, 10), ("b.", 5, 20), ("a", 7), ("a.", 7))
    join.process(tape, fates, 0, 3)
    assert len(join.output().marks) == 0
    join.process(tape, fates, 3, 4)
    assert join.output().results.tolist() == [[3, 0]]
    join.process(tape, fates, 4, 5)
    # A's own ⟨7⟩ came last and is covered.
    marks = join.output().marks
    assert (marks.lows.tolist(), marks.highs.tolist()) == ([1, 5], [10, 20])
    assert join.counters()["suppressed"] == 1


@pytest.mark.parametrize("disk_join", DiskJoin)
def test_g11_a_tuple_with_a_partner_on_disk_waits_in_the_purge_buffer(disk_join: DiskJoin) -> None:
    class Growing(PJoin):
        def process(self, items: Items, fates: object, start: int, stop: int) -> None:
            if start == 1:
                self.configure(replace(self.config, memory_rows=100))
            super().process(items, fates, start, stop)  # type: ignore[arg-type]

    config = PJoinConfig(memory_rows=1, buckets=1, registry=EAGER, disk_join=disk_join, activation_least=0.1)
    trace = play(Growing(config, keep_results=True), items(("b", 5), ("a", 5), ("b.", 5), "idle", "idle"))
    assert trace.state[:, A].tolist()[:3] == [0, 1, 1]
    assert trace.samples["buffered"].tolist()[:3] == [0, 0, 1]
    assert trace.samples["purged"].tolist()[:3] == [0, 0, 0]
    assert pairs(trace) == [(1, 0)]
    # A join in full frees what waited; a partial one leaves that to the clean-up.
    at = 3 if disk_join is DiskJoin.FULL else 5
    assert trace.result_items.tolist() == [at]
    assert trace.totals["purged"] == 1


def test_g12_a_lazy_purge_waits_but_new_tuples_are_purged_on_the_fly() -> None:
    trace = play(PJoin(PJoinConfig.published(2)), items(("b", 1), ("b", 2), ("a.", 1), ("b", 1), ("a.", 2)))
    assert trace.state[:, B].tolist() == [1, 2, 2, 2, 0]
    assert trace.samples["purged_on_the_fly"].tolist() == [0, 0, 0, 1, 1]
    assert trace.samples["purges"].tolist() == [0, 0, 0, 0, 1]
    assert trace.fates.tolist() == [Fate.STORED, Fate.STORED, Fate.USED, Fate.PURGED_ON_THE_FLY, Fate.USED]


@pytest.mark.parametrize(("closed", "spilled"), [((0, 1), 0), ((), 4)])
def test_a_purge_that_makes_room_spares_the_relocation(closed: tuple[int, ...], spilled: int) -> None:
    tape = items(("a", 0), ("a", 1), ("a", 2), *(("b.", key) for key in closed), ("a", 9))
    trace = play(PJoin(PJoinConfig.published(100, memory_rows=4, buckets=1)), tape)
    assert trace.totals["tuples_spilled"] == spilled


def test_paired_propagation_says_only_what_both_have_announced() -> None:
    tape = items(("a.", 1), ("b.", 2), ("b", 1), ("b.", 1), ("a.", 3), ("a.", 2))
    assert play(PJoin(PJoinConfig.published(1, registry=PAIRED)), tape).marks.items.tolist() == [3, 5]
    assert play(PJoin(PJoinConfig.published(1, registry=REFERENCE)), tape).marks.items.tolist() == [0, 1, 4]


def test_what_was_closed_before_is_redundant_as_a_key_and_as_a_range() -> None:
    trace = play(PJoin(PJoinConfig()), items(("a.", 1, 3), ("a.", 2), ("a.", 4), ("a.", 2, 4), ("a.", 4, 5), ("a.", 5)))
    assert [Fate(fate).name for fate in trace.fates] == ["USED", "REDUNDANT", "USED", "REDUNDANT", "USED", "REDUNDANT"]
    assert trace.totals["redundant"] == 3
    assert (trace.marks.lows.tolist(), trace.marks.highs.tolist()) == ([1, 4, 4], [3, 4, 5])


# -- registry ----------------------------------------------------------------------------------------------------------


def test_the_reference_configuration_is_the_published_table() -> None:
    assert [str(rule) for rule in REFERENCE.rules] == [
        "stream_empty if activation_reached: disk_join",
        "purge_threshold_reached: state_purge",
        "state_full if purge_pending: state_purge",
        "state_full if purge_done: state_relocation",
        "propagate_count_reached: index_build, propagation",
    ]


def test_spilled_state_is_joined_between_purge_and_propagation() -> None:
    assert [str(rule) for rule in EAGER.with_spilled_state().of(Event.NEW_PUNCTUATION)] == [
        "new_punctuation: state_purge",
        "new_punctuation if left_over: disk_join",
        "new_punctuation: index_build, propagation",
    ]


@pytest.mark.parametrize("name", ["purge_threshold", "memory_rows", "propagate_count", "propagate_time", "buckets"])
def test_thresholds_that_are_not_positive_are_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is 0; it must be greater than 0"):
        PJoinConfig(**{name: 0})  # type: ignore[arg-type]
