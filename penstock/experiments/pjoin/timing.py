"""PJoin and XJoin limited by the processor: the timed part of E-PJ-3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from penstock.experiments.contracts import Claim, Panel, Series, Settings
from penstock.experiments.joins.items import Items
from penstock.experiments.joins.playing import play as play_join
from penstock.experiments.joins.xjoin_pjoin.config import PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.measures import counted, middle, output_over_time
from penstock.experiments.pjoin.setup import STATEMENTS, Streams, pjoin, xjoin

#: Length of the stream: long enough that what grows with the state, not what every item costs, decides. A quick look is not.
_SECONDS, _QUICK_SECONDS = 240.0, 40.0

#: Parts of the stream after which time is taken, and moments at which outputs are compared.
_PARTS, _MOMENTS = 24, 20


def limited_by_processor(settings: Settings) -> tuple[Claim, Panel]:
    """Both joins take items as fast as they can; output is drawn over the time they needed."""
    items = Items.from_workload(Streams(30, 30, 1, _QUICK_SECONDS if settings.is_quick else _SECONDS).items())
    parts = _parts(len(items))
    outputs = _outputs(items, parts)
    turns = _timed((pjoin(1), xjoin()), items, parts, settings.repetitions)
    ours, theirs = (np.median(found, axis=0).tolist() for found in turns)
    moments, curves = compared(ours, theirs, outputs)
    held = is_ahead(curves)
    claim = STATEMENTS["E-PJ-3d"].judged(
        "E-PJ-3d",
        held,
        f"after {moments[-1]:.2f} s {counted(curves[0][-1])} against {counted(curves[1][-1])} results; "
        f"whole stream in {middle([turn[-1] for turn in turns[0]])} and {middle([turn[-1] for turn in turns[1]])} s",
        pjoin_seconds=ours[-1],
        xjoin_seconds=theirs[-1],
    )
    lines = tuple(
        Series(label, [0.0, *times], [0.0, *outputs], ([0.0, *np.min(found, axis=0)], [0.0, *np.max(found, axis=0)]), True)
        for label, times, found in (("PJoin-1", ours, turns[0]), ("XJoin", theirs, turns[1]))
    )
    return claim, Panel("processor time (s)", "output tuples", lines)


def compared(ours: Sequence[float], theirs: Sequence[float], outputs: Sequence[float]) -> tuple[list[float], list[list[float]]]:
    """Outputs of both joins after the same cost, from the cost at which each has come to given outputs.

    Looked at while both have items: who has none left has nothing left to answer.
    """
    moments: list[float] = (np.arange(1, _MOMENTS + 1) / _MOMENTS * min(ours[-1], theirs[-1])).tolist()
    return moments, [output_over_time(costs, outputs, moments) for costs in (ours, theirs)]


def is_ahead(curves: list[list[float]]) -> bool:
    """Whether the first join has at least the output of the second, in the second half."""
    ours, theirs = (curve[_MOMENTS // 2 :] for curve in curves)
    return all(mine >= other for mine, other in zip(ours, theirs, strict=True))


def _parts(count: int) -> list[tuple[int, int]]:
    """First item of each part, and the first after it."""
    return list(pairwise(count * part // _PARTS for part in range(_PARTS + 1)))


def _outputs(items: Items, parts: list[tuple[int, int]]) -> list[float]:
    """Results after each part; the same for both joins."""
    ends = items.ts[[stop - 1 for _, stop in parts]]
    found: list[float] = play_join(PJoin(pjoin(1)), items, ends).samples["results"].astype(np.float64).tolist()
    return found


def _timed(
    configs: tuple[PJoinConfig, ...], items: Items, parts: list[tuple[int, int]], repetitions: int
) -> list[list[list[float]]]:
    """Time each join has taken after each part, turn by turn; joins take turns, so that a slow moment strikes all of them."""
    for config in configs:
        # Loops are compiled on their first call.
        _one_turn(config, items, parts[:1])
    turns = [[_one_turn(config, items, parts) for config in configs] for _ in range(repetitions)]
    return [[turn[place] for turn in turns] for place in range(len(configs))]


def _one_turn(config: PJoinConfig, items: Items, parts: list[tuple[int, int]]) -> list[float]:
    join, fates, began, taken = PJoin(config), np.zeros(len(items), np.int8), time.process_time(), []
    for start, stop in parts:
        join.process(items, fates, start, stop)
        taken.append(time.process_time() - began)
    return taken
