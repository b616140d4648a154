"""Play items of one order through a join: the door for experiments and worked examples."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from penstock.model.batch import Int64s
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.operators.joins.pwjoin.trace import LEVELS, TOTALS, Items, Trace


def run_items(config: JoinConfig, items: Items, sample_every: int = 0, collect: bool = False) -> Trace:
    """Join items and tell what happened.

    Parameters
    ----------
    sample_every
        Distance of samples in units of time, from the first item on; 0: no samples but the last.
    collect
        Whether the combinations themselves are wanted; otherwise they are only counted.

    Examples
    --------
    >>> from penstock.operators.joins.pwjoin.trace import Kind
    >>> items = Items.of([(Kind.TUPLE, 0, 1, 180), (Kind.TUPLE, 1, 2, 180), (Kind.PUNCTUATION, 0, 3, 180),
    ...                   (Kind.TUPLE, 1, 4, 180), (Kind.HEARTBEAT, 0, 12, 0)])
    >>> trace = run_items(JoinConfig.within(10, 5), items, collect=True)
    >>> trace.results.tolist(), trace.marks.lows.tolist(), trace.marks.ts.tolist()
    ([[0, 1], [0, 3]], [180], [12])
    >>> trace.counters["purged"], trace.counters["purged_on_the_fly"], trace.counters["invalidated"]
    (1, 1, 1)
    """
    core = JoinCore(config, collect)
    fates, rows = np.zeros(len(items), np.int8), np.arange(len(items), dtype=np.int64)
    sampled_at, stops = _sample_points(items, sample_every)
    samples, state, worked, start = [], [], 0.0, 0
    for stop in stops.tolist():
        began = perf_counter()
        core.process(items, rows, fates, start, stop)
        worked += perf_counter() - began
        samples.append(core.counters())
        state.append(core.stored())
        start = stop
    output = core.take_output()
    columns = {name: np.array([sample[name] for sample in samples], np.int64) for name in (*TOTALS, *LEVELS)}
    return Trace(samples[-1], sampled_at, columns, np.array(state), fates, output.marks, output.results, output.items, worked)


def _sample_points(items: Items, every: int) -> tuple[Int64s, Int64s]:
    """Times of the samples, and how many items each has seen."""
    if not len(items):
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    reached = np.maximum.accumulate(items.ts)
    last = int(reached[-1])
    times = np.arange(int(items.ts[0]) + every, last, every, dtype=np.int64) if every > 0 else np.empty(0, np.int64)
    times = np.append(times, last)
    stops = np.searchsorted(reached, times, side="right")
    stops[-1] = len(items)
    return times, stops
