"""How tuples and keys leave the cluster state: expiry, purge, propagation."""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled
from penstock.operators.joins.pwjoin._index import free_inode, visit
from penstock.operators.joins.pwjoin._known import cover, remember, standing, unfinished
from penstock.operators.joins.pwjoin._nodes import drop_first, kill, purge_list
from penstock.operators.joins.pwjoin._output import emit_mark
from penstock.operators.joins.pwjoin._schedule import unschedule


@compiled
def retire(m: Any, inode: Any, status: Any) -> None:
    """Delete an I-Node with all its tuples; what was announced of its key is remembered."""
    key = m.inodes[inode, lay.KEY]
    mask = m.inodes[inode, lay.MASK]
    for stream in range(m.numbers[lay.STREAMS]):
        unschedule(m, stream, inode)
        purge_list(m, inode, stream, stream, key)
    free_inode(m, inode)
    if mask:
        # A split I-Node knows its own stream only; what the other one announced is remembered already.
        before, _ = standing(m, key)
        remember(m, key, mask | before, status)


@compiled
def propagate(m: Any, inode: Any, stream: Any, item: Any) -> None:
    """Let a key leave: no result with it can follow. Purge-and-drop of the source, for all streams at once."""
    key = m.inodes[inode, lay.KEY]
    emit_mark(m, key, key, stream, item)
    retire(m, inode, lay.PROPAGATED)


@compiled
def leave_unasked(m: Any, stream: Any, key: Any, mask: Any, status: Any, item: Any) -> Any:
    """Status of a key without tuples: one that a waiting range announced leaves now, because somebody asks for it."""
    if mask == 0 or mask & (1 << stream):
        return status
    announcer = 0
    while not mask & (1 << announcer):
        announcer += 1
    return leave_alone(m, key, mask, status, announcer, item)


@compiled
def leave_alone(m: Any, key: Any, mask: Any, status: Any, announcer: Any, item: Any) -> Any:
    """Let a key without tuples leave before the range in which it was announced; its status then."""
    if status == lay.PROPAGATED or not m.numbers[lay.EARLY]:
        return status
    emit_mark(m, key, key, announcer, item)
    remember(m, key, mask, lay.PROPAGATED)
    return lay.PROPAGATED


@compiled
def left_alone(m: Any, inode: Any) -> None:
    """An I-Node lost its last tuple. Without announcement nothing is lost with it; a scheduled key is propagated anyway."""
    if m.inodes[inode, lay.MASK]:
        if m.inodes[inode, lay.STATUS] != lay.SCHEDULED:
            retire(m, inode, m.inodes[inode, lay.STATUS])
    elif m.numbers[lay.LONER_TTL] == 0:
        retire(m, inode, lay.OPEN)
    else:
        m.numbers[lay.SERIAL] += 1
        end = m.numbers[lay.LONERS_END]
        m.loners[end, 0] = inode
        m.loners[end, 1] = m.numbers[lay.NOW]
        m.loners[end, 2] = m.numbers[lay.SERIAL]
        m.inodes[inode, lay.SINCE] = m.numbers[lay.SERIAL]
        m.numbers[lay.LONERS_END] = end + 1


@compiled
def _forget_loners(m: Any) -> None:
    first = m.numbers[lay.LONERS_FIRST]
    while first < m.numbers[lay.LONERS_END] and m.loners[first, 1] + m.numbers[lay.LONER_TTL] < m.numbers[lay.NOW]:
        inode = m.loners[first, 0]
        # A tuple or a reuse of the I-Node has changed the stamp.
        if m.inodes[inode, lay.STATUS] != lay.FREE and m.inodes[inode, lay.SINCE] == m.loners[first, 2]:
            retire(m, inode, m.inodes[inode, lay.STATUS])
        first += 1
    m.numbers[lay.LONERS_FIRST] = first


@compiled
def expire(m: Any, stream: Any) -> None:
    """Remove what has left the window from the head of a time list; nodes of purged tuples are skipped (ER-7)."""
    limit = m.streams[stream, lay.LIMIT]
    node = m.streams[stream, lay.FIRST]
    while node != lay.NONE and (m.nodes[node, lay.ROW] == lay.NONE or m.nodes[node, lay.AT] < limit):
        if m.nodes[node, lay.ROW] != lay.NONE:
            inode = m.nodes[node, lay.OWNER]
            kill(m, node, stream, stream, m.inodes[inode, lay.KEY])
            m.counts[lay.N_INVALIDATED] += 1
            if m.inodes[inode, lay.NONEMPTY] == 0:
                left_alone(m, inode)
        drop_first(m, stream)
        node = m.streams[stream, lay.FIRST]


@compiled
def fire(m: Any, stream: Any, item: Any) -> None:
    """Propagate the keys whose last tuple of an announcing stream has expired, strictly after its window (ER-18)."""
    limit = m.streams[stream, lay.LIMIT]
    while m.streams[stream, lay.DUE] > 0:
        inode = m.schedule[stream, 0]
        if m.lists[inode, stream, lay.LAST] >= limit:
            return
        propagate(m, inode, stream, item)


@compiled
def advance(m: Any, item: Any) -> None:
    """Bring windows and schedule up to date; every item does it before anything else (ER-31)."""
    for stream in range(m.numbers[lay.STREAMS]):
        expire(m, stream)
    release_ranges(m, item)
    for stream in range(m.numbers[lay.STREAMS]):
        fire(m, stream, item)
    if m.numbers[lay.LONER_TTL]:
        _forget_loners(m)


@compiled
def release_ranges(m: Any, item: Any) -> None:
    """Emit the waiting ranges that no tuple of their stream holds back any more."""
    while m.numbers[lay.RELEASABLE]:
        m.numbers[lay.RELEASABLE] = 0
        at = 0
        while at < m.numbers[lay.RANGES]:
            if m.ranges[at, lay.P_LIVE] > 0:
                at += 1
                continue
            stream, low, high = m.ranges[at, lay.P_STREAM], m.ranges[at, lay.P_LOW], m.ranges[at, lay.P_HIGH]
            m.numbers[lay.RANGES] -= 1
            for column in range(4):
                m.ranges[at, column] = m.ranges[m.numbers[lay.RANGES], column]
            release_range(m, stream, low, high, item)


@compiled
def release_range(m: Any, stream: Any, low: Any, high: Any, item: Any) -> None:
    """Emit a range as one punctuation; all its keys have left then, those of I-Nodes included."""
    first, last = unfinished(m, low, high)
    if first <= last:
        emit_mark(m, first, last, stream, item)
    cover(m, low, high, 1 << stream, lay.PROPAGATED)
    m.numbers[lay.RELOG] = 1
    for number in range(visit(m, low, high)):
        inode = m.scratch[number]
        m.inodes[inode, lay.MASK] |= 1 << stream
        if m.inodes[inode, lay.STATUS] != lay.PROPAGATED:
            retire(m, inode, lay.PROPAGATED)
