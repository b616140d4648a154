"""Which conditions reject rows in which columns are missing."""

from __future__ import annotations

from collections.abc import Container

from penstock.expressions.nodes import ARITHMETIC, COMPARISONS, Call, Column, Expr, Literal
from penstock.model.schema import Schema

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


def rejects(expr: Expr, missing: Container[str] | Schema) -> bool:
    """Whether a condition is false or NULL wherever all columns of `missing` are NULL, whatever the others are.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> [rejects(parse(text), {"x"}) for text in ("x > 3", "x IS NOT NULL", "x > 3 OR y > 3", "coalesce(x, 9) > 3")]
    [True, True, False, False]
    """
    if isinstance(expr, Literal):
        return expr.value is None or expr.value is False
    if isinstance(expr, Call):
        if expr.op == "and":
            return any(rejects(part, missing) for part in expr.args)
        if expr.op == "or":
            return all(rejects(part, missing) for part in expr.args)
        if expr.op == "not" and isinstance(expr.args[0], Call) and expr.args[0].op == "is_null":
            return _is_null(expr.args[0].args[0], missing)
    return _is_null(expr, missing)


def _is_null(expr: Expr, missing: Container[str] | Schema) -> bool:
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
