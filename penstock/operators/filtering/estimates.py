"""What orders are estimated to cost, from the profile window; for people, never for decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.operators.filtering.contract import FilterOrder, Floats, Order
from penstock.operators.filtering.static import DropStatistics, histogram
from penstock.operators.filtering.window import UInt64s

#: Filters up to which the optimum is searched for a report.
SEARCHED = 12


@dataclass(frozen=True, slots=True)
class Estimates:
    """Cost per row of three orders, and the orders; None where the profile does not tell."""

    current: float
    greedy: float
    optimal: float | None
    greedy_order: Order
    optimal_order: Order | None


def reached(words: UInt64s, order: Sequence[int], dropped_share: float) -> Floats:
    """Share of all rows that reaches each position.

    Parameters
    ----------
    words
        Profiled rows: a sample of the rejected ones.
    dropped_share
        Share of all rows that is rejected.

    Examples
    --------
    >>> reached(np.array([1, 1, 2, 3], np.uint64), (0, 1), 0.8).round(3).tolist()
    [1.0, 0.4]
    """
    left, found = words, np.ones(len(order))
    for position, number in enumerate(order[:-1]):
        left = left[(left >> np.uint64(number)) & np.uint64(1) == 0]
        found[position + 1] = 1.0 - dropped_share * (1.0 - len(left) / len(words))
    return found


def estimated_cost(words: UInt64s, order: Sequence[int], costs: Floats, dropped_share: float) -> float:
    """Time per row in this order."""
    return float(np.sum(costs[list(order)] * reached(words, order, dropped_share)))


def greedy_order(words: UInt64s, costs: Floats, after: UInt64s, ties: Sequence[int]) -> Order:
    """The order the greedy rule would choose on these rows; a tie leaves filters as they stand."""
    left, done, found = list(ties), 0, list[int]()
    while left:
        ready = [number for number in left if not int(after[number]) & ~done]
        gains = [int(((words >> np.uint64(number)) & np.uint64(1)).sum()) / costs[number] for number in ready]
        chosen = ready[int(np.argmax(gains))]
        found.append(chosen)
        left.remove(chosen)
        done |= 1 << chosen
        words = words[(words >> np.uint64(chosen)) & np.uint64(1) == 0]
    return tuple(found)


def estimates(policy: FilterOrder, costs: Floats, dropped_share: float) -> Estimates | None:
    """Cost of the current, the greedy and the optimal order; None while there is no profile of whole rows."""
    words = policy.window.bits
    if not policy.has_whole_rows or not len(words):
        return None
    greedy = greedy_order(words, costs, policy.after, policy.order())
    best = None
    if policy.filters <= SEARCHED:
        best = DropStatistics(histogram(words.astype(np.int64), policy.filters), costs, policy.after).optimal()
    return Estimates(
        estimated_cost(words, policy.order(), costs, dropped_share),
        estimated_cost(words, greedy, costs, dropped_share),
        None if best is None else estimated_cost(words, best, costs, dropped_share),
        greedy,
        best,
    )
