"""Hints that force a variant of a join: `SELECT /*+ PJOIN(purge_threshold = 100) */ …`."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import SyntaxMistake
from penstock.language.syntax import Text, expected
from penstock.model.join_variants import HintValue, JoinHint, JoinVariant

_VARIANTS = {variant.value.upper(): variant for variant in JoinVariant}


def read_hint(tree: exp.Select, inputs: int, text: Text) -> JoinHint | None:
    """The hint of a select; None if there is none."""
    written = tree.args.get("hint")
    if written is None:
        return None
    place = text.place_of(written)
    if len(written.expressions) != 1:
        raise SyntaxMistake(f"found {len(written.expressions)} hints; a query takes one", place)
    (found,) = written.expressions
    name = found.name.upper()
    if name not in _VARIANTS:
        raise SyntaxMistake(expected(found.name, list(_VARIANTS), "as a hint"), text.place_of(found) or place)
    if inputs < 2:
        raise SyntaxMistake(f"the hint {name} is for a join; this query reads one source", place)
    return JoinHint(_VARIANTS[name], tuple(_option(part, text) for part in found.expressions), place)


def _option(part: exp.Expr, text: Text) -> tuple[str, HintValue]:
    if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
        raise SyntaxMistake(f"found {part.sql()} among the options of a hint; write name = value", text.place_of(part))
    value = part.expression
    if isinstance(value, exp.Boolean):
        return part.this.name.lower(), bool(value.this)
    if isinstance(value, exp.Literal):
        return part.this.name.lower(), value.name if value.is_string else _number(value.name)
    raise SyntaxMistake(
        f"found {value.sql()} as the value of '{part.this.name}'; write a number, a text, TRUE or FALSE", text.place_of(part)
    )


def _number(written: str) -> int | float:
    return float(written) if "." in written or "e" in written.lower() else int(written)
