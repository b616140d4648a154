"""T-Nodes: the time list of a stream, the value list of a key and stream, and the recycle bin."""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled, entry


@compiled
def new_node(m: Any, owner: Any, ts: Any, at: Any, row: Any) -> Any:
    """A node from the recycle bin, or a new one."""
    node = m.numbers[lay.NODES_FREE]
    if node != lay.NONE:
        m.numbers[lay.NODES_FREE] = m.nodes[node, lay.TIME_NEXT]
    else:
        node = m.numbers[lay.NODES_USED]
        m.numbers[lay.NODES_USED] += 1
    m.nodes[node, lay.TS] = ts
    m.nodes[node, lay.AT] = at
    m.nodes[node, lay.ROW] = row
    m.nodes[node, lay.OWNER] = owner
    m.nodes[node, lay.LINKS] = 0
    m.nodes[node, lay.RING] = lay.NONE
    return node


@compiled
def unlinked(m: Any, node: Any, links: Any) -> None:
    """The node left these lists; in none any more, it goes to the recycle bin."""
    m.nodes[node, lay.LINKS] &= ~links
    if m.nodes[node, lay.LINKS] == 0:
        m.nodes[node, lay.TIME_NEXT] = m.numbers[lay.NODES_FREE]
        m.numbers[lay.NODES_FREE] = node


@compiled
def link_time(m: Any, stream: Any, node: Any) -> None:
    """Append to the time list; a node that comes out of order walks back to its place."""
    before = m.streams[stream, lay.FINAL]
    after = lay.NONE
    while before != lay.NONE and m.nodes[before, lay.AT] > m.nodes[node, lay.AT]:
        after = before
        before = m.nodes[before, lay.TIME_BEFORE]
    m.nodes[node, lay.TIME_BEFORE] = before
    m.nodes[node, lay.TIME_NEXT] = after
    if before == lay.NONE:
        m.streams[stream, lay.FIRST] = node
    else:
        m.nodes[before, lay.TIME_NEXT] = node
    if after == lay.NONE:
        m.streams[stream, lay.FINAL] = node
    else:
        m.nodes[after, lay.TIME_BEFORE] = node
    m.nodes[node, lay.LINKS] |= lay.IN_TIME
    m.nodes[node, lay.IN_STREAM] = stream


@compiled
def drop_first(m: Any, stream: Any) -> None:
    """Move the begin of the window by one node."""
    node = m.streams[stream, lay.FIRST]
    after = m.nodes[node, lay.TIME_NEXT]
    m.streams[stream, lay.FIRST] = after
    if after == lay.NONE:
        m.streams[stream, lay.FINAL] = lay.NONE
    else:
        m.nodes[after, lay.TIME_BEFORE] = lay.NONE
    unlinked(m, node, lay.IN_TIME)


@compiled
def insert(m: Any, inode: Any, place: Any, stream: Any, ts: Any, at: Any, row: Any) -> None:
    """Store a tuple: at the end of the time list of its stream and of value list `place` of its I-Node."""
    node = new_node(m, inode, ts, at, row)
    link_time(m, stream, node)
    m.nodes[node, lay.VALUE_NEXT] = lay.NONE
    m.nodes[node, lay.LINKS] |= lay.IN_VALUE
    tail = m.lists[inode, place, lay.TAIL]
    if tail == lay.NONE:
        m.lists[inode, place, lay.HEAD] = node
    else:
        m.nodes[tail, lay.VALUE_NEXT] = node
    m.lists[inode, place, lay.TAIL] = node
    if m.lists[inode, place, lay.LIVE] == 0:
        m.inodes[inode, lay.NONEMPTY] += 1
        m.lists[inode, place, lay.LAST] = at
    m.lists[inode, place, lay.LIVE] += 1
    m.lists[inode, place, lay.LAST] = max(m.lists[inode, place, lay.LAST], at)
    m.inodes[inode, lay.SINCE] = 0
    m.streams[stream, lay.STORED] += 1
    m.counts[lay.N_INSERTS] += 1


@compiled
def kill(m: Any, node: Any, place: Any, stream: Any, key: Any) -> None:
    """The tuple of a node is gone; the node itself waits until the lists it is in are walked (lazy deletion)."""
    inode = m.nodes[node, lay.OWNER]
    m.nodes[node, lay.ROW] = lay.NONE
    m.lists[inode, place, lay.LIVE] -= 1
    if m.lists[inode, place, lay.LIVE] == 0:
        m.inodes[inode, lay.NONEMPTY] -= 1
    m.streams[stream, lay.STORED] -= 1
    for at in range(m.numbers[lay.RANGES]):
        if m.ranges[at, lay.P_STREAM] == stream and m.ranges[at, lay.P_LOW] <= key <= m.ranges[at, lay.P_HIGH]:
            m.ranges[at, lay.P_LIVE] -= 1
            if m.ranges[at, lay.P_LIVE] == 0:
                m.numbers[lay.RELEASABLE] = 1


@compiled
def purge_list(m: Any, inode: Any, place: Any, stream: Any, key: Any) -> None:
    """Remove a whole value list."""
    node = m.lists[inode, place, lay.HEAD]
    while node != lay.NONE:
        after = m.nodes[node, lay.VALUE_NEXT]
        m.counts[lay.N_PURGE_SCANS] += 1
        if m.nodes[node, lay.ROW] != lay.NONE:
            kill(m, node, place, stream, key)
            m.counts[lay.N_PURGED] += 1
        m.nodes[node, lay.RING] = lay.NONE
        unlinked(m, node, lay.IN_VALUE)
        node = after
    m.lists[inode, place, lay.HEAD] = lay.NONE
    m.lists[inode, place, lay.TAIL] = lay.NONE


@compiled
def gather(m: Any, inode: Any, place: Any, start: Any, low: Any, high: Any) -> Any:
    """Copy the live nodes of a value list with times from `low` to `high` to the scratch; dead ones are unlinked."""
    nodes, scratch = m.nodes, m.scratch
    before, end, live = lay.NONE, start, 0
    node = m.lists[inode, place, lay.HEAD]
    while node != lay.NONE:
        after = nodes[node, lay.VALUE_NEXT]
        if nodes[node, lay.ROW] == lay.NONE:
            if before == lay.NONE:
                m.lists[inode, place, lay.HEAD] = after
            else:
                nodes[before, lay.VALUE_NEXT] = after
            unlinked(m, node, lay.IN_VALUE)
        else:
            live += 1
            before = node
            if low <= nodes[node, lay.TS] <= high:
                scratch[end] = node
                end += 1
        node = after
    m.counts[lay.N_ACCESSED] += live
    m.lists[inode, place, lay.TAIL] = before
    return end


@entry
def live_rows(m: Any, stream: Any, rows: Any) -> None:
    """Write the rows of the stored tuples of a stream, in any order: nodes as they lie are read faster than along their list."""
    end = 0
    for node in range(m.numbers[lay.NODES_USED]):
        is_linked = m.nodes[node, lay.LINKS] & lay.IN_TIME and m.nodes[node, lay.IN_STREAM] == stream
        if is_linked and m.nodes[node, lay.ROW] != lay.NONE:
            rows[end] = m.nodes[node, lay.ROW]
            end += 1


@compiled
def link_bucket(m: Any, table: Any, bucket: Any, node: Any) -> None:
    """Append to a bucket of a hash table, in the order of the window."""
    before = m.buckets[table, bucket, 1]
    after = lay.NONE
    while before != lay.NONE and m.nodes[before, lay.AT] > m.nodes[node, lay.AT]:
        after = before
        before = m.nodes[before, lay.VALUE_BEFORE]
    m.nodes[node, lay.VALUE_BEFORE] = before
    m.nodes[node, lay.VALUE_NEXT] = after
    if before == lay.NONE:
        m.buckets[table, bucket, 0] = node
    else:
        m.nodes[before, lay.VALUE_NEXT] = node
    if after == lay.NONE:
        m.buckets[table, bucket, 1] = node
    else:
        m.nodes[after, lay.VALUE_BEFORE] = node
    m.nodes[node, lay.LINKS] |= lay.IN_VALUE


@compiled
def unlink_bucket(m: Any, table: Any, bucket: Any, node: Any) -> None:
    before = m.nodes[node, lay.VALUE_BEFORE]
    after = m.nodes[node, lay.VALUE_NEXT]
    if before == lay.NONE:
        m.buckets[table, bucket, 0] = after
    else:
        m.nodes[before, lay.VALUE_NEXT] = after
    if after == lay.NONE:
        m.buckets[table, bucket, 1] = before
    else:
        m.nodes[after, lay.VALUE_BEFORE] = before
    unlinked(m, node, lay.IN_VALUE)
