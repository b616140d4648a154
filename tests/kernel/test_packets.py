"""Packets survive their way over the wire."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.packets import Packet, PacketKind
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, NEVER, Control
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import ANY, between, constant, one_of


def batch(rows: int) -> Batch:
    columns = pa.RecordBatch.from_pydict({"k": pa.array([1, None, 3][:rows], pa.int64()), "s": pa.array(["", None, "ü"][:rows])})
    return Batch(columns, np.arange(rows) - 5, np.arange(rows) + 2**40)


PACKETS = [
    Packet("l@1.0"),
    Packet("l@1.0", batch=batch(3), newest=7, total=9, filtered=6, partition=4, sequence=2),
    Packet("l@1.0", batch=batch(0)),
    Packet("l@1.0", PacketKind.BAD, partition=-1, batch=batch(2), reason="malformed", sequence=3, last=9),
    Packet("l@1.0", frontier=FOREVER, newest=-(2**62), ends=("", "q")),
    Packet("", PacketKind.CONTROL, control=Control(3, "budget", {"ns": 5})),
    Packet("l@1.0", edges={"ordered:x": [{"date": "2026-01-01"}, 9], "clustered:y": ["a", None]}),
    Packet(
        "l@1.0",
        marks=(
            Punctuation(("a", "b"), (constant(1), ANY), 5, 6, True),
            Punctuation(("a", "b"), (one_of(["x", ""]), between(None, 3.5, hi_inclusive=False))),
            Punctuation(("a", "b"), (constant(dt.date(2026, 1, 1)), constant(b"\x00"))),
            Punctuation(("a", "b"), (constant(math.nan), between(-math.inf, None))),
        ),
    ),
]


@pytest.mark.parametrize("packet", PACKETS)
def test_a_decoded_packet_equals_the_encoded_one(packet: Packet) -> None:
    found = Packet.decode(*packet.encode())
    for name in (
        "entry",
        "kind",
        "partition",
        "sequence",
        "newest",
        "frontier",
        "marks",
        "total",
        "filtered",
        "reason",
        "control",
        "ends",
    ):
        assert getattr(found, name) == getattr(packet, name), name
    assert dict(found.edges) == dict(packet.edges)
    if packet.batch is None:
        assert found.batch is None
    else:
        assert found.batch is not None
        assert found.batch.rows.equals(packet.batch.rows)
        assert found.batch.ts.tolist() == packet.batch.ts.tolist()
        assert found.batch.pos.tolist() == packet.batch.pos.tolist()


def test_a_header_says_nothing_about_what_is_not_known() -> None:
    header, body = Packet("e").encode()
    assert header == '{"e":"e","k":"rows","p":0,"s":0}'
    assert body is None
    assert Packet.decode(header, body).newest == NEVER


def test_rows_without_columns_keep_their_number() -> None:
    """A query that only counts rows needs no column of its stream."""
    none = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    found = Packet.decode(*Packet("e", batch=Batch(none, np.arange(3), np.arange(3))).encode()).batch
    assert found is not None
    assert found.num_rows == 3
