"""Rows that packing tasks leave out before the exchange, as decided for the micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from penstock.columnar.coins import coins
from penstock.columnar.hashing import mixed
from penstock.errors import Defect
from penstock.kernel.packing import Route
from penstock.kernel.row_filters import EntryShedder
from penstock.model.batch import Batch
from penstock.model.drop_preferences import DropKind, DropPreference
from penstock.model.masks import Mask
from penstock.qos.shedding.coin import Coin
from penstock.qos.shedding.semantic import SemanticShedder
from penstock.qos.shedding.table import preference_of
from penstock.runners.decisions import Decisions


@dataclass(frozen=True, slots=True)
class EarlyShedder:
    """Random rows of an entry: coins know nothing but positions, so tasks need not know of each other.

    Coins of different streams are different, or rows of two streams with equal positions would stay or go together: pairs of a
    join would not have the chance that the product of their weights tells.
    """

    share: float
    seed: int
    stream: str

    @property
    def weight(self) -> float:
        """Of rows that stay; where all are left out there is none to have it."""
        return 1.0 / (1.0 - self.share) if self.share < 1.0 else 1.0

    def __call__(self, batch: Batch, partition: int) -> Mask:
        seed = int(mixed(self.seed, crc32(self.stream.encode())))
        return Coin(seed, partition).keep_mask(batch, self.share)


@dataclass(frozen=True, slots=True)
class EarlySemanticShedder:
    """Rows of an entry by a column, ranked among those that a task packs together.

    Tasks begin anew with every micro-batch and know nothing of each other, so none knows the quantiles of the stream. Parts of
    rows that are to be dropped are rounded by a coin: on average the share is met in small pieces too.
    """

    preference: DropPreference
    share: float
    seed: int

    @property
    def weight(self) -> float:
        raise Defect(f"rows were dropped by '{self.preference.column}' where somebody wants their weights: they are no fair sample")

    def __call__(self, batch: Batch, partition: int) -> Mask:
        rounding = float(coins(self.seed, partition, batch.pos[:1])[0])
        shedder = SemanticShedder(self.preference, seed=self.seed, carry=rounding)
        shedder.observe(batch)
        return shedder.keep_mask(batch, self.share)


def early_shedder(decisions: Decisions, route: Route) -> EntryShedder | None:
    """What is left out of an entry; None if nothing is."""
    decided = decisions.shed.get(route.entry)
    return _shedder(decided, route.stream.name) if decided is not None else None


def _shedder(decided: Mapping[str, Any], stream: str) -> EntryShedder:
    preference, share, seed = preference_of(decided), decided["share"], decided.get("seed", 0)
    is_random = preference.kind is DropKind.RANDOM
    return EarlyShedder(share, seed, stream) if is_random else EarlySemanticShedder(preference, share, seed)
