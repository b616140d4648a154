"""I-Nodes: the hash index of keys, and its ordered companion for ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.model.elements import FOREVER
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled, entry

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@compiled
def bucket_of(key: Any, buckets: Any) -> Any:
    """Multiplicative hash; the high half of the product decides, so that any number of buckets is used evenly."""
    return np.int64((((np.uint64(key) * _MIX) >> _HALF) * np.uint64(buckets)) >> _HALF)


@compiled
def look_up(m: Any, table: Any, key: Any) -> Any:
    """The I-Node of a key, or NONE."""
    m.counts[lay.N_LOOKUPS] += 1
    inode = m.buckets[table, bucket_of(key, m.numbers[lay.BUCKETS]), 0]
    while inode != lay.NONE:
        m.counts[lay.N_COMPARISONS] += 1
        if m.inodes[inode, lay.KEY] == key:
            return inode
        inode = m.inodes[inode, lay.CHAIN]
    return lay.NONE


@compiled
def new_inode(m: Any, table: Any, key: Any, mask: Any, status: Any) -> Any:
    inode = m.numbers[lay.INODES_FREE]
    if inode != lay.NONE:
        m.numbers[lay.INODES_FREE] = m.inodes[inode, lay.CHAIN]
    else:
        inode = m.numbers[lay.INODES_USED]
        m.numbers[lay.INODES_USED] += 1
    m.numbers[lay.INODES] += 1
    m.inodes[inode, lay.KEY] = key
    m.inodes[inode, lay.MASK] = mask
    m.inodes[inode, lay.STATUS] = status
    m.inodes[inode, lay.PROP_TIME] = FOREVER
    m.inodes[inode, lay.STREAM] = table
    for column in (lay.NONEMPTY, lay.SINCE, lay.VISIT):
        m.inodes[inode, column] = 0
    for place in range(m.lists.shape[1]):
        for column in (lay.HEAD, lay.TAIL, lay.PLACE):
            m.lists[inode, place, column] = lay.NONE
        m.lists[inode, place, lay.LIVE] = 0
    _chain(m, inode)
    if m.numbers[lay.ORDERED]:
        m.order[1, m.numbers[lay.ORDER_TAIL]] = inode
        m.numbers[lay.ORDER_TAIL] += 1
    return inode


@compiled
def _chain(m: Any, inode: Any) -> None:
    table = m.inodes[inode, lay.STREAM]
    bucket = bucket_of(m.inodes[inode, lay.KEY], m.numbers[lay.BUCKETS])
    m.inodes[inode, lay.CHAIN] = m.buckets[table, bucket, 0]
    m.buckets[table, bucket, 0] = inode


@compiled
def free_inode(m: Any, inode: Any) -> None:
    """Take an I-Node out of the index; its lists must be empty."""
    table = m.inodes[inode, lay.STREAM]
    bucket = bucket_of(m.inodes[inode, lay.KEY], m.numbers[lay.BUCKETS])
    at = m.buckets[table, bucket, 0]
    if at == inode:
        m.buckets[table, bucket, 0] = m.inodes[inode, lay.CHAIN]
    else:
        while m.inodes[at, lay.CHAIN] != inode:
            at = m.inodes[at, lay.CHAIN]
        m.inodes[at, lay.CHAIN] = m.inodes[inode, lay.CHAIN]
    m.inodes[inode, lay.STATUS] = lay.FREE
    m.inodes[inode, lay.CHAIN] = m.numbers[lay.INODES_FREE]
    m.numbers[lay.INODES_FREE] = inode
    m.numbers[lay.INODES] -= 1


@entry
def rehash(m: Any) -> None:
    """Put all I-Nodes into new, empty buckets."""
    for inode in range(m.numbers[lay.INODES_USED]):
        if m.inodes[inode, lay.STATUS] != lay.FREE:
            _chain(m, inode)


@compiled
def _note(m: Any, inode: Any, low: Any, high: Any, found: Any) -> Any:
    if m.inodes[inode, lay.STATUS] == lay.FREE or m.inodes[inode, lay.VISIT] == m.numbers[lay.SERIAL]:
        return found
    if not low <= m.inodes[inode, lay.KEY] <= high:
        return found
    m.inodes[inode, lay.VISIT] = m.numbers[lay.SERIAL]
    m.scratch[found] = inode
    return found + 1


@compiled
def visit(m: Any, low: Any, high: Any) -> Any:
    """Write the I-Nodes of a range of keys to the scratch; returns their number. The host has sorted them before."""
    m.numbers[lay.SERIAL] += 1
    found, at, end = 0, 0, m.numbers[lay.ORDER_MAIN]
    while at < end:
        middle = (at + end) >> 1
        if m.order[2, middle] < low:
            at = middle + 1
        else:
            end = middle
    while at < m.numbers[lay.ORDER_MAIN] and m.order[2, at] <= high:
        found = _note(m, m.order[0, at], low, high, found)
        at += 1
    for at in range(m.numbers[lay.ORDER_TAIL]):
        found = _note(m, m.order[1, at], low, high, found)
    return found
