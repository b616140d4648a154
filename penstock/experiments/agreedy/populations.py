"""Exact statistics of the correlated workload, and what profiling costs under an order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np

from penstock.experiments.agreedy.workload import Floats, shared_share
from penstock.experiments.contracts import Statement, statements
from penstock.operators.filtering.settings import Algorithm
from penstock.operators.filtering.static import DropStatistics

STATEMENTS: dict[str, Statement] = dict(statements(Path(__file__).parent))

#: Names of the policies in figures.
LABELS = {"agreedy": "A-Greedy", "sweep": "Sweep", "independent": "Independent", "local_swaps": "LocalSwaps"}


def population(filters: int, passing: float = 0.5, group: int = 2, costs: Any = None) -> DropStatistics:
    """Probability of each drop pattern when all filters pass the same share of the rows.

    Examples
    --------
    >>> known = population(4)
    >>> round(known.cost(known.greedy()), 4), round(known.cost((0, 1, 2, 3)), 4)
    (1.95, 2.1)
    """
    weights: Floats = np.ones(1)
    for start in range(0, filters, group):
        weights = np.kron(_group(min(group, filters - start), passing), weights).astype(np.float64)
    return DropStatistics(weights, costs)


def _group(size: int, passing: float) -> Floats:
    """Drop patterns of one group: either the shared number passes, or it does not."""
    share = shared_share(passing)
    found = np.zeros(1 << size)
    for shared, weight in ((1.0, passing), (0.0, 1.0 - passing)):
        passes = share * shared + (1 - share) * passing
        for drops in product((0, 1), repeat=size):
            pattern = sum(1 << place for place, drop in enumerate(drops) if drop)
            found[pattern] += weight * prod(1 - passes if drop else passes for drop in drops)
    return found


def random_cost(known: DropStatistics) -> float:
    """Mean cost over all orders of filters of cost 1: a prefix of a random order is a random set."""
    sizes = np.array([done.bit_count() for done in range(len(known.passing))])
    return float(
        sum(known.passing[sizes == size].sum() / comb(known.filters, size) for size in range(known.filters))
    )  # fmt: skip


def profiling_cost(known: DropStatistics, order: Sequence[int], probability: float, algorithm: str) -> float:
    """Expected cost of profiling, in the unit of the weights: further evaluations on rows rejected at each position."""
    costs, done, total = known.costs[list(order)], 0, 0.0
    for position, number in enumerate(order):
        dropped = known.rejected(number, done)
        total += probability * dropped * _further(costs, position, Algorithm(algorithm))
        done |= 1 << number
    return float(total)


def _further(costs: Floats, position: int, algorithm: Algorithm) -> float:
    later = costs[position + 1 :]
    if algorithm is Algorithm.SWEEP:
        # Each position from the second on is watched equally long.
        return float(later.sum() / max(len(costs) - 1, 1))
    if algorithm is Algorithm.LOCAL_SWAPS:
        return float(later[:1].sum())
    return float(later.sum())


def profiling_share(known: DropStatistics, probability: float, algorithm: str = "agreedy") -> float:
    """Share of the whole cost that profiling takes, in the greedy order.

    Examples
    --------
    >>> round(100 * profiling_share(population(8), 0.05), 3)
    12.604
    """
    order = known.greedy()
    extra = profiling_cost(known, order, probability, algorithm)
    return extra / (known.cost(order) + extra)
