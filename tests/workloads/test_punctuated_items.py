"""Punctuated streams item by item: the statistics the notation promises, the grammar, one order, one seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption
from penstock.workloads.itemised import PUNCTUATION, TUPLE, Items, PunctuatedStream, make_items
from penstock.workloads.segments import USELESS, ArrivalPattern, Order

PATTERNS = ("unique", "cluster-asc-7", "cluster-random-20", "punct-desc-10-40", "punct-random-30-40", "punct-asc-100-90")


def pair(pattern: str, **options: object) -> list[PunctuatedStream]:
    return [PunctuatedStream(pattern, **options), PunctuatedStream(pattern, **options)]  # type: ignore[arg-type]


def segments_of(items: Items) -> list[tuple[list[int], int]]:
    """Keys between punctuations, and the value closed then, of one stream."""
    found, keys = [], []
    for kind, key in zip(items.kinds.tolist(), items.keys.tolist(), strict=True):
        if kind == TUPLE:
            keys.append(key)
        else:
            found.append((keys, key))
            keys = []
    return found


def same(left: Items, right: Items) -> bool:
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ("kinds", "streams", "keys", "times_us"))


@settings(max_examples=30, deadline=None)
@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
    lockstep=st.booleans(),
    useless=st.sampled_from([0.0, 0.5]),
)
def test_no_tuple_follows_the_punctuation_on_its_value(patterns: list[str], seed: int, lockstep: bool, useless: float) -> None:
    streams = [PunctuatedStream(pattern, useless_fraction=useless) for pattern in patterns]
    items = make_items(streams, 2.0, seed, lockstep)
    for number in range(len(streams)):
        closed: set[int] = set()
        for kind, key in zip(*(getattr(items.of_stream(number), name).tolist() for name in ("kinds", "keys")), strict=True):
            assert key not in closed
            if kind == PUNCTUATION:
                closed.add(key)


@settings(max_examples=20, deadline=None)
@given(pattern=st.sampled_from(PATTERNS), seed=st.integers(0, 10**6), lockstep=st.booleans())
def test_equal_seeds_give_equal_items_and_more_time_only_adds_items(pattern: str, seed: int, lockstep: bool) -> None:
    short, again, long = (make_items(pair(pattern), seconds, seed, lockstep) for seconds in (1.0, 1.0, 3.0))
    assert same(short, again)
    assert same(short, long.first(len(short)))
    assert (np.diff(long.times_us) >= 0).all()
    assert not same(short, make_items(pair(pattern), 1.0, seed + 1, lockstep))


@pytest.mark.parametrize("gap_ms", [2.0, 10.0])
def test_gaps_are_exponential_with_the_given_mean(gap_ms: float) -> None:
    items = make_items([PunctuatedStream("punct-asc-100-40", gap_ms=gap_ms)], 40 * gap_ms)
    gaps = np.diff(items.without_punctuations().times_us) / 1e3
    assert gaps.mean() == pytest.approx(gap_ms, rel=0.03)
    assert gaps.std() == pytest.approx(gap_ms, rel=0.03)


def test_sizes_of_segments_are_poisson() -> None:
    items = make_items([PunctuatedStream("punct-asc-30-40")], 300.0)
    sizes = np.array([len(keys) for keys, _ in segments_of(items)])
    assert sizes.mean() == pytest.approx(30, rel=0.02)
    assert sizes.var() == pytest.approx(30, rel=0.1)


def test_the_given_share_of_a_segment_has_the_value_that_closes_it() -> None:
    items = make_items([PunctuatedStream("punct-asc-100-40")], 200.0)
    shares = np.array([keys.count(value) / len(keys) for keys, value in segments_of(items)])
    assert shares.mean() == pytest.approx(0.40, abs=0.01)
    # Poisson with mean 40, in percent.
    assert shares.std() == pytest.approx(0.0632, rel=0.15)


def test_the_other_tuples_have_one_of_the_next_ten_values_evenly() -> None:
    items = make_items([PunctuatedStream("punct-asc-100-40")], 100.0)
    ahead = np.array([key - value for keys, value in segments_of(items) for key in keys if key != value])
    assert set(ahead.tolist()) == set(range(1, 11))
    assert np.bincount(ahead)[1:].min() > 0.9 * len(ahead) / 10


def test_unique_values_come_once_and_clusters_stay_together() -> None:
    unique = segments_of(make_items([PunctuatedStream("unique")], 0.2))
    assert all(keys == [value] for keys, value in unique)
    clusters = segments_of(make_items([PunctuatedStream("cluster-random-20")], 4.0))
    assert all(set(keys) == {value} for keys, value in clusters)


def test_orders_are_ascending_descending_or_random_inside_blocks_of_fifty() -> None:
    closed = {
        order: np.array([value for _, value in segments_of(make_items([PunctuatedStream(f"cluster-{order}-4")], 5.0))])
        for order in Order
    }
    assert (np.diff(closed[Order.ASC]) == 1).all()
    assert (np.diff(closed[Order.DESC]) == -1).all()
    blocks = closed[Order.RANDOM][:250].reshape(5, 50)
    assert (np.sort(blocks, axis=1) == np.arange(250).reshape(5, 50)).all()
    assert (blocks != np.sort(blocks, axis=1)).any(axis=1).all()


def test_lockstep_ends_segments_together_and_keeps_the_rate() -> None:
    items = make_items(pair("punct-random-20-40"), 40.0, lockstep=True)
    ends = [items.of_stream(at).take(items.of_stream(at).kinds == PUNCTUATION) for at in (0, 1)]
    count = min(len(end) for end in ends)
    assert np.abs(ends[0].times_us[:count] - ends[1].times_us[:count]).max() <= 1
    assert np.array_equal(ends[0].keys[:count], ends[1].keys[:count])
    assert items.tuples == pytest.approx(40_000, rel=0.03)


def test_streams_have_rates_of_their_own() -> None:
    items = make_items([PunctuatedStream("punct-asc-10-40"), PunctuatedStream("punct-asc-10-40", gap_ms=8.0)], 40.0)
    counts = [items.of_stream(at).tuples for at in (0, 1)]
    assert counts == [pytest.approx(20_000, rel=0.03), pytest.approx(5_000, rel=0.05)]


def test_useless_punctuations_speak_of_values_no_tuple_has() -> None:
    items = make_items([PunctuatedStream("punct-asc-30-40", useless_fraction=0.25)], 200.0)
    marks = items.keys[items.kinds == PUNCTUATION]
    assert (marks >= USELESS).mean() == pytest.approx(0.25, abs=0.03)
    assert items.keys[items.kinds == TUPLE].max() < USELESS


def test_without_announcements_the_tuples_are_the_same() -> None:
    loud, silent = (make_items(pair("punct-asc-10-40", announces=announces), 3.0) for announces in (True, False))
    assert same(loud.without_punctuations(), silent)


def test_uniform_values_fill_their_range_and_are_never_closed() -> None:
    items = make_items([PunctuatedStream("uniform-100")], 20.0)
    assert items.punctuations == 0
    assert np.bincount(items.keys, minlength=100).min() > 60


def test_stale_values_are_old_by_the_given_distance() -> None:
    fresh = PunctuatedStream("punct-asc-10-40", announces=False)
    stale = PunctuatedStream("punct-asc-10-40", announces=False, stale_fraction=0.3, stale_distance=100)
    own, moved = (make_items([stream], 40.0).keys for stream in (fresh, stale))
    age = own - moved
    assert set(np.unique(age[own < 200]).tolist()) == {0}
    later = age[own >= 200]
    assert (later > 0).mean() == pytest.approx(0.3, abs=0.02)
    assert later[later > 0].min() >= 100
    assert later.max() < 200


@pytest.mark.parametrize(
    "text", ["", "cluster", "cluster-up-5", "punct-asc-10", "punct-asc-0-40", "punct-asc-10-0", "punct-asc-10-200"]
)
def test_wrong_notations_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOption):
        ArrivalPattern.parse(text)


@pytest.mark.parametrize(
    "options",
    [{"gap_ms": 0.0}, {"useless_fraction": 1.5}, {"stale_fraction": 0.5}, {"announces": False, "stale_fraction": 0.5}],
)
def test_impossible_streams_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOption):
        PunctuatedStream("unique", **options)  # type: ignore[arg-type]
