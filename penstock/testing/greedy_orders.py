"""A greedy order of probes, plainly computed: what adaptive orders of a multiway join are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.columnar.hashing import UInt64s
from penstock.errors import InvalidConfiguration
from penstock.operators.joins.matching.multiway.graph import PipelinePlan


class GreedyOnWindow:
    """The greedy order over the dropped rows seen last, computed anew after each chunk.

    First the probe that drops most rows, then the one that drops most of the rows that pass it, and so on; a probe keeps its
    place unless another is better by the factor 1/alpha. In a tree a probe costs as much as its path has probes that are not
    yet placed; they are placed with it.

    Parameters
    ----------
    ancestors
        For each probe those before it on its path (`PipelinePlan.ancestors`).
    window_rows, min_fill
        Dropped rows remembered, and needed before the order is changed.
    alpha
        In (0, 1]; smaller values change the order less often.

    References
    ----------
    [babu2004] Babu, Motwani, Munagala, Nishizawa, Widom. Adaptive Ordering of Pipelined Stream Filters. SIGMOD 2004,
    sections 3 and 8.

    Examples
    --------
    >>> greedy = GreedyOnWindow(((), ()), min_fill=1)
    >>> greedy.observe(np.array([0b10], np.uint64), np.array([0b11], np.uint64))
    >>> greedy.order()
    (1, 0)
    """

    def __init__(
        self, ancestors: Sequence[Sequence[int]], window_rows: int = 1000, min_fill: int = 100, alpha: float = 0.9
    ) -> None:
        if not 0 < alpha <= 1:
            raise InvalidConfiguration(f"alpha is {alpha}; it must be above 0 and at most 1")
        if not 1 <= min_fill <= window_rows:
            raise InvalidConfiguration(f"min_fill is {min_fill}; it must be between 1 and window_rows, {window_rows}")
        self.ancestors = tuple(tuple(path) for path in ancestors)
        self.window_rows, self.min_fill, self.alpha = window_rows, min_fill, alpha
        self._order = tuple(range(len(self.ancestors)))
        self._bits: UInt64s = np.empty(0, np.uint64)

    def order(self) -> Sequence[int]:
        return self._order

    def wanted(self, position: int) -> int:
        return sum(1 << probe for probe in self._order[position + 1 :])

    def observe(self, bits: UInt64s, known: UInt64s) -> None:
        everything = np.uint64((1 << len(self._order)) - 1)
        self._bits = np.concatenate([self._bits, bits[known == everything]])[-self.window_rows :]
        if len(self._bits) >= self.min_fill:
            self._order = self._greedy()

    def _greedy(self) -> tuple[int, ...]:
        # Few patterns occur, however many rows are remembered.
        patterns, counts = np.unique(self._bits, return_counts=True)
        drops = (patterns[:, None] >> np.arange(len(self._order), dtype=np.uint64)) & np.uint64(1) == 1
        placed: dict[int, None] = {}
        while len(placed) < len(self._order):
            left = [probe for probe in self._order if probe not in placed]
            paths = {probe: [*(above for above in self.ancestors[probe] if above not in placed), probe] for probe in left}
            dropped = counts @ drops
            gains = {probe: dropped[probe] / len(paths[probe]) for probe in left}
            best = max(left, key=lambda probe: gains[probe])
            chosen = left[0] if gains[left[0]] >= self.alpha * gains[best] else best
            placed.update(dict.fromkeys(paths[chosen]))
            passing = ~drops[:, paths[chosen]].any(axis=1)
            drops, counts = drops[passing], counts[passing]
        return tuple(placed)

    def snapshot(self) -> Mapping[str, Any]:
        return {"order": list(self._order), "bits": self._bits.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._order = tuple(state["order"])
        self._bits = np.array(state["bits"], np.uint64)


def greedy(plan: PipelinePlan) -> GreedyOnWindow:
    """`GreedyOnWindow` with its defaults, as a maker of orders for a join."""
    return GreedyOnWindow(plan.ancestors)
