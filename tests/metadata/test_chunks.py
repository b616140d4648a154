"""Hot and cold chunks: what is flushed and fetched, and that answers never depend on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings

from penstock.metadata.chunks import Chunk, HotCold, expired, hot_mask, summarise
from penstock.model.patterns import Pattern, between, constant, one_of
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import ScopedPunctuation

WIDTH = 16


def chunk(name: str, *keys: int | str | float | None, ts: int = 0, is_spilled: bool = False) -> Chunk:
    return summarise(name, pa.array(list(keys)), np.full(len(keys), ts), WIDTH * len(keys), is_spilled)


def next_rows(rows: int, pattern: Pattern, confidence: float = 1.0) -> ScopedPunctuation:
    return ScopedPunctuation.next_rows(rows, Punctuation(("A",), (pattern,)), confidence=confidence)


def rows(*keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"A": pa.array(keys, pa.int64())})


ABOVE_2000 = between(2000, lo_inclusive=False)


def test_g27_the_scope_splits_state_into_hot_and_cold() -> None:
    chunks = [chunk(str(key), key) for key in (100, 2000, 2001, 5000)]
    assert hot_mask(chunks, next_rows(5000, ABOVE_2000), "A").tolist() == [False, False, True, True]


def test_g27_hot_chunks_on_disk_are_fetched_before_they_are_asked_for() -> None:
    state = HotCold("A", limit_bytes=2 * WIDTH)
    for key in (100, 2000):
        state.add(chunk(str(key), key))
    for key in (2001, 5000):
        state.add(chunk(str(key), key, is_spilled=True))
    moves = state.announce(next_rows(5000, ABOVE_2000))
    assert (set(moves.flush), set(moves.prefetch)) == ({"100", "2000"}, {"2001", "5000"})
    for _ in range(10):
        assert state.see(rows(*([5000] * 500))) == ()
    assert (state.fetches, state.violations) == (0, 0)
    # The scope is over: row 5,001 may have any value, and what it needs is fetched.
    assert state.see(rows(100)) == ("100",)
    assert (state.fetches, state.violations) == (1, 0)


def test_a_row_outside_the_scope_is_counted_and_served() -> None:
    state = HotCold("A", limit_bytes=WIDTH)
    state.add(chunk("cold", 100, is_spilled=True))
    state.announce(next_rows(10, ABOVE_2000))
    assert state.see(rows(3000, 100)) == ("cold",)
    assert (state.violations, state.fetches) == (1, 1)


def test_a_probable_scope_cannot_be_violated_and_hints_all_the_same() -> None:
    state = HotCold("A", limit_bytes=WIDTH)
    state.add(chunk("cold", 100))
    state.add(chunk("hot", 3000))
    assert state.announce(next_rows(10, ABOVE_2000, confidence=0.85)).flush == ("cold",)
    assert state.see(rows(100)) == ("cold",)
    assert state.violations == 0


def test_lists_find_chunks_by_their_keys_and_not_only_by_their_range() -> None:
    chunks = [chunk("a", 1, 9), chunk("b", 2, 8), chunk("c", 5)]
    assert hot_mask(chunks, next_rows(5, one_of([2, 5])), "A").tolist() == [False, True, True]
    assert hot_mask([chunk("t", "x", "z")], next_rows(5, one_of(["y", "z"])), "A").tolist() == [True]
    assert hot_mask([chunk("f", 0.5, 2.0)], next_rows(5, constant(2)), "A").tolist() == [True]


def test_negative_statements_make_a_chunk_cold_only_if_they_name_all_of_it() -> None:
    gone = ScopedPunctuation((Punctuation(("A",), (between(1, 5),)),), 100, is_positive=False)
    assert hot_mask([chunk("in", 2, 5), chunk("across", 4, 7)], gone, "A").tolist() == [False, True]
    both = ScopedPunctuation((Punctuation(("A", "B"), (between(1, 5), constant(3))),), 100, is_positive=False)
    assert hot_mask([chunk("in", 2, 5)], both, "A").tolist() == [True]


def test_keys_that_join_nothing_are_never_hot() -> None:
    nulls = summarise("n", pa.array([None, None], pa.int64()), np.zeros(2, np.int64), WIDTH)
    assert hot_mask([nulls, chunk("k", 1)], None, "A").tolist() == [False, True]


def test_without_a_scope_everything_is_hot_and_the_largest_goes_first() -> None:
    state = HotCold("A", limit_bytes=3 * WIDTH)
    state.add(chunk("small", 1))
    state.add(chunk("large", 2, 3, 4))
    assert state.relieve().flush == ("large",)


def test_chunks_that_are_wholly_out_of_the_window_are_deleted_unread() -> None:
    chunks = [chunk("old", 1, ts=10), chunk("edge", 1, ts=15), chunk("new", 1, ts=20)]
    assert expired(chunks, 5, 20) == ("old",)  # a row at 15 may still join one at 20
    assert expired(chunks, None, 10**9) == ()
    state = HotCold("A", 10**6, window=5)
    for part in chunks:
        state.add(part.spilled())
    assert state.advance(20).delete == ("old",)
    assert [part.id for part in state.chunks] == ["edge", "new"]
    assert state.fetches == 0


def test_the_most_selective_chunk_is_fetched_first() -> None:
    state = HotCold("A", limit_bytes=4 * WIDTH)
    state.add(chunk("touching", 0, 1, 2, 11, is_spilled=True))
    state.add(chunk("inside", 10, 12, 14, 19, is_spilled=True))
    assert state.announce(next_rows(5, between(10, 20))).prefetch == ("inside",)


# -- answers ----------------------------------------------------------------------------------------------------------


@dataclass
class SpillingJoin:
    """A join whose stored input lives in chunks, memory or disk, as `HotCold` says; reading a chunk on disk is an error."""

    state: HotCold
    keys: dict[str, list[int]]
    disk: set[str] = field(default_factory=set)

    def obey(self, flush: tuple[str, ...], prefetch: tuple[str, ...]) -> None:
        self.disk = (self.disk | set(flush)) - set(prefetch)

    def announce(self, scope: ScopedPunctuation) -> None:
        moves = self.state.announce(scope)
        self.obey(moves.flush, moves.prefetch)

    def probe(self, key: int) -> int:
        self.disk -= set(self.state.see(rows(key)))
        found = sum(stored.count(key) for name, stored in self.keys.items() if name not in self.disk)
        self.obey(self.state.relieve().flush, ())
        return found


patterns = st.one_of(
    st.tuples(st.integers(0, 30), st.integers(0, 15)).map(lambda r: between(r[0], r[0] + r[1])),
    st.lists(st.integers(0, 30), min_size=1, max_size=5).map(one_of),
    st.integers(0, 30).map(lambda least: between(least)),
)
probes = st.lists(st.integers(0, 30), max_size=8)


@given(
    stored=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), min_size=1, max_size=6),
    script=st.lists(st.tuples(patterns, st.integers(1, 8), st.floats(0.1, 1.0), probes), max_size=5),
    limit=st.integers(0, 12),
)
@settings(max_examples=120, deadline=None)
@example(stored=[[1], [2]], script=[(between(2), 3, 1.0, [1, 2, 1])], limit=1)
def test_answers_with_spilling_equal_answers_without_for_right_and_wrong_scopes(
    stored: list[list[int]], script: list[tuple[Pattern, int, float, list[int]]], limit: int
) -> None:
    state = HotCold("A", limit * WIDTH)
    for at, keys in enumerate(stored):
        state.add(chunk(str(at), *keys))
    join = SpillingJoin(state, {str(at): keys for at, keys in enumerate(stored)})
    join.obey(state.relieve().flush, ())
    for pattern, count, confidence, keys in script:
        join.announce(next_rows(count, pattern, confidence))
        for key in keys:
            assert join.probe(key) == sum(part.count(key) for part in stored)


@given(seed=st.integers(0, 10_000), blocks=st.integers(1, 6))
@settings(max_examples=12, deadline=None)
def test_with_right_scopes_nothing_is_fetched_while_a_row_waits_and_cold_bytes_are_on_disk(seed: int, blocks: int) -> None:
    """State in ten chunks of ten keys, memory for two of them; each block of rows stays in one chunk's range."""
    random = np.random.default_rng(seed)
    state = HotCold("A", limit_bytes=20 * WIDTH)
    for at in range(10):
        state.add(chunk(str(at), *range(10 * at, 10 * at + 10)))
    join = SpillingJoin(state, {str(at): list(range(10 * at, 10 * at + 10)) for at in range(10)})
    join.obey(state.relieve().flush, ())
    for block in random.integers(0, 10, blocks).tolist():
        join.announce(next_rows(20, between(10 * block, 10 * block + 9)))
        cold = sum(
            part.num_bytes for part, hot in zip(state.chunks, hot_mask(state.chunks, state.scope, "A"), strict=True) if not hot
        )
        spilled = sum(part.num_bytes for part in state.chunks if part.is_spilled)
        assert spilled >= cold - state.limit_bytes
        for key in (10 * block + random.integers(0, 10, 20)).tolist():
            assert join.probe(key) == 1
    assert (state.fetches, state.violations) == (0, 0)
