"""Append-only pieces of an operator's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa


class SegmentLog:
    """Record batches under numbers that are never used again.

    A host stores a segment once and removes it when it is missing from a later snapshot, so content is replaced by
    dropping old segments and adding a new one, never by changing one.

    Parameters
    ----------
    name
        Distinguishes the logs of one operator in its snapshot.

    Examples
    --------
    >>> log = SegmentLog("pane")
    >>> log.add(pa.RecordBatch.from_pydict({"x": [1, 2]}))
    0
    >>> list(log.stored()), log.num_rows
    (['pane-0'], 2)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.next = 0
        self._parts: dict[int, pa.RecordBatch] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[int]:
        """Numbers of the segments, oldest first."""
        return iter(list(self._parts))

    def __getitem__(self, number: int) -> pa.RecordBatch:
        return self._parts[number]

    @property
    def num_rows(self) -> int:
        return sum(part.num_rows for part in self._parts.values())

    @property
    def num_bytes(self) -> int:
        return sum(part.nbytes for part in self._parts.values())

    def add(self, rows: pa.RecordBatch) -> int:
        number, self.next = self.next, self.next + 1
        self._parts[number] = rows
        return number

    def drop(self, number: int) -> None:
        del self._parts[number]

    def clear(self) -> None:
        self._parts.clear()

    def whole(self, schema: pa.Schema) -> pa.RecordBatch:
        """All rows, oldest segment first."""
        parts = list(self._parts.values())
        return concatenated(parts, schema)

    def stored(self) -> Mapping[str, pa.RecordBatch]:
        """Segments by the identifier a snapshot gives them."""
        return {f"{self.name}-{number}": part for number, part in self._parts.items()}

    def reload(self, next_number: int, segments: Mapping[str, pa.RecordBatch]) -> None:
        """Take over what `stored` gave, and where numbering goes on; other logs' segments are left alone."""
        self.next = next_number
        # Others are not even asked for: a host may not hold all of them in memory.
        own = {int(key.rpartition("-")[2]): key for key in segments if key.rpartition("-")[0] == self.name}
        self._parts = {number: segments[own[number]] for number in sorted(own)}


def sizes_of(logs: Iterable[SegmentLog]) -> dict[str, int]:
    """What several logs hold together, as operators report it."""
    listed = tuple(logs)
    return {
        "state_rows": sum(log.num_rows for log in listed),
        "state_bytes": sum(log.num_bytes for log in listed),
        "segments": sum(map(len, listed)),
    }


def stored_in(logs: Iterable[SegmentLog]) -> dict[str, pa.RecordBatch]:
    """Segments of several logs by identifier."""
    return {name: part for log in logs for name, part in log.stored().items()}


def concatenated(parts: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of all rows; an empty one of the schema when there is no part."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return pa.RecordBatch.from_arrays([pa.array([], item.type) for item in schema], schema=schema)
    return pa.concat_batches(parts)
