"""Compiled loops of PJoin and XJoin: one item at a time over arrays.

A stored tuple is an entry of `slots`. It is in exactly one *home* (portion and side) of its bucket, and in one chain of its
key (memory, or away: disk and purge buffer), the last arrived first. `keys` has one row per distinct key, `book` the clock
and the counters. Punctuation counts are `pcounts[side, pid]`.

Logical time: each arrival, flush, purge and disk join is one tick. A tuple is in memory from its ATS until before its DTS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile once and keep the result beside the module, without losing the signature."""
    return cast(Loop, njit(cache=True)(loop))


#: A stored tuple. What a probe needs comes first: the rest may be on another cache line.
SLOT = np.dtype(
    [
        ("row", np.int64),
        ("ats", np.int64),
        ("kid", np.int32),
        ("knext", np.int32),
        ("home", np.int32),
        ("pid", np.int32),
        ("kprev", np.int32),
        ("next", np.int32),
        ("prev", np.int32),
        ("unused", np.int32),
        ("dts", np.int64),
    ]
)
#: Homes: portion plus side.
MEMORY, DISK, BUFFER = 0, 2, 4
HOMES = 6
FREE_SLOT = -1
#: Last index of `lists[home, bucket]`.
HEAD, TAIL, SIZE = range(3)
#: Columns of `keys`: bucket, closed by side 0 and 1, first of the chains in memory of side 0 and 1 and away of side 0 and 1,
#: pending punctuations, closed in the output, seen by a scan.
BUCKET, CLOSED, CHAIN, PENDING, OUT, MARKED = 0, 1, 3, 7, 8, 9
KEY_FIELDS = 16
AWAY = 2
#: Places of `book`.
CLOCK, FREE, NULLS, LINKED = 0, 1, 2, 4
STORED0, STORED1, IN_MEMORY, FIRST_COUNTER = 5, 6, 7, 8
(
    RESULTS,
    PROBED,
    SCANNED,
    PURGED,
    ON_THE_FLY,
    INSERTED,
    BUFFERED,
    SPILLED,
    REREAD,
    DISK_JOINS,
    INDEX_TESTS,
    PURGES,
    PROPAGATED,
    SUPPRESSED,
    ANNOUNCED,
) = range(FIRST_COUNTER, FIRST_COUNTER + 15)
BOOK_FIELDS = FIRST_COUNTER + 15
#: Names of the counters, in the order of their places.
COUNTERS = (
    "results",
    "probe_comparisons",
    "purge_scanned",
    "purged",
    "purged_on_the_fly",
    "inserts",
    "buffered",
    "tuples_spilled",
    "tuples_reread",
    "disk_joins",
    "index_tests",
    "purges",
    "propagated",
    "suppressed",
    "punctuations_in",
)

NEVER_LEFT = np.int64(2**63 - 1)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


# -- keys -------------------------------------------------------------------------------------------------------------


@compiled
def intern(codes: Any, table: Any, known: Any, number: int, kids: Any, first: Any) -> int:  # pragma: no cover - compiled
    """Number codes: `kids[i]` is the number of `codes[i]`, `first[k - number]` the row where new number k stands first."""
    mask = len(table) - 1
    start = number
    for i in range(len(codes)):
        code = codes[i]
        at = np.int64((np.uint64(code) * _MULTIPLIER) >> np.uint64(20)) & mask
        while table[at] >= 0 and known[table[at]] != code:
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = number
            known[number] = code
            first[number - start] = i
            number += 1
        kids[i] = table[at]
    return number


@compiled
def fill_table(table: Any, known: Any, number: int) -> None:  # pragma: no cover - compiled
    mask = len(table) - 1
    for kid in range(number):
        at = np.int64((np.uint64(known[kid]) * _MULTIPLIER) >> np.uint64(20)) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = kid


@compiled
def fresh_keys(keys: Any, codes: Any, start: int, stop: int, buckets: int) -> None:  # pragma: no cover - compiled
    """Give new keys their bucket (multiplicative hash) and empty chains."""
    for kid in range(start, stop):
        keys[kid, :] = -1
        keys[kid, BUCKET] = np.int64(((np.uint64(codes[kid]) * _MULTIPLIER) >> np.uint64(32)) % np.uint64(buckets))
        keys[kid, CLOSED] = 0
        keys[kid, CLOSED + 1] = 0
        keys[kid, PENDING] = 0
        keys[kid, OUT] = 0
        keys[kid, MARKED] = 0


@compiled
def close_keys(keys: Any, due: Any, side: int, kids: Any) -> Any:  # pragma: no cover - compiled
    """Mark keys as closed by a side; returns those that were not, and notes buckets with rows away that are now useless."""
    victim = 1 - side
    fresh = np.empty(len(kids), np.int64)
    count = 0
    for i in range(len(kids)):
        kid = kids[i]
        if keys[kid, CLOSED + side]:
            continue
        keys[kid, CLOSED + side] = 1
        fresh[count] = kid
        count += 1
        if keys[kid, CHAIN + AWAY + victim] >= 0:
            due[keys[kid, BUCKET]] = 1
    return fresh[:count]


# -- lists and chains -------------------------------------------------------------------------------------------------


@compiled
def _link(slots: Any, lists: Any, keys: Any, book: Any, s: int, home: int) -> None:  # pragma: no cover - compiled
    """Put a slot at the end of a home, and into its key's chain, the last arrived first.

    In memory a chain is pushed at its front and only ever taken as a whole; bucket lists are kept there only for scans.
    """
    kid = slots[s].kid
    bucket = keys[kid, BUCKET]
    slots[s].home = home
    lists[home, bucket, SIZE] += 1
    if home >= DISK or book[LINKED]:
        tail = lists[home, bucket, TAIL]
        slots[s].next = -1
        slots[s].prev = tail
        if tail >= 0:
            slots[tail].next = s
        else:
            lists[home, bucket, HEAD] = s
        lists[home, bucket, TAIL] = s
    if home < DISK:
        slots[s].knext = keys[kid, CHAIN + home]
        keys[kid, CHAIN + home] = s
        return
    chain = CHAIN + AWAY + (home & 1)
    before, after = -1, keys[kid, chain]
    # Almost always the front: only a lazy purge moves a tuple after one that arrived later.
    while after >= 0 and slots[after].ats > slots[s].ats:
        before, after = after, slots[after].knext
    slots[s].kprev = before
    slots[s].knext = after
    if before >= 0:
        slots[before].knext = s
    else:
        keys[kid, chain] = s
    if after >= 0:
        slots[after].kprev = s


@compiled
def _leave_list(slots: Any, lists: Any, keys: Any, s: int) -> None:  # pragma: no cover - compiled
    home, bucket = slots[s].home, keys[slots[s].kid, BUCKET]
    before, after = slots[s].prev, slots[s].next
    if before >= 0:
        slots[before].next = after
    else:
        lists[home, bucket, HEAD] = after
    if after >= 0:
        slots[after].prev = before
    else:
        lists[home, bucket, TAIL] = before
    lists[home, bucket, SIZE] -= 1


@compiled
def _free(slots: Any, pcounts: Any, book: Any, s: int) -> None:  # pragma: no cover - compiled
    """Give a slot back: the tuple is really removed, and only now the count of its punctuation goes down."""
    side = slots[s].home & 1
    if slots[s].pid >= 0:
        pcounts[side, slots[s].pid] -= 1
    else:
        book[NULLS + side] -= 1
    book[STORED0 + side] -= 1
    book[PURGED] += 1
    slots[s].home = FREE_SLOT
    slots[s].row = -1
    slots[s].knext = book[FREE]
    book[FREE] = s


@compiled
def _forget_away(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, s: int) -> None:  # pragma: no cover - compiled
    """Remove a tuple on disk or in a purge buffer."""
    _leave_list(slots, lists, keys, s)
    before, after = slots[s].kprev, slots[s].knext
    if before >= 0:
        slots[before].knext = after
    else:
        keys[slots[s].kid, CHAIN + AWAY + (slots[s].home & 1)] = after
    if after >= 0:
        slots[after].kprev = before
    _free(slots, pcounts, book, s)


@compiled
def free_slots(slots: Any, book: Any, start: int) -> None:  # pragma: no cover - compiled
    """Chain the slots from `start` on into the free list, lowest first."""
    for s in range(len(slots) - 1, start - 1, -1):
        slots[s].home = FREE_SLOT
        slots[s].row = -1
        slots[s].knext = book[FREE]
        book[FREE] = s


@compiled
def _take_slot(slots: Any, book: Any, kid: int, row: int, ats: int) -> Any:  # pragma: no cover - compiled
    s = book[FREE]
    book[FREE] = slots[s].knext
    slots[s].kid = kid
    slots[s].row = row
    slots[s].ats = ats
    slots[s].dts = NEVER_LEFT
    slots[s].pid = -1
    return s


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
            times[count] = slots[s].ats
            count += 1
            s = slots[s].next
    else:
        for kid in range(number):
            if keys[kid, BUCKET] == bucket:
                s = keys[kid, CHAIN + home]
                while s >= 0:
                    found[count] = s
                    times[count] = slots[s].ats
                    count += 1
                    s = slots[s].knext
    return found[np.argsort(times)]


@compiled
def place_tuples(
    slots: Any, lists: Any, keys: Any, book: Any, kids: Any, rows: Any, ats: Any, dts: Any, homes: Any, placed: Any
) -> None:  # pragma: no cover - compiled
    """Put stored tuples back where they were, in the order in which they got there; `placed` tells their slots."""
    for i in range(len(kids)):
        s = _take_slot(slots, book, kids[i], rows[i], ats[i])
        placed[i] = s
        slots[s].dts = dts[i]
        _link(slots, lists, keys, book, s, homes[i])
        side = homes[i] & 1
        book[STORED0 + side] += 1
        book[NULLS + side] += 1
        if homes[i] < DISK:
            book[IN_MEMORY] += 1


# -- memory join ------------------------------------------------------------------------------------------------------


@compiled
def _grown(array: Any, capacity: int) -> Any:  # pragma: no cover - compiled
    larger = np.empty(capacity, np.int64)
    larger[: len(array)] = array
    return larger


@compiled
def join_tuples(
    slots: Any,
    lists: Any,
    keys: Any,
    book: Any,
    due: Any,
    arrived: Any,
    sides: Any,
    kids: Any,
    rows: Any,
    ts: Any,
    trusted: Any,
    start: int,
    limit: int,
    scans: bool,
    placed: Any,
    history: Any,
) -> Any:  # pragma: no cover - compiled
    """Probe, then store or purge on the fly, tuple after tuple; stops early when memory is full.

    Returns where it stopped, and the pairs as rows of side 0 and of side 1. `placed` tells the slot of each tuple, -1 where
    it is not stored; `arrived[bucket]` the least time of tuples whose partners may be on disk.
    """
    capacity = max(2 * (len(kids) - start), 1024)
    pairs = (np.empty(capacity, np.int64), np.empty(capacity, np.int64))
    count = 0
    stop = len(kids)
    for i in range(start, len(kids)):
        kid, side = kids[i], sides[i]
        other = 1 - side
        bucket = keys[kid, BUCKET]
        book[CLOCK] += 1
        before, compared = count, 0
        s = lists[MEMORY + other, bucket, HEAD] if scans else keys[kid, CHAIN + other]
        while s >= 0:
            compared += 1
            if not scans or slots[s].kid == kid:
                if count == capacity:
                    capacity *= 2
                    pairs = (_grown(pairs[0], capacity), _grown(pairs[1], capacity))
                pairs[side][count] = rows[i]
                pairs[other][count] = slots[s].row
                count += 1
            s = slots[s].next if scans else slots[s].knext
        book[PROBED] += compared
        book[RESULTS] += count - before
        on_disk = lists[DISK + other, bucket, SIZE] > 0
        if on_disk:
            arrived[bucket] = min(arrived[bucket], ts[i])
        is_full = False
        s = -1
        if keys[kid, CLOSED + other] or trusted[i]:
            if on_disk or (trusted[i] and lists[BUFFER + other, bucket, SIZE] > 0):
                s = _take_slot(slots, book, kid, rows[i], book[CLOCK])
                slots[s].dts = book[CLOCK]
                _link(slots, lists, keys, book, s, BUFFER + side)
                book[STORED0 + side] += 1
                book[NULLS + side] += 1
                book[BUFFERED] += 1
                due[bucket] = 1
                arrived[bucket] = min(arrived[bucket], ts[i])
            else:
                book[ON_THE_FLY] += 1
        else:
            s = _take_slot(slots, book, kid, rows[i], book[CLOCK])
            _link(slots, lists, keys, book, s, MEMORY + side)
            book[STORED0 + side] += 1
            book[NULLS + side] += 1
            book[IN_MEMORY] += 1
            book[INSERTED] += 1
            is_full = book[IN_MEMORY] >= limit
        placed[i] = s
        if len(history):
            history[i, :] = book[STORED0:]
        if is_full:
            stop = i + 1
            break
    return stop, pairs[0][:count], pairs[1][:count]


# -- purge and relocation ---------------------------------------------------------------------------------------------


@compiled
def _purge_key(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, due: Any, side: int, kid: int) -> None:
    """Remove the tuples of a useless key from memory, or keep them aside while the partner bucket has rows on disk."""
    bucket = keys[kid, BUCKET]  # pragma: no cover - compiled
    is_partner_on_disk = lists[DISK + 1 - side, bucket, SIZE] > 0
    s = keys[kid, CHAIN + side]
    keys[kid, CHAIN + side] = -1
    while s >= 0:
        after = slots[s].knext
        book[IN_MEMORY] -= 1
        if book[LINKED]:
            _leave_list(slots, lists, keys, s)
        else:
            lists[MEMORY + side, bucket, SIZE] -= 1
        if is_partner_on_disk:
            slots[s].dts = book[CLOCK]
            _link(slots, lists, keys, book, s, BUFFER + side)
            book[BUFFERED] += 1
            due[bucket] = 1
        else:
            _free(slots, pcounts, book, s)
        s = after


@compiled
def purge_scan(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, due: Any, side: int) -> None:  # pragma: no cover
    """Walk the whole memory of a side and remove what the other side has closed."""
    book[CLOCK] += 1
    useless = np.empty(book[IN_MEMORY], np.int64)
    count = 0
    for bucket in range(lists.shape[1]):
        s = lists[MEMORY + side, bucket, HEAD]
        while s >= 0:
            book[SCANNED] += 1
            kid = slots[s].kid
            if keys[kid, CLOSED + 1 - side] and not keys[kid, MARKED]:
                keys[kid, MARKED] = 1
                useless[count] = kid
                count += 1
            s = slots[s].next
    for i in range(count):
        keys[useless[i], MARKED] = 0
        _purge_key(slots, lists, keys, pcounts, book, due, side, useless[i])


@compiled
def purge_keys(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, due: Any, side: int, kids: Any) -> None:
    """Remove what is in memory of the given closed keys."""
    book[CLOCK] += 1  # pragma: no cover - compiled
    before = book[IN_MEMORY]
    for i in range(len(kids)):
        _purge_key(slots, lists, keys, pcounts, book, due, side, kids[i])
    book[SCANNED] += before - book[IN_MEMORY]


@compiled
def flush(
    slots: Any, lists: Any, keys: Any, book: Any, due: Any, number: int, side: int, bucket: int
) -> Any:  # pragma: no cover - compiled
    """Move the memory portion of a bucket to its disk portion; returns the slots by arrival."""
    book[CLOCK] += 1
    home = MEMORY + side
    moved = _members(slots, lists, keys, book, number, home, bucket)
    lists[home, bucket, HEAD] = -1
    lists[home, bucket, TAIL] = -1
    lists[home, bucket, SIZE] = 0
    for i in range(len(moved)):
        s = moved[i]
        kid = slots[s].kid
        keys[kid, CHAIN + side] = -1
        slots[s].dts = book[CLOCK]
        _link(slots, lists, keys, book, s, DISK + side)
        if keys[kid, CLOSED + 1 - side]:
            due[bucket] = 1
    book[IN_MEMORY] -= len(moved)
    book[SPILLED] += len(moved)
    return moved


# -- disk joins -------------------------------------------------------------------------------------------------------


@compiled
def _met_in_memory(slots: Any, a: int, b: int) -> bool:  # pragma: no cover - compiled
    """Whether the later of two tuples arrived while the earlier was in memory."""
    if slots[a].ats < slots[b].ats:
        return bool(slots[b].ats < slots[a].dts)
    return bool(slots[a].ats < slots[b].dts)


@compiled
def _was_probed(probes: Any, away: Any, met: Any) -> bool:  # pragma: no cover - compiled
    """Whether an earlier probe used the first tuple from disk while the second was in memory."""
    for i in range(len(probes)):  # noqa: SIM110 - generators cannot be compiled
        if away.dts <= probes[i, 0] and met.ats <= probes[i, 1] and probes[i, 1] <= met.dts:
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
                b = keys[slots[a].kid, CHAIN + kind + 1]
                while b >= 0:
                    if slots[a].ats <= full and slots[b].ats <= full:
                        break
                    done = _met_in_memory(slots, a, b) or _was_probed(probes0, slots[a], slots[b])
                    if not done and not _was_probed(probes1, slots[b], slots[a]):
                        if count == capacity:
                            capacity *= 2
                            left = _grown(left, capacity)
                            right = _grown(right, capacity)
                        left[count] = slots[a].row
                        right[count] = slots[b].row
                        count += 1
                    b = slots[b].knext
    book[RESULTS] += count
    return left[:count], right[:count]


@compiled
def settle_bucket(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, bucket: int) -> None:  # pragma: no cover - compiled
    """After a completion: empty the purge buffer, and remove what is on disk and useless."""
    for side in range(2):
        s = lists[BUFFER + side, bucket, HEAD]
        while s >= 0:
            after = slots[s].next
            _forget_away(slots, lists, keys, pcounts, book, s)
            s = after
        s = lists[DISK + side, bucket, HEAD]
        while s >= 0:
            after = slots[s].next
            if keys[slots[s].kid, CLOSED + 1 - side]:
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
            newest = max(newest, slots[a].dts)
            b = keys[slots[a].kid, CHAIN + 1 - side]
            while b >= 0:
                if slots[a].ats <= full and slots[b].ats <= full:
                    break
                done = _met_in_memory(slots, a, b) or _was_probed(probes, slots[a], slots[b])
                if not done and not _was_probed(others, slots[b], slots[a]):
                    if count == capacity:
                        capacity *= 2
                        mine = _grown(mine, capacity)
                        theirs = _grown(theirs, capacity)
                    mine[count] = slots[a].row
                    theirs[count] = slots[b].row
                    count += 1
                b = slots[b].knext
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
    for i in range(len(kids)):
        if scans:
            book[INDEX_TESTS] += book[NULLS + side]
        for kind in range(0, 2 * AWAY, AWAY):
            s = keys[kids[i], CHAIN + kind + side]
            while s >= 0:
                if slots[s].pid < 0:
                    slots[s].pid = pids[i]
                    pcounts[side, pids[i]] += 1
                    book[NULLS + side] -= 1
                    if not scans:
                        book[INDEX_TESTS] += 1
                s = slots[s].knext


@compiled
def index_slots(slots: Any, pcounts: Any, book: Any, side: int, chosen: Any, pid: int) -> None:  # pragma: no cover - compiled
    """Charge chosen tuples to one punctuation."""
    for i in range(len(chosen)):
        slots[chosen[i]].pid = pid
    pcounts[side, pid] += len(chosen)
    book[NULLS + side] -= len(chosen)


@compiled
def unindexed_slots(slots: Any, side: int) -> Any:  # pragma: no cover - compiled
    """Stored tuples of a side without punctuation."""
    found = np.empty(len(slots), np.int64)
    count = 0
    for s in range(len(slots)):
        if slots[s].home >= 0 and slots[s].home & 1 == side and slots[s].pid < 0:
            found[count] = s
            count += 1
    return found[:count]


@compiled
def clear_slots(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, number: int) -> None:  # pragma: no cover - compiled
    """Remove everything that is stored."""
    for s in range(len(slots)):
        if slots[s].home >= 0:
            _free(slots, pcounts, book, s)
    keys[:number, CHAIN : CHAIN + 2 * AWAY] = -1
    lists[:, :, HEAD] = -1
    lists[:, :, TAIL] = -1
    lists[:, :, SIZE] = 0
    book[IN_MEMORY] = 0


@compiled
def fresh_by_bucket(slots: Any, keys: Any, joined: Any) -> Any:  # pragma: no cover - compiled
    """Per side and bucket: tuples that left memory, and tuples that arrived and did not, since the bucket's last disk join."""
    fresh = np.zeros((2, len(joined), 2), np.int64)
    for s in range(len(slots)):
        home = slots[s].home
        if home < 0:
            continue
        bucket = keys[slots[s].kid, BUCKET]
        if home >= DISK:
            if slots[s].dts > joined[bucket]:
                fresh[home & 1, bucket, 0] += 1
        elif slots[s].ats > joined[bucket]:
            fresh[home & 1, bucket, 1] += 1
    return fresh


# -- rows -------------------------------------------------------------------------------------------------------------


@compiled
def split_by_segment(starts: Any, rows: Any) -> Any:  # pragma: no cover - compiled
    """Order of rows by the segment they are in (starts ascend), stable, and where each segment's part begins."""
    count = len(starts)
    bounds = np.zeros(count + 1, np.int64)
    where = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        low, high = 0, count
        while high - low > 1:
            mid = (low + high) >> 1
            if starts[mid] <= rows[i]:
                low = mid
            else:
                high = mid
        where[i] = low
        bounds[low + 1] += 1
    for k in range(count):
        bounds[k + 1] += bounds[k]
    order = np.empty(len(rows), np.int64)
    place = bounds[:-1].copy()
    for i in range(len(rows)):
        order[place[where[i]]] = i
        place[where[i]] += 1
    return order, bounds
