"""Outer joins whose rows without partner are thrown away again."""

from __future__ import annotations

from dataclasses import replace

from penstock.expressions.nodes import Expr, conjuncts
from penstock.model.join_kinds import JoinKind
from penstock.model.schema import Schema
from penstock.plan.analysis.null_rejection import rejects
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import Select
from penstock.plan.rewrites.rebuild import bottom_up

#: The kind that preserves these inputs.
_PRESERVING = {(0, 1): JoinKind.FULL, (0,): JoinKind.LEFT, (1,): JoinKind.RIGHT, (): JoinKind.INNER}


def narrow_outer_join(plan: Node) -> Node:
    """Make an outer join preserve less where a condition above it rejects the rows without partner.

    `a LEFT JOIN b … WHERE b.x > 3` is an inner join: in a row without partner `b.x` is NULL, and NULL is not greater than 3.
    Pairs then come without anybody waiting for rows that have none, and conditions move below the join on both sides.
    """
    return bottom_up(plan, _narrowed)


def _narrowed(node: Node) -> Node:
    if not isinstance(node, Select) or not isinstance(node.input, WindowJoin):
        return node
    join = node.input
    if not join.kind.extended:
        return node
    rejected = [port for port in join.kind.extended if _any_rejects(node.condition, join.parts[port].schema)]
    kept = tuple(port for port in join.kind.preserved if 1 - port not in rejected)
    if kept == join.kind.preserved:
        return node
    return replace(node, input=replace(join, kind=_PRESERVING[kept], written_as=join.written_as or join.kind))


def _any_rejects(condition: Expr, missing: Schema) -> bool:
    return any(rejects(part, missing) for part in conjuncts(condition))
