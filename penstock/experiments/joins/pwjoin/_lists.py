"""T-Nodes: the time list of a stream, the value list of a key and stream, and the recycle bin."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import woven
from penstock.experiments.joins.pwjoin import layout as lay


@woven
def new_node(m: Any, owner: Any, stream: Any, at: Any, item: Any) -> Any:
    """A node from the recycle bin, or a new one, at the end of the time list of its stream; it shall get a value list too."""
    node = m.numbers[lay.NODES_FREE]
    if node != lay.NONE:
        m.numbers[lay.NODES_FREE] = m.nodes[node, lay.TIME_NEXT]
    else:
        node = m.numbers[lay.NODES_USED]
        m.numbers[lay.NODES_USED] += 1
    m.nodes[node, lay.AT] = at
    m.nodes[node, lay.ITEM] = item
    m.nodes[node, lay.OWNER] = owner
    m.nodes[node, lay.TIME_NEXT] = lay.NONE
    m.nodes[node, lay.VALUE_NEXT] = lay.NONE
    m.nodes[node, lay.LINKS] = lay.IN_TIME | lay.IN_VALUE
    m.nodes[node, lay.RING] = lay.NONE
    final = m.streams[stream, lay.FINAL]
    if final == lay.NONE:
        m.streams[stream, lay.FIRST] = node
    else:
        m.nodes[final, lay.TIME_NEXT] = node
    m.streams[stream, lay.FINAL] = node
    m.streams[stream, lay.STORED] += 1
    m.counts[lay.N_INSERTS] += 1
    return node


@woven
def unlinked(m: Any, node: Any, link: Any) -> None:
    """The node left one of its lists; in none any more, it goes to the recycle bin."""
    m.nodes[node, lay.LINKS] &= ~link
    if m.nodes[node, lay.LINKS] == 0:
        m.nodes[node, lay.TIME_NEXT] = m.numbers[lay.NODES_FREE]
        m.numbers[lay.NODES_FREE] = node


@woven
def drop_first(m: Any, stream: Any) -> None:
    """Move the begin of the window by one node."""
    node = m.streams[stream, lay.FIRST]
    after = m.nodes[node, lay.TIME_NEXT]
    m.streams[stream, lay.FIRST] = after
    if after == lay.NONE:
        m.streams[stream, lay.FINAL] = lay.NONE
    unlinked(m, node, lay.IN_TIME)


@woven
def insert(m: Any, inode: Any, stream: Any, at: Any, item: Any) -> None:
    """Store a tuple: at the end of the time list of its stream and of its value list."""
    node = new_node(m, inode, stream, at, item)
    tail = m.lists[inode, stream, lay.TAIL]
    if tail == lay.NONE:
        m.lists[inode, stream, lay.HEAD] = node
    else:
        m.nodes[tail, lay.VALUE_NEXT] = node
    m.lists[inode, stream, lay.TAIL] = node
    if m.lists[inode, stream, lay.LIVE] == 0:
        m.inodes[inode, lay.NONEMPTY] += 1
    m.lists[inode, stream, lay.LIVE] += 1
    m.lists[inode, stream, lay.LAST] = at


@woven
def kill(m: Any, node: Any, stream: Any) -> None:
    """The tuple of a node is gone; the node itself waits until the lists it is in are walked (lazy deletion)."""
    inode = m.nodes[node, lay.OWNER]
    m.nodes[node, lay.ITEM] = lay.NONE
    m.lists[inode, stream, lay.LIVE] -= 1
    if m.lists[inode, stream, lay.LIVE] == 0:
        m.inodes[inode, lay.NONEMPTY] -= 1
    m.streams[stream, lay.STORED] -= 1


@woven
def purge_list(m: Any, inode: Any, stream: Any) -> None:
    """Remove a whole value list."""
    node = m.lists[inode, stream, lay.HEAD]
    while node != lay.NONE:
        after = m.nodes[node, lay.VALUE_NEXT]
        m.counts[lay.N_PURGE_SCANS] += 1
        if m.nodes[node, lay.ITEM] != lay.NONE:
            kill(m, node, stream)
            m.counts[lay.N_PURGED] += 1
        unlinked(m, node, lay.IN_VALUE)
        node = after
    m.lists[inode, stream, lay.HEAD] = lay.NONE
    m.lists[inode, stream, lay.TAIL] = lay.NONE


@woven
def gather(m: Any, inode: Any, stream: Any, start: Any) -> None:
    """Copy the live nodes of a value list to the scratch from `start` on; dead ones are unlinked (ER-8)."""
    nodes, scratch = m.nodes, m.scratch
    before, end = lay.NONE, start
    node = m.lists[inode, stream, lay.HEAD]
    while node != lay.NONE:
        after = nodes[node, lay.VALUE_NEXT]
        if nodes[node, lay.ITEM] == lay.NONE:
            if before == lay.NONE:
                m.lists[inode, stream, lay.HEAD] = after
            else:
                nodes[before, lay.VALUE_NEXT] = after
            unlinked(m, node, lay.IN_VALUE)
        else:
            before = node
            scratch[end] = node
            end += 1
        node = after
    m.counts[lay.N_ACCESSED] += end - start
    m.lists[inode, stream, lay.TAIL] = before
    m.partners[stream, lay.BEGIN] = start
    m.partners[stream, lay.END] = end
