"""Window joins limited by the processor: they take items as fast as they can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.experiments.contracts import Panel, Series
from penstock.experiments.pwjoin.playing import columns_of
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.workloads.itemised import Items

#: Parts of the stream after which time is taken.
_PARTS = 16


@dataclass(frozen=True, slots=True)
class TimedOutput:
    """Time a join has taken after each part of its items, and results by then."""

    seconds: list[float]
    outputs: list[float]


def timed_parts(configs: Sequence[JoinConfig], items: Items, repetitions: int) -> list[TimedOutput]:
    """Median of several turns; the joins take turns, so that a slow moment of the machine strikes all of them.

    It is the processor's time: on a quiet machine that is the time on the clock, and on a busy one other programs do not
    count.
    """
    for config in configs:
        # Loops are compiled on their first call.
        _one_turn(config, items.first(100))
    turns = [[_one_turn(config, items) for config in configs] for _ in range(repetitions)]
    medians = np.median([[timed.seconds for timed in turn] for turn in turns], axis=0).tolist()
    return [TimedOutput(seconds, timed.outputs) for seconds, timed in zip(medians, turns[0], strict=True)]


def output_panel(timed: Sequence[TimedOutput], names: Sequence[str], title: str = "") -> Panel:
    """Output over the time it took."""
    lines = tuple(
        Series(name, [0.0, *(second * 1e3 for second in curve.seconds)], [0.0, *curve.outputs])
        for name, curve in zip(names, timed, strict=True)
    )
    return Panel("processor time (ms)", "output tuples", lines, title=title)


def time_ratio(ours: JoinConfig, theirs: JoinConfig, items: Items, repetitions: int) -> float:
    """Time of the first join over that of the second, for all items."""
    mine, other = timed_parts((ours, theirs), items, repetitions)
    return mine.seconds[-1] / other.seconds[-1]


def _one_turn(config: JoinConfig, items: Items) -> TimedOutput:
    columns, core = columns_of(items), JoinCore(config)
    rows, fates = np.arange(len(items), dtype=np.int64), np.zeros(len(items), np.int8)
    cuts = [len(items) * part // _PARTS for part in range(_PARTS + 1)]
    seconds, outputs, began = [], [], time.process_time()
    for start, stop in pairwise(cuts):
        core.process(columns, rows, fates, start, stop)
        seconds.append(time.process_time() - began)
        outputs.append(float(core.counters()["results"]))
    return TimedOutput(seconds, outputs)
