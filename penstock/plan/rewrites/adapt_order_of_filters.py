"""Let expensive conditions change places while the query runs."""

from __future__ import annotations

from penstock.expressions.nodes import conjoin
from penstock.plan.analysis.filtering import FEWEST, conjunction, parted
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.relational import Select
from penstock.plan.rewrites.rebuild import bottom_up, filtered


def adapt_order_of_filters(plan: Node) -> Node:
    """Make an adaptive filter of a selection with two or more conditions that are worth ordering.

    Which these are is said in `plan.analysis.filtering`. Rows and their order stay the same.
    """
    return bottom_up(plan, _adapted)


def _adapted(node: Node) -> Node:
    if type(node) is not Select:
        return node
    plain, ordered = parted(node)
    if len(ordered) < FEWEST:
        return node
    return AdaptiveFilter(filtered(node.input, plain), conjoin(ordered), node.hint, conjunction(ordered))
