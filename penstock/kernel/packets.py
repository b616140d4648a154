"""What crosses an exchange: few rows, each a header with everything a shard must know and a columnar body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.columnar.narrow import narrow, widened
from penstock.kernel.segments import decode_segment, encode_segment
from penstock.model.batch import Batch
from penstock.model.elements import NEVER, Control
from penstock.model.punctuation import Punctuation

#: Instead of a source partition: who sent this, or where it stood, is not known.
NOBODY = -1

#: The position of what holds from the end of a micro-batch on: behind all its rows.
LAST = 2**63 - 1

#: Edges about time: statements that nothing up to a time follows (time, position, whether for all partitions), and that nothing
#: follows at all (whether for all partitions).
PAST, OVER = "past:", "over:"


class PacketKind(StrEnum):
    ROWS = "rows"
    BAD = "bad"
    #: Rows that break a declared constraint within their packing task.
    VIOLATING = "violating"
    CONTROL = "control"
    #: Ready for a sink: carried through later stages untouched.
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Packet:
    """A piece of one source partition of one input, for one shard.

    Parameters
    ----------
    entry
        Name of the kernel entry it is for (or of the output it belongs to).
    partition
        Source partition, or `NOBODY`.
    sequence, last
        Positions of the first and the last row of the piece, whichever shard they went to.
    newest
        Greatest event time in the piece, whichever shard the rows went to.
    frontier
        A promise made upstream (derived streams, heartbeats): nothing older comes from this partition.
    total, filtered, shed
        Rows the packing task read for this entry in all, those that the query does not want, and those left out under overload;
        counted in one shard only, so that sums are right.
    reason, text
        Why rows are bad, and in words where an operator has said so: then it has also decided what becomes of them.
    edges
        For declared attributes: first and last value and where they stand (clustered), greatest value and last position
        (ordered), values (clustered, where rows have no order). `PAST`, `OVER`: what is said about time.
    ends
        Queries whose last row has left this partition of a derived stream; an empty name means all of them.
    since_ns
        Since when rows of a derived stream wait, or those they are made of; 0: since this micro-batch began.
    """

    entry: str
    kind: PacketKind = PacketKind.ROWS
    partition: int = 0
    sequence: int = 0
    batch: Batch | None = None
    newest: int = NEVER
    frontier: int = NEVER
    marks: tuple[Punctuation, ...] = ()
    total: int = 0
    filtered: int = 0
    shed: int = 0
    reason: str = ""
    text: str = ""
    edges: Mapping[str, Any] = field(default_factory=dict)
    control: Control | None = None
    ends: tuple[str, ...] = ()
    last: int = 0
    since_ns: int = 0

    def encode(self) -> tuple[str, bytes | None]:
        """Header text and body."""
        header: dict[str, Any] = {"e": self.entry, "k": self.kind.value, "p": self.partition, "s": self.sequence}
        if self.last:
            header["l"] = self.last
        if self.newest != NEVER:
            header["n"] = self.newest
        if self.frontier != NEVER:
            header["f"] = self.frontier
        if self.marks:
            header["m"] = [mark.to_json() for mark in self.marks]
        if self.total or self.filtered or self.shed:
            header["t"] = [self.total, self.filtered, *([self.shed] if self.shed else [])]
        if self.reason:
            header["r"] = self.reason
        if self.text:
            header["x"] = self.text
        if self.edges:
            header["d"] = dict(self.edges)
        if self.since_ns:
            header["w"] = self.since_ns
        if self.ends:
            header["q"] = list(self.ends)
        if self.control is not None:
            header["c"] = [self.control.epoch, self.control.kind, dict(self.control.detail)]
        return json.dumps(header, separators=(",", ":")), self._body()

    def _body(self) -> bytes | None:
        """Rows in few bytes: on its way through an exchange each is copied, summed up and compressed several times."""
        return None if self.batch is None else encode_segment(narrow(self.batch.stored()))

    @classmethod
    def decode(cls, header: str, body: bytes | None) -> Packet:
        found = json.loads(header)
        total, filtered, *shed = found.get("t", (0, 0))
        control = found.get("c")
        return cls(
            entry=found["e"],
            kind=PacketKind(found["k"]),
            partition=found["p"],
            sequence=found["s"],
            batch=None if body is None else Batch.restored(widened(decode_segment(body))),
            newest=found.get("n", NEVER),
            frontier=found.get("f", NEVER),
            marks=tuple(Punctuation.from_json(mark) for mark in found.get("m", ())),
            total=total,
            filtered=filtered,
            shed=shed[0] if shed else 0,
            reason=found.get("r", ""),
            text=found.get("x", ""),
            edges=found.get("d", {}),
            control=Control(control[0], control[1], control[2]) if control else None,
            ends=tuple(found.get("q", ())),
            last=found.get("l", 0),
            since_ns=found.get("w", 0),
        )
