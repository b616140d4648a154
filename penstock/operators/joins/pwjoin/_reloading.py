"""Put stored tuples back into an empty core."""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._announcing import wait_for_expiry
from penstock.operators.joins.pwjoin._compiled import entry
from penstock.operators.joins.pwjoin._index import bucket_of, look_up, new_inode
from penstock.operators.joins.pwjoin._known import remember
from penstock.operators.joins.pwjoin._nodes import insert, link_bucket, link_time, new_node
from penstock.operators.joins.pwjoin._split import close_ring


@entry
def reload_indexed(m: Any, is_split: Any, stream: Any, keys: Any, ts: Any, ats: Any, rows: Any, masks: Any, statuses: Any) -> None:
    """Tuples of a cluster or split state, with what was announced of their keys."""
    table = stream if is_split else 0
    for at in range(len(keys)):
        inode = look_up(m, table, keys[at])
        if inode == lay.NONE:
            mask = masks[at] & (1 << stream) if is_split else masks[at]
            inode = new_inode(m, table, keys[at], mask, statuses[at])
        insert(m, inode, stream, stream, ts[at], ats[at], rows[at])


@entry
def reload_table(m: Any, stream: Any, keys: Any, ts: Any, ats: Any, rows: Any) -> None:
    """Tuples of a hash table."""
    for at in range(len(keys)):
        node = new_node(m, keys[at], ts[at], ats[at], rows[at])
        link_time(m, stream, node)
        link_bucket(m, stream, bucket_of(keys[at], m.numbers[lay.BUCKETS]), node)
        m.streams[stream, lay.STORED] += 1


@entry
def reschedule(m: Any, is_split: Any) -> None:
    """Let announced keys and ranges wait again for the tuples that hold them back."""
    for inode in range(m.numbers[lay.INODES_USED]):
        mask = m.inodes[inode, lay.MASK]
        for stream in range(m.numbers[lay.STREAMS]):
            live = m.lists[inode, stream, lay.LIVE]
            for at in range(m.numbers[lay.RANGES]):
                inside = m.ranges[at, lay.P_LOW] <= m.inodes[inode, lay.KEY] <= m.ranges[at, lay.P_HIGH]
                if inside and m.ranges[at, lay.P_STREAM] == stream:
                    m.ranges[at, lay.P_LIVE] += live
            if not mask & (1 << stream) or not live or m.inodes[inode, lay.STATUS] == lay.PROPAGATED:
                continue
            if m.numbers[lay.EARLY] and is_split:
                close_ring(m, inode, stream)
            elif m.numbers[lay.EARLY]:
                wait_for_expiry(m, inode, stream)


@entry
def seed(m: Any, keys: Any, masks: Any, statuses: Any) -> None:
    """Remember what was announced of keys that have no tuple."""
    for at in range(len(keys)):
        remember(m, keys[at], masks[at], statuses[at])
