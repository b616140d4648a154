"""Window joins limited by the processor: they take items as fast as they can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.experiments.contracts import Panel, Series
from penstock.experiments.joins.items import Items
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.joins.pwjoin.join import PWJoin
from penstock.workloads.itemised import Items as StreamItems

#: Parts of the stream after which time is taken.
_PARTS = 16


@dataclass(frozen=True, slots=True)
class TimedOutput:
    """Time a join has taken after each part of its items, median of all turns, and results by then.

    `turns` are the times of each turn.
    """

    seconds: list[float]
    outputs: list[float]
    turns: list[list[float]]


def timed_parts(configs: Sequence[PWJoinConfig], items: StreamItems, repetitions: int) -> list[TimedOutput]:
    """Median of several turns; the joins take turns, so that a slow moment of the machine strikes all of them.

    It is the processor's time: on a quiet machine that is the time on the clock, and on a busy one other programs do not
    count.
    """
    for config in configs:
        # Loops are compiled on their first call.
        _one_turn(config, items.first(100))
    turns = [[_one_turn(config, items) for config in configs] for _ in range(repetitions)]
    return [_together([turn[place] for turn in turns]) for place in range(len(configs))]


def _together(turns: Sequence[TimedOutput]) -> TimedOutput:
    seconds = [turn.seconds for turn in turns]
    return TimedOutput(np.median(seconds, axis=0).tolist(), turns[0].outputs, seconds)


def ratios_of(ours: TimedOutput, theirs: TimedOutput) -> list[float]:
    """Time of the first join over that of the second, turn by turn: joins take turns, so a slow moment strikes both."""
    return [mine[-1] / other[-1] for mine, other in zip(ours.turns, theirs.turns, strict=True)]


def output_panel(timed: Sequence[TimedOutput], names: Sequence[str], title: str = "") -> Panel:
    """Output over the time it took."""
    lines = tuple(
        Series(
            name,
            [0.0, *curve.seconds],
            [0.0, *curve.outputs],
            ([0.0, *np.min(curve.turns, axis=0)], [0.0, *np.max(curve.turns, axis=0)]),
            is_spread_in_x=True,
        )
        for name, curve in zip(names, timed, strict=True)
    )
    return Panel("processor time (s)", "output tuples", lines, title=title)


def time_ratios(ours: PWJoinConfig, theirs: PWJoinConfig, items: StreamItems, repetitions: int) -> list[float]:
    """Time of the first join over that of the second for all items, turn by turn."""
    return ratios_of(*timed_parts((ours, theirs), items, repetitions))


def _one_turn(config: PWJoinConfig, stream_items: StreamItems) -> TimedOutput:
    items, join = Items.from_workload(stream_items), PWJoin(config)
    fates = np.zeros(len(items), np.int8)
    cuts = [len(items) * part // _PARTS for part in range(_PARTS + 1)]
    seconds, outputs, began = [], [], time.process_time()
    for start, stop in pairwise(cuts):
        join.process(items, fates, start, stop)
        seconds.append(time.process_time() - began)
        outputs.append(float(join.counters()["results"]))
    return TimedOutput(seconds, outputs, [seconds])
