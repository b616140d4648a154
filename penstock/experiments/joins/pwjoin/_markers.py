"""What is remembered of keys without tuples: which streams announced them, and whether they have left the join.

Recent keys are in a hash table. From time to time the host merges them into sorted intervals of keys of equal standing
(`markers`), so that keys that finish in order cost next to nothing.
"""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled, woven
from penstock.experiments.joins._hashing import slot_of
from penstock.experiments.joins.pwjoin import layout as lay

#: Recent keys that are merged at once, unless there are many intervals already.
_GATHERED = 1024


@woven
def recall(m: Any, key: Any) -> Any:
    """Mask and status of a key that has no I-Node."""
    if m.numbers[lay.RECENT] == 0 and len(m.spans) == 0:
        return 0, lay.OPEN
    m.counts[lay.N_MARKER_LOOKUPS] += 1
    return remembered(m, key)


@compiled
def remembered(m: Any, key: Any) -> Any:
    """Mask and status that are remembered of a key, without counting."""
    place = m.recent_table[slot_of(m.recent_table, m.recent[lay.R_KEY], key)]
    if place != lay.NONE:
        if m.recent[lay.R_MASK, place] == lay.MISSING:
            return 0, lay.OPEN
        return m.recent[lay.R_MASK, place], m.recent[lay.R_STATUS, place]
    low, high = 0, len(m.spans)
    while low < high:
        middle = (low + high) >> 1
        if m.spans[middle, lay.S_HIGH] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(m.spans) and m.spans[low, lay.S_LOW] <= key:
        return m.spans[low, lay.S_MASK], m.spans[low, lay.S_STATUS]
    return 0, lay.OPEN


@compiled
def remember(m: Any, key: Any, mask: Any, status: Any) -> None:
    """Remember a key without I-Node; forget it when all streams have closed it and nobody wants to know."""
    slot = slot_of(m.recent_table, m.recent[lay.R_KEY], key)
    place = m.recent_table[slot]
    if place == lay.NONE:
        place = m.numbers[lay.RECENT]
        m.numbers[lay.RECENT] += 1
        m.recent_table[slot] = place
        m.recent[lay.R_KEY, place] = key
    m.numbers[lay.BORN] += 1
    m.recent[lay.R_MASK, place] = lay.MISSING if mask == m.numbers[lay.ALL] and m.numbers[lay.FORGETS] else mask
    m.recent[lay.R_STATUS, place] = status
    m.recent[lay.R_BORN, place] = m.numbers[lay.BORN]
    # The host is asked to merge when there are many recent keys for their purpose, or more entries than allowed.
    recent, spans = m.numbers[lay.RECENT], len(m.spans)
    if recent > max(_GATHERED, spans // 8) or recent + spans > m.numbers[lay.MOST_MARKERS]:
        m.numbers[lay.SETTLE] = 1
