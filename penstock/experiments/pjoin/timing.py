"""PJoin and XJoin limited by the processor: the timed part of E-PJ-3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from penstock.experiments.contracts import Claim, Panel, Series, Settings
from penstock.experiments.measures import counted, middle, output_over_time
from penstock.experiments.pjoin.setup import STATEMENTS, Streams, columns_of, pjoin, xjoin
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.operators.joins.pjoin.items import ItemRun, run_items
from penstock.operators.joins.pjoin.trace import Items

#: Length of the stream: long enough that what grows with the state, not what every item costs, decides. A quick look is not.
_SECONDS, _QUICK_SECONDS = 240.0, 40.0

#: Parts of the stream after which time is taken, and moments at which outputs are compared.
_PARTS, _MOMENTS = 24, 20


def limited_by_processor(settings: Settings) -> tuple[Claim, Panel]:
    """Both joins take items as fast as they can; output is drawn over the time they needed."""
    items = columns_of(Streams(30, 30, 1, _QUICK_SECONDS if settings.is_quick else _SECONDS).items())
    parts = _parts(items)
    outputs = _outputs(items, parts)
    turns = _timed((pjoin(1), xjoin()), parts, settings.repetitions)
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


def _parts(items: Items) -> list[Items]:
    cuts = [len(items) * part // _PARTS for part in range(_PARTS + 1)]
    slices = [slice(first, last) for first, last in pairwise(cuts)]
    return [Items(items.kind[part], items.stream[part], items.key[part], items.ts[part]) for part in slices]


def _outputs(items: Items, parts: list[Items]) -> list[float]:
    """Results after each part; the same for both joins."""
    ends = np.array([part.ts[-1] for part in parts], np.int64)
    found: list[float] = run_items(pjoin(1), items, ends).counters["results"].astype(np.float64).tolist()
    return found


def _timed(configs: tuple[PJoinConfig, ...], parts: list[Items], repetitions: int) -> list[list[list[float]]]:
    """Time each join has taken after each part, turn by turn; joins take turns, so that a slow moment strikes all of them."""
    for config in configs:
        # Loops are compiled on their first call.
        ItemRun(config).feed(parts[0])
    turns = [[_one_turn(config, parts) for config in configs] for _ in range(repetitions)]
    return [[turn[place] for turn in turns] for place in range(len(configs))]


def _one_turn(config: PJoinConfig, parts: list[Items]) -> list[float]:
    run, began, taken = ItemRun(config), time.process_time(), []
    for part in parts:
        run.feed(part)
        taken.append(time.process_time() - began)
    return taken
