"""Three times the rate that can be sustained, for a minute: with a contract that allows loss, and without one.

python -m benchmarks.overload [--quiet 30] [--seconds 60]

Packets are compared with a watch list by a Python function, some 200 microseconds each, and summed up by second. The rate
that can be sustained is the highest at which a latency of 3 s holds without loss: that of a run with more rows than it can process
whose micro-batches take 1.5 s each, because the oldest row of a micro-batch has waited for the one before. After a quiet time at
half of that rate it triples. Latency counts for each row from the time at which it falls due to the end of its micro-batch.

`late_s` are seconds in which some row had waited longer than promised; `ratio` those without the contract over those with it (at
least one). Latencies are those from five seconds after the burst began, and `idle_share` is the part of the time of quiet
micro-batches that deciding about loss took. Before the two runs the rate is looked for in runs of --calibration seconds.

Set up again after a first look: with a list of 8 instead of 24 addresses a packet took some 60 microseconds, and reading three
times the packets so much of the time that a loss of 70 % was just not enough (99 % within 3.7 s, 6 of 60 s late). How much can be
made up for by loss is bounded by what a row costs that is read and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.common import main, session
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.counters import count_readers
from penstock.runners.spark.driver.latency import oldest_due_us
from penstock.runners.spark.driver.run import Run

CORES, LATENCY_S, LOSS, TIMES = 2, 3.0, 0.70, 3.0
#: A micro-batch of this length keeps the latency exactly.
LONGEST_S = LATENCY_S / 2
#: Of the burst, before the contract has to hold; and of each run, in which workers start.
GRACE_S, WARM_UP_S = 5.0, 15.0
CONTRACT = f"WITH QOS (LATENCY <= INTERVAL {LATENCY_S:g} SECONDS MUST, LOSS <= {100 * LOSS:g} PERCENT)"

TEXT = """
CREATE STREAM r1 (
  size BIGINT, dest STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'network.r1', rate '{rate:.0f}', partitions '2'{more});
CREATE FUNCTION likeness(address STRING) RETURNS DOUBLE
  USING python OPTIONS (callable 'benchmarks._watch_list:likeness', kind 'rows');
CREATE CQ watched {contract} AS
SELECT size, window_end() AS until, COUNT(*) AS packets, MAX(likeness(dest)) AS most
FROM r1 [RANGE 1 SECOND] GROUP BY size;
"""

#: When the oldest row of a micro-batch fell due and when that of the next one did, and when it ended; seconds since the feed began.
Batch: TypeAlias = tuple[float, float, float]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibration", type=float, default=15, help="seconds of each run that looks for the rate")
    parser.add_argument("--quiet", type=float, default=30, help="seconds before the burst; the first ones start workers")
    parser.add_argument("--seconds", type=float, default=60, help="of the burst")
    return parser.parse_args()


class Watched:
    """A run, its micro-batches, and what they say."""

    def __init__(self, text: str, seconds: float) -> None:
        run = App.from_text(text, "overload").start(tempfile.mkdtemp(prefix="penstock-bench-"), spark=session(CORES), shards=CORES)
        self.run, self.deciding_s = run, _timed_decisions(run)
        found: dict[int, Any] = {}
        try:
            while not run.reports():
                time.sleep(0.1)
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                found |= {report.epoch: report for report in run.reports()}
                time.sleep(0.5)
        finally:
            run.stop()
        self.reports = [found[epoch] for epoch in sorted(found)]

    def batches(self) -> list[Batch]:
        began_s = _feed_began_s(self.reports[0])
        found = []
        for report, following in pairwise(self.reports):
            oldest, newest = oldest_due_us(self.run.job, report), oldest_due_us(self.run.job, following)
            if oldest is not None and newest is not None and following.epoch == report.epoch + 1:
                ended = _planned_s(report) + report.duration_ms / 1000
                found.append((oldest / 1e6 - began_s, newest / 1e6 - began_s, ended - began_s))
        return found


def _timed_decisions(run: Run) -> list[float]:
    """Seconds of each decision about loss, as they are made."""
    taken: list[float] = []
    controller = run._launch.losses.controller
    if controller is not None:
        decide = controller.decide

        def timed(context: Any) -> Any:
            started = time.perf_counter()
            found = decide(context)
            taken.append(time.perf_counter() - started)
            return found

        controller.decide = timed  # type: ignore[method-assign]
    return taken


def _feed_began_s(report: Any) -> float:
    for source in report.spark["sources"]:
        offset = source.get("endOffset")
        found = json.loads(offset) if isinstance(offset, str) else offset
        if isinstance(found, dict) and "began_us" in found:
            return float(found["began_us"]) / 1e6
    raise ValueError("no feed among the sources")


def _planned_s(report: Any) -> float:
    return datetime.fromisoformat(str(report.spark["timestamp"]).replace("Z", "+00:00")).timestamp()


def _rows(report: Any) -> int:
    return max((entry.get("arrived", 0) for entry in report.entries.values()), default=0)


def sustainable(seconds: float) -> float:
    """Rows per second where micro-batches take as long as the latency allows."""
    rows = 4_000
    took = 0.0
    while abs(took / LONGEST_S - 1) > 0.1:
        text = TEXT.format(rate=10_000_000, more=f", max_rows_per_batch '{rows}'", contract="")
        reports = [report for report in Watched(text, seconds).reports[3:] if _rows(report) >= 0.9 * rows]
        took = float(np.median([(_planned_s(later) - _planned_s(report)) for report, later in pairwise(reports)]))
        said("calibration", {"rows": rows, "seconds": round(took, 3), "rate": round(rows / took)})
        rate = rows / took
        rows = max(round(rows * LONGEST_S / took), 1_000)
    return rate


def latencies(batches: Sequence[Batch], since_s: float, until_s: float, end_s: float) -> tuple[float, float, float]:
    """Mean, 99th percentile and greatest latency of rows that fell due in this time, at an even rate.

    Those that were not answered until the end count as if they had been answered then: they were later.
    """
    due = np.arange(since_s, until_s, 0.01)
    newest, ended = (np.array([batch[at] for batch in batches]) for at in (1, 2))
    answered = np.append(ended, end_s)[np.searchsorted(newest, due)]
    found = np.sort(np.minimum(answered, end_s) - due)
    return float(found.mean()), float(found[int(0.99 * len(found))]), float(found[-1])


def seconds_late(batches: Sequence[Batch], since_s: float, end_s: float) -> float:
    """Seconds in which some row had waited for its answer longer than promised."""
    now = np.arange(since_s, end_s, 0.01)
    oldest, ended = (np.array([batch[at] for batch in batches]) for at in (0, 2))
    # Rows of the first micro-batch that has not ended are the oldest ones without an answer.
    waiting = np.append(oldest, batches[-1][1])[np.searchsorted(ended, now, side="right")]
    return float((now - waiting > LATENCY_S).sum()) / 100


def watched(text: str, given: argparse.Namespace) -> dict[str, Any]:
    """One run through the burst."""
    found = Watched(text, given.quiet + given.seconds)
    batches, end = found.batches(), given.quiet + given.seconds
    mean, most, greatest = latencies(batches, given.quiet + GRACE_S, end - LATENCY_S, end)
    (reader,) = count_readers(found.run.job, found.reports[-1])
    quiet = [report for report in found.reports[5:] if _planned_s(report) - _feed_began_s(found.reports[0]) < given.quiet]
    quiet_s = sum(report.duration_ms for report in quiet) / 1000
    line = {
        "latency_mean_s": round(mean, 2), "latency_p99_s": round(most, 2), "latency_max_s": round(greatest, 2),
        "late_s": round(seconds_late(batches, WARM_UP_S, end), 1), "read": reader.read, "used": reader.used, "shed": reader.shed,
        "is_complete": reader.is_complete, "batches": len(batches),
        "idle_share": round(sum(found.deciding_s[5 : 5 + len(quiet)]) / quiet_s, 5) if quiet_s else None,
    }  # fmt: skip
    return line


def said(name: str, found: Mapping[str, Any]) -> None:
    print(f"{name:12s} {dict(found)}", file=sys.stderr, flush=True)


def run() -> Mapping[str, Any]:
    given = arguments()
    # Workers import the function.
    root = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    rate = sustainable(given.calibration)
    more = f", schedule '{given.quiet:g}:{TIMES / 0.5:g}'"
    line = {"sustainable_rate": round(rate)}
    both = {}
    for name, contract in (("with", CONTRACT), ("without", "")):
        both[name] = watched(TEXT.format(rate=rate / 2, more=more, contract=contract), given)
        said(name, both[name])
    ratio = both["without"]["late_s"] / max(both["with"]["late_s"], 1.0)
    return {"ratio": round(ratio, 2), **line, **both}


if __name__ == "__main__":
    main("overload", run)
