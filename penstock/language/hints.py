"""Hints: `SELECT /*+ PJOIN(purge_threshold = 100) */ …` forces a variant of a join, `/*+ ORDER(policy = 'sweep') */` an order."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import SyntaxMistake
from penstock.expressions.literals import shortened
from penstock.language.syntax import Text, expected
from penstock.model.hint_options import HINTS, HintValue
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.order_hints import OrderHint

#: The hint that decides how conditions of WHERE are ordered.
ORDER = "ORDER"
#: Hints of Spark, which are about joins and shuffles of its own.
_SPARK = (
    "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLE_MERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL",
    "REPARTITION", "COALESCE", "REPARTITION_BY_RANGE", "REBALANCE",
)  # fmt: skip
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Hints:
    """What the author of a select insists on; None where nothing is said."""

    join: JoinHint | None = None
    order: OrderHint | None = None


def read_hints(tree: exp.Select, inputs: int, text: Text) -> Hints:
    """The hints of a select, at most one of each kind."""
    written = tree.args.get("hint")
    if written is None:
        return Hints()
    place = text.place_of(written)
    joins, orders = list[JoinHint](), list[OrderHint]()
    for found in written.expressions:
        name = found.name.upper()
        if name in _SPARK:
            advice = f"leave it out, or choose one of {', '.join(variant.name for variant in JoinVariant)}"
            raise SyntaxMistake(f"{name} is a hint for Spark's own joins, and this join is one of Penstock's; {advice}", place)
        if not isinstance(found, exp.Anonymous | exp.Var):
            raise SyntaxMistake("the hint cannot be read; write NAME or NAME(option = value, …)", text.place_of(found) or place)
        options = tuple(_option(part, text) for part in found.expressions)
        if name not in HINTS:
            raise SyntaxMistake(expected(found.name, [*HINTS], "as a hint"), text.place_of(found) or place)
        if name == ORDER:
            orders.append(OrderHint(options, place))
        else:
            joins.append(JoinHint(JoinVariant[name], options, place))
    if len(joins) > 1 or len(orders) > 1:
        raise SyntaxMistake(f"found {len(written.expressions)} hints; a query takes one", place)
    if joins and inputs < 2:
        raise SyntaxMistake(f"the hint {joins[0].variant.value.upper()} is for a join; this query reads one source", place)
    if orders and inputs > 1:
        advice = "give it to a select of its own: FROM (SELECT /*+ ORDER */ …) a"
        raise SyntaxMistake(f"the hint ORDER is for conditions on one source; {advice}", place)
    return Hints(joins[0] if joins else None, orders[0] if orders else None)


def _option(part: exp.Expr, text: Text) -> tuple[str, HintValue]:
    if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column) or part.this.table:
        raise SyntaxMistake(f"found {part.sql()} among the options of a hint; write name = value", text.place_of(part))
    value, sign = part.expression, 1
    if isinstance(value, exp.Neg):
        value, sign = value.this, -1
    if isinstance(value, exp.Boolean):
        return part.this.name.lower(), bool(value.this)
    if isinstance(value, exp.Literal) and not (value.is_string and sign < 0):
        if not value.is_string and len(value.name) > _MOST_DIGITS:
            raise SyntaxMistake(f"the number {shortened(value.name)} is too long", text.place_of(value))
        return part.this.name.lower(), value.name if value.is_string else sign * _number(value.name)
    raise SyntaxMistake(
        f"found {value.sql()} as the value of '{part.this.name}'; write a number, a text, TRUE or FALSE", text.place_of(part)
    )


def _number(written: str) -> int | float:
    return float(written) if "." in written or "e" in written.lower() else int(written)
