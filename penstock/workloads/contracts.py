"""What a workload is: named streams whose rows can be made from their offsets alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.model.batch import Int64s
from penstock.model.schema import Schema
from penstock.workloads.arrivals import Arrivals, RateSchedule
from penstock.workloads.coins import stream_key
from penstock.workloads.disorder import Disorder

#: Names of the columns a stream has besides its own, when asked for: source partition, offset, embedded punctuation.
PART, OFF, MARK = "part", "off", "mark"

#: Event time of the start unless told otherwise, 2026-01-01 00:00 UTC: runs of different days give the same rows.
START_US = 1_767_225_600_000_000


class Marks(StrEnum):
    """How a stream that knows when values are finished says so."""

    NONE = "none"
    #: One punctuation per finished value.
    CONSTANT = "constant"
    #: One punctuation per range of finished values: fewer, later.
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class Options:
    """How a workload is played; equal options give equal rows.

    Parameters
    ----------
    rate
        Rows per second of the workload's clock, that is of its fastest streams. It fixes event times also when rows are
        handed out faster or slower than that.
    is_poisson
        Poisson instead of evenly spaced arrivals.
    schedule
        Bursts and pauses: (second, multiplier of the rate).
    seed
        Of everything random.
    start_us
        Event time of the start, microseconds since 1970.
    marks
        Whether and how punctuation rows are embedded.
    with_positions
        Whether the columns `part` and `off` are added.
    disorder
        Faults, with a seed of their own.
    """

    rate: float = 10_000.0
    is_poisson: bool = False
    schedule: tuple[tuple[float, float], ...] = ()
    seed: int = 1
    start_us: int = START_US
    marks: Marks = Marks.NONE
    with_positions: bool = False
    disorder: Disorder = field(default_factory=Disorder)

    def arrivals(self, clock: str) -> Arrivals:
        """The arrival process of a clock; streams that share a clock share their times."""
        return Arrivals(RateSchedule(self.rate, self.schedule), self.is_poisson, stream_key(self.seed, f"clock {clock}"))


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of offsets of one source partition.

    Row `off` of partition `part` is row `off·partitions + part` of the stream, so partitions are disjoint, advance
    together, and the stream's rows do not depend on their number.

    Examples
    --------
    >>> Rows(part=1, partitions=3, start=2, stop=4).index.tolist()
    [7, 10]
    """

    part: int
    partitions: int
    start: int
    stop: int

    @property
    def offsets(self) -> Int64s:
        return np.arange(self.start, self.stop, dtype=np.int64)

    @property
    def index(self) -> Int64s:
        """Number of each row in the stream."""
        return self.offsets * self.partitions + self.part


class Workload(Protocol):
    """Streams that belong together, deterministic in all arguments.

    A workload has a clock that ticks once per row of its fastest streams; a slower stream has a row every few ticks. A
    run is measured in ticks, so that the streams of a workload stay together whoever reads them.
    """

    @property
    def name(self) -> str: ...

    @property
    def default_rate(self) -> float:
        """Ticks per second unless the options say otherwise."""
        ...

    @property
    def streams(self) -> Mapping[str, Schema]:
        """Schema of each stream, without the columns that are added on request."""
        ...

    def schema(self, stream: str, options: Options) -> Schema:
        """Columns `generate` gives with these options."""
        ...

    def generate(self, stream: str, partition: int, partitions: int, start: int, stop: int, options: Options) -> pa.RecordBatch:
        """Rows `start` … `stop`-1 of a source partition."""
        ...

    def rows_at(self, stream: str, ticks: int) -> int:
        """How many rows the stream has within the first `ticks` ticks, over all partitions."""
        ...

    def ticks_due(self, stream: str, elapsed_us: int, options: Options) -> int:
        """Ticks of the stream's clock that have come by then."""
        ...

    def rows_due(self, stream: str, elapsed_us: int, options: Options) -> int:
        """Rows of the stream that have come by then."""
        ...

    def ticks_of(self, stream: str, rows: int) -> int:
        """Largest number of ticks within which the stream has at most `rows` rows."""
        ...
