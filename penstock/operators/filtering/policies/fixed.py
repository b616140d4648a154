"""Orders that never change: a given one, and one drawn at random. Baselines, and the way to switch adapting off."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.filtering.coins import permutation
from penstock.operators.filtering.contract import FilterOrder, Floats, Violation, arranged
from penstock.operators.filtering.settings import OrderSettings
from penstock.operators.filtering.window import ProfileRows, UInt64s


class Fixed(FilterOrder):
    """Keep the order that was given; nothing is profiled.

    Examples
    --------
    >>> Fixed(3, order=(2, 0, 1)).order()
    (2, 0, 1)
    """

    def wanted(self, position: int) -> int:
        return 0

    def _learn(self, rows: ProfileRows, costs: Floats) -> Violation | None:
        return None


class Random(Fixed):
    """An order drawn once from the seed; guards are respected. A baseline for experiments."""

    def __init__(
        self, filters: int, settings: OrderSettings | None = None, order: Sequence[int] | None = None, after: UInt64s | None = None
    ) -> None:
        super().__init__(filters, settings, order, after)
        if order is None:
            self.set_order(arranged(permutation(self.settings.seed, 1, filters), self.after))
            self.epoch = self.version = self.reorderings = 0
            self.events.clear()
