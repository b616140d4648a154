"""Which operator runs a join that a hint forces to a variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from penstock.errors import InvalidConfiguration, suggestion
from penstock.kernel.contracts import Operator
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.operators.joins.pjoin.operator import PJoin, XJoin
from penstock.operators.joins.pjoin.registry import STANDARD
from penstock.operators.joins.window_join import WindowJoin
from penstock.plan.nodes import relational as nodes

_SPILLING: Mapping[JoinVariant, type[PJoin]] = {JoinVariant.PJOIN: PJoin, JoinVariant.XJOIN: XJoin}


def hinted(node: nodes.WindowJoin, hint: JoinHint) -> Callable[[], Operator]:
    """How to make the operator of a hinted join."""
    schemas = tuple(part.schema.arrow for part in node.parts)
    given = (schemas, node.keys, node.windows, node.schema.arrow, node.residual, node.life)
    if hint.variant in _SPILLING:
        return partial(_SPILLING[hint.variant], *given, pjoin_config(hint))
    if hint.options:
        raise InvalidConfiguration(f"{hint.variant.value} takes no options; found {hint.options[0][0]}", f"hint {hint}")
    return partial(WindowJoin, *given)


def pjoin_config(hint: JoinHint) -> PJoinConfig:
    """The configuration that a hint's options describe.

    Examples
    --------
    >>> pjoin_config(JoinHint(JoinVariant.PJOIN, (("purge_threshold", 100), ("purge_access", "scan")))).purge_threshold
    100
    """
    known = [field.name for field in fields(PJoinConfig)]
    changes: dict[str, Any] = dict(hint.options)
    for name in changes:
        if name not in known:
            raise InvalidConfiguration(f"there is no option '{name}'; {suggestion(name, known)}", f"hint {hint}")
    if "registry" in changes:
        name = str(changes["registry"])
        if name not in STANDARD:
            raise InvalidConfiguration(f"there is no registry '{name}'; {suggestion(name, STANDARD)}", f"hint {hint}")
        changes["registry"] = STANDARD[name]
    return PJoinConfig(**changes) if hint.variant is JoinVariant.PJOIN else PJoinConfig.xjoin(**changes)
