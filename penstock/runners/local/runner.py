"""Run a job in this process: every stage and shard in turn, micro-batch by micro-batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.kernel.damage import set_damage_apart
from penstock.kernel.executor import Kernel
from penstock.kernel.packets import Packet, PacketKind
from penstock.kernel.packing import pack
from penstock.lowering.jobs import Job, SourceEntry, Stage
from penstock.model.batch import Batch
from penstock.model.elements import Control, Quarantined
from penstock.qos.scheduling.table import DEFAULT
from penstock.runners.decisions import Decisions
from penstock.runners.early_filters import EarlyFilters, add_up
from penstock.runners.early_shedding import early_shedder
from penstock.runners.memory import MemorySharing
from penstock.runners.prefix_columns import prefix_columns
from penstock.runners.shard import make_kernel, step
from penstock.runners.steering import Steering


@dataclass(slots=True)
class Collected:
    """Answers per query and refused rows, in the order they came."""

    answers: dict[str, list[Batch]] = field(default_factory=dict)
    refused: list[Quarantined] = field(default_factory=list)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Answers as plain values, for tests and small results."""
        return [row for batch in self.answers.get(query, []) for row in batch.rows.to_pylist()]

    def timed(self, query: str) -> list[tuple[int, dict[str, Any]]]:
        return [
            pair for batch in self.answers.get(query, []) for pair in zip(batch.ts.tolist(), batch.rows.to_pylist(), strict=True)
        ]


class LocalRunner:
    """The simplest host.

    Parameters
    ----------
    encode
        Send every packet through its wire form, as a real exchange would.
    clock
        Nanoseconds for reports; a virtual clock makes them exact.
    is_steered
        Decide about the orders of adaptive filters after every micro-batch. Otherwise they come with `controls`: those that
        another run has noted in `decisions` make the same run again.
    memory
        Shares a limit among the joins that can spill.
    spill
        Directory for what they spill; None: that for temporary files.
    now_ns
        What time it is when a micro-batch begins, in nanoseconds since 1970: the ages of answers come from it. The first
        micro-batch begins at 0 and every other one where the work of the one before ends, unless somebody says so.
    waits
        Whether what goes round the loop of a job waits for the next micro-batch, as on Spark, or micro-batches without rows
        follow at once until nothing goes round.
    """

    def __init__(
        self,
        job: Job,
        policy: str = DEFAULT,
        encode: bool = False,
        clock: Callable[[], int] = time.perf_counter_ns,
        is_steered: bool = True,
        memory: MemorySharing | None = None,
        spill: Path | None = None,
        waits: bool = False,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        self.job = job
        self.encode = encode
        self.collected = Collected({name: [] for name in job.outputs})
        self._policy = policy
        self._clock = clock
        self._spill = spill or Path(tempfile.gettempdir())
        self._waits = waits
        self._now_ns = now_ns or self._work_done
        #: What goes round the loop: shard and packet.
        self._loop: list[tuple[int, Packet]] = []
        self._epoch = 0
        self._positions: dict[str, int] = {}
        self.steering = Steering(job)
        #: Decisions that packing tasks must know, and what filters have done there.
        self._decisions = Decisions()
        self._early_counters: dict[str, dict[str, int]] = {}
        self._is_steered = is_steered
        self.memory = memory
        self._decided: list[Control] = memory.first() if memory is not None else []
        #: Decisions about orders and memory, by the micro-batch that they belong to.
        self.decisions: dict[int, list[Control]] = {}
        self.kernels = {(stage.level, shard): self._kernel(stage, shard) for stage in job.stages for shard in range(job.shards)}

    def _kernel(self, stage: Stage, shard: int) -> Kernel:
        return make_kernel(stage, self._policy, shard, self.job.shards, self._clock, self._spill)

    def run(self, inputs: Mapping[str, pa.RecordBatch | Iterable[pa.RecordBatch]], controls: Iterable[Control] = ()) -> None:
        """One micro-batch: rows by stream name (several record batches: pieces that are packed one by one)."""
        self._run(inputs, controls)
        while self._loop and not self._waits:
            self._run({}, ())

    def _run(self, inputs: Mapping[str, pa.RecordBatch | Iterable[pa.RecordBatch]], controls: Iterable[Control]) -> None:
        given = [*self._steer(), *controls]
        self._decisions = self._decisions.followed_by((item.kind, item.detail) for item in given)
        tasks = {name: [rows] if isinstance(rows, pa.RecordBatch) else list(rows) for name, rows in inputs.items()}
        filters = {name: [self._early_filters(rows) for rows in pieces] for name, pieces in tasks.items()}
        packets: dict[int, list[tuple[int, Packet]]] = {stage.level: [] for stage in self.job.stages}
        for stage in self.job.stages:
            for source in stage.sources:
                name = source.prefix.stream.name
                packets[stage.level] += self._packed(source, tasks.get(name, []), filters.get(name, []))
        decided = [(shard, self._control(number, item)) for number, item in enumerate(given) for shard in range(self.job.shards)]
        self._advance_positions(tasks)
        back, self._loop = self._loop, []
        carried, now_ns = [*decided, *back], self._now_ns()
        for stage in self.job.stages:
            carried = self._stage(stage, [*packets[stage.level], *carried], now_ns)
        self._hear([each for pieces in filters.values() for each in pieces])
        self._epoch += 1

    def _steer(self) -> list[Control]:
        """Decisions about orders of filters and memory that this micro-batch carries."""
        decided, self._decided = self._decided, []
        if decided:
            self.decisions[self._epoch] = decided
        return decided

    def _hear(self, filters: Sequence[EarlyFilters]) -> None:
        for each in filters:
            add_up(self._early_counters, each.counters())
        if self.steering:
            self._hear_filters(filters)
        if self.memory:
            found = self.report()
            self._decided += self.memory.hear(found, found)

    def _hear_filters(self, filters: Sequence[EarlyFilters]) -> None:
        told: dict[str, list[Mapping[str, Any]]] = {}
        tellers: list[EarlyFilters | Kernel] = [*filters, *self.kernels.values()]
        for teller in tellers:
            for label, each in teller.driver_reports().items():
                told.setdefault(label, []).append(each)
        decided = self.steering.hear(self._epoch, told)
        self._decided += decided if self._is_steered else []

    def end(self, query: str = "") -> None:
        """One query, or all streams, have ended: close what can be closed, however small the budget."""
        self.run({}, [Control(self._epoch, "end", {"query": query} if query else {})])
        self.drain()

    def drain(self) -> None:
        """Micro-batches without input until no queue holds anything and nothing goes round."""
        while self._loop or not all(kernel.is_idle for kernel in self.kernels.values()):
            self.run({})

    def _control(self, number: int, item: Control) -> Packet:
        return Packet("", PacketKind.CONTROL, sequence=number, control=item)

    def _early_filters(self, rows: pa.RecordBatch) -> EarlyFilters:
        """The filters of a packing task."""
        found = EarlyFilters(self._decisions, self._clock)
        found.begin(rows.num_rows)
        return found

    def _packed(self, source: SourceEntry, tasks: list[pa.RecordBatch], filters: list[EarlyFilters]) -> list[tuple[int, Packet]]:
        prefix = source.prefix
        base = self._positions.get(prefix.stream.name, 0)
        found: list[tuple[int, Packet]] = []
        for rows, each in zip(tasks, filters, strict=True):
            sound = prefix_columns(prefix, set_damage_apart(rows))
            found += pack(sound, source.route, base, each.of(prefix.filters), early_shedder(self._decisions, source.route))
            base += rows.num_rows
        return found

    def _advance_positions(self, tasks: Mapping[str, list[pa.RecordBatch]]) -> None:
        for name, pieces in tasks.items():
            self._positions[name] = self._positions.get(name, 0) + sum(rows.num_rows for rows in pieces)

    def _work_done(self) -> int:
        return max(kernel.work.now_ns for kernel in self.kernels.values())

    def _stage(self, stage: Stage, arriving: list[tuple[int, Packet]], now_ns: int) -> list[tuple[int, Packet]]:
        leaving: list[tuple[int, Packet]] = []
        for shard in range(self.job.shards):
            mine = [self._wire(packet) for target, packet in arriving if target == shard]
            result = step(self.kernels[stage.level, shard], stage, shard, self.job.shards, mine, now_ns, self._decisions)
            leaving += result.forward
            self._loop += result.loop
            self.collected.refused += result.refused
            for name, batch in result.answers:
                self.collected.answers[name].append(batch)
        return leaving

    def _wire(self, packet: Packet) -> Packet:
        return Packet.decode(*packet.encode()) if self.encode else packet

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[tuple[int, int], State]:
        return {place: kernel.snapshot() for place, kernel in self.kernels.items()}

    def restore(self, states: Mapping[tuple[int, int], State]) -> None:
        """New kernels with the given states, as after a crash; results collected so far stay."""
        stages = {stage.level: stage for stage in self.job.stages}
        for place, state in states.items():
            self.kernels[place] = self._kernel(stages[place[0]], place[1])
            self.kernels[place].restore(state)

    def change(self, job: Job) -> None:
        """Go on with another set of queries: those that stay keep their state.

        Raises
        ------
        OutOfMemory
            When a limit of memory does not hold what their joins need at least; nothing has changed then.
        """
        if self.memory is not None:
            self.memory = self.memory.following(job)
            self._decided += self.memory.first()
        states, self.job = self.snapshot(), job
        self.kernels = {(stage.level, shard): self._kernel(stage, shard) for stage in job.stages for shard in range(job.shards)}
        known, self.steering = self.steering.snapshot(), Steering(job)
        self.steering.restore(known)
        for name in job.outputs:
            self.collected.answers.setdefault(name, [])
        for place, kernel in self.kernels.items():
            if place in states:
                kernel.restore(states[place])

    def report(self) -> dict[str, dict[str, int]]:
        """Counters per operator, summed over shards, or over packing tasks so far."""
        total = {name: dict(counters) for name, counters in self._early_counters.items()}
        for kernel in self.kernels.values():
            found = kernel.report()
            for name, counters in (*found["operators"].items(), *found["entries"].items()):
                mine = total.setdefault(name, {})
                for counter, value in counters.items():
                    mine[counter] = value if counter == "frontier" else mine.get(counter, 0) + value
        return total
