"""Worked examples of the literature: probe counts, views, violations, corrections, and orders that are not optimal."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from flag_filters import scanned_view

from penstock.experiments.agreedy.workload import blocks
from penstock.operators.filtering.policies.agreedy import AGreedy
from penstock.operators.filtering.policies.independent import Independent
from penstock.operators.filtering.policies.local_swaps import LocalSwaps
from penstock.operators.filtering.policies.sweep import Sweep
from penstock.operators.filtering.settings import Move, OrderSettings
from penstock.operators.filtering.static import DropStatistics, greedy_bound, histogram

#: Bits of the values 1 to 7: bit i is set when filter i drops the value.
BITS = {value: sum(1 << i for i, held in enumerate(({1, 2, 3, 4}, {1, 2, 3, 7}, {1, 5, 6, 7}, {1, 2, 7})) if value not in held)
        for value in range(1, 8)}  # fmt: skip
INPUT = (1, 2, 1, 4, 7, 2, 5, 4)
F3_F1_F2_F4 = (2, 0, 1, 3)


def words(*values: int) -> np.ndarray:
    return np.array([BITS[value] for value in values], np.uint64)


def weights(patterns: str) -> np.ndarray:
    """Patterns are written b1 b2 ... as in the literature, each with its weight."""
    pairs = [part.split(":") for part in patterns.split()]
    found = np.zeros(1 << len(pairs[0][0]), np.int64)
    for text, weight in pairs:
        found[sum(1 << i for i, bit in enumerate(text) if bit == "1")] += int(weight)
    return found


def show(policy, *values: int) -> bool:
    found = words(*values)
    return policy.observe(found, np.full(len(found), 15, np.uint64), np.ones(4))


def test_probe_totals_of_the_running_example():
    known = DropStatistics(histogram(words(*INPUT).astype(np.int64), 4))
    assert [known.cost(order) for order in ((0, 1, 2, 3), (2, 1, 3, 0), (2, 0, 1, 3), (2, 0, 3, 1))] == [20, 18, 16, 16]
    assert {known.cost(order) for order in permutations(range(4))} >= {16, 22}
    assert max(known.cost(order) for order in permutations(range(4))) == 22
    assert known.cost(known.optimal()) == 16
    assert known.passing[0] - known.passing[15] == 6  # only value 1 passes


def test_value_two_takes_three_probes():
    assert DropStatistics(histogram(words(2).astype(np.int64), 4)).cost((0, 1, 2, 3)) == 3


def running_example(move: Move = Move.ROTATE) -> AGreedy:
    policy = AGreedy(4, OrderSettings(probability=1.0, window_rows=6, min_fill=6, move=move), F3_F1_F2_F4)
    assert not show(policy, 2, 4, 7, 2, 5, 4)
    return policy


def test_matrix_view_of_the_running_example():
    policy = running_example()
    assert policy.rows() == [[4, 2, 3, 3], [2, 1, 1], [0, 0], [0]]
    known = DropStatistics(histogram(policy.window.bits.astype(np.int64), 4))
    greedy = {order for order in permutations(range(4)) if known.is_greedy(order)}
    assert greedy == {(2, 0, 1, 3), (2, 0, 3, 1)}


def test_no_violation_after_value_three():
    policy = running_example()
    assert not show(policy, 3)
    assert policy.rows()[0] == [4, 2, 3, 4]


@pytest.mark.parametrize(
    ("move", "corrected"), [(Move.ROTATE, (3, 2, 0, 1)), (Move.SWAP, (3, 0, 2, 1))], ids=["as printed", "as coded"]
)
def test_violation_is_corrected_as_in_figure_6(move: Move, corrected: tuple[int, ...]):
    policy = running_example(move)
    assert not show(policy, 3)
    assert show(policy, 6)
    assert policy.order() == corrected
    assert policy.rows() == [[4, 3, 3, 3], [1, 1, 0], [1, 0], [0]]
    (event,) = policy.events
    assert (event.old, event.row, event.column, event.left, event.right) == (F3_F1_F2_F4, 0, 3, 3.0, 3.6)
    # Rows 1 to 4 are visited; the violated one is known, and the last one follows from the others.
    assert policy.scans == 2
    known = DropStatistics(histogram(policy.window.bits.astype(np.int64), 4))
    assert {order for order in permutations(range(4)) if known.is_greedy(order)} == {(3, 2, 0, 1), (3, 0, 2, 1)}


def test_view_before_the_correction():
    window = words(7, 2, 5, 4, 3, 6)
    assert np.triu(scanned_view(window, F3_F1_F2_F4)).tolist() == [[3, 3, 3, 4], [0, 3, 2, 2], [0, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(("filters", "cost"), [(4, 2.47), (8, 4.43), (10, 5.41), (20, 10.31)])
def test_independent_fails_on_example_6(filters: int, cost: float):
    counts = np.zeros(1 << filters)
    counts[(1 << filters - 1) - 1], counts[1 << filters - 1] = 0.51, 0.49
    known = DropStatistics(counts)
    assert known.cost(known.independent()) == pytest.approx(cost)
    assert known.cost(known.greedy()) == pytest.approx(1.49)
    assert known.cost((filters - 1, *range(filters - 1))) == pytest.approx(1.51)
    if filters <= 10:
        assert known.cost(known.optimal()) == pytest.approx(1.49)


def repeated(statistics: np.ndarray) -> np.ndarray:
    """Profile rows that show these statistics exactly."""
    return np.repeat(np.arange(len(statistics)), statistics)[statistics[0] :].astype(np.uint64)


def exactly(policy_type, algorithm: str, rows: np.ndarray, filters: int):
    """A policy whose window, or stage, is exactly these rows, compared without forgiveness."""
    size = len(rows)
    return policy_type(filters, OrderSettings(algorithm, alpha=1.0, window_rows=size, stage_rows=size, min_fill=size))


def settle(policy, rows: np.ndarray, rounds: int = 200) -> None:
    """Show the same rows again until nothing has changed for a rotation."""
    still = 0
    every = np.full(len(rows), (1 << policy.filters) - 1, np.uint64)
    for _ in range(rounds):
        still = 0 if policy.observe(rows, every, np.ones(policy.filters)) else still + 1
        if still >= policy.filters:
            return
    raise AssertionError("the order does not settle")


@pytest.mark.parametrize(("filters", "stuck", "best"), [(4, 2.5, 1.25), (5, 3.0, 1.2), (10, 5.5, 1.1), (20, 10.5, 1.05)])
def test_local_swaps_is_stuck_on_example_7(filters: int, stuck: float, best: float):
    values = np.arange(1, 101)
    before = DropStatistics(histogram(blocks(values, filters, False), filters))
    assert before.cost(range(filters)) / 100 == pytest.approx((filters + 1) / 2)
    changed = histogram(blocks(values, filters, True), filters)
    known, rows = DropStatistics(changed), repeated(changed)
    swaps = exactly(LocalSwaps, "local_swaps", rows, filters)
    settle(swaps, rows)
    assert swaps.order() == tuple(range(filters))
    assert known.cost(swaps.order()) / 100 == pytest.approx(stuck)
    assert known.cost(known.greedy()) / 100 == pytest.approx(best)
    assert known.greedy()[:2] == (filters - 1, filters - 2)
    for policy_type, algorithm in ((AGreedy, "agreedy"), (Sweep, "sweep")):
        greedy = exactly(policy_type, algorithm, rows, filters)
        settle(greedy, rows)
        assert known.cost(greedy.order()) / 100 == pytest.approx(best)


def test_independent_leaves_its_neighbour_behind_on_example_7():
    changed = histogram(blocks(np.arange(1, 101), 10, True), 10)
    rows = repeated(changed)
    policy = exactly(Independent, "independent", rows, 10)
    settle(policy, rows)
    assert policy.order() == (9, *range(9))


WORST = {
    "W1": ("010:1 110:1 001:1 101:1", 7, 6),
    "W1 without ties": ("010:10 110:11 001:10 101:11", 72, 63),
    "W2, four filters": ("0010:1 0110:1 1110:2 0001:1 1001:2 0101:1", 15, 12),
    "W2, five filters": ("00100:1 10100:2 01100:1 00010:1 11010:2 00001:1 01011:1", 20, 15),
    "W2, six filters": (
        "000100:4 100100:9 010100:3 001100:2 000010:4 010010:3 001010:2 000001:4 001001:2 011001:3 100011:9", 114, 81,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORST)
def test_greedy_is_not_always_optimal(name: str):
    patterns, cost, best = WORST[name]
    known = DropStatistics(weights(patterns))
    greedy = tuple(range(known.filters))
    assert known.is_greedy(greedy)
    assert (known.cost(greedy), known.cost(known.optimal())) == (cost, best)
    assert known.cost(known.greedy()) <= cost
    if "without" not in name:
        assert cost / best == pytest.approx(greedy_bound(known.filters))


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_with_costs_greedy_can_be_twice_as_dear(parts: int):
    """W3: one filter drops everything at cost k, k filters drop a share each at cost 1."""
    counts = np.zeros(1 << parts + 1)
    for part in range(parts):
        counts[1 | 2 << part] = 1.0
    tied = DropStatistics(counts, [parts] + [1] * parts)
    assert tied.cost((0, *range(1, parts + 1))) == parts * parts
    assert tied.is_greedy((0, *range(1, parts + 1)))
    cheaper = DropStatistics(counts, [parts - 1e-6] + [1] * parts)
    assert cheaper.greedy()[0] == 0
    ratio = cheaper.cost(cheaper.greedy()) / cheaper.cost(cheaper.optimal())
    assert ratio == pytest.approx(2 * parts / (parts + 1), rel=1e-5)
