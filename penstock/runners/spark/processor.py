"""The reduce side: what a task does for one shard of one stage."""

from __future__ import annotations

import json
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa

from penstock.errors import LateRows
from penstock.kernel.executor import Kernel
from penstock.kernel.packets import Packet, PacketKind
from penstock.lowering.stages import Stage
from penstock.model.batch import Batch
from penstock.runners.shard import StepResult, make_kernel, step
from penstock.runners.spark.exchange import batch_id, query_id
from penstock.runners.spark.packet_rows import packed_rows
from penstock.runners.spark.quarantine import Quarantine, write_refused
from penstock.runners.spark.shard_ids import shard_ids
from penstock.runners.spark.state import Segments, ShardStore
from penstock.runners.spark.stateful import Variables

#: Column that carries a shard's report beside the answers of a stage with one output.
REPORT = "_penstock_report"


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
    """

    stage: Stage
    shards: int
    run: str
    policy: str = "round_robin"
    direct: str = ""
    output_schema: pa.Schema | None = None
    quarantine: Quarantine | str = ""


@dataclass(slots=True)
class _Live:
    """A kernel kept by a worker between micro-batches."""

    version: str
    kernel: Kernel
    stored: Segments = field(default_factory=dict)


#: Live kernels of this worker process. Correctness never depends on it: see `_Live.version`.
_LIVE: OrderedDict[tuple[str, int, int], _Live] = OrderedDict()
_MAX_LIVE = 64


class ShardTask:
    """Restore the kernel or take the live one, run the micro-batch, write what changed, hand on the results."""

    def __init__(self, host: StageHost, variables: Variables) -> None:
        self.host = host
        self._store = ShardStore(variables)

    def run(self, shard_id: int, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        started = time.perf_counter_ns()
        shard = shard_ids(self.host.shards).index(shard_id)
        packets, reports = _unpacked(rows)
        live, restored = self._kernel(shard)
        arrived = time.perf_counter_ns()
        result = step(live.kernel, self.host.stage, shard, self.host.shards, packets)
        worked = time.perf_counter_ns()
        epoch = batch_id()
        self._refuse(result, epoch, shard)
        state = live.kernel.snapshot()
        version, stored, written = self._store.save(state, self.host.stage.graph.fingerprint, live.stored)
        self._keep(shard, _Live(version, live.kernel, stored))
        report = {
            "shard": shard, "level": self.host.stage.level, "epoch": epoch, "restored": restored, "state_written": written,
            "read_ns": arrived - started, "work_ns": worked - arrived, "save_ns": time.perf_counter_ns() - worked,
            "backlog": live.kernel.waiting_rows, "refused": _reasons(result), **live.kernel.report(),
            "run": self.host.run, "told": live.kernel.told(),
        }  # fmt: skip
        yield from self._leave(result, shard, [*reports, json.dumps(report, separators=(",", ":"))])

    # -- state --------------------------------------------------------------------------------------------------------

    def _place(self, shard: int) -> tuple[str, int, int]:
        return self.host.run, self.host.stage.level, shard

    def _kernel(self, shard: int) -> tuple[_Live, bool]:
        """The live kernel if it is the stored one; it leaves the cache, so that a failed attempt cannot be continued."""
        live = _LIVE.pop(self._place(shard), None)
        version = self._store.version()
        if live is not None and live.version == version:
            return live, False
        spill = Path(tempfile.gettempdir())
        fresh = _Live(version, make_kernel(self.host.stage, self.host.policy, shard, self.host.shards, spill=spill))
        if version:
            # A stale kernel is of no use, but segments it shares with the stored one need not come through the pipe again.
            state, fresh.stored = self._store.load(self.host.stage.graph.fingerprint, live.stored if live is not None else {})
            fresh.kernel.restore(state)
        return fresh, bool(version)

    def _keep(self, shard: int, live: _Live) -> None:
        _LIVE[self._place(shard)] = live
        while len(_LIVE) > _MAX_LIVE:
            _LIVE.popitem(last=False)

    # -- results ------------------------------------------------------------------------------------------------------

    def _refuse(self, result: StepResult, epoch: int, shard: int) -> None:
        if not result.refused:
            return
        if not self.host.quarantine:
            first = result.refused[0]
            raise LateRows(
                f"{first.text}; give a quarantine directory to keep such rows apart and go on", f"stream '{first.stream}'"
            )
        # Several operators of one query may share a directory.
        name = f"{query_id()} {self.host.stage.graph.fingerprint}"
        write_refused(self.host.quarantine, epoch, self.host.stage.level, shard, result.refused, name)

    def _leave(self, result: StepResult, shard: int, reports: list[str]) -> Iterator[pd.DataFrame]:
        if self.host.direct:
            yield from self._leave_directly(result, reports)
            return
        ids = shard_ids(self.host.shards)
        rows: list[tuple[int, str, bytes | None, str | None]] = []
        for target, packet in result.forward:
            rows.append((ids[target], *packet.encode(), None))
        for name, batch in result.answers:
            rows.append((ids[shard], *Packet(name, PacketKind.OUTPUT, batch=batch).encode(), None))
        rows += [(ids[shard], "", None, report) for report in reports]
        yield _pandas(packed_rows(rows))

    def _leave_directly(self, result: StepResult, reports: list[str]) -> Iterator[pd.DataFrame]:
        schema = self.host.output_schema
        assert schema is not None
        full = schema.append(pa.field(REPORT, pa.string()))
        for _, batch in result.answers:
            yield _pandas(_answer(batch, full))
        empty = [pa.nulls(len(reports), item.type) for item in schema]
        yield _pandas(pa.RecordBatch.from_arrays([*empty, pa.array(reports, pa.string())], schema=full))


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
    return pa.RecordBatch.from_arrays([*batch.rows.columns, pa.nulls(batch.num_rows, pa.string())], schema=full)


def _pandas(rows: pa.RecordBatch) -> pd.DataFrame:
    """Arrow-backed columns: handing them back copies nothing."""
    frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _reasons(result: StepResult) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in result.refused:
        found[item.reason] = found.get(item.reason, 0) + item.batch.num_rows
    return found
