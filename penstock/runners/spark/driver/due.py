"""When the rows of a micro-batch fell due: what a user waits for begins there, not when the batch happened to begin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.lowering.jobs import Job
from penstock.model.declarations import StreamDeclaration
from penstock.runners.spark.driver.reports import BatchReport
from penstock.workloads.base import ColumnarWorkload
from penstock.workloads.playback import Playback


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
