"""Decisions as a stream: a durable log beside the checkpoint, read by a data source of the same query.

Spark's offset log fixes which decisions belong to which micro-batch, so a repeated micro-batch takes the same ones. Only the
driver reads the files; tasks get the decisions inside their partition. What goes round the loop comes the same way.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from penstock.errors import DamagedRecord
from penstock.kernel.packets import Packet, PacketKind
from penstock.model.elements import PLAN, Control
from penstock.runners.spark.checkpoints.records import copy_of, create_record, read_record, replace_record
from penstock.runners.spark.data_path.clock import Clock, clock_decisions
from penstock.runners.spark.data_path.loop import NOTHING, Loop
from penstock.runners.spark.data_path.packet_rows import PACKET_SCHEMA, packed_rows
from penstock.runners.spark.data_path.shard_ids import shard_ids
from penstock.runners.spark.data_path.source_registry import register_source
from penstock.runners.spark.processes.session import named_reader

FORMAT = "penstock_control"
#: What Spark calls the control stream of an application.
CONTROL_NAME = "penstock_control"
#: File beside the decisions that tells our own sources of the end.
ENDING = ".ending"
#: How many decisions, and what the last micro-batch was from which something came round.
Offset = dict[str, int]
#: How long at most no micro-batch follows the one that carried the end: whoever declared it stops the query meanwhile.
_PAUSE_AT_END_SECONDS, _LOOK_SECONDS = 10.0, 0.02


class ControlLog:
    """Numbered decision files in a directory; a number is written once and never changed."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._lock = threading.Lock()  # the budget's thread decides too

    def __len__(self) -> int:
        """One more than the newest number: a file that is missing before it is no reason to give a number twice."""
        return max(self.numbers(), default=-1) + 1

    def numbers(self) -> list[int]:
        names = os.listdir(self.directory) if self.directory.exists() else []
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())

    def append(self, kind: str, detail: Mapping[str, Any] | None = None) -> int:
        """Write a decision; returns its number."""
        with self._lock:
            number = len(self)
            # Another process, such as `penstock tune`, may take the number first.
            record = {"kind": kind, "detail": dict(detail or {})}
            while not create_record(self.file(number), record):
                number += 1
            if kind == PLAN:  # nothing else says which queries there are
                replace_record(copy_of(self.file(number)), record)
            return number

    def file(self, number: int) -> Path:
        return self.directory / f"{number:010d}.json"

    def note_stop(self, is_stopping: bool) -> None:
        """Say beside the decisions whether the query is being stopped; whoever waits for that looks there."""
        if is_stopping:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._stopping.touch()
        else:
            self._stopping.unlink(missing_ok=True)
            if not any(kind == "end" for kind, _ in self.read(0, len(self))):
                (self.directory / ENDING).unlink(missing_ok=True)  # whoever was about to decide it did not live to do so

    def note_end(self) -> None:
        """Say that all streams are to end: a feed brings no more rows then."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / ENDING).touch()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.exists()

    @property
    def _stopping(self) -> Path:
        return self.directory / ".stopping"

    def read(self, start: int, stop: int) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for number in range(start, stop):
            record = read_record(self.file(number))
            if record is None:
                raise DamagedRecord(self.file(number), f"is missing, and with it decision {number} of {len(self)}")
            if not isinstance(record, dict) or not {"kind", "detail"} <= record.keys():
                raise DamagedRecord(self.file(number), "holds no decision")
            found.append((record["kind"], record["detail"]))
        return found


class ControlSource(DataSource):
    """`format("penstock_control")` with options `path`, `shards`, `loop` (a directory; without it nothing goes round) and `tick_us`
    (as `Clock` has it).
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PACKET_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        clock = Clock(int(self.options.get("tick_us", "0")))
        return _Reader(self.options["path"], int(self.options["shards"]), self.options.get("loop", ""), clock)


class _Arrivals(InputPartition):
    """What a micro-batch gets beside rows of streams."""

    def __init__(self, first: int, decisions: list[tuple[str, dict[str, Any]]], packets: list[pa.RecordBatch], shards: int) -> None:
        self.first = first
        self.decisions = decisions
        self.packets = packets
        self.shards = shards


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Available-now has to be supported here too: one source without it makes Spark put everything into one micro-batch."""

    def __init__(self, path: str, shards: int, loop: str = "", clock: Clock | None = None) -> None:
        self.path = path  # and not the log itself: a reader is shipped to tasks
        self.shards = shards
        self.loop = loop
        self.clock = clock or Clock(0)
        self._available: int | None = None
        self._carried = 0

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"decisions": 0, "loop": NOTHING}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # What is available goes round the loop only later: that is not bounded here, it comes to an end by itself.
        self._available = len(ControlLog(self.path))
        self.clock.fix()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        before = start.get("loop", NOTHING)
        newest = max(before, Loop(self.loop).newest()) if self.loop else before
        if newest == before:
            self._pause_at_end(start["decisions"])
        decided = len(ControlLog(self.path)) if self._available is None else self._available
        return {"decisions": decided, "loop": newest, **self.clock.offset(start)}

    def _pause_at_end(self, carried: int) -> None:
        """Sources that go on would bring rows after the end, and all of them would be late."""
        log, before, self._carried = ControlLog(self.path), self._carried, carried
        if any(kind == "end" and not detail.get("query") for kind, detail in log.read(before, carried)):
            deadline = time.monotonic() + _PAUSE_AT_END_SECONDS
            while not log.is_stopping and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        first, stop = start["decisions"], end["decisions"]
        before, last = start.get("loop", NOTHING), end.get("loop", NOTHING)
        packets = Loop(self.loop).read(before, last).to_batches() if last > before else []
        # Shards get another edition in another way, but have to work in the micro-batch that brings it.
        logged = ((kind, {} if kind == PLAN else detail) for kind, detail in ControlLog(self.path).read(first, stop))
        decisions = [*logged, *clock_decisions(start, end)]
        return [_Arrivals(first, decisions, packets, self.shards)] if decisions or packets else []

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from partition.packets
        rows: list[tuple[int, str, bytes | None, str | None]] = []
        for number, (kind, detail) in enumerate(partition.decisions, partition.first):
            packet = Packet("", PacketKind.CONTROL, sequence=number, control=Control(number, kind, detail))
            rows += [(shard, *packet.encode(), None) for shard in shard_ids(partition.shards)]
        if rows:
            yield packed_rows(rows)

    def commit(self, end: Offset) -> None:
        """The log is small and tells what was decided; nothing of it is removed. The loop is not needed any more."""
        if self.loop:
            Loop(self.loop).forget(end.get("loop", NOTHING))


def control_frame(spark: SparkSession, directory: str, shards: int, loop: str = "", tick_us: int = 0) -> Any:
    """The control stream as packets; every `tick_us` it says what time it is."""
    register_source(spark, ControlSource)
    options = {"path": directory, "shards": str(shards), "tick_us": str(tick_us), **({"loop": loop} if loop else {})}
    return named_reader(spark, CONTROL_NAME).format(FORMAT).options(**options).load()
