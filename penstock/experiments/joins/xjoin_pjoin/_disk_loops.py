"""Compiled loops of PJoin and XJoin beyond memory: relocation, disk joins, punctuation index."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import allocating, compiled, entrance
from penstock.experiments.joins.xjoin_pjoin._memory_loops import free_slot, leave_list, link
from penstock.experiments.joins.xjoin_pjoin.layout import (
    AWAY,
    BUFFER,
    CLOCK,
    DISK,
    DISK_JOINS,
    HEAD,
    HOMES,
    IN_MEMORY,
    MEMORY,
    NULLS,
    REREAD,
    RESULTS,
    SIZE,
    SPILLED,
)


@allocating
def _members(slots: Any, lists: Any, home: Any, bucket: Any) -> Any:
    """Slots of a home of a bucket, by arrival."""
    found = np.empty(lists[home, bucket, SIZE], np.int64)
    times = np.empty(len(found), np.int64)
    count = 0
    s = np.int64(lists[home, bucket, HEAD])
    while s >= 0:
        found[count] = s
        times[count] = slots.ats[s]
        count += 1
        s = np.int64(slots.after[s])
    return found[np.argsort(times)]


@compiled
def _forget_away(slots: Any, lists: Any, keys: Any, charges: Any, book: Any, s: Any) -> None:
    """Remove a tuple on disk or in a purge buffer."""
    leave_list(slots, lists, keys, s)
    before, after = slots.before_in_key[s], slots.after_in_key[s]
    if before >= 0:
        slots.after_in_key[before] = after
    else:
        keys.chain[AWAY + (slots.home[s] & 1), slots.kid[s]] = after
    if after >= 0:
        slots.before_in_key[after] = before
    free_slot(slots, charges, book, s)


@entrance
def flush(slots: Any, lists: Any, keys: Any, book: Any, due: Any, side: int, bucket: int) -> Any:
    """Move the memory portion of a bucket to its disk portion; returns the number of tuples."""
    book[CLOCK] += 1
    moved = _members(slots, lists, MEMORY + side, bucket)
    for i in range(len(moved)):
        s = moved[i]
        kid = slots.kid[s]
        leave_list(slots, lists, keys, s)
        keys.chain[side, kid] = -1
        slots.dts[s] = book[CLOCK]
        link(slots, lists, keys, s, DISK + side)
        if keys.closed[1 - side, kid]:
            due[bucket] = 1
    book[IN_MEMORY] -= len(moved)
    book[SPILLED] += len(moved)
    return len(moved)


# -- disk joins -------------------------------------------------------------------------------------------------------


@compiled
def _met_in_memory(slots: Any, a: Any, b: Any) -> Any:
    """Whether the later of two tuples arrived while the earlier was in memory."""
    if slots.ats[a] < slots.ats[b]:
        return slots.ats[b] < slots.dts[a]
    return slots.ats[a] < slots.dts[b]


@compiled
def _was_probed(slots: Any, probes: Any, away: Any, met: Any) -> Any:
    """Whether an earlier probe used the first tuple from disk while the second was in memory."""
    for i in range(len(probes)):
        if slots.dts[away] <= probes[i, 0] and slots.ats[met] <= probes[i, 1] and probes[i, 1] <= slots.dts[met]:
            return True
    return False


@allocating
def _added(pairs: Any, count: Any, mine: Any, theirs: Any) -> Any:
    """The pairs with one more at place `count`; twice as long when they were full."""
    if count == pairs.shape[1]:
        larger = np.empty((2, 2 * count), np.int64)
        larger[:, :count] = pairs
        pairs = larger
    pairs[0, count], pairs[1, count] = mine, theirs
    return pairs


@entrance
def complete_bucket(slots: Any, lists: Any, keys: Any, book: Any, bucket: int, full: int, probes0: Any, probes1: Any) -> Any:
    """Stage 3: all pairs of a bucket not produced before; `full` is the time of its last completion.

    Two tuples that had both arrived by then are done; chains begin with the last arrival, so a walk may stop there.
    """
    book[CLOCK] += 1
    book[DISK_JOINS] += 1
    book[REREAD] += lists[DISK, bucket, SIZE] + lists[DISK + 1, bucket, SIZE]
    pairs, count = np.empty((2, 256), np.int64), 0
    for home in range(MEMORY, HOMES, 2):
        members = _members(slots, lists, home, bucket)
        for i in range(len(members)):
            a = members[i]
            for kind in range(0, 2 * AWAY, AWAY):
                b = np.int64(keys.chain[kind + 1, slots.kid[a]])
                while b >= 0 and (slots.ats[a] > full or slots.ats[b] > full):
                    done = _met_in_memory(slots, a, b) or _was_probed(slots, probes0, a, b)
                    if not done and not _was_probed(slots, probes1, b, a):
                        pairs = _added(pairs, count, slots.item[a], slots.item[b])
                        count += 1
                    b = np.int64(slots.after_in_key[b])
    book[RESULTS] += count
    return pairs[:, :count]


@entrance
def settle_bucket(slots: Any, lists: Any, keys: Any, charges: Any, book: Any, bucket: int) -> None:
    """After a completion: empty the purge buffer, and remove what is on disk and useless."""
    for home in range(DISK, HOMES):
        s = np.int64(lists[home, bucket, HEAD])
        while s >= 0:
            after = np.int64(slots.after[s])
            if home >= BUFFER or keys.closed[1 - (home & 1), slots.kid[s]]:
                _forget_away(slots, lists, keys, charges, book, s)
            s = after


@entrance
def probe_away(slots: Any, lists: Any, keys: Any, book: Any, side: int, bucket: int, full: int, probes: Any, others: Any) -> Any:
    """Stage 2: what is away probes the partner's memory. Returns pairs of this and the other side, and the newest DTS used.

    The purge buffer takes part besides the disk portion: otherwise the history, which only knows when a tuple left memory,
    would claim pairs of buffered tuples that no probe has seen.
    """
    book[CLOCK] += 1
    book[DISK_JOINS] += 1
    book[REREAD] += lists[DISK + side, bucket, SIZE]
    pairs, count, newest = np.empty((2, 256), np.int64), 0, np.int64(-1)
    for portion in (DISK, BUFFER):
        members = _members(slots, lists, portion + side, bucket)
        for i in range(len(members)):
            a = members[i]
            newest = max(newest, slots.dts[a])
            b = np.int64(keys.chain[1 - side, slots.kid[a]])
            while b >= 0 and (slots.ats[a] > full or slots.ats[b] > full):
                done = _met_in_memory(slots, a, b) or _was_probed(slots, probes, a, b)
                if not done and not _was_probed(slots, others, b, a):
                    pairs = _added(pairs, count, slots.item[a], slots.item[b])
                    count += 1
                b = np.int64(slots.after_in_key[b])
    book[RESULTS] += count
    return pairs[:, :count], newest


@entrance
def fresh_by_bucket(slots: Any, keys: Any, joined: Any) -> Any:
    """Per side and bucket: tuples that left memory, and tuples that arrived and did not, since the bucket's last disk join."""
    fresh = np.zeros((2, len(joined), 2), np.int64)
    for s in range(len(slots.item)):
        home = slots.home[s]
        if home < 0:
            continue
        bucket = keys.bucket[slots.kid[s]]
        if home >= DISK:
            if slots.dts[s] > joined[bucket]:
                fresh[home & 1, bucket, 0] += 1
        elif slots.ats[s] > joined[bucket]:
            fresh[home & 1, bucket, 1] += 1
    return fresh


# -- punctuation index ------------------------------------------------------------------------------------------------


@entrance
def charge_keys(slots: Any, keys: Any, charges: Any, book: Any, side: int, kids: Any, pid: int) -> Any:
    """Charge the tuples of some keys that have no punctuation yet, wherever they are, to this one; returns their number."""
    before = charges[pid]
    for i in range(len(kids)):
        for kind in range(0, 2 * AWAY, AWAY):
            s = np.int64(keys.chain[kind + side, kids[i]])
            while s >= 0:
                if slots.pid[s] < 0:
                    slots.pid[s] = pid
                    charges[pid] += 1
                s = np.int64(slots.after_in_key[s])
    book[NULLS + side] -= charges[pid] - before
    return charges[pid] - before
