"""Compiled loops of PJoin and XJoin in memory: keys, chains, memory join, purge; one item at a time over arrays.

Logical time: each arrival, flush, purge and disk join is one tick. A tuple is in memory from its ATS until before its DTS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from penstock.columnar.compiling import njit
from penstock.operators.joins.pjoin.layout import (
    AWAY,
    BUFFER,
    BUFFERED,
    CLOCK,
    DISK,
    FREE,
    FREE_SLOT,
    HEAD,
    IN_MEMORY,
    INSERTED,
    LINKED,
    MEMORY,
    NEVER_LEFT,
    NULLS,
    ON_THE_FLY,
    ORDERED,
    PROBED,
    PURGED,
    RESULTS,
    SCANNED,
    SIZE,
    STORED0,
    TAIL,
)

Loop = TypeVar("Loop", bound=Callable[..., Any])

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def compiled(loop: Loop) -> Loop:
    """Compile once and keep the result beside the module, without losing the signature."""
    return njit(cache=True)(loop)


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
def fresh_keys(keys: Any, words: Any, start: int, buckets: int) -> None:  # pragma: no cover - compiled
    """Give new keys their bucket (multiplicative hash: neighbours go far apart) and empty chains."""
    for i in range(len(words)):
        kid = start + i
        spread = (words[i] * _MULTIPLIER) >> np.uint64(32)
        keys.bucket[kid] = np.int64((spread * np.uint64(buckets)) >> np.uint64(32))
        keys.closed[:, kid] = 0
        keys.chain[:, kid] = -1
        keys.pending[kid] = 0
        keys.out[kid] = 0
        keys.marked[kid] = 0


@compiled
def close_keys(keys: Any, due: Any, side: int, kids: Any) -> Any:  # pragma: no cover - compiled
    """Mark keys as closed by a side; returns those that were not, and notes buckets with rows away that are now useless."""
    victim = 1 - side
    fresh = np.empty(len(kids), np.int64)
    count = 0
    for i in range(len(kids)):
        kid = kids[i]
        if keys.closed[side, kid]:
            continue
        keys.closed[side, kid] = 1
        fresh[count] = kid
        count += 1
        if keys.chain[AWAY + victim, kid] >= 0:
            due[keys.bucket[kid]] = 1
    return fresh[:count]


# -- lists and chains -------------------------------------------------------------------------------------------------


@compiled
def link(slots: Any, lists: Any, keys: Any, book: Any, s: Any, home: int) -> None:  # pragma: no cover - compiled
    """Put a slot at the end of a home, and into its key's chain, the last arrived first.

    In memory a chain is pushed at its front and only ever taken as a whole; bucket lists are kept there only for scans.
    """
    kid = slots.kid[s]
    bucket = keys.bucket[kid]
    slots.home[s] = home
    lists[home, bucket, SIZE] += 1
    if home >= DISK or book[LINKED]:
        tail = lists[home, bucket, TAIL]
        slots.next[s] = -1
        slots.prev[s] = tail
        if tail >= 0:
            slots.next[tail] = s
        else:
            lists[home, bucket, HEAD] = s
        lists[home, bucket, TAIL] = s
    if home < DISK:
        slots.knext[s] = keys.chain[home, kid]
        keys.chain[home, kid] = s
        return
    chain = AWAY + (home & 1)
    before, after = -1, keys.chain[chain, kid]
    # Almost always the front: only a lazy purge moves a tuple after one that arrived later.
    while after >= 0 and slots.ats[after] > slots.ats[s]:
        before, after = after, slots.knext[after]
    slots.kprev[s] = before
    slots.knext[s] = after
    if before >= 0:
        slots.knext[before] = s
    else:
        keys.chain[chain, kid] = s
    if after >= 0:
        slots.kprev[after] = s


@compiled
def leave_list(slots: Any, lists: Any, keys: Any, s: Any) -> None:  # pragma: no cover - compiled
    home, bucket = slots.home[s], keys.bucket[slots.kid[s]]
    before, after = slots.prev[s], slots.next[s]
    if before >= 0:
        slots.next[before] = after
    else:
        lists[home, bucket, HEAD] = after
    if after >= 0:
        slots.prev[after] = before
    else:
        lists[home, bucket, TAIL] = before
    lists[home, bucket, SIZE] -= 1


@compiled
def free_slot(slots: Any, pcounts: Any, book: Any, s: int) -> None:  # pragma: no cover - compiled
    """Give a slot back: the tuple is really removed, and only now the count of its punctuation goes down."""
    side = slots.home[s] & 1
    if slots.pid[s] >= 0:
        pcounts[side, slots.pid[s]] -= 1
    else:
        book[NULLS + side] -= 1
    book[STORED0 + side] -= 1
    book[PURGED] += 1
    if slots.home[s] >= DISK:
        slots.dts[s] = NEVER_LEFT
    slots.home[s] = FREE_SLOT
    slots.row[s] = -1
    slots.pid[s] = -1
    slots.free[book[FREE]] = s
    book[FREE] += 1


@compiled
def take_slot(slots: Any, book: Any, kid: int, row: int, ats: int) -> Any:  # pragma: no cover - compiled
    book[FREE] -= 1
    book[ORDERED] = min(book[ORDERED], book[FREE])
    s = slots.free[book[FREE]]
    slots.kid[s] = kid
    slots.row[s] = row
    slots.ats[s] = ats
    return s


@compiled
def place_tuples(
    slots: Any, lists: Any, keys: Any, book: Any, kids: Any, rows: Any, ats: Any, dts: Any, homes: Any, placed: Any
) -> None:  # pragma: no cover - compiled
    """Put stored tuples back where they were, in the order in which they got there; `placed` tells their slots."""
    for i in range(len(kids)):
        s = take_slot(slots, book, kids[i], rows[i], ats[i])
        placed[i] = s
        slots.dts[s] = dts[i]
        link(slots, lists, keys, book, s, homes[i])
        side = homes[i] & 1
        book[STORED0 + side] += 1
        book[NULLS + side] += 1
        if homes[i] < DISK:
            book[IN_MEMORY] += 1


# -- memory join ------------------------------------------------------------------------------------------------------


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
    # Local names, and no calls on the usual way: passing the arrays on costs more than what is done with them.
    chain, closed, bucket_of, is_linked = keys.chain, keys.closed, keys.bucket, book[LINKED] > 0
    row_of, ats_of, kid_of, home_of, knext = slots.row, slots.ats, slots.kid, slots.home, slots.knext
    following, preceding, free = slots.next, slots.prev, slots.free
    capacity = max(2 * (len(kids) - start), 1024)
    pairs = np.empty((2, capacity), np.int64)
    count = 0
    stop = len(kids)
    for i in range(start, len(kids)):
        kid, side = kids[i], sides[i]
        other = 1 - side
        bucket = bucket_of[kid]
        book[CLOCK] += 1
        before, compared = count, 0
        s = np.int64(lists[MEMORY + other, bucket, HEAD] if scans else chain[other, kid])
        while s >= 0:
            compared += 1
            if not scans or kid_of[s] == kid:
                if count == capacity:
                    capacity *= 2
                    larger = np.empty((2, capacity), np.int64)
                    larger[:, :count] = pairs
                    pairs = larger
                pairs[side, count] = rows[i]
                pairs[other, count] = row_of[s]
                count += 1
            s = np.int64(following[s] if scans else knext[s])
        book[PROBED] += compared
        book[RESULTS] += count - before
        on_disk = lists[DISK + other, bucket, SIZE] > 0
        if on_disk and chain[AWAY + other, kid] >= 0:
            arrived[bucket] = min(arrived[bucket], ts[i])
        is_full = False
        placed[i] = -1
        if closed[other, kid] or trusted[i]:
            if on_disk or (trusted[i] and lists[BUFFER + other, bucket, SIZE] > 0):
                placed[i] = take_slot(slots, book, kid, rows[i], book[CLOCK])
                slots.dts[placed[i]] = book[CLOCK]
                link(slots, lists, keys, book, placed[i], BUFFER + side)
                book[STORED0 + side] += 1
                book[NULLS + side] += 1
                book[BUFFERED] += 1
                due[bucket] = 1
                arrived[bucket] = min(arrived[bucket], ts[i])
            else:
                book[ON_THE_FLY] += 1
        else:
            book[FREE] -= 1
            book[ORDERED] = min(book[ORDERED], book[FREE])
            s = np.int64(free[book[FREE]])
            kid_of[s], row_of[s], ats_of[s], home_of[s] = kid, rows[i], book[CLOCK], MEMORY + side
            knext[s] = chain[side, kid]
            chain[side, kid] = s
            lists[MEMORY + side, bucket, SIZE] += 1
            if is_linked:
                tail = lists[MEMORY + side, bucket, TAIL]
                following[s], preceding[s] = -1, tail
                if tail >= 0:
                    following[tail] = s
                else:
                    lists[MEMORY + side, bucket, HEAD] = s
                lists[MEMORY + side, bucket, TAIL] = s
            placed[i] = s
            book[STORED0 + side] += 1
            book[NULLS + side] += 1
            book[IN_MEMORY] += 1
            book[INSERTED] += 1
            is_full = book[IN_MEMORY] >= limit
        if len(history):
            history[i, :] = book[STORED0:]
        if is_full:
            stop = i + 1
            break
    return stop, pairs[0, :count], pairs[1, :count]


# -- purge and relocation ---------------------------------------------------------------------------------------------


@compiled
def _purge(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, due: Any, side: int, kids: Any) -> None:
    """Remove the tuples of useless keys from memory, or keep them aside while the partner bucket has rows on disk."""
    chain, bucket_of, is_linked = keys.chain, keys.bucket, book[LINKED] > 0  # pragma: no cover - compiled
    row_of, pid_of, home_of, knext, free = slots.row, slots.pid, slots.home, slots.knext, slots.free
    for i in range(len(kids)):
        kid = kids[i]
        bucket = bucket_of[kid]
        s = np.int64(chain[side, kid])
        chain[side, kid] = -1
        is_partner_on_disk = lists[DISK + 1 - side, bucket, SIZE] > 0
        while s >= 0:
            after = np.int64(knext[s])
            book[IN_MEMORY] -= 1
            if is_linked:
                leave_list(slots, lists, keys, s)
            else:
                lists[MEMORY + side, bucket, SIZE] -= 1
            if is_partner_on_disk:
                slots.dts[s] = book[CLOCK]
                link(slots, lists, keys, book, s, BUFFER + side)
                book[BUFFERED] += 1
                due[bucket] = 1
            else:
                if pid_of[s] >= 0:
                    pcounts[side, pid_of[s]] -= 1
                else:
                    book[NULLS + side] -= 1
                book[STORED0 + side] -= 1
                book[PURGED] += 1
                home_of[s], row_of[s], pid_of[s] = FREE_SLOT, -1, -1
                free[book[FREE]] = s
                book[FREE] += 1
            s = after


@compiled
def purge_scan(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, due: Any, side: int) -> None:  # pragma: no cover
    """Walk the whole memory of a side and remove what the other side has closed."""
    book[CLOCK] += 1
    kid_of, following, closed, marked = slots.kid, slots.next, keys.closed, keys.marked
    useless = np.empty(book[IN_MEMORY], np.int64)
    count = 0
    for bucket in range(lists.shape[1]):
        s = np.int64(lists[MEMORY + side, bucket, HEAD])
        while s >= 0:
            book[SCANNED] += 1
            kid = kid_of[s]
            if closed[1 - side, kid] and not marked[kid]:
                marked[kid] = 1
                useless[count] = kid
                count += 1
            s = np.int64(following[s])
    for i in range(count):
        marked[useless[i]] = 0
    _purge(slots, lists, keys, pcounts, book, due, side, useless[:count])


@compiled
def purge_keys(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, due: Any, side: int, kids: Any) -> None:
    """Remove what is in memory of the given closed keys."""
    book[CLOCK] += 1  # pragma: no cover - compiled
    before = book[IN_MEMORY]
    _purge(slots, lists, keys, pcounts, book, due, side, kids)
    book[SCANNED] += before - book[IN_MEMORY]


@compiled
def clear_slots(slots: Any, lists: Any, keys: Any, pcounts: Any, book: Any, number: int) -> None:  # pragma: no cover - compiled
    """Remove everything that is stored."""
    for s in range(len(slots.row)):
        if slots.home[s] >= 0:
            free_slot(slots, pcounts, book, s)
    keys.chain[:, :number] = -1
    lists[:, :, HEAD] = -1
    lists[:, :, TAIL] = -1
    lists[:, :, SIZE] = 0
    book[IN_MEMORY] = 0


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
