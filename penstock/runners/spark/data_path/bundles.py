"""Which bytes a shard's state is stored in: small segments together in one bundle per micro-batch, large ones by themselves.

A kernel with nine queries makes dozens of small segments in every micro-batch and drops as many; each one written or removed by
itself is a round trip to the JVM. A bundle is removed when all its segments are dead, and when half of it is, the others move
into the next bundle: so at most twice as much is stored as is needed, and every byte is written twice at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.kernel.segments import SPILLED, encode_segment

#: Segments from this size on are stored by themselves.
LARGE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment as it stands in the store.

    Parameters
    ----------
    written
        Version of the write that first stored it: two attempts of a micro-batch may store different rows under one name.
    blob, start, size
        Where its bytes are.
    rows
        Its rows, which the kernel holds too; None for what it has spilled.
    """

    written: str
    blob: str
    start: int
    size: int
    rows: pa.RecordBatch | None = None
    #: The bytes of a small one, which may be written again with others.
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """Segments by name, and the size of every blob."""

    segments: Mapping[str, StoredSegment] = field(default_factory=dict)
    blobs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What has to be written and removed, and how state is stored afterwards."""

    stored: Stored
    written: Mapping[str, bytes]
    removed: tuple[str, ...]


def change(segments: Mapping[str, pa.RecordBatch], before: Stored, version: str) -> Change:
    """The way from what is stored to what a kernel holds now."""
    kept = {name: _held(item, segments[name]) for name, item in before.segments.items() if name in segments}
    sparse = _sparse(kept, before.blobs)
    now = {name: item for name, item in kept.items() if item.blob not in sparse}
    blobs: dict[str, bytes] = {}
    bundle = bytearray()
    for name, rows in segments.items():
        if name in now:
            continue
        known = kept.get(name)
        body = known.body if known is not None and known.body is not None else encode_segment(rows)
        is_spilled = _is_spilled(rows)
        is_large = is_spilled or len(body) >= LARGE_BYTES
        if is_large:
            place = f"{name}@{version}", 0
            blobs[place[0]] = body
        else:
            place = f"@{version}", len(bundle)
            bundle += body
        first = known or StoredSegment(version, "", 0, 0, None if is_spilled else rows, None if is_large else body)
        now[name] = replace(first, blob=place[0], start=place[1], size=len(body))
    if bundle:
        blobs[f"@{version}"] = bytes(bundle)
    used = {item.blob for item in now.values()}
    sizes = {key: size for key, size in before.blobs.items() if key in used} | {key: len(body) for key, body in blobs.items()}
    return Change(Stored(now, sizes), blobs, tuple(key for key in before.blobs if key not in used))


def _held(item: StoredSegment, rows: pa.RecordBatch) -> StoredSegment:
    """With the rows that the kernel holds now; what it has spilled since then is held by nobody."""
    held = None if _is_spilled(rows) else rows
    return item if held is item.rows else replace(item, rows=held)


def _is_spilled(rows: pa.RecordBatch) -> bool:
    return SPILLED in (rows.schema.metadata or {})


def _sparse(kept: Mapping[str, StoredSegment], blobs: Mapping[str, int]) -> set[str]:
    """Blobs of which more than half is dead."""
    alive = dict.fromkeys(blobs, 0)
    for item in kept.values():
        alive[item.blob] += item.size
    return {key for key, size in alive.items() if 2 * size < blobs[key]}
