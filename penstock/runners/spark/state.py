"""A kernel's state in Spark's state store: segments in a map, the record in a value, written incrementally.

Values are kept below a few megabytes: a larger segment is stored in pieces.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from penstock.kernel.contracts import State
from penstock.kernel.segments import decode_meta, decode_segment, encode_meta, encode_segment

PIECE_BYTES = 4 << 20
_SEPARATOR = "#"


class ShardStore:
    """State of one shard of one stage. Each call is a round trip to the JVM, so there are few."""

    def __init__(self, handle: Any) -> None:
        self._record = handle.getValueState("record", "version STRING, meta STRING")
        self._segments = handle.getMapState("segments", "id STRING", "body BINARY")

    def version(self) -> str:
        """Name of what is stored; empty before the first write. A live kernel is valid only if it has this version."""
        found = self._record.get()
        return "" if found is None else str(found[0])

    def load(self, fingerprint: str) -> tuple[State, dict[str, int]] | None:
        """The state and the number of pieces of each segment; None before the first write."""
        found = self._record.get()
        if found is None:
            return None
        meta = decode_meta(found[1], fingerprint)
        pieces: dict[str, dict[int, bytes]] = {}
        for (key,), (body,) in self._segments.iterator():
            name, _, number = key.rpartition(_SEPARATOR)
            pieces.setdefault(name, {})[int(number)] = bytes(body)
        bodies = {name: b"".join(parts[number] for number in sorted(parts)) for name, parts in pieces.items()}
        state = State(meta, {name: decode_segment(body) for name, body in bodies.items()})
        return state, {name: len(parts) for name, parts in pieces.items()}

    def save(self, state: State, fingerprint: str, stored: Mapping[str, int]) -> tuple[str, dict[str, int], int]:
        """Write new segments and the record, remove dead segments; returns version, pieces per segment, bytes written."""
        written = 0
        pieces: dict[str, int] = {}
        for name in stored.keys() - state.segments.keys():
            for number in range(stored[name]):
                self._segments.removeKey((f"{name}{_SEPARATOR}{number}",))
        for name, rows in state.segments.items():
            if name in stored:
                pieces[name] = stored[name]
                continue
            body = encode_segment(rows)
            written += len(body)
            starts = range(0, max(len(body), 1), PIECE_BYTES)
            for number, start in enumerate(starts):
                self._segments.updateValue((f"{name}{_SEPARATOR}{number}",), (body[start : start + PIECE_BYTES],))
            pieces[name] = len(starts)
        # Every write has a name of its own: a repeated micro-batch must never take the other attempt's kernel for its own.
        version = uuid.uuid4().hex
        meta = encode_meta(state.meta, fingerprint)
        self._record.update((version, meta))
        return version, pieces, written + len(meta)
