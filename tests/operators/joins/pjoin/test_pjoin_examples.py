"""Worked examples G-8 to G-13, and the clock of partial disk joins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expressions.aggregates import AggregateCall
from penstock.model.batch import Batch
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import Pattern, between, constant
from penstock.model.windows import Lifespan, Unbounded
from penstock.operators.group_by.operator import GroupBy
from penstock.operators.joins.pjoin.config import DiskJoin, PJoinConfig
from penstock.operators.joins.pjoin.core import Core
from penstock.operators.joins.pjoin.items import ItemRun, run_items
from penstock.operators.joins.pjoin.operator import PJoin
from penstock.operators.joins.pjoin.registry import EAGER, REFERENCE
from penstock.operators.joins.pjoin.trace import IDLE, PUNCTUATION, TUPLE, Items, Trace

A, B = 0, 1


def items(*entries: tuple[Any, ...]) -> Items:
    """Entries ("a", 5) tuple of A, ("b.", 5) punctuation of B, ("idle",); a pattern instead of a number is kept."""
    rows, patterns = [], {}
    for at, entry in enumerate(entries):
        if entry == ("idle",):
            rows.append((IDLE, 0, 0))
            continue
        name, value = entry
        if isinstance(value, Pattern):
            patterns[at] = value
        kind = PUNCTUATION if name.endswith(".") else TUPLE
        rows.append((kind, "ab".index(name[0]), 0 if isinstance(value, Pattern) else value))
    return replace(Items.of(rows), patterns=patterns)


def found(trace: Trace) -> list[tuple[int, int]]:
    return sorted(map(tuple, trace.pairs.tolist()))


# -- XJoin: one bucket, tuples of one key, the clock in brackets -------------------------------------------------------


class OneBucket:
    """The steps of XJoin by hand."""

    def __init__(self) -> None:
        self.core = Core([pa.int64()], 1)

    def arrive(self, side: int, row: int) -> list[tuple[int, int]]:
        kids, _ = self.core.keys.intern([pa.array([7])])
        one = np.array([0], np.int64)
        trusted, placed = np.zeros(1, np.bool_), np.empty(1, np.int64)
        _, left, right = self.core.join(one + side, kids, one + row, one, trusted, 0, 2**62, True, placed)
        return sorted(zip(left.tolist(), right.tolist(), strict=True))

    def flush(self, side: int) -> None:
        assert self.core.relocate()[0] == side

    def disk_join(self) -> list[tuple[int, int]]:
        left, right = self.core.left_over(0)
        self.core.settle(0)
        return sorted(zip(left.tolist(), right.tolist(), strict=True))

    @property
    def clock(self) -> int:
        return int(self.core.book[0])


def test_g8_each_pair_comes_once_although_one_side_was_flushed() -> None:
    join = OneBucket()
    assert (join.arrive(A, 1), join.clock) == ([], 1)
    join.flush(A)
    assert join.clock == 2
    assert (join.arrive(B, 11), join.clock) == ([], 3)
    assert (join.arrive(B, 12), join.clock) == ([], 4)
    assert (join.disk_join(), join.clock) == ([(1, 11), (1, 12)], 5)
    assert join.core.completed.tolist() == [5]
    assert (join.arrive(A, 2), join.clock) == ([(2, 11), (2, 12)], 6)
    assert (join.disk_join(), join.clock) == ([], 7)


def test_partial_disk_joins_remember_by_the_clock_what_they_have_produced() -> None:
    join = OneBucket()
    join.arrive(A, 1)
    join.flush(A)
    join.arrive(B, 11)
    assert [part.tolist() for part in join.core.probe_away(A, 0)] == [[1], [11]]
    assert join.core.probes[A, 0].tolist() == [[2, 4]]
    join.arrive(B, 12)
    assert [part.tolist() for part in join.core.probe_away(A, 0)] == [[1], [12]]
    assert [part.tolist() for part in join.core.probe_away(A, 0)] == [[], []]
    join.flush(B)
    join.arrive(A, 2)
    assert [part.tolist() for part in join.core.probe_away(B, 0)] == [[11, 12], [2, 2]]
    join.arrive(B, 13)
    # Stage 3: (1, 13) is all that is left; (2, 13) met in memory.
    assert join.disk_join() == [(1, 13)]
    assert join.core.probes == {}


def test_relocation_takes_the_largest_portion_and_of_equal_ones_the_first() -> None:
    core = Core([pa.int64()], 4)
    kids, _ = core.keys.intern([pa.array(np.arange(40))])
    for side in (B, A):
        rows, placed = np.arange(40), np.empty(40, np.int64)
        core.join(np.full(40, side), kids, rows, rows, np.zeros(40, np.bool_), 0, 2**62, True, placed)
    sizes = core.sizes(0).copy()
    side, bucket, moved = core.relocate()
    assert (side, len(moved)) == (A, sizes.max())
    assert bucket == int(np.argmax(sizes[A]))
    second = core.relocate()
    assert second[0] == (A if np.count_nonzero(sizes[A] == sizes.max()) > 1 else B)


def test_one_key_larger_than_memory_is_spilled_again_and_again() -> None:
    trace = run_items(PJoinConfig.xjoin(memory_rows=3), items(*[("a", 1)] * 20, *[("b", 1)] * 20))
    assert trace.totals["results"] == 400
    assert trace.counters["memory_rows"].max() < 3


# -- PJoin -------------------------------------------------------------------------------------------------------------


def test_g9_a_punctuation_leaves_when_nothing_is_charged_to_it() -> None:
    config = PJoinConfig(registry=EAGER)
    run = ItemRun(config)
    run.feed(items(("b", 5), ("b", 5), ("b", 7), ("b.", 5)))
    core = run.engine.core
    assert core.counts[B].max() == 2
    assert len(run.engine.pending[B]) == 1
    run.feed(items(("a.", 5)))
    trace = run.trace()
    # A's own ⟨5⟩ says the same and is suppressed.
    assert trace.announced.tolist() == [3]
    assert trace.totals["suppressed"] == 1
    assert [len(pending) for pending in run.engine.pending] == [0, 0]
    assert trace.state_rows[-1].tolist() == [0, 1]
    left = np.flatnonzero(core.slots.home >= 0)
    assert core.slots.pid[left].tolist() == [-1]


def test_g10_overlapping_punctuations_wait_for_the_tuple_charged_to_the_first() -> None:
    for access in ("scan", "index"):
        config = PJoinConfig(registry=EAGER, probe_access=access, purge_access=access)
        run = ItemRun(config)
        run.feed(items(("b", 7), ("b.", between(1, 10)), ("b.", between(5, 20))))
        assert run.trace().announced.tolist() == []
        run.feed(items(("a", 7)))
        assert found(run.trace(keep_pairs=True)) == [(3, 0)]
        run.feed(items(("a.", 7)))
        # A's own ⟨7⟩ came last and is covered.
        assert run.trace().announced.tolist() == [1, 2]
        assert run.trace().totals["suppressed"] == 1


def test_g11_a_tuple_with_a_partner_on_disk_waits_in_the_purge_buffer() -> None:
    for disk_join in DiskJoin:
        config = PJoinConfig(memory_rows=1, buckets=1, registry=EAGER, disk_join=disk_join, activation_least=0.1)
        tape = replace(items(("b", 5), ("a", 5), ("b.", 5), ("idle",), ("idle",)), controls={1: {"memory_rows": 100}})
        trace = run_items(config, tape, keep_pairs=True)
        assert trace.state_rows[:, A].tolist()[:3] == [0, 1, 1]
        assert trace.counters["buffered"].tolist()[:3] == [0, 0, 1]
        assert trace.counters["purged"].tolist()[:3] == [0, 0, 0]
        assert found(trace) == [(1, 0)]
        # A join in full frees what waited; a partial one leaves that to the clean-up.
        at = 3 if disk_join is DiskJoin.FULL else 5
        assert trace.pair_item.tolist() == [at]
        assert trace.totals["purged"] == 1


def test_g12_a_lazy_purge_waits_but_new_tuples_are_purged_on_the_fly() -> None:
    config = PJoinConfig.published(2)
    trace = run_items(config, items(("b", 1), ("b", 2), ("a.", 1), ("b", 1), ("a.", 2)))
    assert trace.state_rows[:, B].tolist() == [1, 2, 2, 2, 0]
    assert trace.counters["purged_on_the_fly"].tolist() == [0, 0, 0, 1, 1]
    assert trace.counters["purges"].tolist() == [0, 0, 0, 0, 1]


AUCTION = pa.schema({"a.item": pa.int64(), "a.seller": pa.string()})
BID = pa.schema({"b.item": pa.int64(), "b.bidder": pa.string()})
JOINED = pa.schema([*AUCTION, *BID])


def one(schema: pa.Schema, item: int, who: str) -> Batch:
    values = pa.RecordBatch.from_arrays([pa.array([item]), pa.array([who])], schema=schema)
    return Batch(values, np.array([1]), np.array([0]))


def closing(schema: pa.Schema, item: int) -> Punctuation:
    return Punctuation.of(schema.names, 0, 0, **{schema.names[0]: constant(item)})


def test_g13_bids_are_never_stored_and_the_count_comes_when_the_auction_closes() -> None:
    join = PJoin([AUCTION, BID], [["a.item"], ["b.item"]], [Unbounded(), Unbounded()], JOINED)
    group = GroupBy(JOINED, ["a.item"], [AggregateCall("count", None, False, "bids")], Unbounded(), Lifespan())
    tape: list[tuple[int, Any]] = [
        (0, one(AUCTION, 180, "s")),
        (0, closing(AUCTION, 180)),
        (1, one(BID, 180, "x")),
        (1, one(BID, 180, "y")),
        (1, closing(BID, 180)),
    ]
    counts, stored = [], []
    for port, element in tape:
        out = join.on_batch(port, element) if isinstance(element, Batch) else join.on_metadata(port, element)
        for item in out:
            answers = group.on_batch(0, item) if isinstance(item, Batch) else group.on_metadata(0, item)
            counts += [row for answer in answers if isinstance(answer, Batch) for row in answer.rows.to_pylist()]
        stored.append((join.counters()["state_rows_0"], join.counters()["state_rows_1"]))
    assert stored == [(1, 0), (1, 0), (1, 0), (1, 0), (0, 0)]
    assert counts == [{"a.item": 180, "bids": 2}]
    assert join.counters()["results"] == 2


def test_the_reference_configuration_is_the_published_table() -> None:
    assert [str(rule) for rule in REFERENCE.rules] == [
        "stream_empty if activation_reached: disk_join",
        "purge_threshold_reached: state_purge",
        "state_full if purge_pending: state_purge",
        "state_full if purge_done: state_relocation",
        "propagate_count_reached: index_build, propagation",
    ]
