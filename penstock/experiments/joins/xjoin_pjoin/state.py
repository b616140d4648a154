"""State of PJoin and XJoin as arrays: buckets with memory and disk portion, purge buffer, logical clock, charges."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.experiments.joins.items import Int8s
from penstock.experiments.joins.xjoin_pjoin import _disk_loops, _memory_loops, layout
from penstock.model.batch import Int64s

_NO_PROBES = np.empty((0, 2), np.int64)


class State:
    """Tuples by side, bucket and portion; each has a key number, an item number, times, and a punctuation that counts it.

    The steps are published ones; when they run is the business of `PJoin`.

    References
    ----------
    [urhan2000] Urhan, Franklin. XJoin: A Reactively-Scheduled Pipelined Join Operator. IEEE Data Engineering Bulletin 2000.
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 4.
    """

    def __init__(self, buckets: int) -> None:
        self.keys = layout.empty_keys(1024)
        self.known_keys = 0
        self._key_table: Int64s = np.full(4096, -1, np.int64)
        self.slots = layout.empty_slots(0)
        self.lists: Int64s = np.full((layout.HOMES, buckets, 3), -1, np.int64)
        self.lists[:, :, layout.SIZE] = 0
        self.book: Int64s = np.zeros(layout.BOOK_FIELDS, np.int64)
        #: Stored tuples charged to each punctuation.
        self.charges: Int64s = np.zeros(64, np.int64)
        #: Buckets with useless tuples on disk or in a purge buffer, which a disk join would free.
        self.due: Int64s = np.zeros(buckets, np.int64)
        #: Logical time of the last completion, and of the last disk join of any kind.
        self.completed: Int64s = np.full(buckets, -1, np.int64)
        self.joined: Int64s = np.full(buckets, -1, np.int64)
        #: Probe history of partial disk joins: (newest DTS used, time) per side and bucket.
        self.probes: dict[tuple[int, int], Int64s] = {}

    # -- levels -------------------------------------------------------------------------------------------------------

    @property
    def in_memory(self) -> int:
        """Tuples of both sides in memory."""
        return int(self.book[layout.IN_MEMORY])

    def stored(self) -> Int64s:
        """Tuples of each side, wherever they are."""
        return self.book[layout.STORED : layout.STORED + 2].copy()

    def sizes(self, portion: int) -> Int64s:
        """Tuples per side and bucket in one portion."""
        return self.lists[portion : portion + 2, :, layout.SIZE]

    @property
    def counters(self) -> dict[str, int]:
        return dict(zip(layout.COUNTERS, self.book[layout.FIRST_COUNTER :].tolist(), strict=True))

    def add(self, counter: int, amount: int = 1) -> None:
        self.book[counter] += amount

    # -- keys ---------------------------------------------------------------------------------------------------------

    def number_keys(self, values: Int64s) -> Int64s:
        """Key numbers, in the order in which keys were first seen."""
        needed = self.known_keys + len(values)
        if needed > len(self.keys.value):
            more = layout.empty_keys(max(needed, 2 * len(self.keys.value)) - len(self.keys.value))
            self.keys = layout.Keys(*(np.concatenate(both, axis=-1) for both in zip(self.keys, more, strict=True)))
        if 2 * needed > len(self._key_table):
            self._key_table = np.full(1 << (2 * needed).bit_length(), -1, np.int64)
            _memory_loops.fill_table(self._key_table, self.keys, self.known_keys)
        buckets = self.lists.shape[1]
        kids, known = _memory_loops.number_keys(values, self._key_table, self.keys, self.known_keys, buckets)
        self.known_keys = int(known)
        numbers: Int64s = kids
        return numbers

    def keys_between(self, low: int, high: int) -> Int64s:
        """Numbers of the known keys in a range."""
        values = self.keys.value[: self.known_keys]
        return np.flatnonzero((low <= values) & (values <= high))

    def close(self, side: int, kids: Int64s) -> Int64s:
        """Mark keys as closed by a side; returns those that were open."""
        fresh: Int64s = _memory_loops.close_keys(self.keys, self.due, side, kids)
        return fresh

    # -- memory -------------------------------------------------------------------------------------------------------

    def join(
        self, sides: Int64s, kids: Int64s, first_item: int, fates: Int8s, start: int = 0, limit: int = 2**62
    ) -> tuple[int, Int64s]:
        """Process tuples from `start` on, until all are done or memory is full: where it stopped, and the pairs."""
        self._reserve(len(kids) - start)
        stop, left, right = _memory_loops.join_tuples(
            self.slots, self.lists, self.keys, self.book, self.due, sides, kids, first_item, start, limit, fates
        )
        return int(stop), np.stack([left, right])

    def _reserve(self, tuples: int) -> None:
        """Make sure that so many more tuples can be stored."""
        needed, start, free = int(self.stored().sum()) + tuples, len(self.slots.item), int(self.book[layout.FREE])
        if needed > start:
            more = layout.empty_slots(max(needed, 2 * start, 256) - start)
            self.slots = layout.Slots(*map(np.concatenate, zip(self.slots, more, strict=True)))
            stop = len(self.slots.item)
            # The lowest are taken first, so that new tuples lie side by side.
            self.slots.free[: free + stop - start] = np.append(np.arange(stop - 1, start - 1, -1), self.slots.free[:free])
            self.book[layout.FREE] += stop - start

    def purge(self, side: int, kids: Int64s | None) -> None:
        """Remove tuples in memory that the other side has closed: of the given keys, or by a walk through all."""
        shared = (self.slots, self.lists, self.keys, self.charges, self.book, self.due, side)
        if kids is None:
            _memory_loops.purge_scan(*shared)
        else:
            _memory_loops.purge_keys(*shared, kids)

    def charge(self, side: int, kids: Int64s, pid: int) -> int:
        """Charge the tuples of some keys that have no punctuation yet to this one; returns their number."""
        if pid >= len(self.charges):
            self.charges = np.append(self.charges, np.zeros(pid + 1, np.int64))
        return int(_disk_loops.charge_keys(self.slots, self.keys, self.charges, self.book, side, kids, pid))

    # -- disk ---------------------------------------------------------------------------------------------------------

    def relocate(self) -> tuple[int, int]:
        """Move the largest memory portion to disk; ties go to the lower side, then bucket. Returns side and number."""
        side, bucket = divmod(int(np.argmax(self.sizes(layout.MEMORY))), self.lists.shape[1])
        return side, int(_disk_loops.flush(self.slots, self.lists, self.keys, self.book, self.due, side, bucket))

    def complete(self, bucket: int) -> Int64s:
        """Stage 3: the bucket's pairs not produced before. What only waited for that is freed."""
        histories = [self.probes.pop((side, bucket), _NO_PROBES) for side in (0, 1)]
        full = int(self.completed[bucket])
        pairs: Int64s = _disk_loops.complete_bucket(self.slots, self.lists, self.keys, self.book, bucket, full, *histories)
        _disk_loops.settle_bucket(self.slots, self.lists, self.keys, self.charges, self.book, bucket)
        self.completed[bucket] = self.joined[bucket] = self.book[layout.CLOCK]
        self.due[bucket] = 0
        return pairs

    def probe_away(self, side: int, bucket: int) -> Int64s:
        """Stage 2: let the disk portion of one side probe the other's memory; returns the pairs."""
        mine, others = (self.probes.get((own, bucket), _NO_PROBES) for own in (side, 1 - side))
        full = int(self.completed[bucket])
        pairs, newest = _disk_loops.probe_away(self.slots, self.lists, self.keys, self.book, side, bucket, full, mine, others)
        self.probes[side, bucket] = np.append(mine, np.array([[newest, self.book[layout.CLOCK]]]), axis=0)
        self.joined[bucket] = self.book[layout.CLOCK]
        found: Int64s = pairs if side == 0 else pairs[::-1]
        return found

    def spilled_buckets(self) -> Int64s:
        """Buckets with anything on disk or in a purge buffer."""
        return np.flatnonzero((self.sizes(layout.DISK) + self.sizes(layout.BUFFER)).sum(axis=0))

    def expected_yield(self, in_full: bool) -> Any:
        """New results a disk join promises, per side whose disk portion would probe, and bucket.

        Pairs that could not meet before, (left memory since × partner) and (on disk × partner arrived since), divided by the
        number of different keys. Partners on disk count only for a join in full. The source counts only the first kind; but
        arrivals after a probe need the next one.
        """
        is_stored = (self.keys.chain[:, : self.known_keys] >= 0).any(axis=0)
        used = self.keys.bucket[: self.known_keys][is_stored]
        different = np.bincount(used, minlength=self.lists.shape[1])
        fresh = _disk_loops.fresh_by_bucket(self.slots, self.keys, self.joined)
        memory, away = self.sizes(layout.MEMORY), self.sizes(layout.DISK) + self.sizes(layout.BUFFER)
        partners = memory + away if in_full else memory
        pairs = fresh[:, :, 0] * partners[::-1] + away * fresh[::-1, :, 1]
        return pairs / np.maximum(different, 1)
