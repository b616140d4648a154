"""Drop probing in compiled passes, where no probe has to search further than one step from a known row: star joins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.columnar._key_table import NONE
from penstock.columnar.hashing import mix_positions
from penstock.model.batch import Int64s
from penstock.operators.joins.matching.multiway._flat_loops import probe_entries, probe_pairs
from penstock.operators.joins.matching.multiway.graph import PipelinePlan
from penstock.operators.joins.matching.multiway.search import Combos
from penstock.operators.joins.storing.chained_rows import Window


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is left of some rows.

    Parameters
    ----------
    survivors, sample
        Combinations that pass all probes, and a sample of those that do not; `ends` are the positions where the latter ended.
    ended
        How many ended at each position; the last entry counts the survivors.
    """

    survivors: Combos
    sample: Combos
    ends: Int64s
    ended: Int64s


class FlatProbes:
    """The probes of a pipeline without paths.

    Parameters
    ----------
    compared
        Inputs whose partners have to be compared column by column, because their keys are hashes.
    """

    def __init__(self, plan: PipelinePlan, windows: Sequence[Window], compared: Collection[int]) -> None:
        self.plan, self._windows = plan, windows
        parents = {vertex.parent for vertex in plan.probes}
        #: Whether the pipeline is such a one.
        self.fits = (
            len(plan.probes) > 0
            and len(plan.lead) <= 1
            and parents <= plan.bound
            and not any(vertex.port in compared for vertex in plan.lead)
        )

    def drop(self, rows: Int64s, at: Int64s, order: Sequence[int], seed: int, share: float) -> Dropped:
        """Make the probes of some rows in an order."""
        pos = self._windows[self.plan.root].pos[rows]
        coins = mix_positions(np.full(len(rows), seed, np.int64), pos)
        # Without lead each row is its own first entry.
        starts, waiting = np.arange(len(rows)), list(order)
        left = np.stack([starts, np.full(len(rows), NONE), starts], axis=1) if not self.plan.lead else np.empty((0, 3), np.int64)
        samples, reached = list[Int64s](), list[int]()
        if self.plan.lead:
            lead, first = self._lead(rows, at), self._probe(waiting.pop(0))
            left, sample, total = probe_pairs(rows, at, coins, starts, *lead, share, *first)
            samples, reached = [sample], [total]
        for number in waiting:
            reached.append(len(left))
            left, sample = probe_entries(left, rows, at, coins, starts, share, *self._probe(number))
            samples.append(sample)
        ended = -np.diff([*reached, len(left), 0])
        return Dropped(self._combos(rows, at, left), *self._in_order(rows, at, samples), ended)

    def _probe(self, number: int) -> tuple[Any, ...]:
        """What a loop must know to make a probe."""
        vertex = self.plan.probes[number]
        window = self._windows[vertex.port]
        probed, start = window.indexes[vertex.key], self._windows[vertex.parent].indexes[vertex.parent_key]
        probed.chain(window.ts)
        place = (probed.table, probed.stamp, probed.links, window.ts, start.keys, start.links, start.has_nulls)
        return (*place, vertex.parent != self.plan.root, window.length, self._windows[self.plan.root].length)

    def _lead(self, rows: Int64s, at: Int64s) -> tuple[Int64s, Int64s, Int64s, int]:
        """The newest partner of each row in the lead, and what leads to the others."""
        (vertex,) = self.plan.lead
        window = self._windows[vertex.port]
        index, keys = window.indexes[vertex.key], self._windows[vertex.parent].indexes[vertex.parent_key]
        first = index.first(window.ts, keys, rows, at, window.length, self._windows[self.plan.root].length)
        return first, index.links, window.ts, window.length

    def _in_order(self, rows: Int64s, at: Int64s, samples: Sequence[Int64s]) -> tuple[Combos, Int64s]:
        """The samples of all probes as one, as if each entry had made all its probes before the next; and where each ended."""
        whole = np.concatenate(samples)
        ends = np.repeat(np.arange(len(samples)), [len(sample) for sample in samples])
        order = np.argsort(whole[:, 2])
        return self._combos(rows, at, whole[order]), ends[order]

    def _combos(self, rows: Int64s, at: Int64s, entries: Int64s) -> Combos:
        owners = entries[:, 0]
        combos = {self.plan.root: rows[owners]}
        if self.plan.lead:
            combos[self.plan.lead[0].port] = np.ascontiguousarray(entries[:, 1])
        return Combos(combos, at[owners], np.arange(len(owners)))
