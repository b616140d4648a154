"""Generated punctuations: the worked examples, and that rows, order and promises stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import PunctuationViolated
from penstock.kernel.contracts import Operator
from penstock.metadata.derivation import ClusteredAttribute, UniqueAttribute
from penstock.model.batch import Batch
from penstock.model.declarations import RowPolicy
from penstock.model.elements import FOREVER, Heartbeat, Herald, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import scoped_from_herald
from penstock.model.value_sets import constant
from penstock.operators.generators.buffered import Buffered
from penstock.operators.generators.closing_times import ClosingTimes
from penstock.operators.generators.sampled import Sampled
from penstock.testing.checks import check_all, inputs
from penstock.testing.streams import broken_promises
from penstock.testing.tapes import batch_cuts

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
REFERENCE = pa.schema({"key": pa.int64(), "end": pa.int64()})


def batch(keys: Sequence[int | None], start: int = 0, parts: Sequence[int] = ()) -> Batch:
    number = np.arange(start, start + len(keys), dtype=np.int64)
    rows = pa.RecordBatch.from_pydict({"k": list(keys), "v": [str(at) for at in number]}, schema=SCHEMA)
    return Batch(rows, number, number << 16 | np.array(parts) if parts else number)


def shown(elements: Sequence[Any]) -> list[Any]:
    """Scopes as text, rows as lists of keys."""
    found: list[Any] = []
    for item in elements:
        if isinstance(item, Herald):
            found.append(str(scoped_from_herald(item)))
        elif isinstance(item, Batch):
            found.append(item.column("k").to_pylist())
    return found


# -- worked examples --------------------------------------------------------------------------------------------------


def test_g28_a_unique_key_is_closed_behind_each_row() -> None:
    marks = [mark for at in range(3) for mark in UniqueAttribute("k").derive(batch([at + 1]).rows, np.array([at]))]
    assert [(str(mark), mark.pos) for mark in marks] == [("⟨k=1⟩", 0), ("⟨k=2⟩", 1), ("⟨k=3⟩", 2)]


def test_g28_a_cluster_is_closed_when_the_value_changes() -> None:
    clustered = ClusteredAttribute("k")
    marks = [mark for at, key in enumerate([5, 5, 7, 7, 9]) for mark in clustered.derive(batch([key]).rows, np.array([at]))]
    assert [(str(mark), mark.pos) for mark in marks] == [("⟨k=5⟩", 2), ("⟨k=7⟩", 4)]


def test_g28_a_sorted_buffer_announces_what_is_left_of_it() -> None:
    assert shown(Buffered(SCHEMA, "k", 4).on_batch(0, batch([3, 1, 3, 2]))) == [
        "⟨next 4: k=[1,3]⟩", [1], "⟨next 3: k=[2,∞)⟩", [2], "⟨next 2: k=[3,∞)⟩", [3, 3]
    ]  # fmt: skip


def test_g28_a_value_may_come_again_in_the_next_buffer() -> None:
    buffered = Buffered(SCHEMA, "k", 4)
    first, second = (buffered.on_batch(0, batch([3, 1, 3, 2], start)) for start in (0, 4))
    assert shown(first) == shown(second)
    assert not any(isinstance(item, Punctuation) for item in [*first, *second])


# -- buffers ----------------------------------------------------------------------------------------------------------

keys = st.lists(st.one_of(st.integers(0, 6), st.none()), max_size=30)


def true_to_scopes(elements: Sequence[Any]) -> bool:
    """Whether every row is allowed by the newest scope before it."""
    scope = None
    for item in elements:
        if isinstance(item, Herald):
            scope = scoped_from_herald(item)
        elif isinstance(item, Batch) and scope is not None and scope.rows:
            inside = min(scope.rows, item.num_rows)
            if not scope.may_match(item.rows.slice(0, inside)).all():
                return False
            scope = scope.after(inside)
    return True


@given(found=keys, size=st.integers(1, 7), pieces=st.integers(1, 5), is_sorted=st.booleans(), cut=st.integers(0, 30))
@settings(max_examples=120, deadline=None)
def test_scopes_are_true_and_rows_are_reordered_only_inside_their_buffer(
    found: list[int | None], size: int, pieces: int, is_sorted: bool, cut: int
) -> None:
    buffered = Buffered(SCHEMA, "k", size, pieces, is_sorted)
    parts = [batch(found[:cut]), batch(found[cut:], min(cut, len(found)))]
    out = [item for part in parts if part.num_rows for item in buffered.on_batch(0, part)]
    out += buffered.on_metadata(0, Heartbeat(FOREVER))
    assert true_to_scopes(out)
    order = [pos for item in out if isinstance(item, Batch) for pos in item.pos.tolist()]
    assert sorted(order) == list(range(len(found)))
    assert [pos // size for pos in order] == sorted(pos // size for pos in order)
    assert sum(isinstance(item, Herald) for item in out) <= pieces * -(-len(found) // size)


@given(found=keys, cuts=st.lists(st.integers(0, 30), max_size=5), parts=st.data())
@settings(max_examples=60, deadline=None)
def test_buffers_do_not_depend_on_batches_and_partitions_have_their_own(
    found: list[int | None], cuts: list[int], parts: st.DataObject
) -> None:
    owners = parts.draw(st.lists(st.integers(0, 1), min_size=len(found), max_size=len(found)))

    def outcome(places: list[int]) -> dict[int, list[Any]]:
        buffered = Buffered(SCHEMA, "k", 4, is_partitioned=True)
        bounds = sorted({0, len(found), *(place for place in places if place < len(found))})
        out: list[Any] = []
        for start, stop in pairwise(bounds):
            out += buffered.on_batch(0, batch(found[start:stop], start, owners[start:stop]))
        out += buffered.on_metadata(0, Heartbeat(FOREVER))
        rows = [(pos & 0xFFFF, pos) for item in out if isinstance(item, Batch) for pos in item.pos.tolist()]
        return {owner: [pos for mine, pos in rows if mine == owner] for owner in (0, 1)}

    assert outcome(cuts) == outcome([])


def test_promises_wait_for_buffered_rows() -> None:
    buffered = Buffered(SCHEMA, "k", 3)
    closed = Punctuation.of(("k", "v"), k=constant(5))
    assert list(buffered.on_batch(0, batch([5, 6]))) == []
    assert list(buffered.on_metadata(0, closed)) == []
    assert list(buffered.on_metadata(0, Heartbeat(9))) == [Heartbeat(0)]
    out = buffered.on_batch(0, batch([7], start=2))
    assert closed in out
    assert broken_promises(out) == []
    assert out[-1] == Heartbeat(9)


# -- sampling ---------------------------------------------------------------------------------------------------------


def test_the_confidence_is_the_share_of_rows_that_came_as_announced() -> None:
    random = np.random.default_rng(1)
    sampled = Sampled(SCHEMA, "k", rows=200, trim=0.1)
    out = [item for at in range(0, 20_000, 500) for item in sampled.on_batch(0, batch(random.integers(0, 1000, 500).tolist(), at))]
    scopes = [scoped_from_herald(item) for item in out if isinstance(item, Herald)]
    assert len(scopes) == 100
    last = scopes[-1]
    assert last is not None
    assert last.confidence == pytest.approx(0.8, abs=0.03)
    assert all(scope is not None and 0 < scope.confidence < 1 for scope in scopes)


@given(found=keys, cuts=st.lists(st.integers(0, 30), max_size=5))
@settings(max_examples=60, deadline=None)
def test_announcements_do_not_depend_on_batches(found: list[int | None], cuts: list[int]) -> None:
    def outcome(places: list[int]) -> tuple[list[str], list[int]]:
        sampled = Sampled(SCHEMA, "k", rows=4)
        bounds = sorted({0, len(found), *(place for place in places if place < len(found))})
        pairs = pairwise(bounds)
        out = [item for start, stop in pairs for item in sampled.on_batch(0, batch(found[start:stop], start))]
        order = [pos for item in out if isinstance(item, Batch) for pos in item.pos.tolist()]
        return [str(scoped_from_herald(item)) for item in out if isinstance(item, Herald)], order

    assert outcome(cuts) == outcome([])
    assert outcome(cuts)[1] == list(range(len(found)))


# -- ends told elsewhere ----------------------------------------------------------------------------------------------


def ends(*pairs: tuple[int | None, int | None]) -> Batch:
    rows = pa.RecordBatch.from_pydict({"key": [key for key, _ in pairs], "end": [end for _, end in pairs]}, schema=REFERENCE)
    return Batch(rows, np.zeros(len(pairs), np.int64), np.arange(len(pairs)))


def closing(policy: RowPolicy = RowPolicy.ERROR) -> ClosingTimes:
    return ClosingTimes(SCHEMA, "k", "key", "end", "bid", policy)


def marks(elements: Sequence[Any]) -> list[str]:
    return [str(item) for item in elements if isinstance(item, Punctuation)]


def test_a_value_is_closed_when_event_time_is_past_its_end_and_not_before() -> None:
    operator = closing()
    operator.on_batch(1, ends((7, 10), (8, 20)))
    assert marks(operator.on_metadata(0, Heartbeat(10))) == []  # a row at 10 may still come
    assert marks(operator.on_metadata(0, Heartbeat(11))) == ["⟨k=7, v=*⟩"]
    assert operator.counters()["state_rows"] == 1
    assert marks(operator.on_metadata(0, Heartbeat(99))) == ["⟨k=8, v=*⟩"]


def test_an_end_that_is_told_late_closes_at_once_and_one_never_told_closes_nothing() -> None:
    operator = closing()
    operator.on_metadata(0, Heartbeat(50))
    assert marks(operator.on_batch(1, ends((7, 10), (None, 3), (9, None)))) == ["⟨k=7, v=*⟩"]
    assert marks(operator.on_metadata(0, Heartbeat(1000))) == []


def test_the_later_of_two_ends_counts() -> None:
    operator = closing()
    operator.on_batch(1, ends((7, 10)))
    operator.on_batch(1, ends((7, 30)))
    assert marks(operator.on_metadata(0, Heartbeat(20))) == []
    assert marks(operator.on_metadata(0, Heartbeat(31))) == ["⟨k=7, v=*⟩"]


def test_progress_of_the_reference_is_not_progress_of_the_stream() -> None:
    operator = closing()
    operator.on_batch(1, ends((7, 10)))
    assert list(operator.on_metadata(1, Heartbeat(FOREVER))) == []


def test_rows_behind_their_end_follow_the_policy() -> None:
    for policy in RowPolicy:
        operator = closing(policy)
        operator.on_batch(1, ends((7, 10)))
        operator.on_metadata(0, Heartbeat(20))
        if policy is RowPolicy.ERROR:
            with pytest.raises(PunctuationViolated, match="after the end of their k"):
                operator.on_batch(0, batch([7, 8], start=20))
            continue
        out = operator.on_batch(0, batch([7, 8], start=20))
        refused = [item.batch.column("k").to_pylist() for item in out if isinstance(item, Quarantined)]
        assert refused == ([[7]] if policy is RowPolicy.QUARANTINE else [])
        assert operator.counters()["violating"] == 1


MAKERS: dict[str, tuple[Callable[[], Operator], list[pa.Schema]]] = {
    "sorted": (lambda: Buffered(SCHEMA, "k", 3, 2), [SCHEMA]),
    "grouped": (lambda: Buffered(SCHEMA, "k", 4, 2, is_sorted=False), [SCHEMA]),
    "sampled": (lambda: Sampled(SCHEMA, "k", 3), [SCHEMA]),
    "closing": (lambda: closing(RowPolicy.QUARANTINE), [SCHEMA, REFERENCE]),
}


@pytest.mark.parametrize("name", list(MAKERS))
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_the_generator_passes_the_shared_checks(name: str, data: st.DataObject) -> None:
    make, schemas = MAKERS[name]
    check_all(make, data.draw(inputs(schemas)), schemas, data.draw(batch_cuts()))
