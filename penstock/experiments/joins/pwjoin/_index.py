"""I-Nodes: the hash index of keys."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import woven
from penstock.experiments.joins._hashing import bucket_of
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.model.elements import FOREVER


@woven
def look_up(m: Any, table: Any, key: Any) -> Any:
    """The I-Node of a key, or NONE."""
    m.counts[lay.N_LOOKUPS] += 1
    inode = m.buckets[table, bucket_of(key, m.buckets.shape[1]), 0]
    while inode != lay.NONE:
        m.counts[lay.N_COMPARISONS] += 1
        if m.inodes[inode, lay.KEY] == key:
            return inode
        inode = m.inodes[inode, lay.CHAIN]
    return lay.NONE


@woven
def new_inode(m: Any, table: Any, key: Any, mask: Any, status: Any) -> Any:
    """An I-Node with empty value lists, first in its bucket."""
    inode = m.numbers[lay.INODES_FREE]
    if inode != lay.NONE:
        m.numbers[lay.INODES_FREE] = m.inodes[inode, lay.CHAIN]
    else:
        inode = m.numbers[lay.INODES_USED]
        m.numbers[lay.INODES_USED] += 1
    m.numbers[lay.INODES] += 1
    bucket = bucket_of(key, m.buckets.shape[1])
    m.inodes[inode, lay.KEY] = key
    m.inodes[inode, lay.CHAIN] = m.buckets[table, bucket, 0]
    m.inodes[inode, lay.MASK] = mask
    m.inodes[inode, lay.STATUS] = status
    m.inodes[inode, lay.PROP_TIME] = FOREVER
    m.inodes[inode, lay.NONEMPTY] = 0
    m.inodes[inode, lay.TABLE] = table
    m.buckets[table, bucket, 0] = inode
    for stream in range(m.numbers[lay.STREAMS]):
        for column in (lay.HEAD, lay.TAIL, lay.PLACE):
            m.lists[inode, stream, column] = lay.NONE
        m.lists[inode, stream, lay.LIVE] = 0
    return inode


@woven
def free_inode(m: Any, inode: Any) -> None:
    """Take an I-Node out of the index; its lists must be empty."""
    table = m.inodes[inode, lay.TABLE]
    bucket = bucket_of(m.inodes[inode, lay.KEY], m.buckets.shape[1])
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
