"""Sweep: watch one position at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from penstock.operators.filtering._loops import may_come, sweep_rows
from penstock.operators.filtering.contract import FilterOrder, Floats, Violation
from penstock.operators.filtering.settings import Check, OrderSettings
from penstock.operators.filtering.window import ProfileRows, UInt64s


class Sweep(FilterOrder):
    """Watch the filter at one position for a stage, bring it forward if it should stand earlier, watch the next.

    A profiled row costs at most one further evaluation, so this is the choice for many or expensive filters while drift is slow:
    a wrong position may stay unnoticed until its stage comes. In a stable environment the order becomes a greedy one.

    Notes
    -----
    Nothing survives a stage: rows gathered for another position lack the bit that is needed. For the same reason rows of a
    chunk that come after the end of a stage are passed over. The paper does not say how Sweep corrects; moving the
    watched filter is all its data support.

    References
    ----------
    [babu2004] section 6.1.

    Examples
    --------
    >>> order = Sweep(2, OrderSettings("sweep", stage_rows=4))
    >>> order.observe(np.full(4, 0b10, np.uint64), np.full(4, 0b11, np.uint64), costs=np.ones(2))
    True
    >>> order.order()
    (1, 0)
    """

    has_whole_rows: ClassVar[bool] = False

    def __init__(
        self, filters: int, settings: OrderSettings | None = None, order: Sequence[int] | None = None, after: UInt64s | None = None
    ) -> None:
        super().__init__(filters, settings, order, after)
        self.watched = min(1, filters - 1)
        self.count = 0
        self.own, self.seen = np.zeros(filters, np.int64), np.zeros(filters, np.int64)

    def wanted(self, position: int) -> int:
        return 1 << int(self._order[self.watched]) if position < self.watched else 0

    def _learn(self, rows: ProfileRows, costs: Floats) -> Violation | None:
        then = self._now()
        words = rows.bits[: self.settings.stage_rows - self.count]
        sweep_rows(words, self._order, self.watched, self.own, self.seen)
        self.count += len(words)
        then = self._lap("view", then)
        is_over = self.count >= self.settings.stage_rows
        tests = is_over or (self.settings.check is Check.CONTINUOUS and self.count >= self._least_rows)
        found = self.violation(costs) if tests else None
        if found is not None:
            self._bring_forward(found.row)
        if is_over or found is not None:
            self._next_stage()
        self._lap("violations", then)
        return found

    def _quiet(self, rows: ProfileRows, costs: Floats) -> int:
        if self.settings.check is Check.CONTINUOUS and self.count + 1 >= self._least_rows:
            return 0
        end = self._least_rows if self.settings.check is Check.CONTINUOUS else self.settings.stage_rows
        quiet = min(len(rows), end - self.count - 1)
        sweep_rows(rows.bits[:quiet], self._order, self.watched, self.own, self.seen)
        self.count += quiet
        return quiet

    def violation(self, costs: Floats) -> Violation | None:
        """The smallest position before which the watched filter should stand."""
        number = int(self._order[self.watched])
        for row in range(self.watched):
            left = self.own[row] / costs[self._order[row]]
            right = self.settings.alpha * self.seen[row] / costs[number]
            is_beaten = left < right and self.seen[row] >= self.settings.min_support
            if is_beaten and may_come(self._order, self.after, row, self.watched):
                return Violation(row, self.watched, float(left), float(right))
        return None

    def _bring_forward(self, row: int) -> None:
        self.corrections += 1
        order = self._order.tolist()
        order.insert(row, order.pop(self.watched))
        self._order = np.array(order, np.int64)

    def _next_stage(self) -> None:
        self.watched = self.watched + 1 if self.watched + 1 < self.filters else min(1, self.filters - 1)
        self.version += 1
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.own[:] = 0
        self.seen[:] = 0

    def _restart(self) -> None:
        self._clear()

    def _details(self) -> dict[str, Any]:
        return {"watched": self.watched, "count": self.count, "own": self.own.tolist(), "seen": self.seen.tolist()}

    def _adopt(self, state: Mapping[str, Any]) -> None:
        self.watched, self.count = state["watched"], state["count"]
        self.own, self.seen = np.array(state["own"], np.int64), np.array(state["seen"], np.int64)
