"""What every policy keeps on random profiles: counts equal scans, and the order satisfies the policy's own invariant."""

from __future__ import annotations

from itertools import permutations

import hypothesis.strategies as st
import numpy as np
import pytest
from flag_filters import scanned_view
from hypothesis import given, settings

from penstock.operators.filtering.contract import FilterOrder, arranged, checked_order
from penstock.operators.filtering.policies.agreedy import AGreedy
from penstock.operators.filtering.policies.fixed import Fixed, Random
from penstock.operators.filtering.policies.independent import Independent
from penstock.operators.filtering.policies.local_swaps import LocalSwaps
from penstock.operators.filtering.policies.sweep import Sweep
from penstock.operators.filtering.policies.table import POLICIES, make_order
from penstock.operators.filtering.settings import OrderSettings
from penstock.operators.filtering.static import DropStatistics, histogram
from penstock.operators.filtering.window import ProfileRows, ProfileWindow

WHOLE = ("agreedy", "independent")


@st.composite
def scenes(draw: st.DrawFn, most_filters: int = 5):
    """Filters, costs, guards, chunks of profile rows, and settings."""
    filters = draw(st.integers(2, most_filters))
    rows = st.lists(st.integers(1, (1 << filters) - 1), max_size=8)
    chunks = draw(st.lists(rows, min_size=1, max_size=12))
    costs = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0, 0.1]), min_size=filters, max_size=filters))
    window = draw(st.integers(1, 12))
    options = {
        "alpha": draw(st.sampled_from([1.0, 0.9, 0.5])),
        "window_rows": window,
        "stage_rows": window,
        "min_fill": draw(st.integers(1, window)),
        "min_support": draw(st.sampled_from([0, 0, 2])),
        "move": draw(st.sampled_from(["rotate", "swap"])),
        "check": draw(st.sampled_from(["stage_end", "continuous"])),
    }
    after = np.zeros(filters, np.uint64)
    for _ in range(draw(st.integers(0, 2))):
        guard, guarded = sorted(draw(st.lists(st.integers(0, filters - 1), min_size=2, max_size=2, unique=True)))
        after[guarded] |= np.uint64(1 << guard)
    start = arranged(draw(st.permutations(range(filters))), after)
    return filters, np.array(costs), after, start, [np.array(chunk, np.uint64) for chunk in chunks], options


def known_bits(policy: FilterOrder, word: int) -> int:
    """What profiling the row would show: everything up to the rejection, and what the policy wants."""
    known = 0
    for position, number in enumerate(policy.order()):
        known |= 1 << number
        if word >> number & 1:
            return known | policy.wanted(position)
    raise AssertionError("a profiled row is rejected by some filter")


def show(policy: FilterOrder, words: np.ndarray, costs: np.ndarray) -> bool:
    known = np.array([known_bits(policy, int(word)) for word in words], np.uint64)
    return policy.observe(words & known, known, costs)


@given(scene=scenes())
@settings(max_examples=120, deadline=None)
def test_the_view_equals_a_scan_of_the_window_after_every_step(scene):
    filters, costs, after, start, chunks, options = scene
    policy = AGreedy(filters, OrderSettings(**options), start, after)
    remembered: list[int] = []
    for words in chunks:
        show(policy, words, costs)
        remembered = [*remembered, *words.tolist()][-options["window_rows"] :]
        assert policy.window.bits.tolist() == remembered
        expected = np.triu(scanned_view(policy.window.bits, policy.order()))
        assert np.triu(policy.view.counts).tolist() == expected.tolist()
        assert int(np.trace(policy.view.counts)) == len(policy.window)
        checked_order(policy.order(), after)
    policy.window.max_age = 1
    policy.expire(10)
    assert not policy.view.counts[np.triu_indices(filters)].any()


def relaxed(policy: FilterOrder, costs: np.ndarray, counts, row: int, column: int) -> bool:
    """Whether a pair of positions keeps the relaxed invariant, or is not to be compared."""
    order, alpha = policy.order(), policy.settings.alpha
    done = sum(1 << number for number in order[:row])
    if int(policy.after[order[column]]) & ~done or counts[1] < policy.settings.min_support:
        return True
    return not counts[0] / costs[order[row]] < alpha * counts[1] / costs[order[column]]


@given(scene=scenes())
@settings(max_examples=120, deadline=None)
def test_agreedy_satisfies_its_invariant_after_every_decision(scene):
    filters, costs, after, start, chunks, options = scene
    policy = AGreedy(filters, OrderSettings(**options), start, after)
    for words in chunks:
        show(policy, words, costs)
        if not len(words) or len(policy.window) < options["min_fill"]:
            continue
        view = scanned_view(policy.window.bits, policy.order())
        for row in range(filters):
            for column in range(row + 1, filters):
                assert relaxed(policy, costs, (view[row, row], view[row, column]), row, column)


@given(scene=scenes())
@settings(max_examples=80, deadline=None)
def test_independent_satisfies_its_invariant_after_every_decision(scene):
    filters, costs, after, start, chunks, options = scene
    policy = Independent(filters, OrderSettings("independent", **options), start, after)
    for words in chunks:
        show(policy, words, costs)
        counts = [int(((policy.window.bits >> np.uint64(number)) & np.uint64(1)).sum()) for number in range(filters)]
        assert policy.counts.tolist() == counts
        checked_order(policy.order(), after)
        if not len(words) or len(policy.window) < options["min_fill"]:
            continue
        by_place = [counts[number] for number in policy.order()]
        for row in range(filters):
            for column in range(row + 1, filters):
                assert relaxed(policy, costs, (by_place[row], by_place[column]), row, column)


@given(scene=scenes())
@settings(max_examples=80, deadline=None)
def test_local_swaps_satisfies_its_invariant_after_every_decision(scene):
    filters, costs, after, start, chunks, options = scene
    policy = LocalSwaps(filters, OrderSettings("local_swaps", **options), start, after)
    for words in chunks:
        changed = show(policy, words, costs)
        view = scanned_view(policy.window.bits, policy.order())
        assert policy.own.tolist() == np.diag(view).tolist()
        assert policy.following[:-1].tolist() == np.diag(view, 1).tolist()
        checked_order(policy.order(), after)
        assert not (changed and len(policy.window))  # rows profiled before lack the bit of the new neighbour
        if len(words) and len(policy.window) >= options["min_fill"]:
            for row in range(filters - 1):
                assert relaxed(policy, costs, (policy.own[row], policy.following[row]), row, row + 1)


@given(scene=scenes())
@settings(max_examples=80, deadline=None)
def test_sweep_satisfies_its_invariant_at_the_end_of_every_stage(scene):
    filters, costs, after, start, chunks, options = scene
    policy = Sweep(filters, OrderSettings("sweep", **options), start, after)
    stage: list[int] = []
    for words in chunks:
        watched, before = policy.watched, policy.order()
        room = options["stage_rows"] - policy.count
        stage = stage[: policy.count] + words[:room].tolist()
        changed = show(policy, words, costs)
        checked_order(policy.order(), after)
        if policy.watched == watched and policy.count:
            continue  # the stage goes on
        if len(words) and not changed and len(stage) == options["stage_rows"]:
            view = scanned_view(np.array(stage, np.uint64), before)
            for row in range(watched):
                assert relaxed(policy, costs, (view[row, row], view[row, watched]), row, watched)
        stage = []


@given(scene=scenes(4), algorithm=st.sampled_from(list(POLICIES)))
@settings(max_examples=100, deadline=None)
def test_a_restored_policy_goes_on_alike(scene, algorithm):
    filters, costs, after, start, chunks, options = scene
    chosen = OrderSettings(algorithm, **options)
    policy = make_order(filters, chosen, start, after)
    other = make_order(filters, chosen, None, after)
    for words in chunks:
        other.restore(policy.snapshot(), policy.window.content)
        assert show(policy, words, costs) == show(other, words, costs)
        assert other.snapshot() == policy.snapshot()
        assert other.window.bits.tolist() == policy.window.bits.tolist()
        other = make_order(filters, chosen, None, after)


@given(
    counts=st.lists(st.integers(0, 6), min_size=16, max_size=16), costs=st.lists(st.sampled_from([1, 2, 5]), min_size=4, max_size=4)
)
@settings(max_examples=60, deadline=None)
def test_static_greedy_is_at_most_four_times_the_optimum(counts, costs):
    known = DropStatistics(np.array(counts), costs)
    best = known.cost(known.optimal())
    assert best == pytest.approx(min(known.cost(order) for order in permutations(range(4))))
    assert known.cost(known.greedy()) <= 4 * best + 1e-9
    assert known.is_greedy(known.greedy())


@given(words=st.lists(st.integers(1, 15), min_size=1, max_size=30), order=st.permutations(range(4)))
@settings(max_examples=60, deadline=None)
def test_the_greedy_invariant_implies_that_of_local_swaps_and_is_that_of_all_sweeps(words, order):
    view = scanned_view(np.array(words, np.uint64), order)
    sweeps = all(view[i, i] >= view[i, j] for j in range(1, 4) for i in range(j))
    neighbours = all(view[i, i] >= view[i, i + 1] for i in range(3))
    is_greedy = DropStatistics(histogram(np.array(words), 4)).is_greedy(order)
    assert is_greedy == sweeps
    assert neighbours or not is_greedy


@given(words=st.lists(st.integers(1, 3), min_size=1, max_size=30), order=st.permutations(range(2)))
@settings(max_examples=40, deadline=None)
def test_for_two_filters_all_invariants_coincide(words, order):
    first, second = (sum(word >> number & 1 for word in words) for number in order)
    assert DropStatistics(histogram(np.array(words), 2)).is_greedy(order) == (first >= second)


def test_sweep_with_exact_statistics_ends_in_a_greedy_order():
    generator = np.random.default_rng(5)
    for _ in range(40):
        words = generator.integers(1, 64, 50).astype(np.uint64)
        policy = Sweep(6, OrderSettings("sweep", alpha=1.0, stage_rows=50, min_fill=50))
        clean = 0
        while clean < 5:
            clean = 0 if policy.observe(words, words, np.ones(6)) else clean + 1
        assert DropStatistics(histogram(words.astype(np.int64), 6)).is_greedy(policy.order())


def test_rows_that_lack_bits_do_not_enter_a_window_of_whole_rows():
    policy = AGreedy(3, OrderSettings(min_fill=1))
    policy.observe(np.array([1, 2], np.uint64), np.array([0b001, 0b111], np.uint64), np.ones(3))
    assert policy.window.bits.tolist() == [2]


def test_what_profiling_wants():
    order = (2, 0, 3, 1)
    expected = {"agreedy": (0b1011, 0b1010, 0b0010, 0), "independent": (0b1011, 0b1010, 0b0010, 0), "sweep": (0b0001, 0, 0, 0),
                "local_swaps": (0b0001, 0b1000, 0b0010, 0), "fixed": (0,) * 4}  # fmt: skip
    for algorithm, wanted in expected.items():
        policy = make_order(4, OrderSettings(algorithm), order)
        assert tuple(policy.wanted(position) for position in range(4)) == wanted


def test_an_order_from_outside_is_obeyed_and_counts_follow_it():
    words = np.array([1, 3, 7, 4, 6], np.uint64)
    policy = AGreedy(3, OrderSettings(window_rows=5, min_fill=5, alpha=0.01))
    policy.observe(words, np.full(5, 7, np.uint64), np.ones(3))
    policy.set_order((2, 1, 0))
    assert np.triu(policy.view.counts).tolist() == np.triu(scanned_view(words, (2, 1, 0))).tolist()
    assert (policy.epoch, policy.events[-1].at, policy.events[-1].new) == (1, -1, (2, 1, 0))


def test_a_change_of_cost_alone_can_reorder():
    words = np.array([1, 1, 2], np.uint64)
    policy = AGreedy(2, OrderSettings(window_rows=9, min_fill=1))
    assert not policy.observe(words, np.full(3, 3, np.uint64), np.ones(2))
    assert policy.observe(words[:1], np.full(1, 3, np.uint64), np.array([10.0, 1.0]))
    assert policy.order() == (1, 0)


def test_random_orders_come_from_the_seed_and_respect_guards():
    orders = {Random(5, OrderSettings("random", seed=seed)).order() for seed in range(20)}
    assert len(orders) > 10
    after = np.array([0b10, 0, 0], np.uint64)
    assert all(Random(3, OrderSettings("random", seed=seed), None, after).order() != (0, 1, 2) for seed in range(20))


def test_fixed_never_moves():
    policy = Fixed(2, OrderSettings("fixed", min_fill=1))
    assert not policy.observe(np.array([2, 2], np.uint64), np.array([3, 3], np.uint64), np.ones(2))
    assert policy.order() == (0, 1)


def test_a_window_by_time_forgets_by_age_alone():
    window = ProfileWindow(None, 10)
    for ts in range(1000):
        assert len(window.push(ProfileRows(np.array([1], np.uint64), np.array([1], np.uint64), np.array([ts])))) == 0
    assert len(window) == 1000
    assert len(window.expire(999)) == 990
    assert window.age == 9


def test_a_window_by_time_is_not_tested_below_the_minimum():
    policy = AGreedy(2, OrderSettings(window="time", max_age=5, min_fill=3))
    two = np.array([3], np.uint64)
    for ts in (0, 10, 20, 21):
        assert not policy.observe(np.array([2], np.uint64), two, np.ones(2), np.array([ts]))
    assert policy.observe(np.array([2], np.uint64), two, np.ones(2), np.array([22]))
    assert len(policy.window) == 3
