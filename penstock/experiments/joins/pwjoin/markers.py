"""Intervals of remembered keys, between two runs of the compiled loop.

The intervals are not in the source, which remembers for ever what was announced (ER-35).
"""

from __future__ import annotations

import numpy as np

from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin.layout import Memory
from penstock.model.batch import Int64s


def merged(memory: Memory) -> Int64s:
    """The intervals with the recent keys, not more than allowed: the oldest are forgotten. The recent keys are cleared."""
    numbers = memory.numbers
    numbers[lay.SETTLE] = 0
    recent = memory.recent[:, : numbers[lay.RECENT]]
    recent = recent[:, np.argsort(recent[lay.R_KEY])]
    kept = recent[:, recent[lay.R_MASK] != lay.MISSING]
    single = np.stack([kept[lay.R_KEY], kept[lay.R_KEY], kept[lay.R_MASK], kept[lay.R_STATUS], kept[lay.R_BORN]], axis=1)
    spans = _coalesced(np.concatenate([_without(memory.spans, recent[lay.R_KEY]), single]))
    memory.recent_table[:] = lay.NONE
    numbers[lay.RECENT] = 0
    # Compiled loops are made for arrays of this order.
    return np.ascontiguousarray(_youngest(memory, spans))


def _without(spans: Int64s, keys: Int64s) -> Int64s:
    """The intervals without some keys, which ascend: each key inside an interval cuts it in two."""
    first = np.searchsorted(keys, spans[:, lay.S_LOW])
    cuts = np.searchsorted(keys, spans[:, lay.S_HIGH], side="right") - first
    pieces = np.repeat(spans, cuts + 1, axis=0)
    begins = np.cumsum(cuts + 1) - (cuts + 1)
    is_begin, is_end = np.zeros(len(pieces), np.bool_), np.zeros(len(pieces), np.bool_)
    is_begin[begins], is_end[begins + cuts] = True, True
    inside = keys[np.repeat(first - (np.cumsum(cuts) - cuts), cuts) + np.arange(int(cuts.sum()))]
    pieces[~is_begin, lay.S_LOW] = inside + 1
    pieces[~is_end, lay.S_HIGH] = inside - 1
    return pieces[pieces[:, lay.S_LOW] <= pieces[:, lay.S_HIGH]]


def _coalesced(spans: Int64s) -> Int64s:
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
    return spans[np.sort(order)]
