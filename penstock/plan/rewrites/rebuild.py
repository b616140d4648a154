"""What rules share: plans with other inputs, and a walk that keeps objects nothing happened to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.expressions.nodes import Expr, columns_of, conjoin
from penstock.model.order_hints import OrderHint
from penstock.model.schema import Schema
from penstock.plan.analysis.filtering import runs_in_kernel
from penstock.plan.nodes.relational import Node, Reference, Scan, Select, Union, WindowJoin

Rule = Callable[[Node], Node]


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The node over other inputs; the very same object when they are the same."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    if isinstance(node, Union | WindowJoin):
        return replace(node, parts=tuple(inputs))
    assert not isinstance(node, Scan | Reference)
    return replace(node, input=inputs[0])


def bottom_up(plan: Node, change: Rule) -> Node:
    """Offer every node to `change`, inputs first."""
    return change(with_inputs(plan, [bottom_up(part, change) for part in plan.inputs]))


def filtered(node: Node, conditions: Sequence[Expr], hint: OrderHint | None = None) -> Node:
    """The rows of a node that meet all conditions; the node itself for none."""
    return Select(node, conjoin(conditions), hint) if conditions else node


def reads(expr: Expr, schema: Schema) -> set[str]:
    """Columns of `schema` the expression reads, by the names the schema uses."""
    return {schema[name].name for name in columns_of(expr)}


def is_filtered_scan(node: Node) -> bool:
    """Whether the node is a stream with nothing but conditions of Catalyst above it."""
    if isinstance(node, Select):
        return not runs_in_kernel(node) and is_filtered_scan(node.input)
    return isinstance(node, Scan)
