"""A guard of one entry behind its packing, for tests: rows in as tuples, elements out as lists."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.kernel.damage import BAD
from penstock.kernel.ingress import EntrySpec, Ingress
from penstock.kernel.packets import Packet
from penstock.kernel.packing import KEEP, MARK, PARTITION, TIME, Route, pack
from penstock.kernel.segments import decode_meta, encode_meta
from penstock.model.batch import Batch
from penstock.model.declarations import Constraint, ConstraintKind, EmbeddedPunctuations, RowPolicy, Source, StreamDeclaration
from penstock.model.elements import CLOCK, Control, Heartbeat, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), day=pa.date32())


class Gate:
    """One shard's entry behind its packing, fed with lists of (time, key, partition, punctuation)."""

    def __init__(
        self, constraints: Sequence[tuple[ConstraintKind, str]] = (), disorder: int = 0, source: str = "feed", partitions: int = 0,
        idle: int | None = None, is_timed: bool = False, is_arrival: bool = False, is_global: bool = False, **policies: RowPolicy,
    ) -> None:  # fmt: skip
        declared = tuple(Constraint(kind, column) for kind, column in constraints)
        marks = EmbeddedPunctuations("k", is_global)
        stream = StreamDeclaration("x", SCHEMA, Source(source), "ts", disorder, declared, marks, **policies)
        self.route = Route("x@1", stream, SCHEMA.arrow, tuple((name, name) for name in SCHEMA.names), ("k",), 1)
        self.spec = EntrySpec(
            "x@1", "x", SCHEMA.arrow, disorder, declared, has_order=stream.has_order, is_partitioned=True,
            source_partitions=partitions, idle_us=idle, has_clock_time=is_timed, is_arrival=is_arrival, **policies,
        )  # fmt: skip
        self.ingress = Ingress(self.spec)
        self.base = 0
        #: Positions of rows the query does not want.
        self.unwanted: frozenset[int] = frozenset()

    def batch(self, *rows: tuple[Any, ...]) -> list[Any]:
        """A micro-batch; every element comes back."""
        full = [(*row, *(None, None, 0, None)[len(row) :]) for row in rows]
        times, keys, parts, marks = (list(column) for column in zip(*full, strict=True)) if full else ([], [], [], [])
        days = [None if key is None else dt.date(2026, 1, 1) + dt.timedelta(days=key) for key in keys]
        columns = {"ts": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64()), "day": pa.array(days, pa.date32())}
        system = {TIME: columns["ts"], PARTITION: pa.array(parts, pa.int64()), MARK: pa.array(marks, pa.string())}
        system[KEEP] = pa.array([self.base + at not in self.unwanted for at in range(len(rows))], pa.bool_())
        system[BAD] = pa.array(["bad" if time == -1 else None for time in times], pa.string())
        found = [packet for _, packet in pack(pa.RecordBatch.from_pydict({**columns, **system}), self.route, self.base)]
        self.base += len(rows)
        return self.ingress.admit([Packet.decode(*packet.encode()) for packet in found])

    def hear(self, *decisions: tuple[str, dict[str, Any]]) -> list[Any]:
        """What decisions behind the rows of a micro-batch bring."""
        return self.ingress.hear([Control(0, kind, detail) for kind, detail in decisions])

    def clock(self, us: int, **more: Any) -> int | None:
        """The frontier that the time of day brings, if it is news."""
        return frontier(self.hear((CLOCK, {"us": us, **more})))

    def declare(self, partitions: int) -> None:
        """Start again, and expect another number of partitions."""
        self.spec = replace(self.spec, source_partitions=partitions)
        self.restart()

    def restart(self) -> None:
        meta = decode_meta(encode_meta(self.ingress.snapshot().meta, "x"), "x")
        self.ingress = Ingress(self.spec)
        self.ingress.restore(State(meta))


def keys_of(elements: Sequence[Any]) -> list[int | None]:
    return [key for element in elements if isinstance(element, Batch) for key in element.column("k").to_pylist()]


def refused(elements: Sequence[Any]) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for element in elements:
        if isinstance(element, Quarantined):
            found.setdefault(element.reason, []).extend(element.batch.column("k").to_pylist())
    return found


def marks(elements: Sequence[Any]) -> list[str]:
    return [str(element) for element in elements if isinstance(element, Punctuation)]


def frontier(elements: Sequence[Any]) -> int | None:
    return next((element.ts for element in elements if isinstance(element, Heartbeat)), None)


def balanced(gate: Gate) -> bool:
    """read = used + filtered + late + after_end + bad + what was refused as violating."""
    totals = gate.ingress.totals
    refused = totals["late"] + totals["after_end"] + totals["bad"] + totals["violating"] - totals["trusted"]
    return totals["read"] == totals["used"] + totals["filtered"] + refused


def cut(rows: Sequence[Any], cuts: Sequence[int]) -> list[Sequence[Any]]:
    bounds = sorted({0, len(rows), *(at for at in cuts if at < len(rows))})
    return [rows[start:stop] for start, stop in pairwise(bounds)]


def closing(key: int, partition: int = 0) -> tuple[Any, ...]:
    return (None, None, partition, f'{{"k": {key}}}')
