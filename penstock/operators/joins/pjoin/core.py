"""State of PJoin and XJoin as arrays: buckets with memory and disk portion, purge buffer, logical clock, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER
from penstock.model.masks import Mask
from penstock.operators.joins.pjoin import _disk_loops, _loops, layout
from penstock.operators.joins.pjoin.keys import KeyTable

_NO_PROBES = np.empty((0, 2), np.int64)
_ALL_KEYS = np.empty(0, np.bool_)
NO_HISTORY = np.empty((0, layout.BOOK_FIELDS - layout.STORED0), np.int64)


class Core:
    """Tuples by side, bucket and portion; they have a key number, a row, times, and a punctuation that counts them.

    The steps are published ones; when they run is the engine's business. A row is any number that means something to the
    caller: an address of a stored row, or the number of an item.

    Parameters
    ----------
    kinds
        Types of the key columns.
    scans
        Whether probes or purges walk buckets: only then lists of what is in memory are kept.

    References
    ----------
    [urhan2000] Urhan, Franklin. XJoin. IEEE Data Engineering Bulletin 2000.
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 4.
    """

    def __init__(self, kinds: Sequence[pa.DataType], buckets: int, scans: bool = True) -> None:
        self.keys = KeyTable(kinds, buckets)
        self.slots = layout.empty_slots(0)
        self.lists: Int64s = np.full((layout.HOMES, buckets, 3), -1, np.int64)
        self.lists[:, :, layout.SIZE] = 0
        self.book: Int64s = np.zeros(layout.BOOK_FIELDS, np.int64)
        self.book[layout.LINKED] = scans
        self.counts: Int64s = np.zeros((2, 64), np.int64)
        #: Buckets with useless tuples on disk or in a purge buffer, which a disk join would free.
        self.due: Int64s = np.zeros(buckets, np.int64)
        #: Least time of tuples whose partners may be on disk; left-over results of a bucket are not older.
        self.arrived: Int64s = np.full(buckets, FOREVER, np.int64)
        #: Logical time of the last completion, and of the last disk join of any kind.
        self.completed: Int64s = np.full(buckets, -1, np.int64)
        self.joined: Int64s = np.full(buckets, -1, np.int64)
        #: Probe history of partial disk joins: (newest DTS used, time) per side and bucket.
        self.probes: dict[tuple[int, int], Int64s] = {}

    # -- levels -------------------------------------------------------------------------------------------------------

    @property
    def stored(self) -> tuple[int, int]:
        """Tuples of each side, wherever they are."""
        return int(self.book[layout.STORED0]), int(self.book[layout.STORED1])

    @property
    def in_memory(self) -> int:
        return int(self.book[layout.IN_MEMORY])

    def sizes(self, portion: int) -> Int64s:
        """Tuples per side and bucket in one portion."""
        return self.lists[portion : portion + 2, :, layout.SIZE]

    @property
    def counters(self) -> dict[str, int]:
        return dict(zip(layout.COUNTERS, self.book[layout.FIRST_COUNTER :].tolist(), strict=True))

    def add(self, counter: int, amount: int = 1) -> None:
        self.book[counter] += amount

    # -- room ---------------------------------------------------------------------------------------------------------

    def reserve(self, tuples: int) -> None:
        """Make sure that so many more tuples can be stored."""
        needed, start = sum(self.stored) + tuples, len(self.slots.row)
        if needed > start:
            more = layout.empty_slots(max(needed, 2 * start, 256) - start)
            self.slots = layout.Slots(*map(np.concatenate, zip(self.slots, more, strict=True)))
            number = len(more.row)
            self.slots.free[: self.book[layout.FREE] + number] = np.concatenate(
                [np.arange(start + number - 1, start - 1, -1), self.slots.free[: self.book[layout.FREE]]]
            )
            self.book[[layout.FREE, layout.ORDERED]] += number
        self._order_free_slots()

    def _order_free_slots(self) -> None:
        """Sort the slots freed of late, so that new tuples lie side by side in memory."""
        freed = slice(self.book[layout.ORDERED], self.book[layout.FREE])
        if freed.stop - freed.start > 1:
            self.slots.free[freed] = np.sort(self.slots.free[freed])[::-1]
        self.book[layout.ORDERED] = freed.stop

    def reserve_pids(self, number: int) -> None:
        if number > self.counts.shape[1]:
            wider = np.zeros((2, max(number, 2 * self.counts.shape[1])), np.int64)
            wider[:, : self.counts.shape[1]] = self.counts
            self.counts = wider

    def settle_keys(self) -> Int64s | None:
        """Forget keys nobody needs; returns how the others were renumbered, or None."""
        renumbered = self.keys.settle()
        if renumbered is not None:
            live = self.slots.home >= 0
            self.slots.kid[live] = renumbered[self.slots.kid[live]]
        return renumbered

    # -- memory join --------------------------------------------------------------------------------------------------

    def join(
        self,
        sides: Int64s,
        kids: Int64s,
        rows: Int64s,
        ts: Int64s,
        trusted: Mask,
        start: int,
        limit: int,
        scans: bool,
        placed: Int64s,
        history: Int64s = NO_HISTORY,
    ) -> tuple[int, Int64s, Int64s]:
        """Process tuples from `start` on, until all are done or memory is full; see `_loops.join_tuples`."""
        self.reserve(len(kids) - start)
        stop, left, right = _loops.join_tuples(
            self.slots,
            self.lists,
            self.keys.records,
            self.book,
            self.due,
            self.arrived,
            sides,
            kids,
            rows,
            ts,
            trusted,
            start,
            limit,
            scans,
            placed,
            history,
        )
        return int(stop), left, right

    # -- punctuations -------------------------------------------------------------------------------------------------

    def close(self, side: int, kids: Int64s) -> Int64s:
        """Mark keys as closed by a side; returns those that were open."""
        fresh: Int64s = _loops.close_keys(self.keys.records, self.due, side, kids)
        return fresh

    def is_closed(self, side: int | Int64s, kids: Int64s) -> Mask:
        """Whether a side, one for all or one for each, has closed keys."""
        closed: Mask = self.keys.records.closed[side, kids] > 0
        return closed

    def purge(self, side: int, kids: Int64s | None) -> None:
        """Remove tuples in memory that the other side has closed: of the given keys, or by a walk through all."""
        shared = (self.slots, self.lists, self.keys.records, self.counts, self.book, self.due, side)
        if kids is None:
            _loops.purge_scan(*shared)
        else:
            _loops.purge_keys(*shared, kids)

    # -- disk ---------------------------------------------------------------------------------------------------------

    def relocate(self, sides: Sequence[int] = (0, 1)) -> tuple[int, int, Int64s]:
        """Move the largest memory portion of some sides to disk; ties go to the lower side, then bucket.

        Returns side, bucket, slots.
        """
        sizes = self.sizes(layout.MEMORY)[list(sides)]
        at, bucket = divmod(int(np.argmax(sizes)), self.lists.shape[1])
        return sides[at], bucket, self.flush(sides[at], bucket, _ALL_KEYS)

    def flush(self, side: int, bucket: int, chosen: Mask) -> Int64s:
        """Move what is in memory of a bucket to disk, of the chosen keys if any are named; returns the slots."""
        shared = (self.slots, self.lists, self.keys.records, self.book, self.due, self.keys.number)
        moved: Int64s = _disk_loops.flush(*shared, side, bucket, chosen)
        return moved

    def fetch(self, side: int, bucket: int, chosen: Mask) -> Int64s:
        """Bring tuples of chosen keys of a bucket that has just been completed back to memory; returns their slots."""
        moved: Int64s = _disk_loops.fetch(self.slots, self.lists, self.keys.records, self.book, side, bucket, chosen)
        return moved

    def tuples_by_bucket(self, home: int, chosen: Mask) -> Int64s:
        """Tuples of chosen keys in one home, per bucket."""
        kids = self.slots.kid[self.slots.home == home]
        counts: Int64s = np.bincount(self.keys.records.bucket[kids[chosen[kids]]], minlength=self.lists.shape[1])
        return counts

    def left_over(self, bucket: int) -> tuple[Int64s, Int64s]:
        """Rows of both sides that make the bucket's pairs not produced before; `settle` must follow."""
        left, right = _disk_loops.complete_bucket(
            self.slots,
            self.lists,
            self.keys.records,
            self.book,
            self.keys.number,
            bucket,
            int(self.completed[bucket]),
            self.probes.get((0, bucket), _NO_PROBES),
            self.probes.get((1, bucket), _NO_PROBES),
        )
        return left, right

    def settle(self, bucket: int) -> None:
        """The bucket is complete: free what only waited for that. Nothing of its history is needed any more."""
        _disk_loops.settle_bucket(self.slots, self.lists, self.keys.records, self.counts, self.book, bucket)
        self.completed[bucket] = self.joined[bucket] = self.book[layout.CLOCK]
        self.due[bucket], self.arrived[bucket] = 0, FOREVER
        self.probes.pop((0, bucket), None)
        self.probes.pop((1, bucket), None)

    def probe_away(self, side: int, bucket: int) -> tuple[Int64s, Int64s]:
        """Let the disk portion of one side probe the other's memory; returns rows of this side and of the other."""
        mine, theirs, newest = _disk_loops.probe_away(
            self.slots,
            self.lists,
            self.keys.records,
            self.book,
            side,
            bucket,
            int(self.completed[bucket]),
            self.probes.get((side, bucket), _NO_PROBES),
            self.probes.get((1 - side, bucket), _NO_PROBES),
        )
        entry = np.array([[newest, self.book[layout.CLOCK]]], np.int64)
        self.probes[side, bucket] = np.concatenate([self.probes.get((side, bucket), _NO_PROBES), entry])
        self.joined[bucket] = self.book[layout.CLOCK]
        return mine, theirs

    def expected_yield(self, in_full: bool) -> Any:
        """New results a disk join promises, per side whose disk portion would probe, and bucket.

        Pairs that could not meet before, (left memory since × partner) and (on disk × partner arrived since), divided by the
        number of different keys. Partners on disk count only for a join in full. The source counts only the first kind; but
        arrivals after a probe need the next one.
        """
        used = self.keys.records.bucket[: self.keys.number][self.keys.is_stored()]
        different = np.bincount(used, minlength=self.lists.shape[1])
        fresh = _disk_loops.fresh_by_bucket(self.slots, self.keys.records, self.joined)
        memory, away = self.sizes(layout.MEMORY), self.sizes(layout.DISK) + self.sizes(layout.BUFFER)
        partners = memory + away if in_full else memory
        pairs = fresh[:, :, 0] * partners[::-1] + away * fresh[::-1, :, 1]
        return pairs / np.maximum(different, 1)

    def clear(self) -> None:
        """Remove everything stored."""
        _loops.clear_slots(self.slots, self.lists, self.keys.records, self.counts, self.book, self.keys.number)
        self.due[:], self.arrived[:] = 0, FOREVER

    # -- state --------------------------------------------------------------------------------------------------------

    def place(self, kids: Int64s, rows: Int64s, ats: Int64s, dts: Int64s, homes: Int64s) -> Int64s:
        """Put tuples back, in the order in which they came to their places; returns their slots."""
        self.reserve(len(kids))
        order = np.lexsort((ats, np.where(homes < layout.DISK, ats, dts)))
        placed, slots = np.empty(len(kids), np.int64), np.empty(len(kids), np.int64)
        arrays = (kids[order], rows[order], ats[order], dts[order], homes[order], placed)
        _loops.place_tuples(self.slots, self.lists, self.keys.records, self.book, *arrays)
        slots[order] = placed
        return slots

    def snapshot(self) -> dict[str, Any]:
        """The small part of the state; tuples are with their rows."""
        return {
            "clock": int(self.book[layout.CLOCK]),
            "counters": self.counters,
            "arrived": _sparse(self.arrived, FOREVER),
            "completed": _sparse(self.completed, -1),
            "joined": _sparse(self.joined, -1),
            "due": _sparse(self.due, 0),
            "probes": [[side, bucket, entries.tolist()] for (side, bucket), entries in sorted(self.probes.items())],
        }

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Take over clock, counters and times; tuples are placed afterwards."""
        self.book[layout.CLOCK] = meta["clock"]
        # A counter that a snapshot does not know had not begun to count.
        self.book[layout.FIRST_COUNTER :] = [meta["counters"].get(name, 0) for name in layout.COUNTERS]
        for name in ("arrived", "completed", "joined", "due"):
            array = getattr(self, name)
            for bucket, value in meta[name]:
                array[bucket] = value
        self.probes = {(side, bucket): np.array(entries, np.int64) for side, bucket, entries in meta["probes"]}


def _sparse(values: Int64s, usual: int) -> list[list[int]]:
    return [[int(at), int(values[at])] for at in np.flatnonzero(values != usual)]
