"""How each query is served: how long its rows wait, how old its answers are, how many of them come in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.kernel.timing import AnswerTimes
from penstock.kernel.work import Terms
from penstock.lowering.jobs import Job
from penstock.lowering.sheddable import SheddableEntry, entries_with_loss
from penstock.qos.contract_meter import ContractMeter, Served
from penstock.qos.score import QosScore
from penstock.runners.spark.driver.reports import BatchReport

#: Of the answers, how many the longer of the two latencies covers.
_MOST = 0.95


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """The service of one query.

    Parameters
    ----------
    waiting_rows, oldest_ms
        Rows in the queues of its operators, and how long the oldest has been there; queues of shared operators count for each.
    latency_ms
        Of the answers of the last micro-batch that had any: from the arrival of the rows that caused them, on average.
    most_within_ms
        The latency that 95 of 100 of them do not exceed; it may be said too long, by as much as they waited for their turn.
    answers, in_time
        Since the checkpoint began; `in_time` is None where nobody said until when.
    """

    query: str
    weight: float
    waiting_rows: int
    oldest_ms: int
    latency_ms: int | None
    answers: int
    in_time: int | None
    most_within_ms: int | None = None


class ServiceMeter:
    """Turns the reports of micro-batches, which have totals, into what happened since the one before."""

    def __init__(self) -> None:
        self._before: Mapping[str, AnswerTimes] = {}
        self._latency_ms: dict[str, tuple[int, int]] = {}
        #: What contracts are compared with, of the last micro-batch.
        self.served: dict[str, Served] = {}

    def hear(self, job: Job, report: BatchReport, batch_ms: int) -> tuple[ServiceCounts, ...]:
        """One micro-batch, which took `batch_ms` from the arrival of its rows until its answers were written."""
        fresh = {query: times.after(self._before.get(query, AnswerTimes())) for query, times in report.times.items()}
        for query, new in fresh.items():
            if new.rows > 0:
                mean_ms = round(new.age_ns / new.rows / 1e6)
                self._latency_ms[query] = mean_ms + batch_ms, new.age_reached_ms(_MOST) + batch_ms
        self._before = report.times
        found = tuple(self._counts(job, report, query) for query in job.outputs)
        self.served = {
            counts.query: Served(
                max(fresh[counts.query].rows, 0) if counts.query in fresh else 0, (counts.latency_ms or 0) / 1000,
                _queue_bytes(job, report, counts.query), counts.oldest_ms / 1000,
            )
            for counts in found
        }  # fmt: skip
        return found

    def _counts(self, job: Job, report: BatchReport, query: str) -> ServiceCounts:
        terms = terms_of(job, query)
        queues = _queues(job, report, query)
        since = [queue["queue_since_ns"] for queue in queues if queue.get("queue_rows") and "queue_since_ns" in queue]
        times = report.times.get(query, AnswerTimes())
        mean_ms, most_ms = self._latency_ms.get(query, (None, None))
        return ServiceCounts(
            query,
            terms.weight,
            sum(queue.get("queue_rows", 0) for queue in queues),
            max((report.batch_ns - min(since)) // 1_000_000, 0) if since else 0,
            mean_ms,
            times.rows,
            times.in_time if terms.has_validity else None,
            most_ms,
        )


def _queues(job: Job, report: BatchReport, query: str) -> list[Mapping[str, int]]:
    """Counters of the operators of a query."""
    used = [node.id for stage in job.stages for node in stage.graph.nodes if query in node.queries]
    return [report.operators.get(node, {}) for node in used]


def _queue_bytes(job: Job, report: BatchReport, query: str) -> int:
    return sum(queue.get("queue_bytes", 0) for queue in _queues(job, report, query))


def sheddable(job: Job) -> list[SheddableEntry]:
    """Where contracts allow loss; refuses those that allow it where answers would be wrong."""
    return entries_with_loss(job)


def contract_meter(job: Job, began: Mapping[str, float] | None = None) -> ContractMeter:
    """Compares the service of queries with what they promise; their weights say how important they are."""
    return ContractMeter(job.contracts, {query: terms_of(job, query).weight for query in job.contracts}, began)


def terms_of(job: Job, query: str) -> Terms:
    return next((stage.graph.terms[query] for stage in job.stages if query in stage.graph.terms), Terms())


def score_of(job: Job, report: BatchReport) -> float | None:
    """The weighted share of answers in time since the checkpoint began; None if no query says until when."""
    score = QosScore({query: terms_of(job, query).weight for query in job.outputs})
    for query, times in report.times.items():
        if query in job.outputs and terms_of(job, query).has_validity:
            score.count(query, times.in_time, times.rows - times.in_time)
    return score.value
