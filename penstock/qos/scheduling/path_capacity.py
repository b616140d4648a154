"""The path that turns rows into answers fastest goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.kernel.contracts import OperatorView
from penstock.model.elements import Control


class PathCapacity:
    """Serve the operator path with the largest processing capacity; inside it, what is nearest to the answer first.

    The capacity of a path is the number of rows that can enter it per millisecond, 1 / Σ t over its operators, where an
    operator behind selective ones counts only for the rows that reach it. For a fixed backlog this order gives the least
    mean latency per input row. A path with a small capacity may wait for ever under overload.

    Notes
    -----
    Differs from the book: the sum over branches multiplies all selectivities of the shared part (its formula 6.4 leaves out
    the last one). Capacities change only through `statistics` controls, never by measuring here.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 6.2.2, (6.2)-(6.4).

    Examples
    --------
    >>> slow = OperatorView("slow", 5, 1, (), True, capacity=1.0)
    >>> fast = OperatorView("fast", 5, 1, (), True, capacity=9.0)
    >>> PathCapacity().pick([slow, fast])
    'fast'
    """

    def pick(self, operators: Sequence[OperatorView]) -> str | None:
        waiting = [view for view in operators if view.waiting_elements]
        if len(waiting) <= 1:
            return waiting[0].id if waiting else None
        capacity = path_capacities(operators)
        depth = {view.id: position for position, view in enumerate(operators)}
        return max(waiting, key=lambda view: (capacity[view.id], depth[view.id])).id

    def on_control(self, decision: Control) -> None:
        """Statistics reach the policy through the views."""

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to remember."""


def path_capacities(operators: Sequence[OperatorView]) -> dict[str, float]:
    """For each operator the largest capacity among the paths (from a leaf to the answers) it lies on."""
    views = {view.id: view for view in operators}
    cost: dict[str, float] = {}
    for view in reversed(operators):
        below = sum(cost[name] for name in view.downstream if name in views)
        cost[view.id] = 1.0 / view.capacity + view.selectivity * below
    best = dict.fromkeys(views, 0.0)
    for view in operators:
        if view.is_leaf:
            best[view.id] = max(best[view.id], 1.0 / cost[view.id])
        for name in view.downstream:
            if name in views:
                best[name] = max(best[name], best[view.id])
    return best
