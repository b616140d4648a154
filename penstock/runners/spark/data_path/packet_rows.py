"""Packets as rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

#: Rows crossing an exchange: the shard, a packet's header and body, or a shard's report.
PACKET_SCHEMA = "shard INT, header STRING, body BINARY, report STRING"

_ARROW = pa.schema([("shard", pa.int32()), ("header", pa.string()), ("body", pa.binary()), ("report", pa.string())])


def packed_rows(rows: Sequence[tuple[int, str, bytes | None, str | None]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), item.type) for column, item in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )
