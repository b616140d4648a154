"""What rules share: plans with other inputs, and a walk that keeps objects nothing happened to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.expressions.nodes import Expr, conjoin
from penstock.model.order_hints import OrderHint
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Select

Rule = Callable[[Node], Node]


def bottom_up(plan: Node, change: Rule) -> Node:
    """Offer every node to `change`, inputs first."""
    return change(plan.with_inputs([bottom_up(part, change) for part in plan.inputs]))


def filtered(node: Node, conditions: Sequence[Expr], hint: OrderHint | None = None) -> Node:
    """The rows of a node that meet all conditions; the node itself for none."""
    return Select(node, conjoin(conditions), hint) if conditions else node
