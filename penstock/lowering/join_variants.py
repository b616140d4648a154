"""Which operator runs a join that a hint forces to a variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.kernel.contracts import Operator
from penstock.lowering.row_windows import numbered_schemas, rank_names
from penstock.model.declarations import RowPolicy
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.windows import Rows
from penstock.operators.joins.approximate import ApproximateJoin
from penstock.operators.joins.pjoin.config import PJoinConfig, named_registry
from penstock.operators.joins.pjoin.operator import PJoin, XJoin
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.operator import MWJoin, PWJoin
from penstock.operators.joins.window_join import WindowJoin
from penstock.plan.nodes import relational as nodes

_WITHOUT_WINDOWS: Mapping[JoinVariant, type[PJoin]] = {JoinVariant.PJOIN: PJoin, JoinVariant.XJOIN: XJoin}
_WITH_WINDOWS: Mapping[JoinVariant, type[PWJoin]] = {
    JoinVariant.WJOIN: MWJoin, JoinVariant.MWJOIN: MWJoin, JoinVariant.PWJOIN: PWJoin, JoinVariant.MPWJOIN: PWJoin,
}  # fmt: skip


def hinted(node: nodes.WindowJoin, hint: JoinHint, is_trusting: bool = False) -> Callable[[], Operator]:
    """How to make the operator of a hinted join; `is_trusting` as of `recipe_of`."""
    schemas = tuple(part.schema.arrow for part in node.parts)
    given = (schemas, node.keys, node.windows, node.schema.arrow, node.residual, node.life)
    if hint.variant is JoinVariant.APPROXIMATE:
        policy = RowPolicy.TRUST if is_trusting else None
        return partial(ApproximateJoin, *given[:4], allowed_loss(hint), node.life, node.residual, policy)
    if _is_core_without_punctuations(node, hint):
        return partial(WindowJoin, *given, emit_partial=node.emit_partial, heeds_punctuations=False)
    says_nothing = is_trusting and "on_violation" not in dict(hint.options)
    if hint.variant in _WITHOUT_WINDOWS:
        settings = pjoin_config(hint)
        settings = replace(settings, on_violation=RowPolicy.TRUST) if says_nothing else settings
        return partial(_WITHOUT_WINDOWS[hint.variant], *given, settings)
    make = _WITH_WINDOWS[hint.variant]
    config = window_config(hint, node.windows)
    config = replace(config, on_violation="trust_tuple") if says_nothing else config
    if not node.spreads_counted:
        return partial(make, *given, config)
    numbered = tuple(schema.arrow for schema in numbered_schemas(node))
    return partial(make, numbered, *given[1:], config, rank_names(node))


def _is_core_without_punctuations(node: nodes.WindowJoin, hint: JoinHint) -> bool:
    """Whether a hint only asks that punctuations be ignored, which every join can; its options want the published operator."""
    return hint.variant in (JoinVariant.WJOIN, JoinVariant.MWJOIN) and not hint.options and not node.counts_rows


def pjoin_config(hint: JoinHint) -> PJoinConfig:
    """The configuration that the options of PJOIN or XJOIN describe.

    Examples
    --------
    >>> pjoin_config(JoinHint(JoinVariant.PJOIN, (("purge_threshold", 100), ("purge_access", "scan")))).purge_threshold
    100
    """
    changes: dict[str, Any] = dict(hint.options)
    if hint.variant is JoinVariant.XJOIN:
        return PJoinConfig.xjoin(**changes)
    return PJoinConfig(**changes | {"registry": named_registry(str(hint.value("registry")))})


def window_config(hint: JoinHint, windows: tuple[Any, ...]) -> JoinConfig:
    """The configuration that the options of the other hints describe."""
    counts_rows = any(isinstance(window, Rows) for window in windows)
    changes: dict[str, Any] = {name: value for name, value in hint.options if name != nodes.SPREAD}
    return JoinConfig(windows, clock="global_order" if counts_rows else "frontier", **changes)


def allowed_loss(hint: JoinHint) -> float:
    """Share of the results that APPROXIMATE may lose.

    Examples
    --------
    >>> allowed_loss(JoinHint(JoinVariant.APPROXIMATE, (("recall", 0.9),)))
    0.1
    """
    return round(1 - float(hint.value("recall") or 0.0), 12)
