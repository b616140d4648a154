"""Window joins limited by the processor: they take items as fast as they can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.experiments.contracts import Panel, Series
from penstock.experiments.pwjoin.setup import columns_of
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.workloads.itemised import Items

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


def timed_parts(configs: Sequence[JoinConfig], items: Items, repetitions: int) -> list[TimedOutput]:
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


def time_ratios(ours: JoinConfig, theirs: JoinConfig, items: Items, repetitions: int) -> list[float]:
    """Time of the first join over that of the second for all items, turn by turn."""
    return ratios_of(*timed_parts((ours, theirs), items, repetitions))


def _one_turn(config: JoinConfig, items: Items) -> TimedOutput:
    columns, core = columns_of(items), JoinCore(config)
    rows, fates = np.arange(len(items), dtype=np.int64), np.zeros(len(items), np.int8)
    cuts = [len(items) * part // _PARTS for part in range(_PARTS + 1)]
    seconds, outputs, began = [], [], time.process_time()
    for start, stop in pairwise(cuts):
        core.process(columns, rows, fates, start, stop)
        seconds.append(time.process_time() - began)
        outputs.append(float(core.counters()["results"]))
    return TimedOutput(seconds, outputs, [seconds])
