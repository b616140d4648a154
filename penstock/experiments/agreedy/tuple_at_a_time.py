"""The tuple-at-a-time reference: rows one by one, a new order in force from the next row.

Only profiled rows, one in a hundred, can change the order. What lies between two changes is a histogram of drop patterns
times a table of what each pattern costs, so millions of rows take a second and still count exactly as one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.experiments.agreedy.workload import Masks
from penstock.operators.filtering.coins import are_profiled
from penstock.operators.filtering.contract import FilterOrder, Order, Reordering
from penstock.operators.filtering.static import histogram

Floats = npt.NDArray[np.float64]

#: Profiled rows handed to a policy at once; those behind a change of the order are handed over again.
_AHEAD = 2048


@dataclass(slots=True)
class Run:
    """What a stream has cost under a policy.

    Parameters
    ----------
    base, extra
        Cost of the filters in ordinary processing, and of profiling.
    orders
        Each order with the first row it was in force for.
    """

    base: float = 0.0
    extra: float = 0.0
    profiled: int = 0
    events: list[Reordering] = field(default_factory=list)
    orders: list[tuple[int, Order]] = field(default_factory=list)
    #: Rows that were profiled, and what profiling each of them cost.
    extra_at: tuple[npt.NDArray[np.int64], Floats] = field(default_factory=lambda: (np.empty(0, np.int64), np.empty(0)))

    @property
    def total(self) -> float:
        return self.base + self.extra


@dataclass(frozen=True, slots=True)
class _Tables:
    """What each drop pattern costs and shows under one order."""

    cost: Floats
    extra: Floats
    known: npt.NDArray[np.uint64]


def _tables(policy: FilterOrder, costs: Floats) -> _Tables:
    order = policy.order()
    patterns = np.arange(1 << len(order))
    spent, cost, extra = 0.0, np.zeros(len(patterns)), np.zeros(len(patterns))
    known = np.zeros(len(patterns), np.uint64)
    reaching, asked = np.ones(len(patterns), bool), 0
    for position, number in enumerate(order):
        spent += costs[number]
        asked |= 1 << number
        here = reaching & (patterns >> number & 1).astype(bool)
        wanted = policy.wanted(position)
        cost[here] = spent
        extra[here] = sum(costs[other] for other in range(len(order)) if wanted >> other & 1)
        known[here] = asked | wanted
        reaching &= ~here
    cost[reaching] = spent
    return _Tables(cost, extra, known)


def costs_of(masks: Masks, order: Order, costs: Floats) -> Floats:
    """Cost of each row under one order."""
    table = np.zeros(1 << len(order))
    patterns, reaching = np.arange(len(table)), np.ones(len(table), bool)
    for number in order:
        table[reaching] += costs[number]
        reaching &= ~(patterns >> number & 1).astype(bool)
    result: Floats = table[masks]
    return result


def play(masks: Masks, policy: FilterOrder, seed: int, costs: Any = None) -> Run:
    """Send rows through the filters one at a time.

    Parameters
    ----------
    masks
        Drop pattern of each row.
    seed
        Of the profiling coins; row t has place t.
    costs
        Declared cost of each filter; 1 where not given.
    """
    prices = np.ones(policy.filters) if costs is None else np.asarray(costs, np.float64)
    coins = are_profiled(seed, np.arange(len(masks)), policy.settings.profiled_share)
    profiled = np.flatnonzero(coins & (masks != 0))
    patterns, words = masks[profiled], masks[profiled].astype(np.uint64)
    run, tables, began, done = Run(orders=[(0, policy.order())]), _tables(policy, prices), 0, 0
    extras = np.zeros(len(profiled))
    while done < len(profiled):
        ahead = slice(done, done + _AHEAD)
        known = tables.known[patterns[ahead]]
        version, epoch = policy.version, policy.epoch
        done += policy.observe_each(words[ahead] & known, known, prices, profiled[ahead].tolist())
        extras[ahead.start : done] = tables.extra[patterns[ahead.start : done]]
        if policy.epoch != epoch:
            end = int(profiled[done - 1]) + 1
            run.base += float(histogram(masks[began:end], policy.filters) @ tables.cost)
            began = end
            run.orders.append((began, policy.order()))
        if policy.version != version:
            tables = _tables(policy, prices)
    run.base += float(histogram(masks[began:], policy.filters) @ tables.cost)
    run.extra, run.extra_at = float(extras.sum()), (profiled, extras)
    run.profiled, run.events = len(profiled), list(policy.events)
    return run


def base_costs(masks: Masks, run: Run, costs: Any = None) -> Floats:
    """Cost of each row in ordinary processing."""
    stops = [start for start, _ in run.orders[1:]] + [len(masks)]
    width = len(run.orders[0][1])
    prices = np.ones(width) if costs is None else np.asarray(costs, np.float64)
    parts = [costs_of(masks[start:stop], order, prices) for (start, order), stop in zip(run.orders, stops, strict=True)]
    return np.concatenate(parts)
