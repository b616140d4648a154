"""Filter before computing."""

from __future__ import annotations

from penstock.expressions.nodes import Column, columns_of, depth_of, substitute
from penstock.model.nesting import DEEPEST_EXPRESSION
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Project, Select
from penstock.plan.rewrites.rebuild import bottom_up


def push_filter_below_project(plan: Node) -> Node:
    """Put a selection below the select list it stands on: fewer rows are computed, and further rules see the filter.

    It does not fire where Catalyst cannot have the filter and the list computes nothing: such a list keeps columns from
    crossing to Python.
    """
    return bottom_up(plan, _pushed)


def _pushed(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Project)):
        return node
    listed = node.input
    if node.needs_python and all(isinstance(expr, Column) for _, expr in listed.items):
        return node
    known = dict(listed.items)
    if depth_of(node.condition) + max(map(depth_of, known.values())) > DEEPEST_EXPRESSION:
        return node
    meaning = {name: known[listed.schema[name].name] for name in columns_of(node.condition)}
    # The new selection may stand on another list again: offer it once more.
    below = _pushed(Select(listed.input, substitute(node.condition, meaning), node.hint))
    return Project(below, listed.items)
