"""Leave to Catalyst what it can evaluate."""

from __future__ import annotations

from penstock.expressions.nodes import conjoin
from penstock.plan.analysis.filtering import parted
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Select
from penstock.plan.rewrites.rebuild import bottom_up, filtered


def split_off_comparisons(plan: Node) -> Node:
    """Put comparisons below the conditions of the same selection that call functions of Python.

    The selection below can then go on down to the source. Comparisons never fail, so a function is asked about fewer rows
    and about none it would not have seen.
    """
    return bottom_up(plan, _split)


def _split(node: Node) -> Node:
    if type(node) is not Select:  # an adaptive filter keeps what it has been given
        return node
    plain, ordered = parted(node)
    if not plain or not ordered:
        return node
    return Select(filtered(node.input, plain), conjoin(ordered), node.hint)
