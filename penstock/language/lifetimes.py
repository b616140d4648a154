"""What BEGIN, END and EMIT PARTIAL mean for a whole query.

Groupings, DISTINCT and joins look at the life of the query themselves, because their windows depend on it. Everything else that
reads a source gets its rows through a `Lifetime`.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import InvalidWindow, Place
from penstock.model.windows import Framed, Lifespan
from penstock.plan.nodes.base import Node, RowTimes, walk
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import Lifetime
from penstock.plan.rewrites.rebuild import bottom_up


def bounded(plan: Node, life: Lifespan) -> Node:
    """The plan of a query that reads no row outside its life."""
    return plan if life == Lifespan() else _bounded(plan, life)


def _bounded(node: Node, life: Lifespan) -> Node:
    if _shows_source(node):
        return Lifetime(node, life)
    below = _judged if node.row_times is RowTimes.WITHIN_LIFE else _bounded
    return node.with_inputs([below(part, life) for part in node.inputs])


def _judged(node: Node, life: Lifespan) -> Node:
    """A plan below an operator that looks at the times of its rows."""
    if node.row_times is RowTimes.SOURCE:
        return node
    below = _bounded if node.row_times is RowTimes.OF_ANSWERS else _judged
    return node.with_inputs([below(part, life) for part in node.inputs])


def _shows_source(node: Node) -> bool:
    """Whether the rows are those of a source, chosen and reshaped one by one."""
    while node.row_times is RowTimes.OF_INPUT:
        node = node.inputs[0]
    return node.row_times is RowTimes.SOURCE


def with_partial_windows(plan: Node, place: Place) -> Node:
    """The plan with windows that the end of the query cuts off; groupings have been told."""
    frames = [frame for node in walk(plan) for frame in node.frames if isinstance(frame, Framed)]
    if not frames:
        text = (
            "EMIT PARTIAL is for windows that END cuts off, or that did not fill; this query has none. "
            "Leave it out, or give its source a window such as [RANGE 10 TUMBLING]"
        )
        raise InvalidWindow(text, place)
    return bottom_up(plan, _partial)


def _partial(node: Node) -> Node:
    is_framed = isinstance(node, WindowJoin) and any(isinstance(window, Framed) for window in node.windows)
    return replace(node, emit_partial=True) if is_framed and isinstance(node, WindowJoin) else node
