"""Punctuations in the cluster state."""

from __future__ import annotations

from typing import Any

from penstock.model.elements import FOREVER
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled
from penstock.operators.joins.pwjoin._index import look_up, visit
from penstock.operators.joins.pwjoin._known import cover, is_covered, note_change, recall, remember, span_from
from penstock.operators.joins.pwjoin._leaving import leave_alone, left_alone, propagate, release_range, retire
from penstock.operators.joins.pwjoin._nodes import purge_list
from penstock.operators.joins.pwjoin._output import emit_mark
from penstock.operators.joins.pwjoin._schedule import schedule
from penstock.operators.joins.pwjoin.trace import Fate

_USED, _REDUNDANT = int(Fate.USED), int(Fate.REDUNDANT)


@compiled
def announce(m: Any, stream: Any, key: Any, item: Any) -> Any:
    """A stream closes one key."""
    inode = look_up(m, 0, key)
    bit = 1 << stream
    if inode != lay.NONE:
        if m.inodes[inode, lay.MASK] & bit:
            m.counts[lay.N_REDUNDANT] += 1
            return _REDUNDANT
        announce_inode(m, inode, stream, item)
        return _USED
    mask, status = recall(m, key)
    if mask & bit:
        # The mask tells who announced; a mere count would take this for another stream's announcement (ER-11).
        m.counts[lay.N_REDUNDANT] += 1
        leave_alone(m, key, mask, status, stream, item)
        return _REDUNDANT
    mask |= bit
    if status != lay.PROPAGATED and (m.numbers[lay.EARLY] or mask == m.numbers[lay.ALL]):
        emit_mark(m, key, key, stream, item)
        status = lay.PROPAGATED
    remember(m, key, mask, status)
    return _USED


@compiled
def announce_inode(m: Any, inode: Any, stream: Any, item: Any) -> None:
    """A stream closes a key of which tuples are stored."""
    m.inodes[inode, lay.MASK] |= 1 << stream
    key, mask = m.inodes[inode, lay.KEY], m.inodes[inode, lay.MASK]
    note_change(m, key)
    is_propagated = m.inodes[inode, lay.STATUS] == lay.PROPAGATED
    if mask == m.numbers[lay.ALL]:
        if not is_propagated:
            emit_mark(m, key, key, stream, item)
        retire(m, inode, lay.PROPAGATED)
        return
    if m.numbers[lay.EARLY] and not is_propagated:
        if m.lists[inode, stream, lay.LIVE] == 0:
            # Tuples of other streams only: the list to wait for does not exist (ER-9).
            propagate(m, inode, stream, item)
            return
        wait_for_expiry(m, inode, stream)
    _purge_last_open(m, inode, mask)


@compiled
def wait_for_expiry(m: Any, inode: Any, stream: Any) -> None:
    """Schedule the key; a stream that lets it leave sooner brings its time forward (ER-14)."""
    schedule(m, stream, inode)
    last, length = m.lists[inode, stream, lay.LAST], m.streams[stream, lay.WINDOW]
    leaves = FOREVER if length == lay.INFINITE or last > FOREVER - length else last + length
    m.inodes[inode, lay.PROP_TIME] = min(m.inodes[inode, lay.PROP_TIME], leaves)
    m.inodes[inode, lay.STATUS] = lay.SCHEDULED


@compiled
def _purge_last_open(m: Any, inode: Any, mask: Any) -> None:
    """Lemma 6: a single stream without announcement finds no partner among new tuples any more (ER-10, ER-14)."""
    missing = mask ^ m.numbers[lay.ALL]
    if missing & (missing - 1):
        return
    stream = 0
    while not missing & (1 << stream):
        stream += 1
    purge_list(m, inode, stream, stream, m.inodes[inode, lay.KEY])
    if m.inodes[inode, lay.NONEMPTY] == 0:
        left_alone(m, inode)


@compiled
def open_range(m: Any, stream: Any, low: Any, high: Any, item: Any) -> Any:
    """Note that a stream closes a range of keys; emit it if it can leave as a whole. The host has merged the recent keys.

    Returns the number of I-Nodes in the scratch that have to be told, -1 when the range says nothing new.
    """
    if is_covered(m, low, high, 1 << stream):
        m.counts[lay.N_REDUNDANT] += 1
        return -1
    cover(m, low, high, 1 << stream, lay.OPEN)
    m.numbers[lay.RELOG] = 1
    number, live = visit(m, low, high), 0
    for at in range(number):
        live += m.lists[m.scratch[at], stream, lay.LIVE]
    if m.numbers[lay.EARLY] and live == 0:
        release_range(m, stream, low, high, item)
        return 0
    if m.numbers[lay.EARLY]:
        _wait_for_range(m, stream, low, high, live)
    else:
        _emit_complete(m, stream, low, high, item)
    return number


@compiled
def _wait_for_range(m: Any, stream: Any, low: Any, high: Any, live: Any) -> None:
    end = m.numbers[lay.RANGES]
    m.ranges[end, lay.P_STREAM] = stream
    m.ranges[end, lay.P_LOW] = low
    m.ranges[end, lay.P_HIGH] = high
    m.ranges[end, lay.P_LIVE] = live
    m.numbers[lay.RANGES] = end + 1


@compiled
def _emit_complete(m: Any, stream: Any, low: Any, high: Any, item: Any) -> None:
    """Without early propagation: the parts of a range that all streams have announced now."""
    at = span_from(m, low)
    while at < m.numbers[lay.SPANS] and m.spans[at, lay.S_LOW] <= high:
        if m.spans[at, lay.S_MASK] == m.numbers[lay.ALL] and m.spans[at, lay.S_STATUS] != lay.PROPAGATED:
            first, last = max(m.spans[at, lay.S_LOW], low), min(m.spans[at, lay.S_HIGH], high)
            emit_mark(m, first, last, stream, item)
            cover(m, first, last, 1 << stream, lay.PROPAGATED)
            at = span_from(m, last)
        at += 1


@compiled
def inherit(m: Any, inode: Any) -> None:
    """A key of a part that has left as a whole does not leave again by itself."""
    at = span_from(m, m.inodes[inode, lay.KEY])
    is_inside = at < m.numbers[lay.SPANS] and m.spans[at, lay.S_LOW] <= m.inodes[inode, lay.KEY]
    if is_inside and m.spans[at, lay.S_STATUS] == lay.PROPAGATED:
        m.inodes[inode, lay.STATUS] = lay.PROPAGATED
