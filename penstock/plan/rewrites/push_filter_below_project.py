"""Filter before computing."""

from __future__ import annotations

from penstock.expressions.nodes import columns_of, substitute
from penstock.plan.nodes.relational import Node, Project, Select
from penstock.plan.rewrites.rebuild import bottom_up


def push_filter_below_project(plan: Node) -> Node:
    """Put a selection below the select list it stands on: fewer rows are computed, and further rules see the filter."""
    return bottom_up(plan, _pushed)


def _pushed(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Project)):
        return node
    listed = node.input
    known = dict(listed.items)
    meaning = {name: known[listed.schema[name].name] for name in columns_of(node.condition)}
    # The new selection may stand on another list again: offer it once more.
    below = _pushed(Select(listed.input, substitute(node.condition, meaning)))
    return Project(below, listed.items)
