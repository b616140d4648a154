"""What chooses the rows that are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.model.batch import Batch
from penstock.model.masks import Mask


class Shedder(Protocol):
    """Chooses which rows of a queue are dropped; how many is decided elsewhere.

    It reads no clock and draws no random numbers: the same rows with the same shares lose the same rows.
    """

    def observe(self, batch: Batch) -> None:
        """Rows come, whether or not some of them will be dropped."""
        ...

    def keep_mask(self, batch: Batch, share: float) -> Mask:
        """Which of the rows stay when a share between 0 and 1 is to be dropped."""
        ...

    def counters(self) -> Mapping[str, int]:
        """Running totals beside those of the queue."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """JSON values."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where another object of the same class stood."""
        ...
