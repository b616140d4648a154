"""How keys and tuples leave the state: deletion of a key, expiry and propagation in the cluster state."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled, woven
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin._index import free_inode
from penstock.experiments.joins.pwjoin._lists import drop_first, kill, purge_list
from penstock.experiments.joins.pwjoin._markers import remember, remembered
from penstock.experiments.joins.pwjoin._output import emit_mark
from penstock.experiments.joins.pwjoin._schedule import unschedule


@woven
def retire(m: Any, inode: Any, status: Any) -> None:
    """Delete an I-Node with all its tuples (ER-10); what was announced of its key is remembered."""
    key = m.inodes[inode, lay.KEY]
    mask = m.inodes[inode, lay.MASK]
    for stream in range(m.numbers[lay.STREAMS]):
        if m.lists[inode, stream, lay.PLACE] != lay.NONE:
            unschedule(m, stream, inode)
        if m.lists[inode, stream, lay.HEAD] != lay.NONE:
            purge_list(m, inode, stream)
    free_inode(m, inode)
    if mask:
        # A split I-Node knows its own stream only; what the other one announced is remembered already.
        before, _ = remembered(m, key)
        remember(m, key, mask | before, status)


@compiled
def propagate(m: Any, inode: Any, stream: Any, item: Any) -> None:
    """Let a key leave: no result with it can follow. Purge-and-drop of the source, for all streams at once."""
    emit_mark(m, m.inodes[inode, lay.KEY], stream, item)
    retire(m, inode, lay.PROPAGATED)


@woven
def delete_if_empty(m: Any, inode: Any) -> None:
    """Without tuples and announcement nothing is lost with an I-Node; a scheduled key is propagated anyway."""
    if m.inodes[inode, lay.NONEMPTY] == 0 and m.inodes[inode, lay.STATUS] != lay.SCHEDULED:
        retire(m, inode, m.inodes[inode, lay.STATUS])


@woven
def expire(m: Any, stream: Any) -> None:
    """Remove what has left the window from the head of a time list; nodes of purged tuples are skipped (ER-7)."""
    limit = m.streams[stream, lay.LIMIT]
    node = m.streams[stream, lay.FIRST]
    while node != lay.NONE and (m.nodes[node, lay.ITEM] == lay.NONE or m.nodes[node, lay.AT] < limit):
        if m.nodes[node, lay.ITEM] != lay.NONE:
            kill(m, node, stream)
            m.counts[lay.N_INVALIDATED] += 1
            delete_if_empty(m, m.nodes[node, lay.OWNER])
        drop_first(m, stream)
        node = m.streams[stream, lay.FIRST]


@compiled
def fire(m: Any, stream: Any, item: Any) -> None:
    """Propagate the keys whose last tuple of an announcing stream has expired, strictly after its window (ER-18)."""
    limit = m.streams[stream, lay.LIMIT]
    while m.streams[stream, lay.DUE] > 0:
        inode = m.schedule[stream, 0]
        if m.lists[inode, stream, lay.LAST] >= limit:
            return
        propagate(m, inode, stream, item)


@woven
def advance(m: Any, item: Any) -> None:
    """Bring windows and schedule up to date; every item does it before anything else (ER-31)."""
    # Mostly there is nothing to do: to find that out here is cheaper than a call.
    for stream in range(len(m.streams)):
        node = m.streams[stream, lay.FIRST]
        if node != lay.NONE and (m.nodes[node, lay.ITEM] == lay.NONE or m.nodes[node, lay.AT] < m.streams[stream, lay.LIMIT]):
            expire(m, stream)
    for stream in range(len(m.streams)):
        if m.streams[stream, lay.DUE]:
            fire(m, stream, item)
