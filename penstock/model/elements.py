"""What a stream consists of. Rows and everything that is known about rows travel in one path, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.model.batch import Batch
from penstock.model.punctuation import Punctuation

#: No event time comes after this: the frontier of a stream that has ended.
FOREVER = 2**63 - 1
#: Nothing is known about a stream's progress yet.
NEVER = -(2**63)
#: Kind of the control by which a shard tells an operator how far the streams below it had come (`ts`) when they ended.
ENDED_AT = "ended_at"
#: Kinds of controls that entries of streams obey: what time it is (`us`; `begins` with the first one of a run), that nothing
#: older than `ts` comes from a `stream` (or from its `partition`), and how many partitions a stream has (`count`).
CLOCK, HEARTBEAT, PARTITIONS = "clock", "heartbeat", "partitions"
#: Kind of the control that tells operators how much memory each shard of them may use (`bytes`; None: no limit).
MEMORY = "memory"
#: Kind of the control that brings another edition of the application; whoever hosts the kernel obeys it.
PLAN = "plan"
#: Kinds of controls about the order of work: nanoseconds of priced work that a micro-batch may take in a shard (`ns`; None: no
#: limit), prices of operators by port (`operators`), and the strategy that chooses what runs next (`name`, and its parameters).
BUDGET, STATISTICS, POLICY = "budget", "statistics", "policy"
#: Kind of the control that says which rows of an entry packing leaves out: its name (`entry`), their `share` (0: none), `seed`.
SHED = "shed"
#: Kind of the control that changes nothing: it is there so that a micro-batch goes on with what a budget left in queues.
CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A frontier: no row older than `ts` will come (rows at `ts` may)."""

    ts: int


@dataclass(frozen=True, slots=True)
class Herald:
    """Announcement of rows still to come (their number or values) by the source; see `metadata`."""

    pattern: Punctuation
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """A question to an operator, such as "propagate now"; answered in the data path."""

    kind: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """End of a query: every earlier row has been seen. `query` empty means the stream itself has ended."""

    query: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """A decision taken on the driver, bound to a micro-batch by its place in the control stream."""

    epoch: int
    kind: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Rows an operator refuses, with the reason code that is counted and a text for people."""

    batch: Batch
    reason: str
    text: str = ""
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Routed:
    """An element for one of several outputs of an operator (`Split`); unrouted elements go to all of them."""

    output: str
    element: Batch | Punctuation | Heartbeat | Herald | Request | End


Metadata: TypeAlias = Punctuation | Heartbeat | Herald | Request | End
Element: TypeAlias = Batch | Metadata
#: What an operator returns: at once, or piece by piece where all of it may be more than memory holds.
Elements: TypeAlias = Iterable[Element | Quarantined | Routed]
