"""The split state of the first publication: an index per stream, and a ring of punctuated I-Nodes instead of a schedule.

The last tuple of an announced key points back to its I-Node; when it leaves the window, the key leaves the join. A stored
tuple costs two look-ups. Two streams only.
"""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled, entrance, woven
from penstock.experiments.joins.items import Fate, Kind
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin._index import look_up, new_inode
from penstock.experiments.joins.pwjoin._leaving import propagate, retire
from penstock.experiments.joins.pwjoin._lists import drop_first, gather, insert, kill
from penstock.experiments.joins.pwjoin._markers import recall, remember
from penstock.experiments.joins.pwjoin._output import combinations, emit_mark, emit_results, has_room, save_counts
from penstock.experiments.joins.pwjoin._windows import count_arrival, holds_nothing, place_in_window, tick

_TUPLE, _PUNCTUATION = int(Kind.TUPLE), int(Kind.PUNCTUATION)
_STORED, _ON_THE_FLY, _DROPPED, _EXPIRED = int(Fate.STORED), int(Fate.PURGED_ON_THE_FLY), int(Fate.DROPPED), int(Fate.EXPIRED)
_USED, _REDUNDANT, _VIOLATION = int(Fate.USED), int(Fate.REDUNDANT), int(Fate.VIOLATION)


@woven
def _expire(m: Any, stream: Any, item: Any) -> None:
    """Remove what has left the window; the last tuple of an announced key takes the key along."""
    limit = m.streams[stream, lay.LIMIT]
    node = m.streams[stream, lay.FIRST]
    while node != lay.NONE and (m.nodes[node, lay.ITEM] == lay.NONE or m.nodes[node, lay.AT] < limit):
        if m.nodes[node, lay.ITEM] != lay.NONE:
            inode = m.nodes[node, lay.OWNER]
            kill(m, node, stream)
            m.counts[lay.N_INVALIDATED] += 1
            if m.nodes[node, lay.RING] != lay.NONE:
                propagate(m, inode, stream, item)
            elif m.inodes[inode, lay.NONEMPTY] == 0:
                retire(m, inode, m.inodes[inode, lay.STATUS])
        drop_first(m, stream)
        node = m.streams[stream, lay.FIRST]


@compiled
def _close_ring(m: Any, inode: Any, stream: Any) -> None:
    """Point from the tuple that expires last to the I-Node."""
    m.counts[lay.N_SCHEDULE] += 1
    m.nodes[m.lists[inode, stream, lay.TAIL], lay.RING] = inode
    m.inodes[inode, lay.STATUS] = lay.SCHEDULED


@compiled
def _announce(m: Any, stream: Any, key: Any, item: Any) -> Any:
    """A stream closes a key."""
    mine, theirs = look_up(m, stream, key), look_up(m, 1 - stream, key)
    mask, status = recall(m, key)
    mask |= m.inodes[mine, lay.MASK] if mine != lay.NONE else 0
    if mask & (1 << stream):
        m.counts[lay.N_REDUNDANT] += 1
        return _REDUNDANT
    mask |= 1 << stream
    mask |= m.inodes[theirs, lay.MASK] if theirs != lay.NONE else 0
    if theirs != lay.NONE:
        retire(m, theirs, lay.PROPAGATED)
    if mask != m.numbers[lay.ALL] and mine != lay.NONE:
        m.inodes[mine, lay.MASK] = 1 << stream
        if m.numbers[lay.EARLY]:
            _close_ring(m, mine, stream)
        return _USED
    if mine != lay.NONE:
        retire(m, mine, lay.PROPAGATED)
    # Without a tuple to wait for the key leaves at once (ER-24).
    if status != lay.PROPAGATED and (m.numbers[lay.EARLY] or mask == m.numbers[lay.ALL]):
        emit_mark(m, key, stream, item)
        status = lay.PROPAGATED
    remember(m, key, mask, status)
    return _USED


@woven
def _keep(m: Any, mine: Any, stream: Any, key: Any, item: Any, mask: Any) -> Any:
    """Store a tuple that can still have partners."""
    if mask & (1 << (1 - stream)):
        m.counts[lay.N_ON_THE_FLY] += 1
        return _ON_THE_FLY
    if holds_nothing(m, stream):
        m.counts[lay.N_INVALIDATED] += 1
        return _EXPIRED
    if mine == lay.NONE:
        mine = new_inode(m, stream, key, 0, lay.OPEN)
    insert(m, mine, stream, place_in_window(m, stream), item)
    return _STORED


@woven
def _tuple(m: Any, stream: Any, key: Any, item: Any, fates: Any) -> Any:
    """Join one tuple; False when the results need more room, and nothing has changed then."""
    save_counts(m)
    theirs, mine = look_up(m, 1 - stream, key), lay.NONE
    mask, status = recall(m, key)
    if theirs != lay.NONE:
        mask |= m.inodes[theirs, lay.MASK]
    is_dropped = status == lay.PROPAGATED and not mask & (1 << stream)
    if not is_dropped and not mask & (1 << (1 - stream)):
        mine = look_up(m, stream, key)
        mask |= m.inodes[mine, lay.MASK] if mine != lay.NONE else 0
    if mask & (1 << stream):
        m.counts[lay.N_VIOLATIONS] += 1
        fates[item] = _VIOLATION
        return True
    if is_dropped:
        # Lemma 5; the printed probe lacks this test (ER-24).
        m.counts[lay.N_DROPPED] += 1
        fates[item] = _DROPPED
    else:
        number = 0
        if theirs != lay.NONE:
            gather(m, theirs, 1 - stream, 0)
            number = combinations(m, stream)
        if not has_room(m, number):
            return False
        emit_results(m, stream, item, number)
        fates[item] = _keep(m, mine, stream, key, item, mask)
    count_arrival(m, stream)
    return True


@entrance
def run_split(m: Any, kinds: Any, streams: Any, ts: Any, keys: Any, fates: Any, start: Any, stop: Any) -> Any:
    """Process items; returns the first that was not: all are done, results need room, or markers are to be merged."""
    for item in range(start, stop):
        kind, stream = kinds[item], streams[item]
        tick(m, ts[item])
        # Both streams, for every item: tuples of the other stream alone would let keys wait for ever (ER-26).
        _expire(m, 0, item)
        _expire(m, 1, item)
        if kind == _TUPLE:
            if not _tuple(m, stream, keys[item], item, fates):
                return item
            m.counts[lay.N_TUPLES] += 1
        elif kind == _PUNCTUATION:
            m.counts[lay.N_PUNCTUATIONS] += 1
            fates[item] = _announce(m, stream, keys[item], item)
        if m.streams[stream, lay.BY_ROWS]:
            _expire(m, stream, item)
        if m.numbers[lay.SETTLE]:
            return item + 1
    return stop
