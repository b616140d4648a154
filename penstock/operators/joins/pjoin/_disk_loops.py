"""Compiled loops of PJoin and XJoin beyond memory: relocation, disk joins, punctuation index."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.operators.joins.pjoin._loops import compiled, free_slot, leave_list, link
from penstock.operators.joins.pjoin.layout import (
    AWAY,
    BUFFER,
    CLOCK,
    DISK,
    DISK_JOINS,
    FETCHED,
    HEAD,
    HOMES,
    IN_MEMORY,
    INDEX_TESTS,
    LINKED,
    MEMORY,
    NEVER_LEFT,
    NULLS,
    REREAD,
    RESULTS,
    SIZE,
    SPILLED,
)


@compiled
def _members(slots: Any, lists: Any, keys: Any, book: Any, number: int, home: int, bucket: int) -> Any:  # pragma: no cover
    """Slots of a home of a bucket, by arrival; `number` keys are known."""
    found = np.empty(lists[home, bucket, SIZE], np.int64)
    times = np.empty(len(found), np.int64)
    count = 0
    if home >= DISK or book[LINKED]:
        s = lists[home, bucket, HEAD]
        while s >= 0:
            found[count] = s
            times[count] = slots.ats[s]
            count += 1
            s = slots.next[s]
    else:
        for kid in range(number):
            if keys.bucket[kid] == bucket:
                s = keys.chain[home, kid]
                while s >= 0:
                    found[count] = s
                    times[count] = slots.ats[s]
                    count += 1
                    s = slots.knext[s]
    return found[np.argsort(times)]


@compiled
def _leave_away(slots: Any, lists: Any, keys: Any, s: int) -> None:  # pragma: no cover - compiled
    """Take a tuple out of the list and the chain of those on disk or in a purge buffer."""
    leave_list(slots, lists, keys, s)
    before, after = slots.kprev[s], slots.knext[s]
    if before >= 0:
        slots.knext[before] = after
    else:
        keys.chain[AWAY + (slots.home[s] & 1), slots.kid[s]] = after
    if after >= 0:
        slots.kprev[after] = before


@compiled
def _forget_away(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, s: int) -> None:  # pragma: no cover - compiled
    """Remove a tuple on disk or in a purge buffer."""
    _leave_away(slots, lists, keys, s)
    free_slot(slots, pcounts, book, s)


@compiled
def _grown(array: Any, capacity: int) -> Any:  # pragma: no cover - compiled
    larger = np.empty(capacity, np.int64)
    larger[: len(array)] = array
    return larger


@compiled
def _of_keys(slots: Any, members: Any, chosen: Any) -> Any:  # pragma: no cover - compiled
    """The members whose key is chosen, in their order."""
    found = np.empty(len(members), np.int64)
    count = 0
    for i in range(len(members)):
        if chosen[slots.kid[members[i]]]:
            found[count] = members[i]
            count += 1
    return found[:count]


@compiled
def flush(
    slots: Any, lists: Any, keys: Any, book: Any, due: Any, number: int, side: int, bucket: int, chosen: Any
) -> Any:  # pragma: no cover - compiled
    """Move the memory portion of a bucket, or the chosen keys of it, to its disk portion; returns the slots by arrival.

    `chosen` has a flag for each key, or is empty: then everything moves.
    """
    book[CLOCK] += 1
    home = MEMORY + side
    moved = _members(slots, lists, keys, book, number, home, bucket)
    if len(chosen):
        moved = _of_keys(slots, moved, chosen)
    for i in range(len(moved)):
        s = moved[i]
        kid = slots.kid[s]
        if book[LINKED]:
            leave_list(slots, lists, keys, s)
        else:
            lists[home, bucket, SIZE] -= 1
        keys.chain[side, kid] = -1
        slots.dts[s] = book[CLOCK]
        link(slots, lists, keys, book, s, DISK + side)
        if keys.closed[1 - side, kid]:
            due[bucket] = 1
    book[IN_MEMORY] -= len(moved)
    book[SPILLED] += len(moved)
    return moved


@compiled
def fetch(slots: Any, lists: Any, keys: Any, book: Any, side: int, bucket: int, chosen: Any) -> Any:  # pragma: no cover - compiled
    """Bring the tuples of chosen keys back from the disk portion of a bucket; returns their slots by arrival.

    The bucket must be complete, so that no pair of tuples that have arrived is missing: then a tuple that is in memory from
    now on is as one that never left.
    """
    book[CLOCK] += 1
    moved = _of_keys(slots, _members(slots, lists, keys, book, 0, DISK + side, bucket), chosen)
    for i in range(len(moved)):
        s = moved[i]
        _leave_away(slots, lists, keys, s)
        slots.dts[s] = NEVER_LEFT
        link(slots, lists, keys, book, s, MEMORY + side)
        # Chains begin with the last arrival: tuples that came since the flush go before.
        kid = slots.kid[s]
        before, after = np.int64(-1), np.int64(slots.knext[s])
        while after >= 0 and slots.ats[after] > slots.ats[s]:
            before, after = after, np.int64(slots.knext[after])
        if before >= 0:
            keys.chain[side, kid] = slots.knext[s]
            slots.knext[before] = s
            slots.knext[s] = after
    book[IN_MEMORY] += len(moved)
    book[FETCHED] += len(moved)
    return moved


# -- disk joins -------------------------------------------------------------------------------------------------------


@compiled
def _met_in_memory(slots: Any, a: int, b: int) -> bool:  # pragma: no cover - compiled
    """Whether the later of two tuples arrived while the earlier was in memory."""
    if slots.ats[a] < slots.ats[b]:
        return bool(slots.ats[b] < slots.dts[a])
    return bool(slots.ats[a] < slots.dts[b])


@compiled
def _was_probed(slots: Any, probes: Any, away: int, met: int) -> bool:  # pragma: no cover - compiled
    """Whether an earlier probe used the first tuple from disk while the second was in memory."""
    for i in range(len(probes)):
        if slots.dts[away] <= probes[i, 0] and slots.ats[met] <= probes[i, 1] and probes[i, 1] <= slots.dts[met]:
            return True
    return False


@compiled
def complete_bucket(
    slots: Any, lists: Any, keys: Any, book: Any, number: int, bucket: int, full: int, probes0: Any, probes1: Any
) -> Any:  # pragma: no cover - compiled
    """All pairs of a bucket not produced before; `full` is the time of its last completion.

    Two tuples that had both arrived by then are done; chains begin with the last arrival, so a walk may stop there.
    """
    book[CLOCK] += 1
    book[DISK_JOINS] += 1
    book[REREAD] += lists[DISK, bucket, SIZE] + lists[DISK + 1, bucket, SIZE]
    capacity, count = 256, 0
    left = np.empty(capacity, np.int64)
    right = np.empty(capacity, np.int64)
    for home in range(MEMORY, HOMES, 2):
        members = _members(slots, lists, keys, book, number, home, bucket)
        for i in range(len(members)):
            a = members[i]
            for kind in range(0, 2 * AWAY, AWAY):
                b = keys.chain[kind + 1, slots.kid[a]]
                while b >= 0:
                    if slots.ats[a] <= full and slots.ats[b] <= full:
                        break
                    done = _met_in_memory(slots, a, b) or _was_probed(slots, probes0, a, b)
                    if not done and not _was_probed(slots, probes1, b, a):
                        if count == capacity:
                            capacity *= 2
                            left = _grown(left, capacity)
                            right = _grown(right, capacity)
                        left[count] = slots.row[a]
                        right[count] = slots.row[b]
                        count += 1
                    b = slots.knext[b]
    book[RESULTS] += count
    return left[:count], right[:count]


@compiled
def settle_bucket(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, bucket: int) -> None:  # pragma: no cover - compiled
    """After a completion: empty the purge buffer, and remove what is on disk and useless."""
    for side in range(2):
        s = lists[BUFFER + side, bucket, HEAD]
        while s >= 0:
            after = slots.next[s]
            _forget_away(slots, lists, keys, pcounts, book, s)
            s = after
        s = lists[DISK + side, bucket, HEAD]
        while s >= 0:
            after = slots.next[s]
            if keys.closed[1 - side, slots.kid[s]]:
                _forget_away(slots, lists, keys, pcounts, book, s)
            s = after


@compiled
def probe_away(
    slots: Any, lists: Any, keys: Any, book: Any, side: int, bucket: int, full: int, probes: Any, others: Any
) -> Any:  # pragma: no cover - compiled
    """Stage 2: what is away probes the partner's memory. Returns rows of this and of the other side, and the newest DTS used.

    The purge buffer takes part besides the disk portion: otherwise the history, which only knows when a tuple left memory,
    would claim pairs of buffered tuples that no probe has seen.
    """
    book[CLOCK] += 1
    book[DISK_JOINS] += 1
    book[REREAD] += lists[DISK + side, bucket, SIZE]
    capacity, count, newest = 256, 0, np.int64(-1)
    mine = np.empty(capacity, np.int64)
    theirs = np.empty(capacity, np.int64)
    for portion in (DISK, BUFFER):
        members = _members(slots, lists, keys, book, 0, portion + side, bucket)
        for i in range(len(members)):
            a = members[i]
            newest = max(newest, slots.dts[a])
            b = keys.chain[1 - side, slots.kid[a]]
            while b >= 0:
                if slots.ats[a] <= full and slots.ats[b] <= full:
                    break
                done = _met_in_memory(slots, a, b) or _was_probed(slots, probes, a, b)
                if not done and not _was_probed(slots, others, b, a):
                    if count == capacity:
                        capacity *= 2
                        mine = _grown(mine, capacity)
                        theirs = _grown(theirs, capacity)
                    mine[count] = slots.row[a]
                    theirs[count] = slots.row[b]
                    count += 1
                b = slots.knext[b]
    book[RESULTS] += count
    return mine[:count], theirs[:count], newest


# -- punctuation index ------------------------------------------------------------------------------------------------


@compiled
def index_keys(
    slots: Any, keys: Any, pcounts: Any, book: Any, side: int, kids: Any, pids: Any, scans: bool
) -> None:  # pragma: no cover - compiled
    """Charge the tuples of each key that have no punctuation yet, wherever they are, to the key's punctuation.

    A scan would test every tuple without punctuation; that many tests are counted then.
    """
    chain, pid_of, knext = keys.chain, slots.pid, slots.knext
    for i in range(len(kids)):
        if scans:
            book[INDEX_TESTS] += book[NULLS + side]
        for kind in range(0, 2 * AWAY, AWAY):
            s = np.int64(chain[kind + side, kids[i]])
            while s >= 0:
                if pid_of[s] < 0:
                    pid_of[s] = pids[i]
                    pcounts[side, pids[i]] += 1
                    book[NULLS + side] -= 1
                    if not scans:
                        book[INDEX_TESTS] += 1
                s = np.int64(knext[s])


@compiled
def index_slots(slots: Any, pcounts: Any, book: Any, side: int, chosen: Any, pid: int) -> None:  # pragma: no cover - compiled
    """Charge chosen tuples to one punctuation."""
    for i in range(len(chosen)):
        slots.pid[chosen[i]] = pid
    pcounts[side, pid] += len(chosen)
    book[NULLS + side] -= len(chosen)


@compiled
def unindexed_slots(slots: Any, side: int) -> Any:  # pragma: no cover - compiled
    """Stored tuples of a side without punctuation."""
    found = np.empty(len(slots.row), np.int64)
    count = 0
    for s in range(len(slots.row)):
        if slots.home[s] >= 0 and slots.home[s] & 1 == side and slots.pid[s] < 0:
            found[count] = s
            count += 1
    return found[:count]


@compiled
def fresh_by_bucket(slots: Any, keys: Any, joined: Any) -> Any:  # pragma: no cover - compiled
    """Per side and bucket: tuples that left memory, and tuples that arrived and did not, since the bucket's last disk join."""
    fresh = np.zeros((2, len(joined), 2), np.int64)
    for s in range(len(slots.row)):
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
