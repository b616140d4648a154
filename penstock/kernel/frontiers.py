"""Progress of a partitioned stream: how far every source partition has come, and what that promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.elements import FOREVER, NEVER


class Frontiers:
    """Smallest promise over the partitions seen so far; it never goes back.

    A partition promises that no row is older than its newest row by more than `disorder`, or what it states explicitly.

    Examples
    --------
    >>> progress = Frontiers(disorder=5)
    >>> progress.advance(0, newest=100); progress.advance(1, newest=60)
    >>> progress.release()
    55
    """

    def __init__(self, disorder: int = 0) -> None:
        self.disorder = disorder
        self.current = NEVER
        #: Time of the newest row of all partitions.
        self.newest = NEVER
        self._promises: dict[int, int] = {}

    def promise(self, partition: int) -> int:
        """What is late for this partition: below its own promise, or below what was already promised for the stream."""
        return max(self._promises.get(partition, NEVER), self.current)

    def advance(self, partition: int, newest: int = NEVER, frontier: int = NEVER) -> None:
        self.newest = max(self.newest, newest)
        if newest == FOREVER or frontier == FOREVER:
            promised = FOREVER
        else:
            promised = max(newest - self.disorder if newest != NEVER else NEVER, frontier)
        self._promises[partition] = max(self._promises.get(partition, NEVER), promised)

    def release(self) -> int:
        """The stream's frontier after all partitions of a batch were heard."""
        if self._promises:
            self.current = max(self.current, min(self._promises.values()))
        return self.current

    def snapshot(self) -> Mapping[str, Any]:
        return {
            "current": self.current,
            "newest": self.newest,
            "promises": [[key, value] for key, value in sorted(self._promises.items())],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.current, self.newest = state["current"], state["newest"]
        self._promises = {int(key): int(value) for key, value in state["promises"]}
