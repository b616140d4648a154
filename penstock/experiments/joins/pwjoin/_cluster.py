"""The cluster state: one index for all streams, one look-up for each item.

Differs from the source where that loses or repeats results; each such place names its erratum.
"""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled, entrance, woven
from penstock.experiments.joins.items import Fate, Kind
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin._index import look_up, new_inode
from penstock.experiments.joins.pwjoin._leaving import advance, delete_if_empty, expire, fire, propagate
from penstock.experiments.joins.pwjoin._lists import gather, insert, purge_list
from penstock.experiments.joins.pwjoin._markers import recall, remember
from penstock.experiments.joins.pwjoin._output import combinations, emit_mark, emit_results, has_room, save_counts
from penstock.experiments.joins.pwjoin._schedule import schedule
from penstock.experiments.joins.pwjoin._windows import count_arrival, holds_nothing, place_in_window, tick
from penstock.model.elements import FOREVER

_TUPLE, _PUNCTUATION = int(Kind.TUPLE), int(Kind.PUNCTUATION)
_STORED, _ON_THE_FLY, _DROPPED, _EXPIRED = int(Fate.STORED), int(Fate.PURGED_ON_THE_FLY), int(Fate.DROPPED), int(Fate.EXPIRED)
_USED, _REDUNDANT, _VIOLATION = int(Fate.USED), int(Fate.REDUNDANT), int(Fate.VIOLATION)


# -- tuples -----------------------------------------------------------------------------------------------------------


@woven
def _probe(m: Any, inode: Any, stream: Any) -> Any:
    """Gather the partners of a tuple; the number of combinations.

    Early failing: without a live tuple in some *other* stream there is no result, and nothing is walked (ER-12: the own
    list does not count, whether the tuple is in it or not).
    """
    others = m.inodes[inode, lay.NONEMPTY] - (m.lists[inode, stream, lay.LIVE] > 0)
    if others < m.numbers[lay.STREAMS] - 1:
        m.counts[lay.N_EARLY_FAILURES] += 1
        return 0
    end = 0
    for other in range(m.numbers[lay.STREAMS]):
        if other != stream:
            gather(m, inode, other, end)
            end = m.partners[other, lay.END]
    return combinations(m, stream)


@woven
def _keep(m: Any, inode: Any, stream: Any, key: Any, item: Any, mask: Any, status: Any) -> Any:
    """Store a tuple that can still have partners."""
    if (mask | (1 << stream)) == m.numbers[lay.ALL]:
        # Nothing is inserted that all others have closed (ER-13).
        m.counts[lay.N_ON_THE_FLY] += 1
        return _ON_THE_FLY
    if holds_nothing(m, stream):
        m.counts[lay.N_INVALIDATED] += 1
        return _EXPIRED
    if inode == lay.NONE:
        inode = new_inode(m, 0, key, mask, status)
    insert(m, inode, stream, place_in_window(m, stream), item)
    return _STORED


@woven
def _tuple(m: Any, stream: Any, key: Any, item: Any, fates: Any) -> Any:
    """Join one tuple; False when the results need more room, and nothing has changed then."""
    save_counts(m)
    inode = look_up(m, 0, key)
    if inode == lay.NONE:
        mask, status = recall(m, key)
    else:
        mask, status = m.inodes[inode, lay.MASK], m.inodes[inode, lay.STATUS]
    if mask & (1 << stream):
        m.counts[lay.N_VIOLATIONS] += 1
        fates[item] = _VIOLATION
        return True
    if status == lay.PROPAGATED:
        m.counts[lay.N_DROPPED] += 1
        fates[item] = _DROPPED
    else:
        number = 0 if inode == lay.NONE else _probe(m, inode, stream)
        if not has_room(m, number):
            return False
        emit_results(m, stream, item, number)
        fates[item] = _keep(m, inode, stream, key, item, mask, status)
    count_arrival(m, stream)
    return True


# -- punctuations -----------------------------------------------------------------------------------------------------


@compiled
def _announce(m: Any, stream: Any, key: Any, item: Any) -> Any:
    """A stream closes a key."""
    inode = look_up(m, 0, key)
    bit = 1 << stream
    if inode != lay.NONE:
        if m.inodes[inode, lay.MASK] & bit:
            m.counts[lay.N_REDUNDANT] += 1
            return _REDUNDANT
        _announce_stored(m, inode, stream, item)
        return _USED
    mask, status = recall(m, key)
    if mask & bit:
        # The mask tells who announced; a mere count would take this for another stream's announcement (ER-11).
        m.counts[lay.N_REDUNDANT] += 1
        return _REDUNDANT
    mask |= bit
    if status != lay.PROPAGATED and (m.numbers[lay.EARLY] or mask == m.numbers[lay.ALL]):
        emit_mark(m, key, stream, item)
        status = lay.PROPAGATED
    remember(m, key, mask, status)
    return _USED


@compiled
def _announce_stored(m: Any, inode: Any, stream: Any, item: Any) -> None:
    """A stream closes a key of which tuples are stored."""
    m.inodes[inode, lay.MASK] |= 1 << stream
    mask = m.inodes[inode, lay.MASK]
    if mask == m.numbers[lay.ALL]:
        propagate(m, inode, stream, item)
        return
    if m.numbers[lay.EARLY]:
        if m.lists[inode, stream, lay.LIVE] == 0:
            # Tuples of other streams only: the list to wait for does not exist (ER-9).
            propagate(m, inode, stream, item)
            return
        _wait_for_expiry(m, inode, stream)
    _purge_last_open(m, inode, mask)


@compiled
def _wait_for_expiry(m: Any, inode: Any, stream: Any) -> None:
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
    purge_list(m, inode, stream)
    delete_if_empty(m, inode)


# -- items ------------------------------------------------------------------------------------------------------------


@entrance
def run_cluster(m: Any, kinds: Any, streams: Any, ts: Any, keys: Any, fates: Any, start: Any, stop: Any) -> Any:
    """Process items; returns the first that was not: all are done, results need room, or markers are to be merged."""
    for item in range(start, stop):
        kind, stream = kinds[item], streams[item]
        tick(m, ts[item])
        advance(m, item)
        if kind == _TUPLE:
            if not _tuple(m, stream, keys[item], item, fates):
                return item
            m.counts[lay.N_TUPLES] += 1
        elif kind == _PUNCTUATION:
            m.counts[lay.N_PUNCTUATIONS] += 1
            fates[item] = _announce(m, stream, keys[item], item)
        if m.streams[stream, lay.BY_ROWS]:
            expire(m, stream)
            fire(m, stream, item)
        if m.numbers[lay.SETTLE]:
            return item + 1
    return stop
