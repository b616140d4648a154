"""Stored rows of all windows that are still open, in append-only segments.

Every batch is aggregated once and appended; nothing is read, changed and written back. Rows die in two ways: all their
windows have closed (`closed` tells), or a punctuation has closed their group (a *tombstone* tells: the place of the
row, in a log of its own). A segment without living rows is dropped whole; one with few, or many small ones, are merged
into a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools
from penstock.model.batch import Int64s, int64s
from penstock.model.elements import FOREVER
from penstock.model.punctuation import Punctuation
from penstock.operators.group_by.layout import Layout
from penstock.operators.segments import SegmentLog, concatenated

#: As many segments of similar size are merged into one; also the number of tombstone segments before they are joined.
_TIER = 8
_TOMBSTONE = pa.schema({"segment": pa.int64(), "row": pa.int64()})


@dataclass(frozen=True, slots=True)
class Selection:
    """Some living rows and where they are stored."""

    rows: pa.RecordBatch
    segments: Int64s
    places: Int64s

    @property
    def first(self) -> Int64s:
        return int64s(self.rows.column(0))

    @property
    def last(self) -> Int64s:
        return int64s(self.rows.column(1))


class _Segment:
    """A stored segment with what is often asked about it; derived, never stored."""

    __slots__ = ("dead", "first_least", "last", "last_greatest", "last_least", "oldest", "rows", "ts")

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows
        first, self.last, self.ts = (int64s(rows.column(at)) for at in range(3))
        self.first_least, self.oldest = int(first.min()), int(self.ts.min())
        self.last_least, self.last_greatest = int(self.last.min()), int(self.last.max())
        self.dead: Bools | None = None

    def is_whole(self, closed: int) -> bool:
        return self.last_least >= closed and self.dead is None

    def num_living(self, closed: int) -> int:
        return self.rows.num_rows if self.is_whole(closed) else int(np.count_nonzero(self.living(closed)))

    def living(self, closed: int) -> Bools:
        alive = self.last >= closed
        return alive if self.dead is None else alive & ~self.dead


class Panes:
    """The living rows of a grouping.

    Attributes
    ----------
    closed
        Windows below this number are closed; the least number where windows close for each partition alone.
    expired
        Rows that died because their windows closed.
    """

    def __init__(self, layout: Layout, least: int = 0) -> None:
        self._layout = layout
        self._log, self._tombstones = SegmentLog("pane"), SegmentLog("tombstone")
        self._segments: dict[int, _Segment] = {}
        self.closed = least
        self.expired = 0

    def add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._segments[self._log.add(rows)] = _Segment(rows)
            self._merge_similar()

    def below(self, window: int) -> Selection:
        """Living rows of every segment that has a row in a window below the given one."""
        chosen = {key: part.living(self.closed) for key, part in self._segments.items() if part.first_least < window}
        return self._selected(chosen)

    def everything(self) -> Selection:
        return self._selected({key: part.living(self.closed) for key, part in self._segments.items()})

    def matching(self, mark: Punctuation) -> Selection:
        """Living rows of the groups that a punctuation, in stored names, speaks about."""
        found = {key: mark.matches_batch(part.rows) for key, part in self._segments.items()}
        hits = {key: mask & self._segments[key].living(self.closed) for key, mask in found.items() if mask.any()}
        return self._selected(hits)

    def _selected(self, chosen: Mapping[int, Bools]) -> Selection:
        parts, segments, places = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for key, mask in chosen.items():
            rows = self._segments[key].rows
            at = np.flatnonzero(mask)
            parts.append(rows if len(at) == rows.num_rows else rows.take(pa.array(at)))
            segments.append(np.full(len(at), key, np.int64))
            places.append(at)
        return Selection(concatenated(parts, self._layout.schema), np.concatenate(segments), np.concatenate(places))

    def bury(self, selection: Selection, mask: Bools) -> int:
        """Declare selected rows dead; returns how many."""
        segments, places = selection.segments[mask], selection.places[mask]
        if not len(segments):
            return 0
        self._tombstones.add(pa.RecordBatch.from_arrays([pa.array(segments), pa.array(places)], schema=_TOMBSTONE))
        self._mark(segments, places)
        self._clean(np.unique(segments).tolist())
        if len(self._tombstones) > _TIER:
            self._rewrite_tombstones()
        return len(segments)

    def _mark(self, segments: Int64s, places: Int64s) -> None:
        for key in np.unique(segments).tolist():
            part = self._segments.get(key)
            if part is not None:
                part.dead = np.zeros(part.rows.num_rows, np.bool_) if part.dead is None else part.dead
                part.dead[places[segments == key]] = True

    def expire(self, closed: int) -> None:
        """Let rows die whose windows are all below `closed`."""
        touched = [key for key, part in self._segments.items() if part.last_least < closed]
        before = sum(self._segments[key].num_living(self.closed) for key in touched)
        self.closed = closed
        self.expired += before - sum(self._segments[key].num_living(closed) for key in touched)
        self._clean(touched)

    def _clean(self, touched: list[int]) -> None:
        """Drop segments without living rows, rewrite those with less than half."""
        for key in touched:
            part = self._segments[key]
            alive = 0 if part.last_greatest < self.closed else part.num_living(self.closed)
            if 2 * alive < part.rows.num_rows:
                self._replace([key])

    def _merge_similar(self) -> None:
        tiers: dict[int, list[int]] = {}
        for key, part in self._segments.items():
            tiers.setdefault(part.rows.num_rows.bit_length() // 2, []).append(key)
        for keys in tiers.values():
            if len(keys) >= _TIER:
                self._replace(keys)

    def fold(self) -> None:
        """Merge everything: rows of a group that lie in the same open windows become one."""
        if len(self._segments) > 1 or any(part.first_least < self.closed for part in self._segments.values()):
            self._replace(list(self._segments))

    def _replace(self, keys: list[int]) -> None:
        rows = self._selected({key: self._segments[key].living(self.closed) for key in keys}).rows
        for key in keys:
            self._log.drop(key)
            del self._segments[key]
        if rows.num_rows:
            merged = self._layout.merged(rows, self.closed)
            self._segments[self._log.add(merged)] = _Segment(merged)
        if not any(part.dead is not None for part in self._segments.values()):
            self._tombstones.clear()

    def _rewrite_tombstones(self) -> None:
        self._tombstones.clear()
        marked = {key: np.flatnonzero(part.dead) for key, part in self._segments.items() if part.dead is not None}
        if marked:
            segments = np.repeat(np.array(list(marked), np.int64), [len(at) for at in marked.values()])
            columns = [pa.array(segments), pa.array(np.concatenate(list(marked.values())))]
            self._tombstones.add(pa.RecordBatch.from_arrays(columns, schema=_TOMBSTONE))

    def clear(self) -> int:
        """Forget everything; returns how many rows were alive."""
        alive = sum(part.num_living(self.closed) for part in self._segments.values())
        self._segments.clear()
        self._log.clear()
        self._tombstones.clear()
        return alive

    @property
    def oldest(self) -> int:
        """Least time of a living row; `FOREVER` when there is none."""
        found = FOREVER
        for part in self._segments.values():
            if part.is_whole(self.closed):
                found = min(found, part.oldest)
            elif part.oldest < found:
                alive = part.ts[part.living(self.closed)]
                found = min(found, int(alive.min())) if len(alive) else found
        return found

    def counters(self) -> dict[str, int]:
        return {
            "state_rows": sum(part.num_living(self.closed) for part in self._segments.values()),
            "state_bytes": self._log.num_bytes + self._tombstones.num_bytes,
            "segments": len(self._log) + len(self._tombstones),
        }

    def snapshot(self) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        meta = {"next": [self._log.next, self._tombstones.next], "closed": self.closed, "expired": self.expired}
        return meta, {**self._log.stored(), **self._tombstones.stored()}

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        self._log.reload(meta["next"][0], segments)
        self._tombstones.reload(meta["next"][1], segments)
        self.closed, self.expired = meta["closed"], meta["expired"]
        self._segments = {key: _Segment(self._log[key]) for key in self._log}
        dead = self._tombstones.whole(_TOMBSTONE)
        self._mark(int64s(dead.column(0)), int64s(dead.column(1)))
