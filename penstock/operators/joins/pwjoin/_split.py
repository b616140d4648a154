"""The split state of the first publication: an index per stream, and a ring of punctuated I-Nodes instead of a schedule.

The last tuple of an announced key points back to its I-Node; when it leaves the window, the key leaves the join. A stored
tuple costs two look-ups. Two streams only.
"""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._announcing import open_range
from penstock.operators.joins.pwjoin._arriving import (
    ACCEPTED,
    count_arrival,
    is_expired,
    judged,
    null_key,
    partner_bounds,
    place_in_window,
    restore_counts,
    save_counts,
)
from penstock.operators.joins.pwjoin._clock import count_ranks, end_stream, is_late, tick
from penstock.operators.joins.pwjoin._compiled import compiled, entry
from penstock.operators.joins.pwjoin._index import look_up, new_inode
from penstock.operators.joins.pwjoin._known import note_change, recall, remember, settle_when_many
from penstock.operators.joins.pwjoin._leaving import leave_alone, leave_unasked, release_ranges, retire
from penstock.operators.joins.pwjoin._nodes import drop_first, gather, insert, kill
from penstock.operators.joins.pwjoin._output import BEGIN, END, combinations, emit_mark, emit_results, has_room
from penstock.operators.joins.pwjoin.trace import Fate, Kind

_TUPLE, _NULL_KEY, _PUNCTUATION = int(Kind.TUPLE), int(Kind.NULL_KEY), int(Kind.PUNCTUATION)
_STORED, _ON_THE_FLY, _DROPPED, _EXPIRED = int(Fate.STORED), int(Fate.PURGED_ON_THE_FLY), int(Fate.DROPPED), int(Fate.EXPIRED)
_TRUSTED, _IGNORED, _USED, _REDUNDANT = int(Fate.TRUSTED), int(Fate.IGNORED), int(Fate.USED), int(Fate.REDUNDANT)


@compiled
def _expire(m: Any, stream: Any, item: Any) -> None:
    """Remove what has left the window; the last tuple of an announced key takes the key along."""
    limit = m.streams[stream, lay.LIMIT]
    node = m.streams[stream, lay.FIRST]
    while node != lay.NONE and (m.nodes[node, lay.ROW] == lay.NONE or m.nodes[node, lay.AT] < limit):
        if m.nodes[node, lay.ROW] != lay.NONE:
            inode, ring = m.nodes[node, lay.OWNER], m.nodes[node, lay.RING]
            key = m.inodes[inode, lay.KEY]
            kill(m, node, stream, stream, key)
            m.counts[lay.N_INVALIDATED] += 1
            if ring != lay.NONE:
                # A waiting range that this tuple held back last leaves as one, this key in it.
                release_ranges(m, item)
                if m.inodes[inode, lay.STATUS] == lay.SCHEDULED and m.inodes[inode, lay.KEY] == key:
                    emit_mark(m, key, key, stream, item)
                    retire(m, inode, lay.PROPAGATED)
            elif m.inodes[inode, lay.NONEMPTY] == 0:
                retire(m, inode, m.inodes[inode, lay.STATUS])
        drop_first(m, stream)
        node = m.streams[stream, lay.FIRST]


@compiled
def _advance(m: Any, item: Any) -> None:
    """Both streams, for every item: tuples of the other stream alone would let keys wait for ever (ER-26)."""
    for stream in range(2):
        _expire(m, stream, item)
    release_ranges(m, item)


@compiled
def close_ring(m: Any, inode: Any, stream: Any) -> None:
    """Point from the tuple that expires last to the I-Node."""
    m.counts[lay.N_SCHEDULE] += 1
    node, last = m.lists[inode, stream, lay.HEAD], lay.NONE
    while node != lay.NONE:
        if m.nodes[node, lay.ROW] != lay.NONE and (last == lay.NONE or m.nodes[node, lay.AT] >= m.nodes[last, lay.AT]):
            last = node
        node = m.nodes[node, lay.VALUE_NEXT]
    m.nodes[last, lay.RING] = inode
    m.inodes[inode, lay.STATUS] = lay.SCHEDULED


@compiled
def _announce(m: Any, stream: Any, key: Any, item: Any, is_new: Any) -> Any:
    """A stream closes one key; `is_new` when a range has been noted already that contains it."""
    mine, theirs = look_up(m, stream, key), look_up(m, 1 - stream, key)
    mask, status = recall(m, key)
    if is_new:
        mask &= ~(1 << stream)
    mask |= m.inodes[mine, lay.MASK] if mine != lay.NONE else 0
    if mask & (1 << stream):
        m.counts[lay.N_REDUNDANT] += not is_new
        if mine == lay.NONE:
            leave_alone(m, key, mask, status, stream, item)
        return _REDUNDANT
    mask |= 1 << stream
    mask |= m.inodes[theirs, lay.MASK] if theirs != lay.NONE else 0
    if theirs != lay.NONE:
        retire(m, theirs, lay.PROPAGATED)
    if mask != m.numbers[lay.ALL] and mine != lay.NONE:
        m.inodes[mine, lay.MASK] = 1 << stream
        note_change(m, key)
        if m.numbers[lay.EARLY]:
            close_ring(m, mine, stream)
        return _USED
    if mine != lay.NONE:
        retire(m, mine, lay.PROPAGATED)
    # Without a tuple to wait for the key leaves at once (ER-24).
    if status != lay.PROPAGATED and (m.numbers[lay.EARLY] or mask == m.numbers[lay.ALL]):
        emit_mark(m, key, key, stream, item)
        status = lay.PROPAGATED
    remember(m, key, mask, status)
    return _USED


@compiled
def _announce_range(m: Any, stream: Any, low: Any, high: Any, item: Any) -> Any:
    if end_stream(m, stream, low, high):
        _advance(m, item)
    number = open_range(m, stream, low, high, item)
    for at in range(number):
        inode = m.scratch[at]
        # The I-Node of the other stream may have gone together with the one before.
        if m.inodes[inode, lay.STATUS] != lay.FREE:
            _announce(m, stream, m.inodes[inode, lay.KEY], item, True)
    return _USED if number >= 0 else _REDUNDANT


@compiled
def _keep(m: Any, mine: Any, stream: Any, key: Any, ts: Any, row: Any, mask: Any) -> Any:
    if mask & (1 << (1 - stream)):
        m.counts[lay.N_ON_THE_FLY] += 1
        return _ON_THE_FLY
    at = place_in_window(m, stream, ts)
    if is_expired(m, stream, at):
        m.counts[lay.N_INVALIDATED] += 1
        return _EXPIRED
    if mine == lay.NONE:
        mine = new_inode(m, stream, key, 0, lay.OPEN)
    insert(m, mine, stream, stream, ts, at, row)
    return _STORED


@compiled
def _probe(m: Any, theirs: Any, stream: Any, ts: Any) -> Any:
    other = 1 - stream
    low, high = partner_bounds(m, stream, other, ts)
    m.wheel[other, BEGIN] = 0
    m.wheel[other, END] = gather(m, theirs, other, 0, low, high)
    return combinations(m, stream)


@compiled
def _tuple(m: Any, stream: Any, ts: Any, key: Any, row: Any, item: Any, fates: Any) -> Any:
    """Join one tuple; False when the results need more room, and nothing has changed then."""
    save_counts(m)
    theirs = look_up(m, 1 - stream, key)
    mask, status = recall(m, key)
    if theirs == lay.NONE:
        status = leave_unasked(m, stream, key, mask, status, item)
    else:
        mask |= m.inodes[theirs, lay.MASK]
    fate, mine = judged(m, stream, mask, item), lay.NONE
    if fate == ACCEPTED and status == lay.PROPAGATED and m.numbers[lay.DROP]:
        # Lemma 5; the printed probe lacks this test (ER-24).
        m.counts[lay.N_DROPPED] += 1
        fate = _DROPPED
    if fate == ACCEPTED and not mask & (1 << (1 - stream)):
        mine = look_up(m, stream, key)
        if mine != lay.NONE:
            fate = judged(m, stream, m.inodes[mine, lay.MASK], item)
    if fate in (ACCEPTED, _TRUSTED):
        number = 0 if theirs == lay.NONE else _probe(m, theirs, stream, ts)
        if not has_room(m, number):
            restore_counts(m)
            return False
        emit_results(m, stream, ts, row, item, number)
    if fate == ACCEPTED:
        fate = _keep(m, mine, stream, key, ts, row, mask)
    fates[item] = fate
    count_arrival(m, stream, fate)
    return True


@compiled
def _item(m: Any, kind: Any, stream: Any, ts: Any, key: Any, high: Any, row: Any, item: Any, fates: Any) -> Any:
    if kind == _TUPLE:
        if not _tuple(m, stream, ts, key, row, item, fates):
            return False
    elif kind == _NULL_KEY:
        fates[item] = null_key(m, stream, item)
    elif kind == _PUNCTUATION:
        m.counts[lay.N_PUNCTUATIONS] += 1
        if key == high:
            fates[item] = _announce(m, stream, key, item, False)
        else:
            fates[item] = _announce_range(m, stream, key, high, item) if key < high else _IGNORED
    if m.streams[stream, lay.BY_ROWS]:
        _expire(m, stream, item)
    release_ranges(m, item)
    settle_when_many(m)
    return True


@entry
def run_split(
    m: Any, kinds: Any, streams: Any, ts: Any, keys: Any, highs: Any, rows: Any, ranks: Any, fates: Any, start: Any, stop: Any
) -> Any:
    """Process items; returns the first that was not: all are done, results need room, or a policy says to stop."""
    for item in range(start, stop):
        kind, stream = kinds[item], streams[item]
        if is_late(m, kind, stream, ts[item], item, fates):
            m.counts[lay.N_TUPLES] += 1
        else:
            tick(m, kind, stream, ts[item])
            count_ranks(m, ranks, item, stream)
            _advance(m, item)
            if not _item(m, kind, stream, ts[item], keys[item], highs[item], rows[item], item, fates):
                return item
            m.counts[lay.N_TUPLES] += kind in (_TUPLE, _NULL_KEY)
        if m.numbers[lay.ERROR_ITEM] != lay.NONE:
            return item
        if m.numbers[lay.SETTLE]:
            return item + 1
    return stop
