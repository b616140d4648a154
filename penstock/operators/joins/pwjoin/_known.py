"""What is remembered of keys without tuples: which streams announced them, and whether they have left the join.

Recent keys are in a hash table. From time to time they are merged into sorted intervals of keys of equal standing, so that
keys that finish in order cost next to nothing. Above a limit the oldest intervals are forgotten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled
from penstock.operators.joins.pwjoin.trace import LEAST_KEY

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(20)
#: Recent keys that are merged at once, unless there are many intervals already.
_GATHERED = 1024


@compiled
def note_change(m: Any, key: Any) -> None:
    """Keep the key for the next checkpoint; switched off where there are none."""
    if m.numbers[lay.LOG] >= 0:
        m.log[m.numbers[lay.LOG]] = key
        m.numbers[lay.LOG] += 1


@compiled
def _slot_of(m: Any, key: Any) -> Any:
    slots = len(m.recent) - 1
    slot = np.int64((np.uint64(key) * _MIX) >> _SHIFT) & slots
    while m.recent[slot, lay.R_USED] and m.recent[slot, lay.R_KEY] != key:
        slot = (slot + 1) & slots
    return slot


@compiled
def span_from(m: Any, key: Any) -> Any:
    """First interval that ends at or after the key."""
    low, high = 0, m.numbers[lay.SPANS]
    while low < high:
        middle = (low + high) >> 1
        if m.spans[middle, lay.S_HIGH] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def recall(m: Any, key: Any) -> Any:
    """Mask and status of a key that has no I-Node."""
    if m.numbers[lay.RECENT] == 0 and m.numbers[lay.SPANS] == 0:
        return 0, lay.OPEN
    m.counts[lay.N_MARKER_LOOKUPS] += 1
    return standing(m, key)


@compiled
def standing(m: Any, key: Any) -> Any:
    """Mask and status that are remembered of a key, without counting."""
    slot = _slot_of(m, key)
    if m.recent[slot, lay.R_USED]:
        if m.recent[slot, lay.R_MASK] == lay.MISSING:
            return 0, lay.OPEN
        return m.recent[slot, lay.R_MASK], m.recent[slot, lay.R_STATUS]
    at = span_from(m, key)
    if at < m.numbers[lay.SPANS] and m.spans[at, lay.S_LOW] <= key:
        return m.spans[at, lay.S_MASK], m.spans[at, lay.S_STATUS]
    return 0, lay.OPEN


@compiled
def remember(m: Any, key: Any, mask: Any, status: Any) -> None:
    """Remember a key without I-Node; forget it when all streams have closed it and nobody wants to know."""
    slot = _slot_of(m, key)
    if not m.recent[slot, lay.R_USED]:
        m.numbers[lay.RECENT] += 1
        m.recent[slot, lay.R_USED] = 1
        m.recent[slot, lay.R_KEY] = key
    m.numbers[lay.BORN] += 1
    m.recent[slot, lay.R_MASK] = lay.MISSING if mask == m.numbers[lay.ALL] and m.numbers[lay.FORGET] else mask
    m.recent[slot, lay.R_STATUS] = status
    m.recent[slot, lay.R_BORN] = m.numbers[lay.BORN]
    note_change(m, key)


@compiled
def push_span(m: Any, low: Any, high: Any, mask: Any, status: Any, born: Any) -> None:
    """Append an interval, or widen the last one when it is its equal neighbour."""
    if mask == m.numbers[lay.ALL] and m.numbers[lay.FORGET]:
        return
    end = m.numbers[lay.SPANS]
    is_neighbour = end > 0 and low != LEAST_KEY and m.spans[end - 1, lay.S_HIGH] == low - 1
    if is_neighbour and m.spans[end - 1, lay.S_MASK] == mask and m.spans[end - 1, lay.S_STATUS] == status:
        m.spans[end - 1, lay.S_HIGH] = high
        m.spans[end - 1, lay.S_BORN] = max(m.spans[end - 1, lay.S_BORN], born)
        return
    m.spans[end, lay.S_LOW] = low
    m.spans[end, lay.S_HIGH] = high
    m.spans[end, lay.S_MASK] = mask
    m.spans[end, lay.S_STATUS] = status
    m.spans[end, lay.S_BORN] = born
    m.numbers[lay.SPANS] = end + 1


@compiled
def _push_old(m: Any, old: Any, low: Any, high: Any) -> None:
    if low <= high:
        push_span(m, low, high, old[lay.S_MASK], old[lay.S_STATUS], old[lay.S_BORN])


@compiled
def settle_when_many(m: Any) -> None:
    """Ask the host to merge when there are many recent keys for their purpose, or more entries than allowed."""
    recent, spans = m.numbers[lay.RECENT], m.numbers[lay.SPANS]
    if recent > max(_GATHERED, spans // 8) or recent + spans > m.numbers[lay.MOST_MARKERS]:
        m.numbers[lay.SETTLE] = 1


@compiled
def cover_recent(m: Any, low: Any, high: Any, bit: Any, status: Any) -> None:
    """`cover` for the recent keys."""
    for slot in range(len(m.recent)):
        mask = m.recent[slot, lay.R_MASK]
        if m.recent[slot, lay.R_USED] and mask != lay.MISSING and low <= m.recent[slot, lay.R_KEY] <= high:
            mask |= bit
            m.recent[slot, lay.R_MASK] = lay.MISSING if mask == m.numbers[lay.ALL] and m.numbers[lay.FORGET] else mask
            m.recent[slot, lay.R_STATUS] = max(m.recent[slot, lay.R_STATUS], status)


@compiled
def _spare_from(m: Any, first: Any) -> Any:
    """Move the intervals from a place on aside; their number."""
    rest = m.numbers[lay.SPANS] - first
    for at in range(rest):
        for column in range(5):
            m.spare_spans[at, column] = m.spans[first + at, column]
    m.numbers[lay.SPANS] = first
    return rest


@compiled
def cover(m: Any, low: Any, high: Any, bit: Any, status: Any) -> None:
    """Set a bit, and a status unless it is OPEN, for all keys of a range."""
    if m.numbers[lay.RECENT]:
        cover_recent(m, low, high, bit, status)
    rest = _spare_from(m, span_from(m, low))
    m.numbers[lay.BORN] += 1
    born = m.numbers[lay.BORN]
    at, is_done = low, False
    for number in range(rest):
        old = m.spare_spans[number]
        if old[lay.S_LOW] > high:
            if not is_done:
                push_span(m, at, high, bit, status, born)
                is_done = True
            _push_old(m, old, old[lay.S_LOW], old[lay.S_HIGH])
            continue
        if old[lay.S_LOW] < low:
            _push_old(m, old, old[lay.S_LOW], low - 1)
        if old[lay.S_LOW] > at:
            push_span(m, at, old[lay.S_LOW] - 1, bit, status, born)
        end = min(old[lay.S_HIGH], high)
        push_span(m, max(old[lay.S_LOW], low), end, old[lay.S_MASK] | bit, max(old[lay.S_STATUS], status), born)
        if old[lay.S_HIGH] > high:
            _push_old(m, old, high + 1, old[lay.S_HIGH])
        is_done = end == high
        at = high if is_done else end + 1
    if not is_done:
        push_span(m, at, high, bit, status, born)


@compiled
def is_covered(m: Any, low: Any, high: Any, bit: Any) -> Any:
    """Whether the intervals say that a stream has announced all keys of a range."""
    at = span_from(m, low)
    while at < m.numbers[lay.SPANS] and m.spans[at, lay.S_LOW] <= low and m.spans[at, lay.S_MASK] & bit:
        if m.spans[at, lay.S_HIGH] >= high:
            return True
        low = m.spans[at, lay.S_HIGH] + 1
        at += 1
    return False


@compiled
def _has_left(m: Any, key: Any) -> Any:
    """Whether a key has left as one of the recent ones."""
    slot = _slot_of(m, key)
    if not m.recent[slot, lay.R_USED]:
        return False
    return m.recent[slot, lay.R_STATUS] == lay.PROPAGATED or m.recent[slot, lay.R_MASK] == lay.MISSING


@compiled
def unfinished(m: Any, low: Any, high: Any) -> Any:
    """The range without the keys at its ends that have left already; the first is greater than the last if all have."""
    while low < high:
        at = span_from(m, low)
        if _has_left(m, low):
            low += 1
        elif at < m.numbers[lay.SPANS] and m.spans[at, lay.S_LOW] <= low and m.spans[at, lay.S_STATUS] == lay.PROPAGATED:
            low = min(m.spans[at, lay.S_HIGH], high - 1) + 1
        else:
            break
    while low < high:
        at = span_from(m, high)
        if _has_left(m, high):
            high -= 1
        elif at < m.numbers[lay.SPANS] and m.spans[at, lay.S_LOW] <= high and m.spans[at, lay.S_STATUS] == lay.PROPAGATED:
            high = max(m.spans[at, lay.S_LOW], low + 1) - 1
        else:
            break
    if low < high:
        return low, high
    _, status = standing(m, low)
    return (low, low - 1) if status == lay.PROPAGATED or _has_left(m, low) else (low, low)
