"""The reduce side: what a task does for one shard of one stage."""

from __future__ import annotations

import json
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from penstock.errors import LateRows
from penstock.kernel.executor import Kernel
from penstock.kernel.packets import Packet, PacketKind
from penstock.lowering.jobs import Stage
from penstock.model.batch import Batch
from penstock.model.elements import CONTINUE, FOREVER, NEVER, Control, Quarantined
from penstock.model.schema import TIMESTAMP
from penstock.qos.scheduling.table import DEFAULT
from penstock.runners.shard import StepResult, make_kernel, steps
from penstock.runners.spark.data_path.answer_files import Targets
from penstock.runners.spark.data_path.bundles import Stored
from penstock.runners.spark.data_path.exchange import batch_id, query_id
from penstock.runners.spark.data_path.local_properties import decisions_of_batch, time_of_batch_ns
from penstock.runners.spark.data_path.packet_rows import packed_rows
from penstock.runners.spark.data_path.quarantine import Quarantine, write_refused
from penstock.runners.spark.data_path.shard_ids import shard_ids
from penstock.runners.spark.data_path.state import ShardStore

#: Kind of a row that names a file with answers.
FILE = "file"
#: Column that carries a shard's report beside the answers of a stage with one output.
REPORT = "_penstock_report"
#: Column of a report that holds the frontier of all answers to come; NULL in answers.
FRONTIER = "_penstock_frontier"


@dataclass(frozen=True)
class StageHost:
    """What a worker must know to run a stage.

    Parameters
    ----------
    run
        Distinguishes queries that run at the same time in one worker.
    direct
        Name of the only output, handed back as plain columns; empty: answers leave as packets.
    quarantine
        Directory for refused rows; empty: refused rows fail the query, because nothing may be lost silently.
    quarantines
        Directories for single streams, by name; these come first.
    timed_by_watermark
        Streams of which only Spark's watermark tells how far they have come.
    delay
        How far below the frontier times in later answers can be; None: nobody wants to know.
    operator
        Tells operators of one query apart that share a directory for refused rows.
    files
        Where this stage writes answers itself, by query.
    leaving
        Queries whose answers leave as packets; None: all of them.
    edition
        Which edition of the application this is: kernels of another go on with the operators of this one.
    decisions
        What kernels are told before their first micro-batch in a process; it need not be what their state remembers.
    """

    stage: Stage
    shards: int
    run: str
    direct: str = ""
    output_schema: pa.Schema | None = None
    quarantine: Quarantine | str = ""
    quarantines: Mapping[str, str] = field(default_factory=dict)
    timed_by_watermark: frozenset[str] = frozenset()
    delay: int | None = None
    operator: str = ""
    files: Targets = field(default_factory=dict)
    leaving: frozenset[str] | None = None
    edition: int = 0
    decisions: tuple[Control, ...] = ()

    @property
    def hears_watermark(self) -> bool:
        """Whether Spark must tell this stage its watermark."""
        return any(entry.stream in self.timed_by_watermark for entry in self.stage.graph.entries)

    def quarantine_of(self, stream: str) -> Quarantine | str:
        return self.quarantines.get(stream, self.quarantine)


@dataclass(slots=True)
class _Live:
    """A kernel kept by a worker between micro-batches."""

    version: str
    kernel: Kernel
    stored: Stored = field(default_factory=Stored)
    edition: int = 0


#: Live kernels of this worker process. Correctness never depends on it: see `_Live.version`.
_LIVE: OrderedDict[tuple[str, int, int], _Live] = OrderedDict()
_MAX_LIVE = 64


class ShardTask:
    """Restore the kernel or take the live one, run the micro-batch, write what changed, hand on the results."""

    def __init__(self, host: StageHost, state: Any) -> None:
        self.host = host
        self._store = ShardStore(state)

    def run(self, shard_id: int, rows: Iterator[pd.DataFrame], watermark_us: int = NEVER) -> Iterator[pd.DataFrame]:
        """One micro-batch; `watermark_us` is what Spark promises of the streams that only it knows."""
        started = time.perf_counter_ns()
        shard = shard_ids(self.host.shards).index(shard_id)
        packets, reports = _unpacked(rows)
        packets = self._promised(packets, watermark_us)
        live, restored = self._kernel(shard)
        arrived = time.perf_counter_ns()
        result = StepResult()
        decided = decisions_of_batch(self.host.run)
        for part in steps(live.kernel, self.host.stage, shard, self.host.shards, packets, time_of_batch_ns(), decided):
            # Earlier pieces leave at once; with the last one go the reports, behind the state.
            yield from self._leave(result, shard, [], NEVER)
            result = part
        result.loop += self._continuation(live.kernel, shard)
        worked = time.perf_counter_ns()
        epoch = batch_id()
        self._refuse(result, epoch, shard)
        state = live.kernel.snapshot()
        version, stored, written = self._store.save(state, self.host.stage.graph.fingerprint, live.stored)
        self._keep(shard, _Live(version, live.kernel, stored, self.host.edition))
        report = {
            "shard": shard, "level": self.host.stage.level, "epoch": epoch, "restored": restored, "state_written": written,
            "read_ns": arrived - started, "work_ns": worked - arrived, "save_ns": time.perf_counter_ns() - worked,
            "backlog": live.kernel.waiting_rows, "refused": _reasons(result), **live.kernel.report(),
            "run": self.host.run, "told": live.kernel.driver_reports(), "measures": live.kernel.measures(),
        }  # fmt: skip
        yield from self._leave(result, shard, [*reports, json.dumps(report, separators=(",", ":"))], self._promise(live.kernel))

    def _promised(self, packets: list[Packet], watermark_us: int) -> list[Packet]:
        """Packets of streams behind Spark's operators: not their newest row but Spark's watermark tells what can still come."""
        if not self.host.hears_watermark:
            return packets
        told = {entry.name for entry in self.host.stage.graph.entries if entry.stream in self.host.timed_by_watermark}
        frontier = watermark_us if watermark_us > 0 else NEVER  # Spark begins at 1970 and means nothing by it
        # Also tasks without rows pass it on: it advances while nothing comes.
        return [replace(item, partition=0, newest=NEVER, frontier=frontier) if item.entry in told else item for item in packets]

    # -- state --------------------------------------------------------------------------------------------------------

    def _place(self, shard: int) -> tuple[str, int, int]:
        return self.host.run, self.host.stage.level, shard

    def _kernel(self, shard: int) -> tuple[_Live, bool]:
        """The live kernel if it is the stored one; it leaves the cache, so that a failed attempt cannot be continued."""
        live = _LIVE.pop(self._place(shard), None)
        version = self._store.version()
        is_stored = live is not None and live.version == version
        if live is not None and is_stored and live.edition == self.host.edition:
            return live, False
        spill = Path(tempfile.gettempdir())
        fresh = _Live(version, make_kernel(self.host.stage, DEFAULT, shard, self.host.shards, spill=spill))
        if live is not None and is_stored:
            fresh.stored = live.stored
            fresh.kernel.restore(live.kernel.snapshot())
        elif version:
            # A stale kernel is of no use, but segments it shares with the stored one need not come through the pipe again.
            state, fresh.stored = self._store.load(
                self.host.stage.graph.fingerprint, live.stored.segments if live is not None else {}
            )
            fresh.kernel.restore(state)
        for decision in self.host.decisions:
            fresh.kernel.decide(decision)
        return fresh, bool(version) and not is_stored

    def _keep(self, shard: int, live: _Live) -> None:
        _LIVE[self._place(shard)] = live
        while len(_LIVE) > _MAX_LIVE:
            _LIVE.popitem(last=False)

    def _continuation(self, kernel: Kernel, shard: int) -> Iterator[tuple[int, Packet]]:
        """What lets the next micro-batch begin although no row comes: a budget has left work in the queues.

        It wakes all shards, so that all of them report, and know the same about time.
        """
        if not kernel.is_idle:
            wake = Packet("", PacketKind.CONTROL, shard, control=Control(batch_id(), CONTINUE, {}))
            yield from ((target, wake) for target in range(self.host.shards))

    # -- results ------------------------------------------------------------------------------------------------------

    def _refuse(self, result: StepResult, epoch: int, shard: int) -> None:
        by_directory: dict[Quarantine | str, list[Quarantined]] = {}
        for item in result.refused:
            by_directory.setdefault(self.host.quarantine_of(item.stream) or "", []).append(item)
        for first in by_directory.pop("", ())[:1]:
            raise LateRows(
                f"{first.text}; give a quarantine directory to keep such rows apart and go on", f"stream '{first.stream}'"
            )
        name = f"{query_id()} {self.host.stage.graph.fingerprint} {self.host.operator}"
        for directory, refused in by_directory.items():
            write_refused(directory, epoch, self.host.stage.level, shard, refused, name)

    def _promise(self, kernel: Kernel) -> int:
        """No time in an answer of a later micro-batch is below; 0, which Spark takes for nothing, where nothing is known.

        Every shard hears of every source partition in every micro-batch, so all of them say the same.
        """
        known = min(guard.frontiers.current for guard in kernel.ingresses.values())
        return 0 if known in (NEVER, FOREVER) else max(known - (self.host.delay or 0), 0)

    def _leave(self, result: StepResult, shard: int, reports: list[str], promise_us: int) -> Iterator[pd.DataFrame]:
        if not result.answers and not reports:
            return
        if self.host.direct:
            yield from self._leave_directly(result, reports, promise_us)
            return
        ids = shard_ids(self.host.shards)
        rows: list[tuple[int, str, bytes | None, str | None]] = []
        for target, packet in (*result.forward, *result.loop):
            rows.append((ids[target], *packet.encode(), None))
        for name, batch in result.answers:
            if self.host.leaving is None or name in self.host.leaving:
                rows.append((ids[shard], *Packet(name, PacketKind.OUTPUT, batch=batch).encode(), None))
        rows += [(ids[shard], text, None, None) for text in self._write_files(result, shard)]
        rows += [(ids[shard], "", None, report) for report in reports]
        yield _pandas(packed_rows(rows))

    def _write_files(self, result: StepResult, shard: int) -> Iterator[str]:
        """Answers into files; what is left of them is a name for the driver."""
        for query, targets in self.host.files.items():
            parts = [pa.Table.from_batches([batch.rows]) for name, batch in result.answers if name == query and batch.num_rows]
            if not parts:
                continue
            rows = pa.concat_tables(parts, promote_options="default")  # branches of a union may differ in what can be NULL
            for number, files in enumerate(targets):
                name = files.write(batch_id(), shard, rows)
                yield json.dumps({"k": FILE, "e": query, "n": number, "f": name}, separators=(",", ":"))

    def _leave_directly(self, result: StepResult, reports: list[str], promise_us: int) -> Iterator[pd.DataFrame]:
        schema = self.host.output_schema
        assert schema is not None
        full = schema.append(pa.field(REPORT, pa.string()))
        if self.host.delay is not None:
            full = full.append(pa.field(FRONTIER, TIMESTAMP))
        for _, batch in result.answers:
            yield _pandas(_answer(batch, full))
        empty = [pa.nulls(len(reports), item.type) for item in schema]
        told = [pa.array([promise_us] * len(reports), TIMESTAMP)] if self.host.delay is not None else []
        yield _pandas(pa.RecordBatch.from_arrays([*empty, pa.array(reports, pa.string()), *told], schema=full))


def _unpacked(rows: Iterator[pd.DataFrame]) -> tuple[list[Packet], list[str]]:
    packets: list[Packet] = []
    reports: list[str] = []
    for frame in rows:
        for header, body, report in zip(frame["header"], frame["body"], frame["report"], strict=True):
            if report is not None:
                reports.append(report)
            else:
                packets.append(Packet.decode(header, None if body is None else bytes(body)))
    return packets, reports


def _answer(batch: Batch, full: pa.Schema) -> pa.RecordBatch:
    own = batch.rows.columns
    empty = [pa.nulls(batch.num_rows, item.type) for item in list(full)[len(own) :]]
    return pa.RecordBatch.from_arrays([*own, *empty], schema=full)


def _pandas(rows: pa.RecordBatch) -> pd.DataFrame:
    """Arrow-backed columns: handing them back copies nothing."""
    frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _reasons(result: StepResult) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in result.refused:
        found[item.reason] = found.get(item.reason, 0) + item.batch.num_rows
    return found
