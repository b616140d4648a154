"""The propagation schedule: per stream a heap of announced keys by the last tuple that holds them back."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled
from penstock.experiments.joins.pwjoin import layout as lay


@compiled
def _put(m: Any, stream: Any, place: Any, inode: Any) -> None:
    m.schedule[stream, place] = inode
    m.lists[inode, stream, lay.PLACE] = place


@compiled
def _rise(m: Any, stream: Any, place: Any) -> None:
    inode = m.schedule[stream, place]
    last = m.lists[inode, stream, lay.LAST]
    while place > 0:
        above = m.schedule[stream, (place - 1) // 2]
        if m.lists[above, stream, lay.LAST] <= last:
            break
        _put(m, stream, place, above)
        place = (place - 1) // 2
    _put(m, stream, place, inode)


@compiled
def _sink(m: Any, stream: Any, place: Any) -> None:
    inode = m.schedule[stream, place]
    last = m.lists[inode, stream, lay.LAST]
    end = m.streams[stream, lay.DUE]
    while 2 * place + 1 < end:
        below = 2 * place + 1
        if below + 1 < end:
            left = m.lists[m.schedule[stream, below], stream, lay.LAST]
            right = m.lists[m.schedule[stream, below + 1], stream, lay.LAST]
            if right < left:
                below += 1
        lower = m.schedule[stream, below]
        if last <= m.lists[lower, stream, lay.LAST]:
            break
        _put(m, stream, place, lower)
        place = below
    _put(m, stream, place, inode)


@compiled
def schedule(m: Any, stream: Any, inode: Any) -> None:
    """Let the key leave when its last tuple of the stream has expired."""
    m.counts[lay.N_SCHEDULE] += 1
    place = m.streams[stream, lay.DUE]
    m.streams[stream, lay.DUE] += 1
    m.schedule[stream, place] = inode
    _rise(m, stream, place)


@compiled
def unschedule(m: Any, stream: Any, inode: Any) -> None:
    """Take the key out of the schedule of a stream."""
    place = m.lists[inode, stream, lay.PLACE]
    m.counts[lay.N_SCHEDULE] += 1
    m.lists[inode, stream, lay.PLACE] = lay.NONE
    m.streams[stream, lay.DUE] -= 1
    end = m.streams[stream, lay.DUE]
    if place != end:
        moved = m.schedule[stream, end]
        _put(m, stream, place, moved)
        _rise(m, stream, place)
        _sink(m, stream, m.lists[moved, stream, lay.PLACE])
