"""Which variant of the literature a join is, and why: windows, punctuations and the number of inputs decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.join_variants import JoinVariant
from penstock.model.windows import Unbounded
from penstock.plan.analysis.holdings import label
from penstock.plan.analysis.knowledge import Knowledge
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.multiway import MJoin


@dataclass(frozen=True, slots=True)
class JoinChoice:
    """A variant and the reason for it; `is_forced` by a hint."""

    variant: JoinVariant
    why: str
    is_forced: bool = False

    def __str__(self) -> str:
        return f"{self.variant.value}: {self.why}"


def choose(node: WindowJoin, inputs: Sequence[Knowledge]) -> JoinChoice:
    """The variant of a join whose inputs are known like this.

    A hint wins. Otherwise windows and punctuations decide: with both a row is forgotten by whichever comes first, with
    neither it is kept for ever.
    """
    if node.hint is not None:
        missing = "; answers may be missing, as its recall allows" if node.hint.variant is JoinVariant.APPROXIMATE else ""
        return JoinChoice(node.hint.variant, f"the hint {node.hint} asks for it{missing}", True)
    if isinstance(node, MJoin):
        return JoinChoice(JoinVariant.MJOIN, f"{len(node.parts)} inputs without a common key ({node.shape}), all with windows")
    windows = [label(part, keys) for part, keys, window in zip(node.parts, node.keys, node.windows, strict=True) if _bounds(window)]
    closing = _closing(node, inputs)
    reasons = [f"windows on {_listed(windows)}" if windows else "no window", f"punctuations: {closing}" if closing else ""]
    counts = "rows are counted in one shard" if node.counts_rows else ""
    if node.counts_rows and not node.spreads_counted:
        counts += f" and joined there ({'PWJOIN' if len(node.parts) == 2 else 'MPWJOIN'}(spread = TRUE) joins them in all shards)"
    why = "; ".join(filter(None, [*reasons, "" if closing else "nobody closes the key", counts]))
    if len(node.parts) > 2:
        return JoinChoice(JoinVariant.MPWJOIN if closing else JoinVariant.MWJOIN, f"{len(node.parts)} inputs, {why}")
    if windows:
        return JoinChoice(JoinVariant.PWJOIN if closing else JoinVariant.WJOIN, why)
    return JoinChoice(JoinVariant.PJOIN if closing else JoinVariant.XJOIN, why)


def _bounds(window: object) -> bool:
    return not isinstance(window, Unbounded)


def _closing(node: WindowJoin, inputs: Sequence[Knowledge]) -> str:
    """Who closes values of the key, and how that is known."""
    found = []
    for part, keys, known in zip(node.parts, node.keys, inputs, strict=True):
        scheme = known.within(keys)
        if scheme is not None:
            found.append(f"{label(part, keys)} closes {', '.join(keys)} ({scheme.origin})")
    return ", ".join(found)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)
