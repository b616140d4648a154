"""How long the rows of a micro-batch waited for it, and for its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.lowering.jobs import Job
from penstock.model.declarations import StreamDeclaration
from penstock.runners.spark.driver.counters import rows_arrived
from penstock.runners.spark.driver.reports import BatchReport
from penstock.workloads.base import ColumnarWorkload
from penstock.workloads.playback import Playback


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Of one micro-batch.

    Parameters
    ----------
    since_ms
        Since the one before began; 0 for the first.
    latency_ms
        From the time the oldest row of the batch fell due, or if the source does not tell, from the begin of the batch
        before, to the time answers were written. (Event time says nothing about that when it is made up or replayed.)
    """

    began: datetime
    rows: int
    since_ms: float
    latency_ms: int


class BatchClock:
    """Tells the times of micro-batches, which it hears of one after the other."""

    def __init__(self) -> None:
        self._began: datetime | None = None

    def hear(self, job: Job, report: BatchReport) -> BatchTimes:
        began = datetime.fromisoformat(str(report.spark["timestamp"]).replace("Z", "+00:00"))
        rows = rows_arrived(job, report)
        since_ms = (began - self._began).total_seconds() * 1000 if self._began else 0.0
        due_us = oldest_due_us(job, report)
        waited_ms = since_ms if due_us is None else began.timestamp() * 1000 - due_us / 1000
        self._began = began
        # Where no row came, none has waited for the micro-batch to begin.
        return BatchTimes(began, rows, since_ms, int(max(waited_ms, 0) if rows else 0) + report.duration_ms)


def oldest_due_us(job: Job, report: BatchReport) -> int | None:
    """Wall-clock microseconds at which the oldest row of the batch could have been read; None if the sources do not tell.

    The feed tells: its offsets hold the time at which it began, and its rows fall due by the clock.
    """
    starts = [found for source in report.spark.get("sources", ()) if (found := _offset(source.get("startOffset"))) is not None]
    # Spark tells each source once, in the order in which the plan first reads it, however many queries read it.
    streams = {source.route.stream.name: source.route.stream for stage in job.stages for source in stage.sources}
    feeds = [stream for stream in streams.values() if stream.source.format == "feed"]
    if not starts or len(starts) != len(feeds):
        return None
    return min(_due_us(stream, start) for stream, start in zip(feeds, starts, strict=True))


def _offset(text: Any) -> Mapping[str, int] | None:
    """An offset of the feed, as Spark's progress shows it."""
    found = json.loads(text) if isinstance(text, str) else text
    return found if isinstance(found, Mapping) and {"tick", "began_us"} <= found.keys() else None


def _due_us(stream: StreamDeclaration, start: Mapping[str, int]) -> int:
    feed = Playback.from_text({name.lower(): value for name, value in stream.source.options.items()})
    tick = start["tick"]
    if not isinstance(feed.workload, ColumnarWorkload):
        return start["began_us"]
    clock = feed.workload.shape(feed.stream).clock
    return start["began_us"] + int(feed.options.arrivals(clock).times(tick, tick + 1)[0])
