"""Streams and joins of the PJoin experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.experiments.contracts import Settings, Statement, statements
from penstock.experiments.joins.items import Items, Trace
from penstock.experiments.joins.playing import play as play_join
from penstock.experiments.joins.xjoin_pjoin.config import Access, PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.measures import sample_times
from penstock.model.batch import Int64s
from penstock.workloads.itemised import Items as StreamItems
from penstock.workloads.itemised import PunctuatedStream, make_items

#: Length of the streams, and time between samples: short, because means over time are compared.
SECONDS, EVERY = 40.0, 0.5

STATEMENTS: Mapping[str, Statement] = statements(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Streams:
    """Two streams, a tuple every 2 ms on average.

    Parameters
    ----------
    tuples_a, tuples_b
        Tuples per punctuation.
    """

    tuples_a: int
    tuples_b: int
    seed: int = 1
    seconds: float = SECONDS
    lockstep: bool = False

    def items(self) -> StreamItems:
        """Their tuples and punctuations."""
        streams = [PunctuatedStream(f"punct-asc-{tuples}-40", gap_ms=2.0) for tuples in (self.tuples_a, self.tuples_b)]
        return make_items(streams, self.seconds, self.seed, self.lockstep)


def pjoin(threshold: int, access: Access = Access.SCAN) -> PJoinConfig:
    """PJoin-N with bucket scans; `access` says how a purge finds what it removes."""
    return PJoinConfig.published(threshold, purge_access=access)


def xjoin() -> PJoinConfig:
    """The join that ignores punctuations."""
    return PJoinConfig.xjoin()


@lru_cache(maxsize=1024)
def play(config: PJoinConfig, streams: Streams) -> Trace:
    """Run a join over streams, with samples up to the end; several experiments look at the same runs."""
    return play_join(PJoin(config), Items.from_workload(streams.items()), sample_times(streams.seconds, EVERY))


def play_seeds(config: PJoinConfig, tuples_a: int, tuples_b: int, settings: Settings) -> list[Trace]:
    """The same with the seeds of the settings."""
    seconds = settings.seconds(SECONDS)
    return [play(config, Streams(tuples_a, tuples_b, seed, seconds)) for seed in settings.seed_numbers()]


def mean_state(trace: Trace) -> float:
    """Stored tuples of both streams, averaged over time."""
    return float(trace.state.sum(axis=1).mean())


def final_state(trace: Trace, stream: int | None = None) -> float:
    """Stored tuples at the last sample, of one stream or of both."""
    last = trace.state[-1]
    return float(last.sum() if stream is None else last[stream])


def work(trace: Trace) -> Int64s:
    """Probe comparisons and tuples scanned by purges, per sample: the measure of cost."""
    return trace.samples["probe_comparisons"] + trace.samples["purge_scanned"]


def total_work(trace: Trace) -> int:
    """The same at the very end."""
    return trace.totals["probe_comparisons"] + trace.totals["purge_scanned"]


def average(values: Iterable[float]) -> float:
    """Mean over seeds."""
    return float(np.mean(list(values)))
