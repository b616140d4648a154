"""Operations on a choice between values become choices between the results.

The machine that tests conditions across events knows texts only by number, so it cannot put one into upper case. What an
operation gives for a value of a single event is computed before the search. So `upper(coalesce(a.s, b.s))` is turned into a
choice between `upper(a.s)` and `upper(b.s)`, which the machine can make.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.expressions.nodes import Call, Literal, columns_of
from penstock.expressions.typing import BOOL, Typed


def choice_of(node: Typed) -> Typed | None:
    """An equal `CASE` whose values are simpler; None where the node is no choice, nor an operation on one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from penstock.expressions.parse import parse
    >>> from penstock.expressions.typing import typed
    >>> from penstock.model.schema import Schema
    >>> found = choice_of(typed(parse("upper(coalesce(s, t))"), Schema.of(s=pa.string(), t=pa.string())))
    >>> str(found.expr)
    'CASE WHEN s IS NOT NULL THEN upper(s) ELSE upper(t) END'
    """
    if not isinstance(node.expr, Call):
        return None
    if node.expr.op == "case":
        return node
    if node.expr.op in ("coalesce", "least", "greatest"):
        return _chosen(node, node.expr.op)
    places = [place for place, arg in enumerate(node.args) if columns_of(arg.expr)]
    choice = choice_of(node.args[places[0]]) if len(places) == 1 else None
    return None if choice is None else _distributed(node, places[0], choice)


def _distributed(node: Typed, place: int, choice: Typed) -> Typed:
    """An operation applied to each value of a choice; without ELSE the operation still has NULL to work on."""
    *pairs, otherwise = choice.args if len(choice.args) % 2 else (*choice.args, _null(choice))
    branches = [arg if at % 2 == 0 else _with(node, place, arg) for at, arg in enumerate(pairs)]
    return _case([*branches, _with(node, place, otherwise)], node)


def _null(like: Typed) -> Typed:
    return Typed(Literal(None, like.type), like.type)


def _with(node: Typed, place: int, arg: Typed) -> Typed:
    args = (*node.args[:place], arg, *node.args[place + 1 :])
    assert isinstance(node.expr, Call)
    return Typed(replace(node.expr, args=tuple(each.expr for each in args)), node.type, args)


def _chosen(node: Typed, name: str) -> Typed:
    """COALESCE, LEAST or GREATEST as a choice between its first value and what the others give."""
    first, *rest = node.args
    if not rest:
        return _case([_call("not", _call("is_null", first)), first, first], node)
    others = rest[0] if len(rest) == 1 else replace(node, expr=_renamed(node, tuple(rest)), args=tuple(rest))
    if name == "coalesce":
        return _case([_call("not", _call("is_null", first)), first, others], node)
    nearer = _call("<=" if name == "least" else ">=", first, others)
    return _case([_call("or", nearer, _call("is_null", others)), first, others], node)


def _renamed(node: Typed, args: tuple[Typed, ...]) -> Call:
    assert isinstance(node.expr, Call)
    return replace(node.expr, args=tuple(arg.expr for arg in args))


def _call(name: str, *args: Typed) -> Typed:
    return Typed(Call(name, tuple(arg.expr for arg in args)), BOOL, args)


def _case(args: list[Typed], like: Typed) -> Typed:
    return Typed(Call("case", tuple(arg.expr for arg in args)), like.type, tuple(args))
