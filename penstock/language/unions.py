"""The columns of the selects that a UNION puts together."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import InvalidPlan, Place
from penstock.expressions.nodes import Column
from penstock.expressions.typing import type_name
from penstock.language.syntax import Text
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Project


def aligned(first: Node, other: Node, union: exp.SetOperation, text: Text) -> Node:
    """The second select with its columns in the order of the first; both must have equally many of the same types."""
    if union.args.get("by_name"):
        other = _by_name(first, other, union, text)
    mine, theirs = first.schema, other.schema
    if len(mine) != len(theirs):
        counts = f"the first has {len(mine)} ({', '.join(mine.names)}), the other {len(theirs)} ({', '.join(theirs.names)})"
        raise InvalidPlan(f"the selects of a UNION have different numbers of columns: {counts}", _place(union, text))
    for position, (one, two) in enumerate(zip(mine, theirs, strict=True)):
        if one.type != two.type:
            kinds = f"{type_name(one.type).upper()} ('{one.name}') and {type_name(two.type).upper()} ('{two.name}')"
            advice = f"write CAST({two.name} AS {type_name(one.type).upper()})"
            raise InvalidPlan(f"column {position + 1} of the UNION is {kinds}; {advice}", _place(union, text, two.name))
    return other


def _by_name(first: Node, other: Node, union: exp.SetOperation, text: Text) -> Node:
    for mine, theirs in ((first, other), (other, first)):
        for name in mine.schema.names:
            if name not in theirs.schema:
                raise InvalidPlan(
                    f"UNION BY NAME: only one of the selects has a column '{name}'; select it in both, for example NULL AS {name} "
                    "cast to its type",
                    _place(union, text, name),
                )
    return Project(other, tuple((name, Column(other.schema[name].name)) for name in first.schema.names))


def _place(union: exp.SetOperation, text: Text, name: str = "") -> Place | None:
    """Where the other select names a column, or begins."""
    selects = [side for side in (union.expression, union.this) if isinstance(side, exp.Select)]
    for select in selects if name else []:
        for item in select.expressions:
            if item.alias_or_name.lower() == name.lower():
                return text.place_of(item)
    return text.place_of(union.expression)
