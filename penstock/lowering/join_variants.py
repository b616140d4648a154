"""Which operator runs a join that a hint forces to a variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from penstock.errors import InvalidConfiguration, suggestion
from penstock.kernel.contracts import Operator
from penstock.lowering.row_windows import numbered_schemas, rank_names
from penstock.model.declarations import RowPolicy
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.windows import Rows
from penstock.operators.joins.approximate import ApproximateJoin
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.operators.joins.pjoin.operator import PJoin, XJoin
from penstock.operators.joins.pjoin.registry import STANDARD
from penstock.operators.joins.pwjoin.config import Clock, JoinConfig
from penstock.operators.joins.pwjoin.operator import MWJoin, PWJoin
from penstock.plan.nodes import relational as nodes

_WITHOUT_WINDOWS: Mapping[JoinVariant, type[PJoin]] = {JoinVariant.PJOIN: PJoin, JoinVariant.XJOIN: XJoin}
_WITH_WINDOWS: Mapping[JoinVariant, type[PWJoin]] = {
    JoinVariant.WJOIN: MWJoin, JoinVariant.MWJOIN: MWJoin, JoinVariant.PWJOIN: PWJoin, JoinVariant.MPWJOIN: PWJoin,
}  # fmt: skip
#: Windows stand in the query, and in a shard only heartbeats tell the time.
_GIVEN = ("windows", "clock")
#: The option that asks for rows to be counted first and joined in all shards.
SPREAD = "spread"


def hinted(node: nodes.WindowJoin, hint: JoinHint, is_trusting: bool = False) -> Callable[[], Operator]:
    """How to make the operator of a hinted join; `is_trusting` as of `recipe_of`."""
    schemas = tuple(part.schema.arrow for part in node.parts)
    given = (schemas, node.keys, node.windows, node.schema.arrow, node.residual, node.life)
    if hint.variant is JoinVariant.APPROXIMATE:
        policy = RowPolicy.TRUST if is_trusting else None
        return partial(ApproximateJoin, *given[:4], allowed_loss(hint), node.life, node.residual, policy)
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


def pjoin_config(hint: JoinHint) -> PJoinConfig:
    """The configuration that the options of PJOIN or XJOIN describe.

    Examples
    --------
    >>> pjoin_config(JoinHint(JoinVariant.PJOIN, (("purge_threshold", 100), ("purge_access", "scan")))).purge_threshold
    100
    """
    changes = _options(hint, [field.name for field in fields(PJoinConfig)])
    if "registry" in changes:
        changes["registry"] = _standard(str(changes["registry"]), hint)
    return PJoinConfig(**changes) if hint.variant is JoinVariant.PJOIN else PJoinConfig.xjoin(**changes)


def window_config(hint: JoinHint, windows: tuple[Any, ...]) -> JoinConfig:
    """The configuration that the options of the other hints describe."""
    known = [field.name for field in fields(JoinConfig) if field.name not in _GIVEN]
    counts_rows = any(isinstance(window, Rows) for window in windows)
    changes = _options(hint, [*known, SPREAD])
    if not isinstance(spread := changes.pop(SPREAD, False), bool):
        raise InvalidConfiguration(f"spread is {spread!r}; write TRUE or FALSE", hint.place or f"hint {hint}")
    if spread and not counts_rows:
        text = "spread is for windows that count rows, [ROWS n]; other joins are spread over the shards anyway"
        raise InvalidConfiguration(text, hint.place or f"hint {hint}")
    clock: Clock = "global_order" if counts_rows else "frontier"
    return JoinConfig(windows, clock=clock, **changes)


def allowed_loss(hint: JoinHint) -> float:
    """Share of the results that APPROXIMATE may lose.

    Examples
    --------
    >>> allowed_loss(JoinHint(JoinVariant.APPROXIMATE, (("recall", 0.9),)))
    0.1
    """
    recall = _options(hint, ["recall"]).get("recall")
    if isinstance(recall, bool) or not isinstance(recall, int | float) or not 0 < recall <= 1:
        found = "is missing" if recall is None else f"is {recall!r}"
        text = f"recall {found}; write the share of the results that must come, greater than 0 and at most 1: recall = 0.95"
        raise InvalidConfiguration(text, hint.place or f"hint {hint}")
    return round(1 - recall, 12)


def _options(hint: JoinHint, known: Iterable[str]) -> dict[str, Any]:
    names = list(known)
    for name, _ in hint.options:
        if name not in names:
            raise InvalidConfiguration(f"there is no option '{name}'; {suggestion(name, names)}", hint.place or f"hint {hint}")
    return dict(hint.options)


def _standard(name: str, hint: JoinHint) -> Any:
    if name not in STANDARD:
        raise InvalidConfiguration(f"there is no registry '{name}'; {suggestion(name, STANDARD)}", hint.place or f"hint {hint}")
    return STANDARD[name]
