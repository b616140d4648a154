"""Finding the pairs of an equi-join: the fast search against comparing every pair."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.columnar.matching import equal_keys, find_pairs, is_one_to_one, occur_behind, prefixes, shifted, sort_run
from penstock.model.elements import FOREVER, NEVER

Pairs = set[tuple[int, int]]


def plain_pairs(run: list[tuple[int, int]], probes: list[tuple[int, int, int]]) -> Pairs:
    """Every pair of equal hash whose run time lies within the probe's bounds."""
    return {
        (at, probe)
        for at, (hash_, ts) in enumerate(run)
        for probe, (wanted, low, high) in enumerate(probes)
        if hash_ == wanted and low <= ts <= high
    }


def fast_pairs(run: list[tuple[int, int]], probes: list[tuple[int, int, int]], most: int = 1 << 20) -> Pairs:
    run_hashes, run_ts = columns(run, 2)
    order = sort_run(run_hashes.astype(np.uint64), run_ts)
    hashes, low, high = columns(probes, 3)
    visit = np.argsort(hashes, kind="stable")
    given_run = run_hashes.astype(np.uint64)[order], run_ts[order]
    given_probes = hashes.astype(np.uint64)[visit], low[visit], high[visit]
    pairs: list[tuple[int, int]] = []
    begin, resume = 0, -1
    while begin < len(visit):
        rows, asked, begin, resume = find_pairs(*given_run, *given_probes, begin, resume, most)
        assert len(rows) <= most
        pairs += [(int(order[at]), int(visit[probe])) for at, probe in zip(rows, asked, strict=True)]
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def columns(rows: list[tuple[int, ...]] | list[tuple[int, int]] | list[tuple[int, int, int]], width: int) -> list[np.ndarray]:
    return [np.array([row[at] for row in rows], np.int64) for at in range(width)]


hashes = st.integers(0, 3)
times = st.one_of(st.integers(0, 9), st.sampled_from([NEVER, FOREVER]))


@given(
    run=st.lists(st.tuples(hashes, times), max_size=12), probes=st.lists(st.tuples(hashes, times, times), max_size=12),
    most=st.integers(1, 200),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
@example(run=[(0, 5)], probes=[(0, 5, 5)], most=1)
def test_the_search_finds_exactly_the_pairs_within_bounds_in_pieces(
    run: list[tuple[int, int]], probes: list[tuple[int, int, int]], most: int
) -> None:
    assert fast_pairs(run, probes, most) == plain_pairs(run, probes)


def test_more_pairs_than_expected_are_all_returned() -> None:
    run = [(7, at) for at in range(90)]
    assert len(fast_pairs(run, [(7, 0, 100)] * 50)) == 90 * 50


@given(rows=st.lists(st.tuples(hashes, st.integers(0, 5)), max_size=120))
@settings(max_examples=60, deadline=None)
def test_a_run_is_ordered_by_hash_then_time_then_place(rows: list[tuple[int, int]]) -> None:
    keys, ts = columns(rows, 2)
    assert sort_run(keys.astype(np.uint64), ts).tolist() == sorted(range(len(rows)), key=lambda row: (*rows[row], row))


texts = st.sampled_from(["", "a", "ab", "b", "ba"])


@given(
    left=st.lists(st.tuples(texts, st.integers(0, 2)), min_size=1, max_size=6),
    right=st.lists(st.tuples(texts, st.integers(0, 2)), min_size=1, max_size=6),
    start=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_colliding_hashes_do_not_make_keys_equal(left: list[tuple[str, int]], right: list[tuple[str, int]], start: int) -> None:
    """Every pair is offered as if all hashes were the same; slices have other offsets."""
    start = min(start, len(left) - 1)
    a = [pa.array([row[0] for row in left]).slice(start), pa.array([row[1] for row in left]).slice(start)]
    b = [pa.array([row[0] for row in right]), pa.array([row[1] for row in right])]
    rows_a, rows_b = (part.ravel() for part in np.meshgrid(np.arange(len(left) - start), np.arange(len(right)), indexing="ij"))
    expected = [left[start + i] == right[j] for i, j in zip(rows_a.tolist(), rows_b.tolist(), strict=True)]
    assert equal_keys(a, rows_a, b, rows_b).tolist() == expected


def test_floats_are_equal_as_in_sql() -> None:
    a, b = [pa.array([0.0, float("nan"), 1.0])], [pa.array([-0.0, float("nan"), 2.0])]
    assert equal_keys(a, np.arange(3), b, np.arange(3)).tolist() == [True, True, False]


def test_only_one_fixed_width_column_needs_no_second_look() -> None:
    number, text = pa.array([1]), pa.array(["a"])
    assert is_one_to_one([number])
    assert not is_one_to_one([text])
    assert not is_one_to_one([number, number])
    hashes: UInt64s = hash_columns([number, number], 1)
    assert hashes.dtype == np.uint64


@given(ts=st.integers(NEVER, FOREVER), distance=st.integers(-FOREVER, FOREVER))
def test_shifting_stays_within_64_bits(ts: int, distance: int) -> None:
    assert shifted(np.array([ts]), distance).tolist() == [min(max(ts + distance, NEVER), FOREVER)]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=60),
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=60),
)
def test_values_behind_prefixes_occur_as_they_do_without(values: list[int], wanted: list[int]) -> None:
    run = np.sort(np.array(values, np.uint64))
    asked = np.array([*wanted, *values[::2]], np.uint64)
    assert occur_behind(prefixes(run), run, asked).tolist() == np.isin(asked, run).tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3000))
def test_few_values_that_do_not_occur_have_the_prefix_of_one_that_does(number: int) -> None:
    known = prefixes(np.sort(np.random.default_rng(number).integers(0, 2**64 - 1, number, np.uint64)))
    assert np.unpackbits(known).mean() <= 1 / 16
