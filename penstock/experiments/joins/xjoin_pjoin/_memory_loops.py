"""Compiled loops of PJoin and XJoin in memory: keys, chains, memory join, purge; one tuple at a time over arrays.

Logical time: each arrival, flush, purge and disk join is one tick. A tuple is in memory from its ATS until before its DTS.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import compiled, entrance
from penstock.experiments.joins._hashing import bucket_of, slot_of
from penstock.experiments.joins.items import Fate
from penstock.experiments.joins.xjoin_pjoin.layout import (
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
    MEMORY,
    NEVER_LEFT,
    NULLS,
    ON_THE_FLY,
    PROBED,
    PURGED,
    RESULTS,
    SCANNED,
    SIZE,
    STORED,
    TAIL,
    VIOLATIONS,
)

_STORED, _ON_THE_FLY, _VIOLATION = int(Fate.STORED), int(Fate.PURGED_ON_THE_FLY), int(Fate.VIOLATION)


# -- keys -------------------------------------------------------------------------------------------------------------


@entrance
def number_keys(values: Any, table: Any, keys: Any, number: int, buckets: int) -> Any:
    """The number of each key, and how many are known then; `table` and `keys` have room for all of them."""
    kids = np.empty(len(values), np.int64)
    for i in range(len(values)):
        slot = slot_of(table, keys.value, values[i])
        if table[slot] < 0:
            table[slot] = number
            keys.value[number] = values[i]
            keys.bucket[number] = bucket_of(values[i], buckets)
            number += 1
        kids[i] = table[slot]
    return kids, number


@entrance
def fill_table(table: Any, keys: Any, number: int) -> None:
    """Enter all known keys into a new table."""
    for kid in range(number):
        table[slot_of(table, keys.value, keys.value[kid])] = kid


@entrance
def close_keys(keys: Any, due: Any, side: int, kids: Any) -> Any:
    """Mark keys as closed by a side; returns those that were not, and notes buckets with tuples away that are now useless."""
    fresh = np.empty(len(kids), np.int64)
    count = 0
    for i in range(len(kids)):
        kid = kids[i]
        if not keys.closed[side, kid]:
            keys.closed[side, kid] = 1
            fresh[count] = kid
            count += 1
            if keys.chain[AWAY + 1 - side, kid] >= 0:
                due[keys.bucket[kid]] = 1
    return fresh[:count]


# -- lists and chains -------------------------------------------------------------------------------------------------


@compiled
def link(slots: Any, lists: Any, keys: Any, s: Any, home: Any) -> None:
    """Put a slot at the end of a home, and into its key's chain, the last arrived first."""
    kid = slots.kid[s]
    bucket = keys.bucket[kid]
    slots.home[s] = home
    lists[home, bucket, SIZE] += 1
    tail = lists[home, bucket, TAIL]
    slots.after[s] = -1
    slots.before[s] = tail
    if tail >= 0:
        slots.after[tail] = s
    else:
        lists[home, bucket, HEAD] = s
    lists[home, bucket, TAIL] = s
    if home < DISK:
        # In memory a chain is pushed at its front and only ever taken as a whole.
        slots.after_in_key[s] = keys.chain[home, kid]
        keys.chain[home, kid] = s
        return
    chain = AWAY + (home & 1)
    before, after = np.int64(-1), np.int64(keys.chain[chain, kid])
    # Almost always the front: only a lazy purge moves a tuple after one that arrived later.
    while after >= 0 and slots.ats[after] > slots.ats[s]:
        before, after = after, np.int64(slots.after_in_key[after])
    slots.before_in_key[s] = before
    slots.after_in_key[s] = after
    if before >= 0:
        slots.after_in_key[before] = s
    else:
        keys.chain[chain, kid] = s
    if after >= 0:
        slots.before_in_key[after] = s


@compiled
def leave_list(slots: Any, lists: Any, keys: Any, s: Any) -> None:
    """Take a slot out of the list of its home."""
    home, bucket = slots.home[s], keys.bucket[slots.kid[s]]
    before, after = slots.before[s], slots.after[s]
    if before >= 0:
        slots.after[before] = after
    else:
        lists[home, bucket, HEAD] = after
    if after >= 0:
        slots.before[after] = before
    else:
        lists[home, bucket, TAIL] = before
    lists[home, bucket, SIZE] -= 1


@compiled
def free_slot(slots: Any, charges: Any, book: Any, s: Any) -> None:
    """Give a slot back: the tuple is really removed, and only now the count of its punctuation goes down."""
    side = slots.home[s] & 1
    if slots.pid[s] >= 0:
        charges[slots.pid[s]] -= 1
    else:
        book[NULLS + side] -= 1
    book[STORED + side] -= 1
    book[PURGED] += 1
    slots.dts[s] = NEVER_LEFT
    slots.home[s] = FREE_SLOT
    slots.item[s] = -1
    slots.pid[s] = -1
    slots.free[book[FREE]] = s
    book[FREE] += 1


@compiled
def _store(slots: Any, lists: Any, keys: Any, book: Any, kid: Any, item: Any, home: Any) -> Any:
    """Keep a tuple that arrives now."""
    book[FREE] -= 1
    s = np.int64(slots.free[book[FREE]])
    slots.kid[s] = kid
    slots.item[s] = item
    slots.ats[s] = book[CLOCK]
    link(slots, lists, keys, s, home)
    book[STORED + (home & 1)] += 1
    book[NULLS + (home & 1)] += 1
    return s


# -- memory join ------------------------------------------------------------------------------------------------------


@entrance
def join_tuples(
    slots: Any,
    lists: Any,
    keys: Any,
    book: Any,
    due: Any,
    sides: Any,
    kids: Any,
    first_item: int,
    start: int,
    limit: int,
    fates: Any,
) -> Any:
    """Probe, then store or purge on the fly, tuple after tuple; stops early when memory is full.

    Tuple i is item number `first_item + i`. Returns where it stopped, and the pairs as items of side 0 and of side 1.
    """
    # Local names, and no calls while buckets are walked: passing the arrays on costs more than a comparison.
    kid_of, item_of, following = slots.kid, slots.item, slots.after
    capacity = max(2 * (len(kids) - start), 1024)
    pairs = np.empty((2, capacity), np.int64)
    count = 0
    for i in range(start, len(kids)):
        kid, side = kids[i], sides[i]
        other, bucket = 1 - side, keys.bucket[kid]
        if keys.closed[side, kid]:
            book[VIOLATIONS] += 1
            fates[i] = _VIOLATION
            continue
        book[CLOCK] += 1
        before, compared = count, 0
        s = np.int64(lists[MEMORY + other, bucket, HEAD])
        while s >= 0:
            compared += 1
            if kid_of[s] == kid:
                if count == capacity:
                    capacity *= 2
                    larger = np.empty((2, capacity), np.int64)
                    larger[:, :count] = pairs
                    pairs = larger
                pairs[side, count] = first_item + i
                pairs[other, count] = item_of[s]
                count += 1
            s = np.int64(following[s])
        book[PROBED] += compared
        book[RESULTS] += count - before
        if not keys.closed[other, kid]:
            _store(slots, lists, keys, book, kid, first_item + i, MEMORY + side)
            book[IN_MEMORY] += 1
            book[INSERTED] += 1
            fates[i] = _STORED
            if book[IN_MEMORY] >= limit:
                return i + 1, pairs[0, :count], pairs[1, :count]
        else:
            fates[i] = _ON_THE_FLY
            if lists[DISK + other, bucket, SIZE] > 0:
                s = _store(slots, lists, keys, book, kid, first_item + i, BUFFER + side)
                slots.dts[s] = book[CLOCK]
                book[BUFFERED] += 1
                due[bucket] = 1
            else:
                book[ON_THE_FLY] += 1
    return len(kids), pairs[0, :count], pairs[1, :count]


# -- purge ------------------------------------------------------------------------------------------------------------


@compiled
def _purge(slots: Any, lists: Any, keys: Any, charges: Any, book: Any, due: Any, side: Any, kid: Any) -> None:
    """Remove the tuples of a useless key from memory, or keep them aside while the partner bucket has tuples on disk."""
    bucket = keys.bucket[kid]
    s = np.int64(keys.chain[side, kid])
    keys.chain[side, kid] = -1
    is_partner_on_disk = lists[DISK + 1 - side, bucket, SIZE] > 0
    while s >= 0:
        after = np.int64(slots.after_in_key[s])
        book[IN_MEMORY] -= 1
        leave_list(slots, lists, keys, s)
        if is_partner_on_disk:
            slots.dts[s] = book[CLOCK]
            link(slots, lists, keys, s, BUFFER + side)
            book[BUFFERED] += 1
            due[bucket] = 1
        else:
            free_slot(slots, charges, book, s)
        s = after


@entrance
def purge_scan(slots: Any, lists: Any, keys: Any, charges: Any, book: Any, due: Any, side: int) -> None:
    """Walk the whole memory of a side and remove what the other side has closed."""
    book[CLOCK] += 1
    kid_of, following, closed, marked = slots.kid, slots.after, keys.closed, keys.marked
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
        _purge(slots, lists, keys, charges, book, due, side, useless[i])


@entrance
def purge_keys(slots: Any, lists: Any, keys: Any, charges: Any, book: Any, due: Any, side: int, kids: Any) -> None:
    """Remove what is in memory of the given closed keys."""
    book[CLOCK] += 1
    before = book[IN_MEMORY]
    for i in range(len(kids)):
        _purge(slots, lists, keys, charges, book, due, side, kids[i])
    book[SCANNED] += before - book[IN_MEMORY]
