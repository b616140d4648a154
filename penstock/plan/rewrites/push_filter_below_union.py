"""Filter before rows of several inputs come together."""

from __future__ import annotations

from dataclasses import replace

from penstock.expressions.nodes import Column, columns_of, substitute
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Select, Union
from penstock.plan.rewrites.rebuild import bottom_up


def push_filter_below_union(plan: Node) -> Node:
    """Filter every input of a union instead of its output.

    The union's columns are named by its first input; in the others the condition means the columns at the same place.
    """
    return bottom_up(plan, _pushed)


def _pushed(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Union)):
        return node
    places = {name: node.schema.index(name) for name in columns_of(node.condition)}
    parts = [
        Select(part, substitute(node.condition, {name: Column(part.schema.names[at]) for name, at in places.items()}), node.hint)
        for part in node.input.parts
    ]
    return replace(node.input, parts=tuple(_pushed(part) for part in parts))
