"""What the PJoin experiments count, against a simulation that only knows keys and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock.experiments.joins.items import Items as JoinItems
from penstock.experiments.joins.items import Trace
from penstock.experiments.joins.playing import play
from penstock.experiments.joins.xjoin_pjoin.config import Access, PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.pjoin.setup import Streams, pjoin, total_work, xjoin
from penstock.workloads.coins import integers
from penstock.workloads.itemised import TUPLE, Items


@dataclass
class Simulation:
    """PJoin-N with lazy purge by scans, item by item; `threshold` 0 never purges, `bucket` places keys."""

    threshold: int
    bucket: Callable[[int], int] = lambda key: 0
    filled: tuple[Counter[int], Counter[int]] = field(default_factory=lambda: (Counter(), Counter()))
    stored: tuple[Counter[int], Counter[int]] = field(default_factory=lambda: (Counter(), Counter()))
    closed: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    unused: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, items: Items) -> Simulation:
        for kind, stream, key in zip(items.kinds.tolist(), items.streams.tolist(), items.keys.tolist(), strict=True):
            if kind == TUPLE:
                self._tuple(stream, key)
            elif self.threshold:
                self._punctuation(stream, key)
        return self

    def _tuple(self, stream: int, key: int) -> None:
        self.counts["results"] += self.stored[1 - stream][key]
        self.counts["probe_comparisons"] += self.filled[1 - stream][self.bucket(key)]
        if key in self.closed[1 - stream]:
            self.counts["purged_on_the_fly"] += 1
        else:
            self.counts["inserts"] += 1
            self.stored[stream][key] += 1
            self.filled[stream][self.bucket(key)] += 1

    def _punctuation(self, stream: int, key: int) -> None:
        self.closed[stream].add(key)
        self.unused[stream].append(key)
        if sum(map(len, self.unused)) == self.threshold:
            for side in (0, 1):
                self._purge(side)

    def _purge(self, side: int) -> None:
        keys = self.unused[1 - side]
        if keys:
            self.counts["purge_scanned"] += self.stored[side].total()
        for key in keys:
            removed = self.stored[side].pop(key, 0)
            self.counts["purged"] += removed
            self.filled[side][self.bucket(key)] -= removed
        keys.clear()

    @property
    def work(self) -> int:
        return self.counts["probe_comparisons"] + self.counts["purge_scanned"]


def played(config: PJoinConfig, items: Items) -> Trace:
    return play(PJoin(config), JoinItems.from_workload(items), items.times_us[-1:])


@pytest.mark.parametrize(("tuples_a", "tuples_b"), [(10, 10), (10, 20), (40, 40)])
@pytest.mark.parametrize("threshold", [0, 1, 10, 100])
def test_counters_equal_those_of_a_simulation_by_hand(tuples_a: int, tuples_b: int, threshold: int) -> None:
    items = Streams(tuples_a, tuples_b, seed=3, seconds=4.0).items()
    expected = Simulation(threshold).run(items)
    config = pjoin(threshold) if threshold else xjoin()
    trace = played(config, items)
    names = ("results", "inserts", "purged_on_the_fly", "purge_scanned", "purged")
    assert {name: trace.totals[name] for name in names} == {name: expected.counts[name] for name in names}
    assert trace.state[-1].tolist() == [stored.total() for stored in expected.stored]


def test_purges_by_index_remove_the_same_and_look_at_nothing_else() -> None:
    items = Streams(10, 10, seed=3, seconds=4.0).items()
    scan, index = (played(pjoin(10, access), items).totals for access in (Access.SCAN, Access.INDEX))
    assert scan["purged"] == index["purged"] == index["purge_scanned"] < scan["purge_scanned"]
    assert scan["probe_comparisons"] == index["probe_comparisons"]


def test_the_best_threshold_depends_on_how_evenly_consecutive_keys_fall_into_buckets() -> None:
    """E-PJ-5b: evenly spread keys make 100 the best of the published thresholds, keys spread at random make it 10.

    A purge that waits leaves useless tuples behind. They cost nothing while they lie in buckets of their own.
    """
    items = Streams(10, 10, seed=1).items()
    at_random = integers(1, "bucket", np.arange(items.keys.max() + 1), 64).tolist()
    spreads: dict[str, Callable[[int], int]] = {
        "evenly": lambda key: (key * 2_654_435_761 % 2**32) >> 26,
        "at random": lambda key: at_random[key],
    }
    work = {(name, n): Simulation(n, spread).run(items).work for name, spread in spreads.items() for n in (10, 100)}
    assert work["evenly", 100] < work["evenly", 10]
    assert work["at random", 10] < work["at random", 100]
    for n in (10, 100):
        assert total_work(played(pjoin(n), items)) == pytest.approx(work["evenly", n], rel=0.05)
