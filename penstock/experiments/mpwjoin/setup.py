"""Streams and joins of the multiway experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from penstock.experiments.contracts import Settings, Statement, statements
from penstock.experiments.joins.items import Fate, Trace
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.pwjoin.setup import play as play_window_join
from penstock.experiments.pwjoin.timing import TimedOutput, ratios_of, timed_parts
from penstock.workloads.arrivals import MICROS
from penstock.workloads.itemised import Items as StreamItems
from penstock.workloads.itemised import PunctuatedStream, make_items

STREAMS, GAP_MS, WINDOW = 4, 10.0, 10.0
SECONDS, EVERY = 80.0, 10.0

#: Hash buckets of the index, and of each table of the baseline.
BUCKETS = 64

STATEMENTS: Mapping[str, Statement] = statements(Path(__file__).parent)

PWJOIN = PWJoinConfig.within(*[round(WINDOW * MICROS)] * STREAMS, buckets=BUCKETS)
MWJOIN = PWJOIN.baseline()


#: Length of the streams whose processing is timed.
TIMED_SECONDS = 4_000.0


def items_of(tuples: int, seed: int = 1, seconds: float = SECONDS) -> StreamItems:
    """Four streams alike, in lockstep, with so many tuples of each value and per punctuation."""
    return make_items([PunctuatedStream(f"punct-asc-{tuples}-40", GAP_MS)] * STREAMS, seconds, seed, lockstep=True)


def play(config: PWJoinConfig, items: StreamItems, keep_results: bool = False) -> Trace:
    """Run a join over the items, with samples up to the end."""
    return play_window_join(config, items, EVERY, keep_results)


def timed(items: StreamItems, settings: Settings) -> list[TimedOutput]:
    """Output over time of PWJoin and MWJoin, when both take items as fast as they can."""
    return timed_parts((PWJOIN, MWJOIN), items, settings.repetitions)


def rate_ratios(outputs: list[TimedOutput]) -> list[float]:
    """Output rate of PWJoin over that of MWJoin, turn by turn."""
    ours, theirs = outputs
    return ratios_of(theirs, ours)


def accessed_per_tuple(trace: Trace) -> float:
    """Stored tuples that a new tuple looks at, on average."""
    return trace.totals["accessed"] / trace.totals["tuples"]


def lookups_per_tuple(trace: Trace) -> float:
    """Lookups in an index or a table that a new tuple causes, on average."""
    # A punctuation looks up its value too, unless the join ignores it.
    of_punctuations = int(np.isin(trace.fates, (Fate.USED, Fate.REDUNDANT)).sum())
    return (trace.totals["lookups"] - of_punctuations) / trace.totals["tuples"]
