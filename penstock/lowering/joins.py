"""Which operator runs a join, and with which settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.kernel.contracts import Operator
from penstock.lowering.row_windows import rank_names
from penstock.model.declarations import RowPolicy
from penstock.model.join_kinds import JoinKind
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.operators.joins.approximate import ApproximateJoin
from penstock.operators.joins.counted_join import CountedJoin, RowWindowJoin
from penstock.operators.joins.preserving_join import PreservingJoin
from penstock.operators.joins.window_join import WindowJoin
from penstock.plan.nodes import joins as nodes

#: Options of hints that the operator takes under the same name.
_PASSED_ON = ("memory_bytes", "max_drop_markers")


def join_recipe(node: nodes.WindowJoin, is_trusting: bool = False) -> Callable[[], Operator]:
    """How to make the operator of a join; `is_trusting` as of `recipe_of`."""
    schemas = tuple(part.schema.arrow for part in node.parts)
    given = (schemas, node.keys, node.windows, node.schema.arrow)
    settings = join_settings(node.hint, is_trusting)
    if node.hint is not None and node.hint.variant is JoinVariant.APPROXIMATE:
        return partial(ApproximateJoin, *given, allowed_loss(node.hint), node.life, node.residual, **settings)
    given = (*given, node.residual, node.life)  # type: ignore[assignment]
    if node.counts_rows:
        return _counted(node, partial(CountedJoin, *given, ranks=rank_names(node), **settings))
    if node.emit_partial:
        settings["emit_partial"] = True
    if node.kind is JoinKind.INNER:
        return partial(WindowJoin, *given, **settings)
    return partial(PreservingJoin, node.kind, *given, **settings)


def _counted(node: nodes.WindowJoin, make: Callable[[], CountedJoin]) -> Callable[[], Operator]:
    """Rows are counted before they are spread, or where they are joined."""
    if node.spreads_counted:
        return make
    return partial(RowWindowJoin, tuple(part.schema.arrow for part in node.parts), node.life, make, rank_names(node))


def join_settings(hint: JoinHint | None, is_trusting: bool = False) -> dict[str, Any]:
    """What a hint asks of the operator.

    Examples
    --------
    >>> join_settings(JoinHint(JoinVariant.XJOIN, (("memory_bytes", 1000),)))
    {'memory_bytes': 1000, 'heeds_punctuations': False}
    """
    options = dict(hint.options) if hint is not None else {}
    settings: dict[str, Any] = {name: options[name] for name in _PASSED_ON if name in options}
    if hint is not None and not hint.heeds_punctuations:
        settings["heeds_punctuations"] = False
    if "on_violation" in options:
        settings["on_violation"] = RowPolicy(str(options["on_violation"]))
    elif is_trusting:
        settings["on_violation"] = RowPolicy.TRUST
    return settings


def allowed_loss(hint: JoinHint) -> float:
    """Share of the results that APPROXIMATE may lose.

    Examples
    --------
    >>> allowed_loss(JoinHint(JoinVariant.APPROXIMATE, (("recall", 0.9),)))
    0.1
    """
    return round(1 - float(hint.value("recall") or 0.0), 12)
