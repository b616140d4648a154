"""One select list instead of two."""

from __future__ import annotations

from collections import Counter

from penstock.expressions.nodes import Column, Expr, Literal, depth_of, substitute
from penstock.model.nesting import DEEPEST_EXPRESSION
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Project
from penstock.plan.rewrites.rebuild import bottom_up


def merge_projects(plan: Node) -> Node:
    """Compute a select list over a select list in one step.

    It does not fire where the outer list reads a computed column more than once: the expression would be computed as
    often. Nor where only the outer list is for Python: Catalyst can have the inner one. Nor would it make an expression deeper than
    one may be written.
    """
    return bottom_up(plan, _merged)


def _merged(node: Node) -> Node:
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    inner = node.input
    if node.needs_python and not inner.needs_python:
        return node
    if sum(max(depth_of(expr) for _, expr in items) for items in (node.items, inner.items)) > DEEPEST_EXPRESSION:
        return node
    used = Counter(inner.schema[name].name for _, expr in node.items for name in _columns(expr))
    if any(used[name] > 1 and not isinstance(expr, Column | Literal) for name, expr in inner.items):
        return node
    known = dict(inner.items)
    items = tuple(
        (name, substitute(expr, {read: known[inner.schema[read].name] for read in _columns(expr)})) for name, expr in node.items
    )
    return Project(inner.input, items)


def _columns(expr: Expr) -> list[str]:
    """Columns as often as they are read."""
    if isinstance(expr, Column):
        return [expr.name]
    return [] if isinstance(expr, Literal) else [name for arg in expr.args for name in _columns(arg)]
