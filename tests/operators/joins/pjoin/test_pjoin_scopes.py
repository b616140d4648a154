"""Scopes decide what a PJoin keeps in memory: fewer reads, the same answers, also where a scope is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.contracts import State
from penstock.kernel.segments import decode_meta, decode_segment, encode_meta, encode_segment
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Element, Heartbeat, Herald
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import ScopedPunctuation
from penstock.model.value_sets import Pattern, between, one_of
from penstock.model.windows import Unbounded
from penstock.operators.joins.pjoin import layout
from penstock.operators.joins.pjoin.config import Access, DiskJoin, PJoinConfig
from penstock.operators.joins.pjoin.operator import PJoin, XJoin
from penstock.operators.joins.pjoin.spill import EncodedStore

SIDES = [pa.schema({"a": pa.int64(), "x": pa.int64()}), pa.schema({"b": pa.int64(), "y": pa.int64()})]


class CountingStore(EncodedStore):
    """Counts how often a chunk is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, name: str) -> pa.RecordBatch:
        self.reads += 1
        return super().get(name)


def join(config: PJoinConfig, store: CountingStore | None = None, kind: type[PJoin] = PJoin) -> PJoin:
    return kind(SIDES, [["a"], ["b"]], [Unbounded(), Unbounded()], pa.schema([*SIDES[0], *SIDES[1]]), config=config, spill=store)


def rows(port: int, keys: Sequence[int], ts: int = 0, start: int = 0) -> Batch:
    numbers = np.arange(start, start + len(keys))
    columns = dict(zip(SIDES[port].names, (list(keys), numbers), strict=True))
    return Batch(pa.RecordBatch.from_pydict(columns, schema=SIDES[port]), np.full(len(keys), ts), numbers)


def scope(port: int, number: int, pattern: Pattern, confidence: float = 1.0) -> Herald:
    mark = Punctuation((SIDES[port].names[0],), (pattern,))
    return ScopedPunctuation.next_rows(number, mark, confidence=confidence).to_herald()


def keys_in(operator: PJoin, home: int) -> set[int]:
    """Keys with tuples of the first input in memory or on disk."""
    core = operator.engine.core
    kids = core.slots.kid[core.slots.home == home]
    return set(core.keys.columns[0].to_numpy()[kids].tolist())


def pairs(elements: Sequence[Any]) -> list[tuple[int, int]]:
    found = [element.rows for element in elements if isinstance(element, Batch)]
    return sorted((row["x"], row["y"]) for part in found for row in part.to_pylist())


# -- examples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buckets", [1, 8])
def test_g27_what_the_next_rows_cannot_meet_is_cold_and_goes_first(buckets: int) -> None:
    store = CountingStore()
    operator = join(PJoinConfig(buckets=buckets, memory_rows=5), store)
    operator.on_batch(0, rows(0, [100, 2000, 2001, 5000]))
    assert operator.on_metadata(1, scope(1, 5000, between(2000, lo_inclusive=False))) == []
    operator.on_batch(0, rows(0, [2500, 2600], start=4))
    assert keys_in(operator, layout.DISK) == {100, 2000}
    assert keys_in(operator, layout.MEMORY) == {2001, 2500, 2600, 5000}
    assert store.reads == 0
    # A row in scope finds its partner at once; one that breaks the scope is counted, and served from disk.
    assert pairs(operator.on_batch(1, rows(1, [5000], ts=1))) == [(3, 0)]
    assert operator.counters()["scope_violations"] == 0
    assert operator.on_batch(1, rows(1, [100], ts=1, start=1)) == []
    assert operator.counters()["scope_violations"] == 1
    assert pairs([*operator.on_metadata(0, Heartbeat(2)), *operator.on_metadata(1, Heartbeat(2))]) == [(0, 1)]
    assert store.reads > 0


def test_g27_what_the_next_rows_may_meet_is_fetched_before_they_come() -> None:
    operator = join(PJoinConfig(buckets=1, memory_rows=5))
    operator.on_batch(0, rows(0, [100, 2000, 2001, 5000]))
    operator.on_metadata(1, scope(1, 10, between(None, 2000)))
    operator.on_batch(0, rows(0, [100], start=4))
    assert keys_in(operator, layout.DISK) == {2001, 5000}
    operator.on_metadata(1, scope(1, 10, between(2001)))
    assert keys_in(operator, layout.MEMORY) >= {2001, 5000}
    assert operator.counters()["tuples_fetched"] == 2
    assert pairs(operator.on_batch(1, rows(1, [5000, 2001], ts=1))) == [(2, 1), (3, 0)]


def test_a_scope_ends_with_its_last_row_and_when_that_is_said() -> None:
    operator = join(PJoinConfig(memory_rows=100))
    operator.on_metadata(1, scope(1, 2, one_of([1])))
    operator.on_batch(1, rows(1, [1]))
    assert operator.engine.scopes.is_known(0)
    operator.on_batch(1, rows(1, [1], start=1))
    assert not operator.engine.scopes.is_known(0)
    operator.on_metadata(1, scope(1, 2, one_of([1])))
    operator.on_metadata(1, ScopedPunctuation.nothing_known().to_herald())
    assert not operator.engine.scopes.is_known(0)


def test_a_statement_about_a_probable_end_moves_nothing_and_other_heralds_are_passed_on() -> None:
    operator = join(PJoinConfig(memory_rows=2))
    doubt = ScopedPunctuation((Punctuation(("b",), (one_of([1]),)),), confidence=0.9, is_positive=False)
    assert operator.on_metadata(1, doubt.to_herald()) == []
    assert not operator.engine.scopes.is_known(0)
    other = Herald(Punctuation(("b",), (one_of([1]),)), {"kind": "something else"})
    assert operator.on_metadata(1, other) == [other]


def test_the_join_that_ignores_punctuations_ignores_scopes() -> None:
    operator = join(PJoinConfig.xjoin(memory_rows=100), kind=XJoin)
    assert operator.on_metadata(1, scope(1, 9, one_of([1]))) == []
    assert not operator.engine.scopes.is_known(0)


# -- disk reads -------------------------------------------------------------------------------------------------------


def swept(is_told: bool, confidence: float = 1.0) -> tuple[int, int, PJoin, list[tuple[int, int]]]:
    """Two hundred stored rows, memory for eighty; the other input asks for twenty keys for a while, then for the next twenty.

    Returns all reads, and those while rows and heartbeats came.
    """
    store = CountingStore()
    operator = join(PJoinConfig(buckets=16, memory_rows=80), store)
    found: list[Any] = [*operator.on_batch(0, rows(0, range(200))), *operator.on_metadata(0, Heartbeat(1))]
    while_rows_come = 0
    for step in range(10):
        keys = range(20 * step, 20 * step + 20)
        if is_told:
            found += operator.on_metadata(1, scope(1, 120, between(keys[0], keys[-1]), confidence))
        before = store.reads
        for part in range(6):
            ts = 6 * step + part + 1
            found += operator.on_batch(1, rows(1, keys, ts, start=20 * ts))
            for port in (0, 1):
                found += operator.on_metadata(port, Heartbeat(ts + 1))
        while_rows_come += store.reads - before
    for port in (0, 1):
        found += operator.on_metadata(port, Heartbeat(FOREVER))
    return store.reads, while_rows_come, operator, pairs(found)


@pytest.fixture(scope="module")
def unaware() -> tuple[int, int, PJoin, list[tuple[int, int]]]:
    return swept(is_told=False)


@pytest.mark.parametrize("confidence", [1.0, 0.85])
def test_scopes_save_most_reads_and_change_no_answer(
    unaware: tuple[int, int, PJoin, list[tuple[int, int]]], confidence: float
) -> None:
    blind, blind_waits, _, expected = unaware
    told, told_waits, operator, found = swept(is_told=True, confidence=confidence)
    assert found == expected
    assert len(found) == 6 * 200
    assert operator.counters()["tuples_fetched"] > 0
    assert (blind_waits > 500, told_waits) == (True, 0), (blind_waits, told_waits)
    assert told < blind / 2, (told, blind)


def test_a_scope_of_fewer_rows_than_buckets_is_not_worth_a_fetch() -> None:
    operator = join(PJoinConfig(buckets=16, memory_rows=20))
    operator.on_batch(0, rows(0, range(100)))
    operator.on_metadata(1, scope(1, 2, between(0, 99)))
    assert operator.counters()["tuples_fetched"] == 0
    operator.on_metadata(1, scope(1, 100, between(0, 9)))
    assert operator.counters()["tuples_fetched"] > 0


# -- properties -------------------------------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("row"), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just("row"), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just("scope"), st.integers(0, 1), st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(0, 4))),
    st.tuples(st.just("beat"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("close"), st.integers(0, 1), st.integers(0, 9)),
)


def elements(script: Sequence[tuple[str, int, Any]]) -> list[tuple[int, Element]]:
    """Rows of closed keys are left out; scopes may be right or wrong."""
    closed: tuple[set[int], set[int]] = (set(), set())
    found: list[tuple[int, Element]] = []
    for at, (kind, port, detail) in enumerate(script):
        if kind == "row" and detail not in closed[port]:
            found.append((port, rows(port, [detail], ts=at, start=at)))
        elif kind == "scope":
            number, low, width = detail
            found.append((port, scope(port, number, between(low, low + width))))
        elif kind == "beat":
            found.append((port, Heartbeat(at)))
        elif kind == "close":
            closed[port].add(detail)
            found.append((port, Punctuation((SIDES[port].names[0],), (one_of([detail]),))))
    return [*found, (0, Heartbeat(FOREVER)), (1, Heartbeat(FOREVER))]


def brute_force(given_elements: Sequence[tuple[int, Element]]) -> list[tuple[int, int]]:
    sides: tuple[list[dict[str, int]], list[dict[str, int]]] = ([], [])
    for port, element in given_elements:
        if isinstance(element, Batch):
            sides[port].extend(element.rows.to_pylist())
    return sorted((left["x"], right["y"]) for left, right in product(*sides) if left["a"] == right["b"])


def given_to(operator: PJoin, port: int, element: Element) -> Sequence[Any]:
    if isinstance(element, Batch):
        return operator.on_batch(port, element)
    assert isinstance(element, Heartbeat | Herald | Punctuation)
    return operator.on_metadata(port, element)


configurations = st.builds(
    PJoinConfig,
    buckets=st.integers(1, 3),
    memory_rows=st.integers(2, 9),
    probe_access=st.sampled_from(Access),
    purge_access=st.sampled_from(Access),
    disk_join=st.sampled_from(DiskJoin),
)


@given(script=st.lists(steps, max_size=40), config=configurations)
@settings(max_examples=80, deadline=None)
def test_answers_equal_brute_force_whatever_the_scopes_say(script: list[tuple[str, int, Any]], config: PJoinConfig) -> None:
    operator, found, frontier = join(config), list[Any](), -1
    given_elements = elements(script)
    for port, element in given_elements:
        for part in given_to(operator, port, element):
            if isinstance(part, Batch) and part.num_rows:
                assert part.ts.min() >= frontier
            frontier = max(frontier, part.ts) if isinstance(part, Heartbeat) else frontier
            found.append(part)
    assert pairs(found) == brute_force(given_elements)


@given(script=st.lists(steps, max_size=25), config=configurations)
@settings(max_examples=25, deadline=None)
def test_a_restart_at_every_element_changes_nothing(script: list[tuple[str, int, Any]], config: PJoinConfig) -> None:
    steady, restarted = join(config), join(config)
    for port, element in elements(script):
        state = restarted.snapshot()
        meta = decode_meta(encode_meta(state.meta, "test"), "test")
        restarted = join(config)
        restarted.restore(State(meta, {key: decode_segment(encode_segment(part)) for key, part in state.segments.items()}))
        assert pairs(given_to(steady, port, element)) == pairs(given_to(restarted, port, element))
        assert steady.counters()["memory_rows"] == restarted.counters()["memory_rows"]
