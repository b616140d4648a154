"""What a core knows of keys, as rows for checkpoints: intervals of keys with mask, status and age."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.batch import Int64s, int64s
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.operators.joins.pwjoin.rows import is_member
from penstock.operators.joins.pwjoin.settling import coalesced, without
from penstock.operators.segments import SegmentLog

_MOST_SEGMENTS = 16
_SCHEMA = pa.schema([pa.field(name, pa.int64()) for name in ("low", "high", "mask", "status", "born", "of_inode")])
#: Last column: whether the row tells of an I-Node, or of keys without one.
_OF_INODE = 5


class KnowledgeLog:
    """Everything a core knows, as segments: a full one, then what has changed; full again after many changes."""

    def __init__(self, core: JoinCore) -> None:
        self._core = core
        self._log = SegmentLog("known")

    def snapshot(self) -> tuple[dict[str, Any], Mapping[str, pa.RecordBatch]]:
        self._core.settle()
        memory = self._core.memory
        changed = np.unique(memory.log[: max(int(memory.numbers[lay.LOG]), 0)])
        if memory.numbers[lay.RELOG] or len(self._log) >= _MOST_SEGMENTS:
            self._log.clear()
            spans = memory.spans[: memory.numbers[lay.SPANS]]
            self._add(spans, _announced(self._core))
        elif len(changed):
            self._add(_remembered(self._core, changed), _announced(self._core, changed))
        memory.numbers[lay.LOG] = memory.numbers[lay.RELOG] = 0
        return {"next": self._log.next}, self._log.stored()

    def _add(self, spans: Int64s, inodes: Int64s) -> None:
        kinds = np.repeat([0, 1], [len(spans), len(inodes)])
        rows = np.column_stack([np.concatenate([spans, inodes]), kinds])
        if len(rows):
            self._log.add(pa.RecordBatch.from_arrays([pa.array(column) for column in rows.T.copy()], schema=_SCHEMA))

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> InodeMasks:
        """Tell the core what is known of keys without I-Node; what was announced of the others is returned."""
        self._log.reload(meta["next"], segments)
        spans, inodes = np.empty((0, 5), np.int64), np.empty((0, 5), np.int64)
        for number in self._log:
            rows = np.stack([int64s(column) for column in self._log[number].columns], axis=1)
            of_inode = rows[:, _OF_INODE] == 1
            # Only the first segment has intervals; the keys of the others stand for themselves.
            spans, inodes = _newer(spans, rows[~of_inode, :5]), _newer(inodes, rows[of_inode, :5])
        self._core.put_spans(coalesced(spans))
        return InodeMasks(inodes[:, lay.S_LOW], inodes[:, lay.S_MASK], inodes[:, lay.S_STATUS])


class InodeMasks(NamedTuple):
    """What was announced of keys that have tuples; the keys ascend."""

    keys: Int64s
    masks: Int64s
    statuses: Int64s

    def of(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Mask and status of some keys; none where nothing was announced."""
        masks, statuses = np.zeros(len(keys), np.int64), np.full(len(keys), lay.OPEN)
        if len(self.keys):
            places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            found = self.keys[places] == keys
            masks[found], statuses[found] = self.masks[places[found]], self.statuses[places[found]]
        return masks, statuses


def _newer(old: Int64s, new: Int64s) -> Int64s:
    """Old intervals, and new ones in the place of those they speak about."""
    kept = without(old, np.unique(new[:, lay.S_LOW])) if len(old) and len(new) else old
    both = np.concatenate([kept, new[new[:, lay.S_MASK] > 0]])
    return both[np.argsort(both[:, lay.S_LOW], kind="stable")]


def _announced(core: JoinCore, among: Int64s | None = None) -> Int64s:
    """Announced keys of I-Nodes, all or some (mask 0 where there is none); the two I-Nodes of a split key together."""
    memory = core.memory
    inodes = memory.inodes[: memory.numbers[lay.INODES_USED]]
    inodes = inodes[(inodes[:, lay.STATUS] != lay.FREE) & (inodes[:, lay.MASK] != 0)]
    if among is not None:
        inodes = inodes[is_member(inodes[:, lay.KEY], among)]
    keys, places = np.unique(inodes[:, lay.KEY], return_inverse=True)
    masks, statuses = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    np.bitwise_or.at(masks, places, inodes[:, lay.MASK])
    np.maximum.at(statuses, places, np.where(inodes[:, lay.STATUS] == lay.PROPAGATED, lay.PROPAGATED, lay.OPEN))
    found = _points(core, keys, masks, statuses)
    if among is None:
        return found
    gone = among[~is_member(among, keys)]
    none = np.zeros(len(gone), np.int64)
    return np.concatenate([found, _points(core, gone, none, none)])


def _points(core: JoinCore, keys: Int64s, masks: Int64s, statuses: Int64s) -> Int64s:
    born = np.full(len(keys), core.memory.numbers[lay.BORN])
    return np.column_stack([keys, keys, masks, statuses, born])


def _remembered(core: JoinCore, keys: Int64s) -> Int64s:
    """What the intervals say of keys; the mask is MISSING where they say nothing."""
    spans = core.memory.spans[: core.memory.numbers[lay.SPANS]]
    found = _points(core, keys, np.full(len(keys), lay.MISSING), np.full(len(keys), lay.OPEN))
    if len(spans):
        places = np.minimum(np.searchsorted(spans[:, lay.S_HIGH], keys), len(spans) - 1)
        inside = (spans[places, lay.S_LOW] <= keys) & (keys <= spans[places, lay.S_HIGH])
        for column in (lay.S_MASK, lay.S_STATUS, lay.S_BORN):
            found[inside, column] = spans[places[inside], column]
    return found
