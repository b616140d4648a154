"""Outer joins whose rows without partner are thrown away again."""

from __future__ import annotations

from dataclasses import replace

from penstock.expressions.nodes import ARITHMETIC, COMPARISONS, Call, Column, Expr, Literal, conjuncts
from penstock.model.join_kinds import JoinKind
from penstock.model.schema import Schema
from penstock.plan.nodes.relational import Node, Select, WindowJoin
from penstock.plan.rewrites.rebuild import bottom_up

#: Operations that are NULL where any argument is, and where the first is.
_STRICT = frozenset(
    (
        *ARITHMETIC,
        *(op for op in COMPARISONS if op != "<=>"),
        *("neg", "like", "rlike", "cast", "abs", "ceil", "floor", "round", "sqrt", "power", "length", "lower", "upper"),
        *("substring", "trim", "ltrim", "rtrim", "startswith", "endswith", "contains"),
        *("year", "month", "day", "hour", "minute", "second"),
    )
)
_STRICT_IN_FIRST = frozenset({"in", "between"})
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
    return any(_rejects(part, missing) for part in conjuncts(condition))


def _rejects(expr: Expr, missing: Schema) -> bool:
    """Whether a condition is false or NULL wherever all columns of `missing` are NULL, whatever the others are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from penstock.expressions.parse import parse
    >>> b = Schema.of(x=pa.int64())
    >>> [_rejects(parse(text), b) for text in ("x > 3", "x IS NOT NULL", "x > 3 OR y > 3", "coalesce(x, 9) > 3")]
    [True, True, False, False]
    """
    if isinstance(expr, Literal):
        return expr.value is None or expr.value is False
    if isinstance(expr, Call):
        if expr.op == "and":
            return any(_rejects(part, missing) for part in expr.args)
        if expr.op == "or":
            return all(_rejects(part, missing) for part in expr.args)
        if expr.op == "not" and isinstance(expr.args[0], Call) and expr.args[0].op == "is_null":
            return _is_null(expr.args[0].args[0], missing)
    return _is_null(expr, missing)


def _is_null(expr: Expr, missing: Schema) -> bool:
    """Whether a value is NULL wherever all columns of `missing` are."""
    if isinstance(expr, Column):
        return expr.name in missing
    if isinstance(expr, Literal):
        return expr.value is None
    if expr.op in _STRICT_IN_FIRST:
        return _is_null(expr.args[0], missing)
    if expr.op in _STRICT or expr.op == "not":
        return any(_is_null(part, missing) for part in expr.args)
    return expr.op in ("and", "or") and all(_is_null(part, missing) for part in expr.args)
