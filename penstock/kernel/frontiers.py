"""Progress of a partitioned stream: how far its source partitions have come, who holds it back, and what time does alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kernel.packets import NOBODY
from penstock.model.elements import FOREVER, NEVER


@dataclass(frozen=True, slots=True)
class Holder:
    """The source partition whose promise is the least, what it has promised, and what the furthest one has."""

    partition: int
    promise: int
    furthest: int


class Frontiers:
    """Smallest promise over the partitions that are known; it never goes back.

    A partition promises that no row is older than its newest row by more than `disorder`, or what it states explicitly.
    Nobody reads a clock here: what time it is arrives as a decision (`pass_time`), so a repeated micro-batch hears the same.

    Parameters
    ----------
    idle_us
        A partition that has brought nothing for so long holds nothing back; when that is all of them, the stream's time goes on
        with the clock. None: partitions are waited for.
    is_timed
        Event time is counted in microseconds, as the clock is.
    is_arrival
        Event time is the time of arrival: nothing that comes is older than the clock.

    Examples
    --------
    >>> progress = Frontiers(disorder=5)
    >>> progress.advance(0, newest=100); progress.advance(1, newest=60)
    >>> progress.release()
    55
    """

    def __init__(
        self, disorder: int = 0, idle_us: int | None = None, is_timed: bool = False, is_arrival: bool = False, partitions: int = 0
    ) -> None:
        self.disorder = disorder
        self.current = NEVER
        #: Time of the newest row of all partitions.
        self.newest = NEVER
        self._idle_us = idle_us
        self._is_timed = is_timed
        self._is_arrival = is_arrival
        self._promises: dict[int, int] = {}
        self._expected = 0
        #: Partitions that have said that nothing follows.
        self._ended: set[int] = set()
        #: What was promised for the whole stream, whatever its partitions are.
        self._floor = NEVER
        self._clock = NEVER
        #: When each partition last brought something, by the clock; `NOBODY` stands for the stream.
        self._heard: dict[int, int] = {}
        #: Who has brought something since the clock was last heard.
        self._fresh: set[int] = set()
        self.expect(partitions)

    # -- what partitions say ------------------------------------------------------------------------------------------

    def expect(self, partitions: int) -> None:
        """Partitions 0 … `partitions` - 1 exist, whether they have brought anything or not."""
        self._expected = max(self._expected, partitions)
        for partition in range(self._expected):
            self._promises.setdefault(partition, NEVER)

    def promise(self, partition: int) -> int:
        """What is late for this partition: below its own promise, or below what was already promised for the stream."""
        return max(self._promises.get(partition, NEVER), self.current)

    @property
    def is_stated(self) -> bool:
        """Whether the stream's frontier is further than its rows alone would have brought it."""
        return self.newest == NEVER or self.current > self.newest - self.disorder

    def touch(self, partition: int) -> None:
        """The partition has brought something, so it is not idle."""
        if self._idle_us is not None:
            self._fresh |= {partition, NOBODY}

    def advance(self, partition: int, newest: int = NEVER, frontier: int = NEVER) -> None:
        self.newest = max(self.newest, newest)
        if newest == FOREVER or frontier == FOREVER:
            promised = FOREVER
        else:
            promised = max(newest - self.disorder if newest != NEVER else NEVER, frontier)
        self._promises[partition] = max(self._promises.get(partition, NEVER), promised)

    def end(self, partition: int | None) -> None:
        """Nothing follows from the partition (from none of those known), so it holds nothing back."""
        self._ended |= {*self._promises} if partition is None else {partition}

    def state(self, ts: int, partition: int | None = None) -> None:
        """Nothing older comes from the partition, or from the whole stream, whatever its partitions are."""
        if partition is not None:
            self.advance(partition, frontier=ts)
            self.touch(partition)
            return
        self._floor = max(self._floor, ts)
        for known in self._promises:
            self.touch(known)
        self.touch(NOBODY)

    # -- time -----------------------------------------------------------------------------------------------------------

    def pass_time(self, clock_us: int, begins: bool = False) -> None:
        """It is so late; `begins` with the first decision of a run: time in which nothing ran makes nobody idle."""
        self._clock = max(self._clock, clock_us)
        if self._idle_us is None:
            return
        everybody = {NOBODY, *self._promises}
        for partition in everybody if begins else self._fresh | (everybody - self._heard.keys()):
            self._heard[partition] = self._clock
        self._fresh.clear()

    def is_idle(self, partition: int = NOBODY) -> bool:
        """Whether a partition, or the stream, has brought nothing for the declared time."""
        if self._idle_us is None or partition in self._fresh or partition not in self._heard:
            return False
        return self._clock - self._heard[partition] >= self._idle_us

    @property
    def idle(self) -> frozenset[int]:
        """The partitions that are waited for no longer."""
        return frozenset(partition for partition in self._promises if self.is_idle(partition))

    def follow(self, ts: int) -> None:
        """Streams that this one meets have come so far without it."""
        self.current = max(self.current, ts)

    def release(self) -> int:
        """The stream's frontier after all partitions of a batch were heard."""
        self.current = max(self.current, self._floor, self._agreed(), self._clock if self._is_arrival else NEVER)
        return self.current

    def _agreed(self) -> int:
        """What the partitions that count promise together."""
        waited_for = self._waited_for()
        if waited_for:
            return min(self._promises[partition] for partition in waited_for)
        if not self._promises:
            return NEVER
        if self._ended.issuperset(self._promises):
            return self.newest + 1 if self.newest != NEVER else NEVER
        furthest = max(self._floor, max(self._promises.values()))
        is_moved = self._is_timed and self.is_idle() and furthest not in (NEVER, FOREVER)
        return furthest + (self._clock - self._heard[NOBODY] - (self._idle_us or 0)) if is_moved else furthest

    def _waited_for(self) -> list[int]:
        idle = self.idle if self._idle_us is not None else frozenset()
        return [partition for partition in self._promises if partition not in self._ended and partition not in idle]

    def holder(self) -> Holder | None:
        """Who holds the stream back, if one of its partitions is behind others."""
        promises = {partition: self._promises[partition] for partition in self._waited_for()}
        if not promises or self.current == FOREVER:
            return None
        slowest = min(promises, key=lambda partition: (promises[partition], partition))
        found = Holder(slowest, promises[slowest], max(promises.values()))
        return found if found.promise < found.furthest else None

    # -- state ----------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, Any]:
        # A partition that is only expected is no state: another declaration may expect others.
        promised = ((key, value) for key, value in sorted(self._promises.items()) if value != NEVER or key >= self._expected)
        return {
            "current": self.current,
            "newest": self.newest,
            "promises": [[key, value] for key, value in promised],
            "floor": self._floor,
            "ended": sorted(self._ended),
            "clock": self._clock,
            "heard": [[key, value] for key, value in sorted(self._heard.items())],
            "fresh": sorted(self._fresh),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.current, self.newest = state["current"], state["newest"]
        self._promises = {int(key): int(value) for key, value in state["promises"]}
        self.expect(self._expected)
        # Shards saved before time could pass by itself have none of these.
        self._floor, self._clock = state.get("floor", NEVER), state.get("clock", NEVER)
        self._ended, self._fresh = set(state.get("ended", ())), set(state.get("fresh", ()))
        self._heard = _numbers(state.get("heard", ()))


def _numbers(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {int(key): int(value) for key, value in pairs}
