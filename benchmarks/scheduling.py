"""A load that doubles for a while, with a budget: latency of `auto` against `round_robin`, queues of `segment` against `fifo`.

python -m benchmarks.scheduling [--seconds 40]

Two runs at a time, side by side, over the same rows (`penstock demo burst`). Beside them, in process and without overload, the time
that choosing takes, as a part of the time of the operators.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import main, session
from penstock.apps.burst.comparison import Comparison, Load, compare
from penstock.apps.table import example_named
from penstock.kernel.contracts import Policy
from penstock.kernel.work import Choice, WaitingWork
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.model.elements import BUDGET, Control
from penstock.model.service import ChosenPolicy
from penstock.qos.scheduling.table import DEFAULT
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

#: A budget that is never used up: everything is chosen slice by slice, and nothing waits.
_AMPLE_NS = 10**12
_BATCHES, _WARM_UP, _SECONDS = 40, 10, 0.5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40)
    return parser.parse_args()


def compared(text: str, seconds: float, *policies: str) -> Comparison:
    with tempfile.TemporaryDirectory() as folder:
        chosen = {name: ChosenPolicy(name) for name in policies}
        return compare(session(), text, Path(folder), chosen, Load(seconds=seconds))


class _Watched:
    """Adds up the time that a strategy takes to choose."""

    def __init__(self, policy: Policy) -> None:
        self._pick: Callable[[WaitingWork], Choice | None] = policy.pick
        self.ns = self.picks = 0

    def __call__(self, work: WaitingWork) -> Choice | None:
        started = time.perf_counter_ns()
        choice = self._pick(work)
        self.ns += time.perf_counter_ns() - started
        self.picks += 1
        return choice


def bookkeeping(text: str) -> float:
    """Time of choosing over time of operators, where every micro-batch ends with empty queues."""
    catalog = parse_application(text, now=0)
    feeds = {
        stream.name: Playback.from_text({name.lower(): value for name, value in stream.source.options.items()})
        for stream in catalog.streams.values()
    }
    runner = LocalRunner(looped(build_job(catalog, 2)), policy=DEFAULT)
    controls = [Control(0, BUDGET, {"ns": _AMPLE_NS})]
    watched: list[_Watched] = []
    before = 0
    for batch in range(_BATCHES):
        if batch == _WARM_UP:
            watched = [_Watched(kernel.policy) for kernel in runner.kernels.values()]
            for kernel, watch in zip(runner.kernels.values(), watched, strict=True):
                kernel.policy.pick = watch  # type: ignore[method-assign]
            before = _operators_ns(runner)
        runner.run({name: _rows(feed, batch, catalog.stream(name).schema.arrow) for name, feed in feeds.items()}, controls)
        controls = []
    return sum(watch.ns for watch in watched) / (_operators_ns(runner) - before)


def _operators_ns(runner: LocalRunner) -> int:
    return sum(counters.get("ns", 0) for counters in runner.report().values())


def _rows(feed: Playback, batch: int, schema: Any) -> list[Any]:
    start, stop = (feed.due(round(at * _SECONDS * 1e6)) for at in (batch, batch + 1))
    return [rows for span in feed.ranges(start, stop) for rows in feed.batches(span, schema)]


def run() -> Mapping[str, Any]:
    given = arguments()
    burst = example_named("burst").file.read_text()
    latency = compared(burst, given.seconds, "round_robin", "auto")
    memory = compared(burst, given.seconds, "fifo", "segment")
    plain, chosen = latency.sides["round_robin"], latency.sides["auto"]
    fifo, segment = memory.sides["fifo"], memory.sides["segment"]
    return {
        "ratio": round(plain.mean_latency_ms / chosen.mean_latency_ms, 2),
        "latency_ms": {name: round(side.mean_latency_ms) for name, side in latency.sides.items()},
        "memory_ratio": round(fifo.peak_bytes / max(segment.peak_bytes, 1), 2),
        "peak_queue_bytes": {name: side.peak_bytes for found in (latency, memory) for name, side in found.sides.items()},
        "are_equal": latency.are_equal and memory.are_equal and latency.answers == memory.answers,
        "bookkeeping": {name: round(bookkeeping(example_named(name).file.read_text()), 4) for name in ("burst", "auction")},
    }


if __name__ == "__main__":
    main("scheduling", run)
