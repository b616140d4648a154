"""Streams and joins of the PWJoin experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock.experiments.contracts import Statement, statements
from penstock.experiments.joins.items import Items, Trace
from penstock.experiments.joins.playing import play as play_join
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.joins.pwjoin.join import PWJoin
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS
from penstock.workloads.itemised import Items as StreamItems
from penstock.workloads.itemised import PunctuatedStream, make_items

#: Length of the streams; mean gaps of the two publications.
SECONDS = 40.0
GAPS_MS = (2.0, 10.0)

#: Hash buckets of every index and table.
BUCKETS = 64

STATEMENTS: Mapping[str, Statement] = statements(Path(__file__).parent)


#: Length of the streams whose processing is timed, by their gap: as many items as a stream of 800 s with gaps of 2 ms, because
#: a run of a few milliseconds says little about time.
TIMED_SECONDS: Mapping[float, float] = {gap: 800.0 * gap / 2.0 for gap in GAPS_MS}


def items_of(
    pattern_a: str, pattern_b: str, gap_ms: float, seed: int = 1, seconds: float = SECONDS, useless: float = 0.0
) -> StreamItems:
    """Two streams of these patterns."""
    streams = [PunctuatedStream(pattern, gap_ms, useless_fraction=useless) for pattern in (pattern_a, pattern_b)]
    return make_items(streams, seconds, seed)


def pwjoin(*windows: float | None) -> PWJoinConfig:
    """PWJoin with windows of so many seconds; None is unbounded."""
    return PWJoinConfig.within(*(None if size is None else round(size * MICROS) for size in windows), buckets=BUCKETS)


def wjoin(*windows: float | None) -> PWJoinConfig:
    """The window join that is blind to punctuations."""
    return pwjoin(*windows).baseline()


def paired_pjoin() -> PWJoinConfig:
    """PJoin that lets a value go when both streams have closed it: no windows, no early propagation."""
    return replace(PWJoinConfig.within(None, None, buckets=BUCKETS), early_propagation=False)


def play(config: PWJoinConfig, items: StreamItems, every: float = 2.0, keep_results: bool = False) -> Trace:
    """Run a join over the items, with a sample every so many seconds and one at the end."""
    first, last, step = int(items.times_us[0]), int(items.times_us[-1]), round(every * MICROS)
    times = np.append(np.arange(first + step, last, step), last)
    return play_join(PWJoin(config, keep_results), Items.from_workload(items), times)


def same_results(left: Trace, right: Trace) -> bool:
    """Whether two runs over the same items, with results kept, gave the same bag."""
    base = 1 + max(int(trace.results.max(initial=0)) for trace in (left, right))
    return np.array_equal(_sorted(left.results, base), _sorted(right.results, base))


def _sorted(results: Int64s, base: int) -> Int64s:
    """Results in one order; as single numbers, which are sorted ten times faster, if these are not too large."""
    if base ** results.shape[1] < 2**63:
        return np.sort(results @ np.array([base**place for place in range(results.shape[1])], np.int64))
    ordered: Int64s = results[np.lexsort(results.T)]
    return ordered


def stored(trace: Trace) -> Int64s:
    """Tuples of all streams in state, per sample."""
    total: Int64s = trace.state.sum(axis=1)
    return total


def mean_from(trace: Trace, second: float) -> float:
    """Mean state of the samples from this second on: what a window needs to fill is left out."""
    return float(stored(trace)[trace.sampled_at >= second * MICROS].mean())
