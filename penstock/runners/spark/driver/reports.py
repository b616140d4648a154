"""What the shards reported about a micro-batch, put together for people and for decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.kernel.timing import AnswerTimes
from penstock.runners.spark.data_path.pipeline import OBSERVED

#: Counters that are levels or points in time, not totals over shards.
_LEAST = ("frontier", "queue_since_ns")


@dataclass(slots=True)
class BatchReport:
    """One micro-batch: Spark's durations and the shards' counters, summed over shards.

    Counters of operators are running totals since the query began, or levels (`state_rows`, `queue_rows`). Filters that run
    where rows are packed keep nothing, and count the rows of this micro-batch.
    """

    epoch: int
    duration_ms: int
    input_rows: int
    operators: dict[str, dict[str, int]] = field(default_factory=dict)
    entries: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Rows that the shards refused in this micro-batch, by reason; those of several entries count at each of them.
    refused: dict[str, int] = field(default_factory=dict)
    #: Rows refused since the checkpoint began, by entry or operator and by reason.
    set_aside: dict[str, dict[str, int]] = field(default_factory=dict)
    #: For entries of streams the source partition that others wait for, and how far it and they have come.
    holding: dict[str, dict[str, int]] = field(default_factory=dict)
    backlog: int = 0
    work_ns: int = 0
    state_written: int = 0
    restored: int = 0
    spark: Mapping[str, Any] = field(default_factory=dict)
    #: What each shard's part of an operator tells whoever decides about it.
    driver_reports: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    #: What each shard's operators took for what they were given in this micro-batch, by port.
    measures: list[Mapping[str, Any]] = field(default_factory=list)
    #: Answers of every query since the checkpoint began.
    times: dict[str, AnswerTimes] = field(default_factory=dict)
    #: When the micro-batch was planned, in nanoseconds since 1970.
    batch_ns: int = 0
    #: The strategy that chose what ran next.
    policy: str = ""
    #: The run the shards belong to.
    run: str = ""

    @property
    def state_rows(self) -> int:
        return sum(counters.get("state_rows", 0) for counters in self.operators.values())

    @property
    def state_bytes(self) -> int:
        return sum(counters.get("state_bytes", 0) for counters in self.operators.values())


def read_report(progress: Mapping[str, Any], name: str = "") -> BatchReport | None:
    """The report of a pipeline inside Spark's progress of one micro-batch; None if the batch had no stateful work.

    `name` is what its metrics are called; empty: those of an application, or of the only call in the query.
    """
    metrics = progress.get("observedMetrics", {})
    names = [name] if name else [each for each in metrics if each.split("-")[0] == OBSERVED]
    observed = metrics.get(names[0]) if len(names) == 1 else None
    if observed is None:
        return None
    report = BatchReport(
        progress["batchId"], int(progress.get("batchDuration") or 0), int(progress.get("numInputRows") or 0), spark=progress
    )
    for text in observed["reports"]:
        _add(report, json.loads(text))
    return report


def _add(report: BatchReport, shard: Mapping[str, Any]) -> None:
    """Add the report of a shard, or of a packing task, which has less to say."""
    report.backlog += shard.get("backlog", 0)
    report.work_ns += shard.get("work_ns", 0)
    report.state_written += shard.get("state_written", 0)
    report.restored += int(shard.get("restored", False))
    report.run = shard.get("run", "")
    report.policy = shard.get("policy", report.policy)
    report.batch_ns = shard.get("batch_ns", report.batch_ns)
    report.measures += [shard["measures"]] if "measures" in shard else []
    for query, found in shard.get("times", {}).items():
        report.times.setdefault(query, AnswerTimes()).merge(AnswerTimes.from_json(found))
    for operator, each in shard.get("told", {}).items():
        report.driver_reports.setdefault(operator, []).append(each)
    _sum(report.operators, shard["operators"])
    _sum(report.entries, shard.get("entries", {}))
    report.holding |= shard.get("holding", {})  # all shards hear of all partitions, so they say the same
    _sum(report.set_aside, shard.get("set_aside", {}))  # tasks without kernels keep nothing
    for reason, count in shard.get("refused", {}).items():
        report.refused[reason] = report.refused.get(reason, 0) + count


def _sum(total: dict[str, dict[str, int]], found: Mapping[str, Mapping[str, int]]) -> None:
    for name, counters in found.items():
        mine = total.setdefault(name, {})
        for counter, value in counters.items():
            if counter in _LEAST:
                mine[counter] = min(mine.get(counter, value), value)
            else:
                mine[counter] = mine.get(counter, 0) + value


def read_reports(progresses: Iterable[Mapping[str, Any]]) -> list[BatchReport]:
    return [report for progress in progresses if (report := read_report(progress)) is not None]
