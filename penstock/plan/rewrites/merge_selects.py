"""One condition instead of two."""

from __future__ import annotations

from penstock.expressions.nodes import conjuncts
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Select
from penstock.plan.rewrites.rebuild import bottom_up, filtered


def merge_selects(plan: Node) -> Node:
    """Join a selection over a selection into one: a row must meet both, and expressions never fail.

    Functions of Python may fail: a selection that calls them stays above the one that its author put below it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from penstock.expressions.parse import parse
    >>> from penstock.model.declarations import Source, StreamDeclaration
    >>> from penstock.model.schema import Schema
    >>> from penstock.plan.describe import tree
    >>> from penstock.plan.nodes.relational import Scan
    >>> bid = StreamDeclaration("bid", Schema.of(item=pa.int64(), ts=pa.int64()), Source("feed"), "ts")
    >>> print(tree(merge_selects(Select(Select(Scan(bid), parse("item > 3")), parse("item < 9")))))
    Select item > 3 AND item < 9
      Scan bid
    """
    return bottom_up(plan, _merged)


def _merged(node: Node) -> Node:
    if not (isinstance(node, Select) and type(node.input) is Select) or node.needs_python:
        return node
    below = node.input
    return filtered(below.input, [*conjuncts(below.condition), *conjuncts(node.condition)], below.hint)
