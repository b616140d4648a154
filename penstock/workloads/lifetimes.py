"""Things that open in order, live for random times and close in another order: auctions, calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.model.batch import Int64s
from penstock.workloads.coins import Floats, hashes


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Item i opens at step i; the item of closing rank r closes at step r + `span`.

    Ranks are a random order inside blocks of `span` items, so an item stays open for `span` steps on average, at least
    1 and at most 2·`span`-1, with a triangular distribution, and `span` items are open at any time once the first have
    closed. Which item closes when needs no history.

    Examples
    --------
    >>> lives = Lifetimes(span=4, seed=1)
    >>> sorted(lives.closing(np.arange(4, 8)).tolist())
    [4, 5, 6, 7]
    """

    span: int
    seed: int

    def closing(self, rank: Int64s) -> Int64s:
        """Item of each closing rank."""
        blocks, row = np.unique(rank // self.span, return_inverse=True)
        items = blocks[:, np.newaxis] * self.span + np.arange(self.span, dtype=np.int64)
        order = np.argsort(hashes(self.seed, "closing", items.ravel()).reshape(items.shape), axis=1, kind="stable")
        result: Int64s = (blocks[row] * self.span) + order[row, rank % self.span]
        return result

    def open_items(self, step: Int64s, favour: Floats) -> Int64s:
        """An open item at each step, the first to close for `favour` 0, the last for `favour` towards 1.

        An item is open after step i, in which it opens, up to the step in which it closes.
        """
        first = np.maximum(step - self.span, 0)
        rank = first + (favour * (step - first + 1)).astype(np.int64)
        # Of the newest block not all items have opened yet, and none has closed: they are taken in order of opening.
        is_new = rank // self.span == step // self.span
        result: Int64s = np.where(is_new, rank, self.closing(np.where(is_new, 0, rank)))
        return result


def power_law(uniform: Floats, count: int, skew: float) -> Floats:
    """Turn uniform numbers into Zipf-like ones.

    Of `count` equal parts of [0, 1) part k is met with a probability of about 1/k**skew. The continuous law is used,
    whose inverse is a formula; `skew` 0 leaves the numbers uniform.

    Examples
    --------
    >>> parts = (power_law(np.linspace(0, 0.999, 1000), count=10, skew=1.0) * 10).astype(int)
    >>> np.bincount(parts).tolist()[:3]
    [290, 169, 120]
    """
    if skew == 0.0:
        return uniform
    end = float(count + 1)
    if skew == 1.0:
        place = end**uniform
    else:
        place = (1.0 + uniform * (end ** (1.0 - skew) - 1.0)) ** (1.0 / (1.0 - skew))
    # Rounding may reach the open end.
    return np.minimum((place - 1.0) / count, np.nextafter(1.0, 0.0))
