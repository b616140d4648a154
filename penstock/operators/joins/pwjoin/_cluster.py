"""The cluster state: one index for all streams, one look-up for each item.

Differs from the source where that loses or repeats results; each such place names its erratum.
"""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._announcing import announce, announce_inode, inherit, open_range
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
from penstock.operators.joins.pwjoin._known import note_change, recall, settle_when_many
from penstock.operators.joins.pwjoin._leaving import advance, expire, fire, leave_unasked, release_ranges
from penstock.operators.joins.pwjoin._nodes import gather, insert
from penstock.operators.joins.pwjoin._output import BEGIN, END, combinations, emit_results, has_room
from penstock.operators.joins.pwjoin.trace import Fate, Kind

_TUPLE, _NULL_KEY, _PUNCTUATION = int(Kind.TUPLE), int(Kind.NULL_KEY), int(Kind.PUNCTUATION)
_STORED, _ON_THE_FLY, _DROPPED, _EXPIRED = int(Fate.STORED), int(Fate.PURGED_ON_THE_FLY), int(Fate.DROPPED), int(Fate.EXPIRED)
_TRUSTED, _IGNORED, _USED, _REDUNDANT = int(Fate.TRUSTED), int(Fate.IGNORED), int(Fate.USED), int(Fate.REDUNDANT)


@compiled
def _probe(m: Any, inode: Any, stream: Any, ts: Any) -> Any:
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
            low, high = partner_bounds(m, stream, other, ts)
            m.wheel[other, BEGIN] = end
            # Expired and purged nodes are skipped (ER-8).
            end = gather(m, inode, other, end, low, high)
            m.wheel[other, END] = end
    return combinations(m, stream)


@compiled
def _keep(m: Any, inode: Any, stream: Any, key: Any, ts: Any, row: Any, mask: Any, status: Any) -> Any:
    """Store a tuple that can still have partners."""
    if (mask | (1 << stream)) == m.numbers[lay.ALL]:
        # Nothing is inserted that all others have closed (ER-13).
        m.counts[lay.N_ON_THE_FLY] += 1
        return _ON_THE_FLY
    at = place_in_window(m, stream, ts)
    if is_expired(m, stream, at):
        m.counts[lay.N_INVALIDATED] += 1
        return _EXPIRED
    if inode == lay.NONE:
        inode = new_inode(m, 0, key, mask, status)
        if mask:
            note_change(m, key)
    insert(m, inode, stream, stream, ts, at, row)
    return _STORED


@compiled
def _tuple(m: Any, stream: Any, ts: Any, key: Any, row: Any, item: Any, fates: Any) -> Any:
    """Join one tuple; False when the results need more room, and nothing has changed then."""
    save_counts(m)
    inode = look_up(m, 0, key)
    if inode == lay.NONE:
        mask, status = recall(m, key)
        status = leave_unasked(m, stream, key, mask, status, item)
    else:
        mask, status = m.inodes[inode, lay.MASK], m.inodes[inode, lay.STATUS]
    fate = judged(m, stream, mask, item)
    if fate == ACCEPTED and status == lay.PROPAGATED and m.numbers[lay.DROP]:
        m.counts[lay.N_DROPPED] += 1
        fate = _DROPPED
    if fate in (ACCEPTED, _TRUSTED):
        number = 0 if inode == lay.NONE else _probe(m, inode, stream, ts)
        if not has_room(m, number):
            restore_counts(m)
            return False
        emit_results(m, stream, ts, row, item, number)
    if fate == ACCEPTED:
        fate = _keep(m, inode, stream, key, ts, row, mask, status)
    fates[item] = fate
    count_arrival(m, stream, fate)
    return True


@compiled
def _announce_range(m: Any, stream: Any, low: Any, high: Any, item: Any) -> Any:
    """A stream closes all keys from `low` to `high`."""
    if end_stream(m, stream, low, high):
        advance(m, item)
    number = open_range(m, stream, low, high, item)
    for at in range(number):
        inode = m.scratch[at]
        if not m.inodes[inode, lay.MASK] & (1 << stream):
            inherit(m, inode)
            announce_inode(m, inode, stream, item)
    return _USED if number >= 0 else _REDUNDANT


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
            fates[item] = announce(m, stream, key, item)
        else:
            fates[item] = _announce_range(m, stream, key, high, item) if key < high else _IGNORED
    if m.streams[stream, lay.BY_ROWS]:
        expire(m, stream)
        release_ranges(m, item)
        fire(m, stream, item)
    release_ranges(m, item)
    settle_when_many(m)
    return True


@entry
def run_cluster(
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
            advance(m, item)
            if not _item(m, kind, stream, ts[item], keys[item], highs[item], rows[item], item, fates):
                return item
            m.counts[lay.N_TUPLES] += kind in (_TUPLE, _NULL_KEY)
        if m.numbers[lay.ERROR_ITEM] != lay.NONE:
            return item
        if m.numbers[lay.SETTLE]:
            return item + 1
    return stop
