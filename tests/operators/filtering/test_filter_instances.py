"""Seeded generators and what static orders cost on thousands of random instances: exact integers."""

from __future__ import annotations

from itertools import permutations
from math import sqrt

import numpy as np
import pytest

from penstock.experiments.agreedy.workload import correlated, instance, shared_share
from penstock.operators.filtering.coins import are_profiled, permutation, uniform
from penstock.operators.filtering.policies.local_swaps import LocalSwaps
from penstock.operators.filtering.policies.sweep import Sweep
from penstock.operators.filtering.settings import OrderSettings
from penstock.operators.filtering.static import DropStatistics, greedy_bound, histogram


def test_hash_has_the_published_values():
    assert uniform(0, np.array([0]), 0)[0] == 0.13870941014555427
    assert uniform(1, np.array([2]), 3)[0] == 0.4175580595044027
    assert uniform(42, np.array([7]), 1000)[0] == 0.9112919703636169


def test_profiling_coins_have_the_published_places():
    assert np.flatnonzero(are_profiled(22, np.arange(900), 0.01)).tolist() == [160, 360, 456, 528, 684, 767, 809, 882]


def test_coins_of_other_partitions_are_other_coins():
    first, second = (are_profiled(1, np.arange(10_000), 0.5, partition) for partition in (0, 1))
    assert 0.4 < (first == second).mean() < 0.6


def test_correlation_follows_the_eighty_percent_rule():
    assert shared_share(0.5) == sqrt(0.6) == 0.7745966692414834
    assert shared_share(0.3) == pytest.approx(0.723746864455746, abs=1e-15)
    assert shared_share(0.1) == 0.0
    masks = correlated(3, 200_000, (0.5, 0.5), 2, None)
    assert np.isin(masks, (0, 3)).mean() == pytest.approx(0.8, abs=0.005)


def test_a_group_passes_together_as_often_as_the_formula_says():
    share, s = shared_share(0.5), 0.5
    masks = correlated(9, 400_000, (s,) * 4, 4, None)
    for k in (1, 2, 3, 4):
        expected = s * (share + (1 - share) * s) ** k + (1 - s) * ((1 - share) * s) ** k
        assert expected == pytest.approx({1: 0.5, 2: 0.4, 3: 0.35, 4: 0.31}[k], abs=2e-3)
        assert (masks & ((1 << k) - 1) == 0).mean() == pytest.approx(expected, abs=0.004)


def test_permutation_zero_is_the_identity_and_others_are_permutations():
    assert permutation(11, 0, 8) == tuple(range(8))
    assert all(sorted(permutation(11, number, 8)) == list(range(8)) for number in range(1, 50))


CHECKED = {
    1: ([391, 147, 379, 1158, 399, 134, 372, 1100, 37, 9, 37, 94, 149, 48, 116, 430], (1, 1, 1, 1),
        7326, (1, 2, 0, 3), 7718, (1, 0, 2, 3)),
    2: ([210, 1327, 20, 613, 116, 740, 14, 340, 36, 196, 2, 86, 132, 744, 21, 403], (1, 1, 2, 2),
        6862, (0, 2, 1, 3), 7031, (0, 1, 2, 3)),
    3: ([13, 16, 0, 0, 9, 7, 0, 21, 34, 0, 0, 0, 0, 0, 0, 0], (1, 1, 1, 1), 191, (0, 3, 2, 1), 216, (0, 2, 3, 1)),
    4: ([0, 4, 2, 0, 11, 10, 7, 0, 0, 0, 8, 0, 10, 0, 0, 0], (1, 1, 1, 1), 70, (2, 1, 0, 3), 76, (2, 3, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("family", CHECKED)
def test_first_instance_of_each_family(family: int):
    weights, costs, best, order, independent, rank = CHECKED[family]
    known = instance(family, 0, 4)
    assert known.weights.tolist() == weights
    assert tuple(known.costs) == costs
    assert (known.cost(known.optimal()), known.greedy(), known.cost(known.greedy())) == (best, order, best)
    assert (known.independent(), known.cost(known.independent())) == (rank, independent)


def test_subset_programme_equals_exhaustive_search():
    for family in (1, 2, 3, 4):
        for number in range(25):
            known = instance(family, number, 5)
            assert known.cost(known.optimal()) == min(known.cost(order) for order in permutations(range(5)))


#: family, filters, instances; greedy optimal, mean, max; Independent optimal, mean, max; sums greedy, optimum, Independent
CONVERGENCE = [
    (1, 4, 500, 497, 1.00000, 1.00083, 270, 1.01267, 1.09786, 3738563, 3738551, 3787665),
    (1, 6, 500, 492, 1.00001, 1.00082, 145, 1.01533, 1.10753, 3558763, 3558742, 3615936),
    (1, 8, 200, 191, 1.00002, 1.00086, 15, 1.01349, 1.10072, 1319085, 1319066, 1337274),
    (2, 4, 500, 497, 1.00008, 1.02305, 324, 1.01176, 1.16393, 13291761, 13289923, 13444408),
    (2, 6, 500, 489, 1.00006, 1.01438, 148, 1.01583, 1.17596, 11234285, 11233435, 11406823),
    (2, 8, 200, 194, 1.00010, 1.01180, 18, 1.02174, 1.15080, 3383570, 3382778, 3456540),
    (3, 4, 500, 479, 1.00098, 1.09333, 229, 1.04127, 1.32911, 101182, 101092, 105148),
    (3, 6, 500, 452, 1.00372, 1.15333, 97, 1.10240, 1.70886, 100375, 100056, 110106),
    (3, 8, 200, 175, 1.00533, 1.09524, 34, 1.14392, 1.77626, 37560, 37390, 42882),
    (4, 4, 500, 482, 1.00153, 1.15068, 207, 1.04004, 1.27368, 48676, 48600, 50499),
    (4, 6, 500, 443, 1.00466, 1.13084, 72, 1.10987, 1.58140, 49498, 49241, 54635),
    (4, 8, 200, 174, 1.00427, 1.08929, 23, 1.14935, 1.77143, 19362, 19271, 22154),
]


@pytest.mark.parametrize("row", CONVERGENCE, ids=lambda row: f"family {row[0]}, {row[1]} filters")
def test_static_convergence_has_the_published_integers(row):
    family, filters, instances, *expected = row
    known = [instance(family, number, filters) for number in range(instances)]
    best, greedy, rank = (
        np.array([item.cost(getattr(item, name)()) for item in known]) for name in ("optimal", "greedy", "independent")
    )
    found: list[float] = []
    for costs in (greedy, rank):
        ratios = costs / best
        found += [int((costs == best).sum()), round(float(ratios.mean()), 5), round(float(ratios.max()), 5)]
    assert [*found, greedy.sum(), best.sum(), rank.sum()] == expected
    assert (greedy <= (greedy_bound(filters) if family != 2 else 4.0) * best).all()


def test_worst_instances_by_name():
    intervals, elements = instance(3, 353, 6), instance(4, 305, 4)
    assert (intervals.greedy(), intervals.cost(intervals.greedy())) == ((5, 3, 0, 4, 1, 2), 173)
    assert intervals.cost(intervals.optimal()) == intervals.cost((3, 0, 4, 1, 2, 5)) == 150
    assert (elements.greedy(), elements.cost(elements.greedy())) == ((1, 0, 3, 2), 84)
    assert elements.cost(elements.optimal()) == elements.cost((3, 2, 0, 1)) == 73


#: family; Sweep: greedy, cost as greedy, stages mean and max; LocalSwaps: greedy, optimal, ratio mean and max, swaps mean and max
DYNAMICS = [
    (1, 500, 496, 12.47, 25, 454, 454, 1.00224, 1.16213, 8.20, 14),
    (2, 500, 499, 11.64, 25, 465, 459, 1.00360, 1.29485, 7.83, 17),
    (3, 500, 499, 10.90, 20, 349, 349, 1.02483, 1.42683, 5.33, 16),
    (4, 500, 498, 11.62, 25, 330, 307, 1.04083, 1.76596, 5.81, 17),
]


def rows_of(known: DropStatistics) -> np.ndarray:
    return np.repeat(np.arange(len(known.weights)), known.weights)[known.weights[0] :].astype(np.uint64)


def swept(known: DropStatistics, rows: np.ndarray) -> tuple[tuple[int, ...], int]:
    """The order Sweep ends in with exact statistics, and the stages up to the end of a clean rotation."""
    policy = Sweep(known.filters, OrderSettings("sweep", alpha=1.0, stage_rows=len(rows), min_fill=len(rows)))
    stages = clean = 0
    while clean < known.filters - 1:
        clean = 0 if policy.observe(rows, rows, known.costs) else clean + 1
        stages += 1
    return policy.order(), stages


def swapped(known: DropStatistics, rows: np.ndarray) -> tuple[tuple[int, ...], int]:
    """The order LocalSwaps ends in with exact statistics, and its swaps, each of which lowers the cost."""
    size = len(rows)
    policy = LocalSwaps(known.filters, OrderSettings("local_swaps", alpha=1.0, window_rows=size, min_fill=size))
    before = known.cost(policy.order())
    while policy.observe(rows, rows, known.costs):
        now = known.cost(policy.order())
        assert now < before
        before = now
    return policy.order(), policy.corrections


@pytest.mark.parametrize("row", DYNAMICS, ids=lambda row: f"family {row[0]}")
def test_dynamics_with_exact_statistics_have_the_published_integers(row):
    ended, stages, greedy_cost, settled, swaps, ratios = [], [], [], [], [], []
    for number in range(500):
        known = instance(row[0], number, 6)
        rows = rows_of(known)
        order, count = swept(known, rows)
        ended.append(known.is_greedy(order))
        greedy_cost.append(known.cost(order) == known.cost(known.greedy()))
        stages.append(count)
        order, count = swapped(known, rows)
        settled.append(known.is_greedy(order))
        swaps.append(count)
        ratios.append(known.cost(order) / known.cost(known.optimal()))
    found = (
        row[0], sum(ended), sum(greedy_cost), round(float(np.mean(stages)), 2), max(stages), sum(settled),
        ratios.count(1.0), round(float(np.mean(ratios)), 5), round(max(ratios), 5), round(float(np.mean(swaps)), 2), max(swaps),
    )  # fmt: skip
    assert found == row


def test_independent_filters_make_all_orders_of_choice_equal():
    passing = (0.2, 0.35, 0.5, 0.65, 0.8)
    shares = np.array([1.0])
    for share in passing:
        shares = np.concatenate([shares * share, shares * (1 - share)])
    known = DropStatistics(shares, (1, 3, 1, 2, 1))
    best = known.cost(known.optimal())
    assert known.cost(known.greedy()) == pytest.approx(best)
    assert known.cost(known.independent()) == pytest.approx(best)


def random_instances(count: int, filters: int, seed: int):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        weights = generator.integers(0, 10, 1 << filters) * (generator.random(1 << filters) < generator.uniform(0.05, 0.9))
        if weights[1:].any():
            yield weights, generator.choice([1, 2, 5, 10, 100], filters)


def test_greedy_stays_below_its_bound_on_random_instances():
    for filters, count in ((3, 4000), (4, 3000), (5, 2000), (6, 1000)):
        for weights, _ in random_instances(count, filters, filters):
            known = DropStatistics(weights)
            assert known.cost(known.greedy()) <= greedy_bound(filters) * known.cost(known.optimal()) * (1 + 1e-12)


def test_greedy_stays_below_four_with_costs():
    for weights, costs in random_instances(1500, 5, 7):
        known = DropStatistics(weights, costs)
        assert known.cost(known.greedy()) <= 4 * known.cost(known.optimal())


@pytest.mark.parametrize("alpha", [0.9, 0.5])
def test_a_relaxed_greedy_order_stays_below_four_over_alpha(alpha: float):
    """Orders reached by correcting only what `alpha` does not forgive."""
    for weights, costs in random_instances(400, 5, 8):
        known = DropStatistics(weights, costs)
        order = list(range(5))
        while True:
            pair = relaxed_violation(known, order, alpha)
            if pair is None:
                break
            order.insert(pair[0], order.pop(pair[1]))
        assert known.is_greedy(order, alpha)
        assert known.cost(order) <= 4 / alpha * known.cost(known.optimal())


def relaxed_violation(known: DropStatistics, order: list[int], alpha: float) -> tuple[int, int] | None:
    done = 0
    for row, number in enumerate(order):
        gain = known.rejected(number, done) / known.costs[number]
        for column in range(row + 1, len(order)):
            if gain < alpha * known.rejected(order[column], done) / known.costs[order[column]]:
                return row, column
        done |= 1 << number
    return None


def test_histogram_counts_patterns():
    assert histogram(np.array([0, 3, 3, 1]), 2).tolist() == [1, 1, 0, 2]
