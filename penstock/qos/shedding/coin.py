"""Random rows, each by a coin of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.columnar.coins import coins
from penstock.model.batch import Batch
from penstock.model.masks import Mask


class Coin:
    """Drop a row when its coin, a hash of its position, is less than the share.

    It remembers nothing, so it makes no difference how rows are cut into batches or dealt to tasks, and a row that was dropped
    at one share is also dropped at any greater one. Choose it before the exchange, where every task begins anew; `ExactRate`
    drops exactly the share asked for, this one on average.

    Parameters
    ----------
    seed, partition
        Of the coins.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.2, random
    shedder: a row passes if u >= p. The prototype of section 10.6.4 passes it if u > p, which may drop a row at p = 0.
    """

    def __init__(self, seed: int = 0, partition: int = 0) -> None:
        self._seed = seed
        self._partition = partition

    def observe(self, batch: Batch) -> None:
        """Nothing about rows matters."""

    def keep_mask(self, batch: Batch, share: float) -> Mask:
        keep: Mask = coins(self._seed, self._partition, batch.pos) >= share
        return keep

    def counters(self) -> Mapping[str, int]:
        return {}

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to remember."""
