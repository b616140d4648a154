"""The rows behind the tuples of one join input: Arrow batches, each an immutable segment, found by row number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.masks import Mask

#: More segments than this are merged: each costs a search per result.
MOST_SEGMENTS = 12
#: A few dead rows are not worth a rewrite.
_SPARE = 256
_ROW, _AT = "_row", "_at"


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows with ascending numbers; `ats` is what the window of the input looks at."""

    number: int
    rows: Int64s
    ats: Int64s
    batch: Batch


class RowStore:
    """Rows of one input.

    Rows that the join has forgotten stay in their segment until half of all rows are dead; then segments are written anew.
    Which rows are alive is told by small flags that are written only when they change.

    Parameters
    ----------
    name
        Distinguishes the inputs of a join in its snapshot.
    """

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._segments: list[Segment] = []
        self._next = 0
        self._flags: dict[int, tuple[str, Mask]] = {}

    @property
    def num_rows(self) -> int:
        return sum(len(segment.rows) for segment in self._segments)

    @property
    def num_bytes(self) -> int:
        return sum(segment.batch.rows.nbytes + 32 * len(segment.rows) for segment in self._segments)

    def append(self, rows: Int64s, ats: Int64s, batch: Batch) -> None:
        """Add a new batch, before it is known which of its rows are stored."""
        self._segments.append(Segment(self._next, rows, ats, batch))
        self._next += 1

    def settle_last(self, stored: Mask, ats: Int64s) -> None:
        """Keep of the batch added last what is stored."""
        last = self._segments.pop()
        if stored.all():
            self._segments.append(Segment(last.number, last.rows, ats, last.batch))
        elif stored.any():
            self.append(last.rows[stored], ats[stored], last.batch.filter(stored))

    def tidy(self, live: Int64s) -> None:
        """Write segments anew when half of all rows are dead, or when there are too many; `live` are the numbers of the others."""
        if self.num_rows > 2 * len(live) + _SPARE or (not len(live) and self._segments):
            self._rewrite(0, len(self._segments), live)
        while len(self._segments) > MOST_SEGMENTS:
            sizes = [len(a.rows) + len(b.rows) for a, b in zip(self._segments, self._segments[1:], strict=False)]
            at = int(np.argmin(sizes))
            self._rewrite(at, at + 2, live)

    def needs_tidying(self, live: int) -> bool:
        return self.num_rows > 2 * live + _SPARE or len(self._segments) > MOST_SEGMENTS or (not live and bool(self._segments))

    def _rewrite(self, first: int, last: int, live: Int64s) -> None:
        parts = self._segments[first:last]
        alive = are_members([part.rows for part in parts], live)
        kept = [(part, mask) for part, mask in zip(parts, alive, strict=True) if mask.any()]
        self._segments[first:last] = []
        for part in parts:
            self._flags.pop(part.number, None)
        if kept:
            rows = np.concatenate([part.rows[mask] for part, mask in kept])
            ats = np.concatenate([part.ats[mask] for part, mask in kept])
            batch = Batch.concat([part.batch.filter(mask) for part, mask in kept])
            self._segments.insert(first, Segment(self._next, rows, ats, batch))
            self._next += 1

    def gather(self, wanted: Int64s) -> tuple[Batch, Int64s]:
        """A batch, and where in it the wanted rows are."""
        if len(self._segments) == 1:
            return self._segments[0].batch, np.searchsorted(self._segments[0].rows, wanted)
        owners = np.searchsorted([segment.rows[0] for segment in self._segments], wanted, side="right") - 1
        parts, places, start = [], np.empty(len(wanted), np.int64), 0
        for owner in np.unique(owners).tolist():
            mine = owners == owner
            distinct, back = np.unique(wanted[mine], return_inverse=True)
            segment = self._segments[owner]
            parts.append(segment.batch.take(np.searchsorted(segment.rows, distinct)))
            places[mine] = start + back
            start += len(distinct)
        return (Batch.concat(parts) if parts else Batch.empty(self.schema)), places

    def take(self, wanted: Int64s) -> Batch:
        batch, places = self.gather(wanted)
        return batch.take(places)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self, live: Int64s) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        """Names of the segments with their flags, and the segments."""
        names, segments = [], {}
        flags_of = are_members([segment.rows for segment in self._segments], live)
        for segment, alive in zip(self._segments, flags_of, strict=True):
            body = f"{self.name}-{segment.number}"
            columns = [*segment.batch.stored().columns, pa.array(segment.rows), pa.array(segment.ats)]
            fields = [*segment.batch.stored().schema, pa.field(_ROW, pa.int64()), pa.field(_AT, pa.int64())]
            segments[body] = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
            flags = "" if alive.all() else self._flag_name(segment.number, alive)
            if flags:
                segments[flags] = pa.RecordBatch.from_pydict({"alive": pa.array(alive)})
            names.append([segment.number, flags])
        return {"next": self._next, "segments": names}, segments

    def _flag_name(self, number: int, alive: Mask) -> str:
        """The name under which these flags are stored; flags that changed get a new one."""
        known = self._flags.get(number)
        if known is None or not np.array_equal(known[1], alive):
            self._flags[number] = (f"{self.name}-{number}-alive-{self._next}", alive)
            self._next += 1
        return self._flags[number][0]

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> list[tuple[Segment, Mask]]:
        """Take over a snapshot; segments with the flags of their live rows."""
        self._next, self._segments, self._flags = meta["next"], [], {}
        restored = []
        for number, flags in meta["segments"]:
            stored = segments[f"{self.name}-{number}"]
            batch = Batch.restored(stored.select(stored.schema.names[:-2]))
            segment = Segment(number, int64s(stored.column(_ROW)), int64s(stored.column(_AT)), batch)
            alive = np.ones(len(segment.rows), np.bool_)
            if flags:
                alive = segments[flags].column("alive").to_numpy(zero_copy_only=False)
                self._flags[number] = (flags, alive)
            self._segments.append(segment)
            restored.append((segment, alive))
        return restored


def is_member(rows: Int64s, ascending: Int64s) -> Mask:
    """Which rows are among others that ascend."""
    if not len(ascending):
        return np.zeros(len(rows), np.bool_)
    places = np.minimum(np.searchsorted(ascending, rows), len(ascending) - 1)
    found: Mask = ascending[places] == rows
    return found


def are_members(pieces: Sequence[Int64s], wanted: Int64s) -> list[Mask]:
    """Which rows of ascending pieces, that follow each other, are among others."""
    if not pieces:
        return []
    first, last = int(pieces[0][0]), int(pieces[-1][-1])
    is_wanted = np.zeros(last - first + 1, np.bool_)
    is_wanted[wanted[(wanted >= first) & (wanted <= last)] - first] = True
    return [is_wanted[rows - first] for rows in pieces]
