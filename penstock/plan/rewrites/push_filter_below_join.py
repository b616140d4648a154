"""Filter before joining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.expressions.nodes import Expr, conjoin, conjuncts
from penstock.model.windows import Rows
from penstock.plan.nodes.base import Node, columns_read
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import Select
from penstock.plan.rewrites.rebuild import bottom_up, filtered


def push_filter_below_join(plan: Node) -> Node:
    """Move conditions that read one input of a join below it, from a selection above and from the join itself.

    Rows that cannot be in a result are then neither stored nor probed. It does not go below an input with a window of rows:
    there a row that is filtered out still takes a place in its window.

    In outer, semi and anti joins a condition above goes below only on the side of an input whose columns are never
    NULL-extended, and one of the join itself only where a row that fails it is no answer without partner.
    """
    return bottom_up(plan, _pushed)


def _pushed(node: Node) -> Node:
    above = conjuncts(node.condition) if isinstance(node, Select) else []
    join = node.input if isinstance(node, Select) else node
    if not isinstance(join, WindowJoin) or (isinstance(node, Select) and node.hint is not None):
        return node  # what somebody wants ordered together stays together
    within = conjuncts(join.residual) if join.residual is not None else []
    ports = [port for port, window in enumerate(join.windows) if not isinstance(window, Rows)]
    from_above = [port for port in ports if port not in join.kind.extended]
    from_within = [port for port in ports if port not in join.kind.preserved]
    own = [_of_one_input(join, condition, from_above) for condition in above]
    own += [_of_one_input(join, condition, from_within) for condition in within]
    if all(port is None for port in own):
        return node
    parts = [
        filtered(part, [c for c, owner in zip((*above, *within), own, strict=True) if owner == port])
        for port, part in enumerate(join.parts)
    ]
    kept = _remaining(within, own[len(above) :])
    narrowed = replace(join, parts=tuple(parts), residual=conjoin(kept) if kept else None)
    return filtered(narrowed, _remaining(above, own[: len(above)]))


def _of_one_input(join: WindowJoin, condition: Expr, allowed: Sequence[int]) -> int | None:
    """The only input the condition reads, if it is one of those allowed."""
    names = columns_read(condition, join.pair_schema)
    owners = [port for port in allowed if names and all(name in join.parts[port].schema for name in names)]
    return owners[0] if owners else None


def _remaining(conditions: Sequence[Expr], owners: Sequence[int | None]) -> list[Expr]:
    return [condition for condition, owner in zip(conditions, owners, strict=True) if owner is None]
