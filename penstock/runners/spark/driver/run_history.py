"""What happened in a run, batch by batch, and the summary at its end."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from penstock.lowering.jobs import Job
from penstock.lowering.statistics import JoinMemory, MemoryMonitor
from penstock.operators.filtering.status import FilterStatus
from penstock.qos.contract_meter import Promise
from penstock.runners.spark.driver.counters import (
    OperatorCounts,
    QueryCounts,
    ReaderCounts,
    count_operators,
    count_queries,
    count_readers,
    set_aside,
)
from penstock.runners.spark.driver.latency import BatchClock
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.service import ServiceCounts, ServiceMeter, contract_meter, score_of
from penstock.runners.stalls import Stall, StallDetector


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a run after one micro-batch.

    Parameters
    ----------
    rows, rows_per_second
        Rows the streams brought with this batch, and per second since the batch before.
    latency_ms
        From the time the oldest row of the batch fell due, or if the source does not tell, from the begin of the batch
        before, to the time answers were written. (Event time says nothing about that when it is made up or replayed.)
    """

    epoch: int
    rows: int
    rows_per_second: float
    duration_ms: int
    latency_ms: int
    backlog: int
    queries: tuple[QueryCounts, ...]
    operators: tuple[OperatorCounts, ...]
    readers: tuple[ReaderCounts, ...]
    #: How adaptive filters stand.
    filters: tuple[FilterStatus, ...] = ()
    #: Rows that went to the quarantine since the checkpoint began, by reason.
    refused: Mapping[str, int] = field(default_factory=dict)
    #: What holds time back.
    held: tuple[Stall, ...] = ()
    #: How each query is served, the weighted share of answers in time where queries say until when, and who chooses the work.
    service: tuple[ServiceCounts, ...] = ()
    score: float | None = None
    policy: str = ""
    #: How contracts stood at the last look.
    promises: tuple[Promise, ...] = ()

    @property
    def state_rows(self) -> int:
        return sum(operator.state_rows for operator in self.operators)

    @property
    def state_bytes(self) -> int:
        return sum(operator.state_bytes for operator in self.operators)

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        found["readers"] = [reader.to_json() for reader in self.readers]
        found["held"] = [{**asdict(held), "text": str(held)} for held in self.held]
        return {**found, "state_rows": self.state_rows, "state_bytes": self.state_bytes}


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures. Rows are those of this run; tallies are totals since the checkpoint began.

    Speed and latency leave out the first batch, in which Python workers start and operators are compiled.
    """

    application: str
    seconds: float
    batches: int
    rows: int
    rows_per_second: float
    batch_ms_median: float
    latency_ms_median: float
    latency_ms_worst: int
    peak_state_rows: int
    peak_state_bytes: int
    is_complete: bool
    queries: tuple[QueryCounts, ...] = ()
    readers: tuple[ReaderCounts, ...] = ()
    #: Estimated and measured state of each join.
    joins: tuple[JoinMemory, ...] = ()
    #: How adaptive filters stood at the end.
    filters: tuple[FilterStatus, ...] = ()
    #: Rows that went to the quarantine since the checkpoint began, by reason; operators set rows aside too, and some of them
    #: are used all the same.
    refused: Mapping[str, int] = field(default_factory=dict)
    operators: tuple[OperatorCounts, ...] = ()
    #: What held time back at the end.
    held: tuple[Stall, ...] = ()
    service: tuple[ServiceCounts, ...] = ()
    score: float | None = None
    policy: str = ""
    promises: tuple[Promise, ...] = ()

    def to_json(self) -> dict[str, Any]:
        parts = {"readers": [reader.to_json() for reader in self.readers], "joins": [join.to_json() for join in self.joins]}
        return {**asdict(self), **parts}


class RunHistory:
    """Hears the reports of a run; each batch counts once, however often it is told.

    Parameters
    ----------
    filters
        Tells how adaptive filters stand.
    learnt
        What an earlier run knew about the memory of joins.
    """

    def __init__(
        self,
        application: str,
        job: Job,
        filters: Callable[[], tuple[FilterStatus, ...]] = tuple,
        learnt: Iterable[JoinMemory] = (),
    ) -> None:
        self.application = application
        self.job = job
        self._filters = filters
        self._stalls = StallDetector(job)
        self._memory = MemoryMonitor(job, learnt)
        self.last: BatchStatus | None = None
        self._seen = -1
        self._first: datetime | None = None
        self._ended: datetime | None = None
        self._durations: list[int] = []
        self._latencies: list[int] = []
        self._rows = 0
        self._first_rows = 0
        self._peak_rows = 0
        self._peak_bytes = 0
        self._refused: dict[str, int] = {}
        self._clock, self._service = BatchClock(), ServiceMeter()
        self._contracts = contract_meter(job)

    def follow(self, job: Job) -> None:
        """Queries have come or gone; nothing happens if it is the same job."""
        if job is not self.job:
            learnt = self._memory.joins()
            self.job, self._stalls, self._memory = job, StallDetector(job), MemoryMonitor(job, learnt)
            self._contracts = contract_meter(job, self._contracts.began)

    @property
    def batches(self) -> int:
        return len(self._durations)

    def hear(self, reports: Iterable[BatchReport]) -> list[BatchStatus]:
        """What was not heard before."""
        return [self._next(report) for report in reports if report.epoch > self._seen]

    def _next(self, report: BatchReport) -> BatchStatus:
        times = self._clock.hear(self.job, report)
        began, rows, latency_ms = times.began, times.rows, times.latency_ms
        rate = rows * 1000 / max(times.since_ms or report.duration_ms, 1)
        service = self._service.hear(self.job, report, latency_ms)
        self._contracts.hear(began.timestamp() + report.duration_ms / 1000, self._service.served)
        self._refused = set_aside(self.job, report)
        status = BatchStatus(
            report.epoch, rows, rate, report.duration_ms, latency_ms, report.backlog, tuple(count_queries(self.job, report)),
            tuple(count_operators(self.job, report)), tuple(count_readers(self.job, report)),
            self._filters(), self._refused, self._stalls.hear(report.entries, report.holding, began.timestamp()),
            service, score_of(self.job, report), report.policy, self._contracts.promises,
        )  # fmt: skip
        self._seen = report.epoch
        self._first = self._first or began
        self._ended = datetime.fromtimestamp(began.timestamp() + report.duration_ms / 1000, began.tzinfo)
        self._remember(status)
        self._memory.update(report.operators, report.entries)
        return status

    def _remember(self, status: BatchStatus) -> None:
        self.last = status
        self._first_rows = status.rows if not self.batches else self._first_rows
        self._rows += status.rows
        self._durations.append(status.duration_ms)
        self._latencies.append(status.latency_ms)
        self._peak_rows = max(self._peak_rows, status.state_rows)
        self._peak_bytes = max(self._peak_bytes, status.state_bytes)

    def joins(self) -> tuple[JoinMemory, ...]:
        """Estimated and measured state of joins, so far."""
        return self._memory.joins()

    def summary(self) -> Summary:
        seconds = (self._ended - self._first).total_seconds() if self._ended and self._first else 0.0
        readers = self.last.readers if self.last else ()
        return Summary(
            self.application,
            round(seconds, 3),
            self.batches,
            self._rows,
            round(self._speed(), 1),
            statistics.median(self._durations[1:] or self._durations or [0]),
            statistics.median(self._latencies[1:] or self._latencies or [0]),
            max(self._latencies[1:] or self._latencies or [0]),
            self._peak_rows,
            self._peak_bytes,
            all(reader.is_complete for reader in readers),
            self.last.queries if self.last else (),
            readers,
            self.joins(),
            self._filters(),
            self._refused,
            self.last.operators if self.last else (),
            self.last.held if self.last else (),
            self.last.service if self.last else (),
            self.last.score if self.last else None,
            self.last.policy if self.last else "",
            self.last.promises if self.last else (),
        )

    def _speed(self) -> float:
        """Rows per second after the first batch, or of it if there is no other."""
        if not self._ended or not self._first:
            return 0.0
        warm_up_ms = self._durations[0] if self.batches > 1 else 0
        seconds = (self._ended - self._first).total_seconds() - warm_up_ms / 1000
        return (self._rows - (self._first_rows if self.batches > 1 else 0)) / max(seconds, 0.001)
