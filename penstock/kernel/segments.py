"""State as bytes: immutable segments and the small record, with a version so that formats can change.

A kernel's snapshot is one `State` whose segment identifiers are prefixed by the node they belong to. Hosts store the
segments under these identifiers, write only new ones and remove missing ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import StateFormat
from penstock.kernel.contracts import State

#: Raised when the layout of segments or records changes; older formats must be read or refused by name.
FORMAT = 7

#: Key in the schema metadata of a segment that its operator does not hold in memory; no host should either.
SPILLED = b"penstock.spilled"


def encode_segment(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    result: bytes = sink.getvalue().to_pybytes()
    return result


def decode_segment(body: bytes) -> pa.RecordBatch:
    reader = pa.ipc.open_stream(pa.py_buffer(body))
    batches = list(reader)
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], item.type) for item in reader.schema], schema=reader.schema)


def encode_meta(meta: Mapping[str, Any], fingerprint: str) -> str:
    return json.dumps({"format": FORMAT, "plan": fingerprint, "meta": meta}, separators=(",", ":"))


def decode_meta(text: str, fingerprint: str) -> Mapping[str, Any]:
    """The record, if this version and this plan can read it; otherwise `StateFormat` says what to do."""
    record = json.loads(text)
    if record["format"] != FORMAT:
        raise StateFormat(
            f"the checkpoint holds state format {record['format']}, this Penstock reads format {FORMAT}; "
            "restart with the version that wrote it, or with a new checkpoint"
        )
    if record["plan"] != fingerprint:
        raise StateFormat(
            "the checkpoint belongs to another plan: columns, keys, windows, conditions, operators or the number of shards of the "
            "application, or of a call such as ps.join, have changed since its state was written; restart with the old ones, or "
            "use a new checkpoint and another place for the answers"
        )
    meta: Mapping[str, Any] = record["meta"]
    return meta


def prefixed(prefix: str, state: State) -> State:
    return State({prefix: state.meta}, {f"{prefix}/{key}": rows for key, rows in state.segments.items()})


def part_of(prefix: str, state: State) -> State:
    """Inverse of `prefixed` on a merged state."""
    return State(state.meta.get(prefix, {}), _Part(state.segments, prefix + "/"))


class _Part(Mapping[str, pa.RecordBatch]):
    """The segments whose names have a prefix, without it; read when they are asked for, as a host may not hold all of them."""

    def __init__(self, whole: Mapping[str, pa.RecordBatch], start: str) -> None:
        self._whole, self._start = whole, start
        self._names = [key[len(start) :] for key in whole if key.startswith(start)]

    def __getitem__(self, name: str) -> pa.RecordBatch:
        return self._whole[self._start + name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
