"""The experiment on join pipelines: probes of a multiway join whose orders adapt, against every fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.experiments.agreedy.populations import STATEMENTS
from penstock.experiments.agreedy.workload import APART
from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import ranged
from penstock.model.batch import Batch
from penstock.model.windows import Sliding
from penstock.operators.filtering.settings import Algorithm, OrderSettings
from penstock.operators.joins.matching.multiway.graph import Edge, JoinGraph, PipelinePlan
from penstock.operators.joins.matching.multiway.orders import OrderBy
from penstock.operators.joins.multiway_join import MJoin

_KEYS, _BATCH = 500, 2_048
_BEFORE, _AFTER = (0.5, 0.45, 0.3, 0.7), (0.3, 0.7, 0.5, 0.2)


@dataclass(frozen=True)
class _Star:
    """Facts and four windows of dimensions on keys of their own; a share of the facts has no partner in each.

    Parameters
    ----------
    misses
        These shares, for each batch of facts.
    is_correlated
        The second dimension misses what the first misses, as far as its share goes.
    """

    misses: tuple[tuple[float, ...], ...]
    is_correlated: bool
    seed: int = 13

    @property
    def leaves(self) -> int:
        return len(self.misses[0])

    @cached_property
    def missing(self) -> npt.NDArray[np.bool_]:
        """For each fact the dimensions that have no partner."""
        draws = np.random.default_rng(self.seed).random((len(self.misses) * _BATCH, self.leaves))
        if self.is_correlated:
            draws[:, 1] = draws[:, 0]
        return draws < np.repeat(np.array(self.misses), _BATCH, axis=0)

    def schemas(self) -> list[pa.Schema]:
        root = pa.schema({f"k{leaf}": pa.int64() for leaf in range(self.leaves)} | {"v": pa.int64()})
        return [root, *(pa.schema({f"l{leaf}.k": pa.int64()}) for leaf in range(self.leaves))]

    def facts(self) -> list[Batch]:
        """Dimensions hold even keys; an odd one has no partner."""
        keys = np.random.default_rng(self.seed + 1).integers(0, _KEYS, self.missing.shape) * 2 + self.missing
        found = []
        for start in range(0, len(keys), _BATCH):
            places = np.arange(start, start + _BATCH)
            columns = [pa.array(column) for column in (*keys[places].T, places)]
            found.append(Batch(pa.RecordBatch.from_arrays(columns, schema=self.schemas()[0]), places + 1, places))
        return found

    def join(self, orders: Callable[[PipelinePlan], Any]) -> MJoin:
        """With all dimensions in their windows."""
        schemas = self.schemas()
        edges = tuple(Edge(0, (f"k{leaf}",), leaf + 1, (f"l{leaf}.k",)) for leaf in range(self.leaves))
        windows = [Sliding(0), *([Sliding(1 << 40)] * self.leaves)]
        output = pa.schema([item for schema in schemas for item in schema])
        share = OrderSettings().profiled_share
        join = MJoin(schemas, JoinGraph(self.leaves + 1, edges), windows, output, orders, share=share, chunk_rows=1024)
        for leaf, schema in enumerate(schemas[1:]):
            rows = pa.RecordBatch.from_arrays([pa.array(np.arange(_KEYS) * 2)], schema=schema)
            join.on_batch(leaf + 1, Batch(rows, np.zeros(_KEYS, np.int64), np.arange(_KEYS)))
        return join

    def run(self, orders: Callable[[PipelinePlan], Any]) -> tuple[list[int], list[int]]:
        """Probes of each batch of facts, those of profiling among them, and the facts that found all partners."""
        join, before, probes, joined = self.join(orders), 0, list[int](), list[int]()
        for batch in self.facts():
            for element in join.on_batch(0, batch):
                joined += element.column("v").to_pylist() if isinstance(element, Batch) else []
            counted = join.counters()
            now = counted["probes_0"] + counted["extra_probes"]
            probes.append(now - before)
            before = now
        return probes, joined

    def counted(self, order: Sequence[int]) -> list[int]:
        """Probes of each batch in a fixed order, by counting."""
        alive, total = np.ones(len(self.missing), np.bool_), np.zeros(len(self.missing), np.int64)
        for leaf in order:
            total += alive
            alive &= ~self.missing[:, leaf]
        return [int(part.sum()) for part in np.split(total, len(self.misses))]


@dataclass(frozen=True)
class _Compared:
    """One set of streams: steady ones with independent and with correlated dimensions, and one that changes in the middle."""

    steady: list[float]
    lead: float
    is_right: bool
    facts: int
    lines: dict[str, list[int]]


def _compare(batches: int, seed: int) -> _Compared:
    ratios, is_right = [], True
    for is_correlated in (False, True):
        steady = _Star((_BEFORE,) * batches, is_correlated, seed)
        (ours, joined), half = steady.run(OrderBy()), batches // 2
        best = min(sum(steady.counted(order)[half:]) for order in permutations(range(steady.leaves)))
        ratios.append(sum(ours[half:]) / best)
        is_right &= sorted(joined) == np.flatnonzero(~steady.missing.any(axis=1)).tolist()
    changing = _Star((*((_BEFORE,) * (batches // 2)), *((_AFTER,) * (batches // 2))), False, seed)
    (ours, joined), orders = changing.run(OrderBy()), list(permutations(range(changing.leaves)))
    written = changing.run(OrderBy(OrderSettings(Algorithm.FIXED)))
    is_right &= sorted(joined) == sorted(written[1]) == np.flatnonzero(~changing.missing.any(axis=1)).tolist()
    is_right &= written[0] == changing.counted(range(changing.leaves))
    fixed = sorted(orders, key=lambda order: sum(changing.counted(order)))
    lines = {"A-Greedy": ours, "best fixed order": changing.counted(fixed[0]), "worst fixed order": changing.counted(fixed[-1])}
    return _Compared(ratios, sum(lines["best fixed order"]) / sum(ours), is_right, len(joined), lines)


def join_pipelines(settings: Settings) -> ReproductionOutcome:
    """E-AG-13: a star of four dimensions; first steady, then with a change in the middle. Probes of profiling count."""
    batches = 24 if settings.is_quick else 60
    runs = [_compare(batches, 13 + APART * (stream - 1)) for stream in settings.seed_numbers()]
    is_right = all(run.is_right for run in runs)
    steady, leads = [[run.steady[at] for run in runs] for at in (0, 1)], [run.lead for run in runs]
    claims = (
        STATEMENTS["E-AG-13a"].judged(
            "E-AG-13a", is_right, "the same facts in both, as by counting" if is_right else "other facts",
            facts=[run.facts for run in runs],
        ),
        STATEMENTS["E-AG-13b"].judged(
            "E-AG-13b", max(map(max, steady)) <= 1.05, f"{ranged(steady[0], 4)} and {ranged(steady[1], 4)} times",
            independent=steady[0], correlated=steady[1],
        ),
        STATEMENTS["E-AG-13c"].judged(
            "E-AG-13c", min(leads) > 1.0, f"the best fixed order makes {ranged(leads)} times as many", ratio=leads
        ),
    )  # fmt: skip
    series = tuple(Series(label, range(batches), [count / _BATCH for count in line]) for label, line in runs[0].lines.items())
    return ReproductionOutcome(
        claims, Drawing("Probes of a star join, with those of profiling", (Panel("batches of facts", "probes per fact", series),))
    )
