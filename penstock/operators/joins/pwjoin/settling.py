"""Housekeeping of a core between two runs of its compiled loop: intervals of remembered keys, and the order of I-Nodes."""

from __future__ import annotations

import numpy as np

from penstock.model.batch import Int64s
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin.layout import Memory
from penstock.operators.joins.pwjoin.trace import GREATEST_KEY, LEAST_KEY


def settle(memory: Memory) -> None:
    """Merge the recent keys into the intervals; above the limit the oldest intervals are forgotten.

    The arrays of intervals must have room for two more per recent key.
    """
    numbers = memory.numbers
    numbers[lay.SETTLE] = 0
    recent = memory.recent[memory.recent[:, lay.R_USED] == 1]
    if not len(recent) and numbers[lay.SPANS] <= numbers[lay.MOST_MARKERS]:
        return
    points = recent[np.argsort(recent[:, lay.R_KEY])]
    pieces = without(memory.spans[: numbers[lay.SPANS]], points[:, lay.R_KEY])
    kept = points[points[:, lay.R_MASK] != lay.MISSING]
    single = kept[:, [lay.R_KEY, lay.R_KEY, lay.R_MASK, lay.R_STATUS, lay.R_BORN]]
    spans = coalesced(np.concatenate([pieces, single]))
    spans = _youngest(memory, spans)
    memory.spans[: len(spans)] = spans
    numbers[lay.SPANS], numbers[lay.RECENT] = len(spans), 0
    memory.recent[:] = 0


def without(spans: Int64s, points: Int64s) -> Int64s:
    """The intervals without some keys, which ascend: each key inside an interval cuts it in two."""
    first = np.searchsorted(points, spans[:, lay.S_LOW])
    last = np.searchsorted(points, spans[:, lay.S_HIGH], side="right")
    cuts = last - first
    pieces = np.repeat(spans, cuts + 1, axis=0)
    begins = np.cumsum(cuts + 1) - (cuts + 1)
    is_begin, is_end = np.zeros(len(pieces), np.bool_), np.zeros(len(pieces), np.bool_)
    is_begin[begins], is_end[begins + cuts] = True, True
    inside = points[np.repeat(first - (np.cumsum(cuts) - cuts), cuts) + np.arange(int(cuts.sum()))]
    # The least and the greatest key have no neighbour on one side.
    pieces[~is_begin, lay.S_LOW] = np.where(inside == GREATEST_KEY, inside, inside + (inside != GREATEST_KEY))
    pieces[~is_end, lay.S_HIGH] = inside - (inside != LEAST_KEY)
    gone = pieces[:, lay.S_LOW] > pieces[:, lay.S_HIGH]
    gone[np.flatnonzero(~is_begin)[inside == GREATEST_KEY]] = True
    gone[np.flatnonzero(~is_end)[inside == LEAST_KEY]] = True
    return pieces[~gone]


def coalesced(spans: Int64s) -> Int64s:
    """Disjoint intervals in order, neighbours of equal standing as one."""
    if not len(spans):
        return spans
    spans = spans[np.argsort(spans[:, lay.S_LOW])]
    before, after = spans[:-1], spans[1:]
    starts = np.ones(len(spans), np.bool_)
    starts[1:] = (
        (before[:, lay.S_HIGH] != after[:, lay.S_LOW] - 1)
        | (before[:, lay.S_MASK] != after[:, lay.S_MASK])
        | (before[:, lay.S_STATUS] != after[:, lay.S_STATUS])
    )
    begins = np.flatnonzero(starts)
    merged = spans[begins]
    merged[:, lay.S_HIGH] = spans[np.append(begins[1:], len(spans)) - 1, lay.S_HIGH]
    merged[:, lay.S_BORN] = np.maximum.reduceat(spans[:, lay.S_BORN], begins)
    return merged


def _youngest(memory: Memory, spans: Int64s) -> Int64s:
    """Not more intervals than allowed; some fewer, so that this is not done for every key."""
    most = int(memory.numbers[lay.MOST_MARKERS])
    if len(spans) <= most:
        return spans
    keep = most - most // 16
    order = np.argsort(-spans[:, lay.S_BORN], kind="stable")[:keep]
    memory.counts[lay.N_EVICTED] += len(spans) - keep
    memory.numbers[lay.RELOG] = 1
    return spans[np.sort(order)]


def refresh_order(memory: Memory) -> None:
    """Sort the I-Nodes by key when many are new; those that come later gather behind, so this costs little per I-Node."""
    numbers = memory.numbers
    if numbers[lay.ORDERED] and numbers[lay.ORDER_TAIL] <= max(256, numbers[lay.ORDER_MAIN] // 8):
        return
    inodes = memory.inodes[: numbers[lay.INODES_USED]]
    used = np.flatnonzero(inodes[:, lay.STATUS] != lay.FREE)
    used = used[np.argsort(inodes[used, lay.KEY])]
    memory.order[0, : len(used)] = used
    # Keys are copied, because an I-Node may be freed and used for another key before the next sorting.
    memory.order[2, : len(used)] = inodes[used, lay.KEY]
    numbers[lay.ORDERED], numbers[lay.ORDER_MAIN], numbers[lay.ORDER_TAIL] = 1, len(used), 0
