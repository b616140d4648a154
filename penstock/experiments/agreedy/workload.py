"""Seeded drop patterns of filters: correlated streams, the paper's examples, and random static instances.

A row is represented by its drop pattern, a number whose bit i is set when filter i rejects the row. All randomness is a
counter-based hash, so that the check values can be reproduced in any language.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.experiments.agreedy._loops import correlated_masks
from penstock.operators.filtering.coins import permutation, uniform
from penstock.operators.filtering.static import DropStatistics, histogram

Masks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Correlation of two filters of a group that pass half of the rows and agree on 80 % of them.
ROOT = sqrt(0.6)


#: Between the seeds of a stream and its next repetition.
APART = 100


def shared_share(passing: float) -> float:
    """How often filters of a group must share their random number to agree on 80 % of the rows.

    Examples
    --------
    >>> round(shared_share(0.5), 6), round(shared_share(0.3), 6), shared_share(0.95)
    (0.774597, 0.723747, 0.0)
    """
    by_chance = passing**2 + (1 - passing) ** 2
    return sqrt(max(0.0, (0.8 - by_chance) / (1 - by_chance)))


def correlated(
    seed: int, rows: int, passing: Sequence[float], group: int = 2, shared: float | None = ROOT, start: int = 0
) -> Masks:
    """Drop patterns of consecutive rows.

    Parameters
    ----------
    passing
        Share of the rows that each filter passes.
    group
        Filters per correlated group.
    shared
        How often filters of a group share their random number; None: as the 80 % rule asks of each filter.

    Examples
    --------
    >>> correlated(22, 12, (0.25, 0.35, 0.45, 0.55)).tolist()
    [11, 7, 7, 7, 12, 4, 11, 1, 7, 3, 6, 15]
    """
    shares = [shared_share(share) if shared is None else shared for share in passing]
    out = np.empty(rows, np.int64)
    correlated_masks(np.uint64(seed), start, np.array(passing, np.float64), np.array(shares), group, out)
    return out


def permuted(seed: int, rows: int, passing: Sequence[float], period: int) -> Masks:
    """Correlated rows whose selectivities are dealt to the filters anew after each period."""
    parts = []
    for phase, start in enumerate(range(0, rows, period)):
        dealt = permutation(seed, phase, len(passing))
        count = min(period, rows - start)
        parts.append(correlated(seed, count, [passing[place] for place in dealt], start=start))
    return np.concatenate(parts)


def reversed_halfway(seed: int, rows: int, passing: Sequence[float]) -> Masks:
    """Correlated rows whose selectivities change places, first with last, in the middle."""
    half = rows // 2
    return np.concatenate([correlated(seed, half, passing), correlated(seed, half, passing[::-1], start=half)])


def hundred(seed: int, rows: int) -> Masks:
    """Values 1 to 100, all alike."""
    return 1 + np.floor(100 * uniform(seed, np.arange(rows), 0)).astype(np.int64)


def blocks(values: Masks, filters: int, has_changed: npt.NDArray[np.bool_] | bool) -> Masks:
    """Example 7: each filter rejects a block of its own; after the change the last one passes only its neighbour's block."""
    owner = (values - 1) * filters // 100
    before = np.left_shift(1, owner)
    changed = np.where(owner == filters - 2, before, (before & ~(1 << (filters - 1))) | 1 << (filters - 1))
    return np.where(has_changed, changed, before)


# -- random static instances ------------------------------------------------------------------------------------------


def instance(family: int, number: int, filters: int) -> DropStatistics:
    """A random instance: 1 correlated, 2 the same with costs, 3 circular intervals, 4 few heavy elements."""
    seed = family * 1_000_003 + number
    if family <= 2:
        return _correlated_instance(seed, number, filters, has_costs=family == 2)
    return DropStatistics(_intervals(seed, filters) if family == 3 else _elements(seed, filters))


def _draws(seed: int, lanes: Any) -> Floats:
    return uniform(seed, np.zeros(1, np.int64), np.asarray(lanes))


def _correlated_instance(seed: int, number: int, filters: int, has_costs: bool) -> DropStatistics:
    passing = 0.1 + 0.8 * _draws(seed, 10 + np.arange(filters))
    weights = histogram(correlated(seed, 5000, passing.tolist(), 2 if number % 2 == 0 else 3), filters)
    if not has_costs:
        return DropStatistics(weights)
    chosen = np.floor(4 * _draws(seed, 50 + np.arange(filters))).astype(np.int64)
    return DropStatistics(weights, np.array([1, 2, 5, 10])[chosen])


def _intervals(seed: int, filters: int) -> Masks:
    lengths = 5 + np.floor(55 * _draws(seed, 30 + np.arange(filters))).astype(np.int64)
    starts = np.floor(100 * _draws(seed, 10 + np.arange(filters))).astype(np.int64)
    inside = (np.arange(100)[:, None] - starts) % 100 < lengths
    return histogram((inside << np.arange(filters)).sum(axis=1), filters)


def _elements(seed: int, filters: int) -> Masks:
    elements = np.arange(12)
    bits = _draws(seed, 100 + 32 * elements[:, None] + np.arange(filters)) < 0.35
    masks = (bits << np.arange(filters)).sum(axis=1)
    masks = np.where(masks == 0, np.left_shift(1, elements % filters), masks)
    weights = 1 + np.floor(9 * _draws(seed, 900 + elements)).astype(np.int64)
    return np.bincount(masks, weights, 1 << filters).astype(np.int64)
