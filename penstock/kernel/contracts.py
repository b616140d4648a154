"""The two contracts everything plugs into, and the order of calls they may rely on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from penstock.kernel.work import Choice, Item, Place, WaitingWork, WorkPlan
from penstock.model.batch import Batch
from penstock.model.elements import Control, Elements, Metadata, Quarantined


@dataclass(frozen=True, slots=True)
class State:
    """What an operator remembers.

    Parameters
    ----------
    meta
        One small record of JSON values: counters, frontiers, closed values.
    segments
        Immutable pieces by identifier. An identifier is never used for other content, so a host writes a segment once and
        removes it when it is missing from a later snapshot.
    """

    meta: Mapping[str, Any] = field(default_factory=dict)
    segments: Mapping[str, pa.RecordBatch] = field(default_factory=dict)


class Operator(Protocol):
    """State machine over elements: equal elements in, equal elements out.

    Calls come one at a time. On each port elements come in stream order: a row after a punctuation never matches it, a row
    after a heartbeat is never older. Ports are not synchronised; an operator that needs to know how far a port has come
    waits for its heartbeat. A result may not depend on how rows are cut into batches.

    An operator must not read a clock, a random generator, a file or a socket, and must not change a batch it is given. Rows
    it refuses are returned as `Quarantined`. Elements it has nothing to say about (heralds, requests) it passes on.
    """

    def on_batch(self, port: int, batch: Batch) -> Elements:
        """Process rows; an empty batch is legal and yields nothing."""
        ...

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        """Use, hold or pass on a punctuation, heartbeat, herald, request or end.

        A heartbeat or punctuation returned is a promise about everything returned later. `End` is counted by the kernel: an
        operator hears it once, when all its ports have ended, and may return last rows; the kernel forwards it.
        """
        ...

    def on_control(self, decision: Control) -> Elements:
        """Obey a decision; unknown kinds are ignored."""
        ...

    def snapshot(self) -> State:
        """Everything needed to go on; cheap, because segments are shared and not copied."""
        ...

    def restore(self, state: State) -> None:
        """Become what was snapshot; derived structures (indexes) are rebuilt, not stored."""
        ...

    def counters(self) -> Mapping[str, int]:
        """Levels and running totals for reports: `state_rows`, `state_bytes`, `expired`, `purged` and others."""
        ...


@runtime_checkable
class Timed(Protocol):
    """An operator that measures parts of its own work."""

    def use_clock(self, clock: Callable[[], int]) -> None:
        """Nanoseconds for measurements, handed in by the host; they leave in reports and decide nothing inside the shard."""
        ...


@runtime_checkable
class Steered(Timed, Protocol):
    """An operator about which somebody outside the shard decides, from what it tells."""

    def driver_report(self) -> Mapping[str, Any]:
        """JSON values: what has happened since the last call."""
        ...


@runtime_checkable
class JudgesLate(Protocol):
    """An operator that can say more about rows that were meant for it and came too late."""

    def judge_late(self, refused: Quarantined) -> Sequence[Quarantined]:
        """The same rows, some of them perhaps with another reason; the operator itself stays as it is."""
        ...


@runtime_checkable
class PassesRows(Protocol):
    """An operator whose output has its input rows as they are, so that it may be asked about them who reads it."""

    passes_rows: bool


@runtime_checkable
class Spilling(Protocol):
    """An operator that can keep part of its state outside of memory."""

    def spill_to(self, directory: Path) -> None:
        """Where it may do so, handed in by the host before anything else; answers and snapshots never depend on it."""
        ...


class RowGate(Protocol):
    """Stands at an input of an operator, in front of its queue, and may leave rows out."""

    def admit(self, batch: Batch) -> Batch:
        """The rows that may wait there; metadata always may."""
        ...


class Policy(Protocol):
    """Chooses the next piece of work. Answers never depend on it; queue lengths and latency do.

    A policy is told the plan before anything else, and picks the same again from the same queues and state: ties are decided
    by the order of the plan, never by chance or by the order in which queues happen to be listed.
    """

    def plan(self, plan: WorkPlan) -> None:
        """From now on these are the operators, prices and terms; queues stay as they are."""
        ...

    def pick(self, work: WaitingWork) -> Choice | None:
        """What runs next; None if nothing waits. What waits anywhere is picked some time, whatever is its place."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """JSON values; part of the kernel's state, so that a replay picks the same work."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where another object of the same class stood."""
        ...


@runtime_checkable
class HearsArrivals(Protocol):
    """A policy that wants to know how much comes in."""

    def on_arrival(self, operator: str, item: Item, now_ns: int) -> None:
        """An element has come from outside."""
        ...


@runtime_checkable
class CutsArrivals(Protocol):
    """A policy that wants rows that come together to be several pieces of work."""

    def cut(self, places: Sequence[Place], rows: Batch) -> Sequence[int]:
        """Positions in rows from outside, which go to these places, at which new pieces begin."""
        ...


@runtime_checkable
class ServesTogether(Protocol):
    """A policy that runs several operators as one: a path, a segment, all that an arrival sets going."""

    @property
    def serving(self) -> tuple[str, object]:
        """Its mode, empty if it has only one; and what it runs, equal to that of the last pick as long as it goes on with it.

        None instead of the latter: nothing that belongs together.
        """
        ...


@runtime_checkable
class Explained(Protocol):
    """A policy that can say what it goes by."""

    def explained(self) -> Sequence[str]:
        """Lines for people about the plan it was told: paths, segments, capacities and priorities, with their figures."""
        ...
