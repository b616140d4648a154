"""The baselines WJoin and MWJoin: a hash table per stream with a fixed number of buckets, blind to punctuations."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import entrance, woven
from penstock.experiments.joins._hashing import bucket_of
from penstock.experiments.joins.items import Fate, Kind
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin._lists import drop_first, new_node, unlinked
from penstock.experiments.joins.pwjoin._output import combinations, emit_results, has_room, save_counts
from penstock.experiments.joins.pwjoin._windows import count_arrival, holds_nothing, place_in_window, tick

_TUPLE, _PUNCTUATION = int(Kind.TUPLE), int(Kind.PUNCTUATION)
_STORED, _EXPIRED, _IGNORED = int(Fate.STORED), int(Fate.EXPIRED), int(Fate.IGNORED)


@woven
def _expire(m: Any, stream: Any) -> None:
    """The oldest tuple of a stream is also the first in its bucket."""
    limit = m.streams[stream, lay.LIMIT]
    node = m.streams[stream, lay.FIRST]
    while node != lay.NONE and m.nodes[node, lay.AT] < limit:
        bucket = bucket_of(m.nodes[node, lay.OWNER], m.buckets.shape[1])
        after = m.nodes[node, lay.VALUE_NEXT]
        m.buckets[stream, bucket, 0] = after
        if after == lay.NONE:
            m.buckets[stream, bucket, 1] = lay.NONE
        unlinked(m, node, lay.IN_VALUE)
        drop_first(m, stream)
        m.streams[stream, lay.STORED] -= 1
        m.counts[lay.N_INVALIDATED] += 1
        node = m.streams[stream, lay.FIRST]


@woven
def _scan(m: Any, other: Any, key: Any, start: Any) -> Any:
    """Walk the bucket of another stream's table; every tuple in it is looked at, whatever its key."""
    m.counts[lay.N_LOOKUPS] += 1
    nodes, scratch = m.nodes, m.scratch
    node = m.buckets[other, bucket_of(key, m.buckets.shape[1]), 0]
    end, seen = start, 0
    while node != lay.NONE:
        seen += 1
        if nodes[node, lay.OWNER] == key:
            scratch[end] = node
            end += 1
        node = nodes[node, lay.VALUE_NEXT]
    m.counts[lay.N_ACCESSED] += seen
    m.counts[lay.N_COMPARISONS] += seen
    m.partners[other, lay.BEGIN] = start
    m.partners[other, lay.END] = end
    return end


@woven
def _probe(m: Any, stream: Any, key: Any) -> Any:
    """Probe one table after the other and stop at the first without a match; the number of combinations."""
    end = 0
    for other in range(m.numbers[lay.STREAMS]):
        if other != stream:
            begin = end
            end = _scan(m, other, key, begin)
            if end == begin:
                return 0
    return combinations(m, stream)


@woven
def _keep(m: Any, stream: Any, key: Any, item: Any) -> Any:
    if holds_nothing(m, stream):
        m.counts[lay.N_INVALIDATED] += 1
        return _EXPIRED
    node = new_node(m, key, stream, place_in_window(m, stream), item)
    bucket = bucket_of(key, m.buckets.shape[1])
    last = m.buckets[stream, bucket, 1]
    if last == lay.NONE:
        m.buckets[stream, bucket, 0] = node
    else:
        m.nodes[last, lay.VALUE_NEXT] = node
    m.buckets[stream, bucket, 1] = node
    return _STORED


@woven
def _tuple(m: Any, stream: Any, key: Any, item: Any, fates: Any) -> Any:
    """Join one tuple; False when the results need more room, and nothing has changed then."""
    save_counts(m)
    number = _probe(m, stream, key)
    if not has_room(m, number):
        return False
    emit_results(m, stream, item, number)
    fates[item] = _keep(m, stream, key, item)
    count_arrival(m, stream)
    return True


@entrance
def run_tables(m: Any, kinds: Any, streams: Any, ts: Any, keys: Any, fates: Any, start: Any, stop: Any) -> Any:
    """Process items; returns the first that was not: all are done, or results need room."""
    for item in range(start, stop):
        kind, stream = kinds[item], streams[item]
        tick(m, ts[item])
        for other in range(m.numbers[lay.STREAMS]):
            _expire(m, other)
        if kind == _TUPLE:
            if not _tuple(m, stream, keys[item], item, fates):
                return item
            m.counts[lay.N_TUPLES] += 1
        elif kind == _PUNCTUATION:
            m.counts[lay.N_PUNCTUATIONS] += 1
            fates[item] = _IGNORED
        if m.streams[stream, lay.BY_ROWS]:
            _expire(m, stream)
    return stop
