"""The baselines WJoin and MWJoin: a hash table per stream with a fixed number of buckets, blind to punctuations."""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._arriving import (
    ACCEPTED,
    count_arrival,
    is_expired,
    null_key,
    partner_bounds,
    place_in_window,
    restore_counts,
    save_counts,
)
from penstock.operators.joins.pwjoin._clock import count_ranks, end_stream, is_late, tick
from penstock.operators.joins.pwjoin._compiled import compiled, entry
from penstock.operators.joins.pwjoin._index import bucket_of
from penstock.operators.joins.pwjoin._nodes import drop_first, link_bucket, link_time, new_node, unlink_bucket
from penstock.operators.joins.pwjoin._output import BEGIN, CURRENT, END, combinations, emit_results, has_room
from penstock.operators.joins.pwjoin.trace import Fate, Kind

_TUPLE, _NULL_KEY, _PUNCTUATION = int(Kind.TUPLE), int(Kind.NULL_KEY), int(Kind.PUNCTUATION)
_STORED, _EXPIRED, _IGNORED = int(Fate.STORED), int(Fate.EXPIRED), int(Fate.IGNORED)


@compiled
def _expire(m: Any, stream: Any) -> None:
    limit = m.streams[stream, lay.LIMIT]
    node = m.streams[stream, lay.FIRST]
    while node != lay.NONE and m.nodes[node, lay.AT] < limit:
        unlink_bucket(m, stream, bucket_of(m.nodes[node, lay.OWNER], m.numbers[lay.BUCKETS]), node)
        m.streams[stream, lay.STORED] -= 1
        m.counts[lay.N_INVALIDATED] += 1
        drop_first(m, stream)
        node = m.streams[stream, lay.FIRST]


@compiled
def _advance(m: Any) -> None:
    for stream in range(m.numbers[lay.STREAMS]):
        _expire(m, stream)


@compiled
def _scan(m: Any, stream: Any, other: Any, key: Any, ts: Any, start: Any) -> Any:
    """Walk the bucket of another stream's table; every tuple in it is looked at, whatever its key."""
    low, high = partner_bounds(m, stream, other, ts)
    m.counts[lay.N_LOOKUPS] += 1
    nodes, scratch = m.nodes, m.scratch
    node = m.buckets[other, bucket_of(key, m.numbers[lay.BUCKETS]), 0]
    end, seen = start, 0
    while node != lay.NONE:
        seen += 1
        if nodes[node, lay.OWNER] == key and low <= nodes[node, lay.TS] <= high:
            scratch[end] = node
            end += 1
        node = nodes[node, lay.VALUE_NEXT]
    m.counts[lay.N_ACCESSED] += seen
    m.counts[lay.N_COMPARISONS] += seen
    return end


@compiled
def _next_table(m: Any, stream: Any) -> Any:
    """The table to probe next: by number, or the one that had the fewest matches per look-up so far."""
    best = lay.NONE
    for other in range(m.numbers[lay.STREAMS]):
        if other == stream or m.wheel[other, BEGIN] != lay.NONE:
            continue
        if best == lay.NONE:
            best = other
        elif m.numbers[lay.BY_SELECTIVITY]:
            mine = m.streams[other, lay.MATCHES] * max(m.streams[best, lay.PROBES], 1)
            if mine < m.streams[best, lay.MATCHES] * max(m.streams[other, lay.PROBES], 1):
                best = other
    return best


@compiled
def _probe(m: Any, stream: Any, key: Any, ts: Any) -> Any:
    """Probe one table after the other and stop at the first without a match; the number of combinations."""
    for other in range(m.numbers[lay.STREAMS]):
        m.wheel[other, BEGIN] = lay.NONE
        m.wheel[other, CURRENT] = 0
    end = 0
    other = _next_table(m, stream)
    while other != lay.NONE:
        m.wheel[other, BEGIN] = end
        end = _scan(m, stream, other, key, ts, end)
        m.wheel[other, END] = end
        if m.wheel[other, BEGIN] == end:
            m.streams[other, lay.PROBES] += 1
            return 0
        other = _next_table(m, stream)
    return combinations(m, stream)


@compiled
def _learn(m: Any, stream: Any, number: Any) -> None:
    """Remember how selective the tables were, for the order of the next probe."""
    if number:
        for other in range(m.numbers[lay.STREAMS]):
            if other != stream:
                m.streams[other, lay.PROBES] += 1
                m.streams[other, lay.MATCHES] += m.wheel[other, END] - m.wheel[other, BEGIN]


@compiled
def _keep(m: Any, stream: Any, key: Any, ts: Any, row: Any) -> Any:
    at = place_in_window(m, stream, ts)
    if is_expired(m, stream, at):
        m.counts[lay.N_INVALIDATED] += 1
        return _EXPIRED
    node = new_node(m, key, ts, at, row)
    link_time(m, stream, node)
    link_bucket(m, stream, bucket_of(key, m.numbers[lay.BUCKETS]), node)
    m.streams[stream, lay.STORED] += 1
    m.counts[lay.N_INSERTS] += 1
    return _STORED


@compiled
def _item(m: Any, kind: Any, stream: Any, ts: Any, key: Any, high: Any, row: Any, item: Any, fates: Any) -> Any:
    if kind == _TUPLE:
        save_counts(m)
        number = _probe(m, stream, key, ts)
        if not has_room(m, number):
            restore_counts(m)
            return False
        _learn(m, stream, number)
        emit_results(m, stream, ts, row, item, number)
        fates[item] = _keep(m, stream, key, ts, row)
        count_arrival(m, stream, ACCEPTED)
    elif kind == _NULL_KEY:
        fates[item] = null_key(m, stream, item)
    elif kind == _PUNCTUATION:
        m.counts[lay.N_PUNCTUATIONS] += 1
        fates[item] = _IGNORED
        if end_stream(m, stream, key, high):
            _advance(m)
    if m.streams[stream, lay.BY_ROWS]:
        _expire(m, stream)
    return True


@entry
def run_tables(
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
            _advance(m)
            if not _item(m, kind, stream, ts[item], keys[item], highs[item], rows[item], item, fates):
                return item
            m.counts[lay.N_TUPLES] += kind in (_TUPLE, _NULL_KEY)
        if m.numbers[lay.ERROR_ITEM] != lay.NONE:
            return item
    return stop
