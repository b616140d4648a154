"""The pipeline of one input: drop rows by probes in the order of the moment, sample what was dropped, combine what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.hashing import mix_positions
from penstock.columnar.matching import equal_keys, is_one_to_one
from penstock.model.batch import Int64s
from penstock.model.equal_columns import Attribute
from penstock.model.masks import Mask
from penstock.operators.joins.matching.multiway.flat import FlatProbes
from penstock.operators.joins.matching.multiway.graph import PipelinePlan, Vertex
from penstock.operators.joins.matching.multiway.orders import ProbeOrder
from penstock.operators.joins.matching.multiway.search import Combos, Search
from penstock.operators.joins.storing.chained_rows import Window

#: How many rows are combined first; after that as many as promise so many combinations.
_FIRST_SURVIVORS, _MOST_COMBOS = 512, 1 << 20

_COUNTS = ("tuples", "survivors", "false_survivors", "profiled", "extra_probes", "reorderings")


class Pipeline:
    """Joins rows of one input with the windows of all others.

    Parameters
    ----------
    policy
        Decides the order of the probes.
    share, seed
        Which share of the dropped rows is shown to the policy; a row's coin is a hash of the seed and its position.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        windows: Sequence[Window],
        policy: ProbeOrder,
        share: float,
        seed: int,
    ) -> None:
        probes = len(plan.probes)
        self.plan, self.policy = plan, policy
        self._windows, self._share, self._seed = windows, share, seed
        #: Numbers of the probes in the order of the moment.
        self._order = plan.repaired(policy.order())
        #: By probe: how many rows met it at each position, and how many ended there.
        self.evaluations, self.drops = np.zeros((probes, probes), np.int64), np.zeros((probes, probes), np.int64)
        self.counts = dict.fromkeys(_COUNTS, 0)
        self._compared = {vertex.port for vertex in (*plan.lead, *plan.probes) if not self._is_one_to_one(vertex)}
        self._flat = FlatProbes(plan, windows, self._compared)

    def _is_one_to_one(self, vertex: Vertex) -> bool:
        schema = self._windows[vertex.port].schema
        return is_one_to_one([pa.array([], schema.field(name).type) for name in vertex.key])

    # -- processing ---------------------------------------------------------------------------------------------------

    def run(self, rows: Int64s) -> Iterator[Combos]:
        """All combinations of some stored rows with others whose times are near enough, in pieces."""
        self._decide()
        at = self._windows[self.plan.root].ts[rows]
        if self._flat.fits:
            yield from self._run_flat(rows, at)
            return
        group = self._led(Combos({self.plan.root: rows}, at, np.arange(len(rows))))
        search = Search(self.plan, self._windows, group)
        ends = self._drop(search)
        if self._is_learning:
            dropped = np.flatnonzero(ends < len(self._order))
            sample = dropped[self._coins(group, dropped) < self._share]
            self._profile(group.chosen(sample).renumbered(), ends[sample])
        yield from self._combined(search, np.flatnonzero(ends == len(self._order)))

    def _run_flat(self, rows: Int64s, at: Int64s) -> Iterator[Combos]:
        """The same where no probe follows a path."""
        found = self._flat.drop(rows, at, self._order, self._seed, self._share if self._is_learning else 0.0)
        left = int(found.ended.sum())
        self.counts["tuples"] += left
        for position, number in enumerate(self._order):
            self.evaluations[number, position] += left
            self.drops[number, position] += found.ended[position]
            left -= int(found.ended[position])
        if self._is_learning:
            self._profile(found.sample, found.ends)
        yield from self._combined(Search(self.plan, self._windows, found.survivors), found.survivors.tuples)

    @property
    def _is_learning(self) -> bool:
        return self._share > 0 and len(self.plan.probes) > 1 and bool(self.policy.wanted(0))

    def _decide(self) -> None:
        order = self.plan.repaired(self.policy.order())
        self.counts["reorderings"] += order != self._order
        self._order = order

    def _led(self, group: Combos) -> Combos:
        """The rows combined with the inputs through which every path goes."""
        search = Search(self.plan, self._windows, group)
        for vertex in self.plan.lead:
            group = self._wider(search, group, vertex, search.first(vertex, group.rows[vertex.parent], group.at))
        return group.renumbered()

    def _drop(self, search: Search) -> Int64s:
        """The position at which each of the group is dropped; the number of positions where it is not."""
        ends = np.full(search.group.size, len(self._order), np.int64)
        alive = np.arange(search.group.size)
        self.counts["tuples"] += len(alive)
        for position, number in enumerate(self._order):
            if not len(alive):
                break
            holds = search.holds(number, alive)
            self.evaluations[number, position] += len(alive)
            ends[alive[~holds]] = position
            alive = alive[holds]
            self.drops[number, position] += len(holds) - len(alive)
        return ends

    def _profile(self, sample: Combos, ends: Int64s) -> None:
        """Show the policy what a sample of the dropped rows meets at probes that they did not reach."""
        if not sample.size:
            return
        search = Search(self.plan, self._windows, sample)
        wanted = self._wanted(ends)
        bits, known = np.zeros(sample.size, np.uint64), np.zeros(sample.size, np.uint64)
        for position, number in enumerate(self._order):
            bit = np.uint64(1 << number)
            bits[ends == position] |= bit
            asked = np.flatnonzero((ends < position) & ((wanted & bit) != 0))
            bits[asked[~search.holds(number, asked)]] |= bit
            known[ends >= position] |= bit
            known[asked] |= bit
            self.counts["extra_probes"] += len(asked)
        self.counts["profiled"] += sample.size
        self.policy.observe(bits, known)

    def _wanted(self, ends: Int64s) -> npt.NDArray[np.uint64]:
        """What the policy wants to know of each sampled row; everything, where its order could not be obeyed."""
        positions = range(len(self._order))
        if tuple(self.policy.order()) == self._order:
            return np.array([self.policy.wanted(position) for position in positions], np.uint64)[ends]
        return np.full(len(ends), (1 << len(self._order)) - 1, np.uint64)

    def _coins(self, group: Combos, which: Int64s) -> npt.NDArray[np.float64]:
        """A number in [0, 1) for each row of the group, the same in every repetition."""
        positions = [self._windows[port].pos[rows[which]] for port, rows in group.rows.items()]
        mixed: Int64s = reduce(mix_positions, positions, np.full(len(which), self._seed, np.int64))
        return mixed / 2.0**63

    # -- results ------------------------------------------------------------------------------------------------------

    def _combined(self, search: Search, survivors: Int64s) -> Iterator[Combos]:
        """Everything that can be made of the rows that no probe has dropped; of so few at a time that it fits into memory."""
        start, step = 0, _FIRST_SURVIVORS
        while start < len(survivors):
            mine = survivors[start : start + step]
            combos = self._combinations(search, mine)
            yield combos
            start += step
            step = max(_MOST_COMBOS * len(mine) // max(combos.size, 1), 1)

    def _combinations(self, search: Search, survivors: Int64s) -> Combos:
        combos = self._agreeing(search.group.chosen(survivors), None)
        for number in self._order:
            vertex = self.plan.probes[number]
            if search.is_direct(vertex):
                first = search.witnesses(number, combos.tuples)
            else:
                first = search.first(vertex, combos.rows[vertex.parent], combos.at)
            combos = self._agreeing(self._wider(search, combos, vertex, first), vertex.port)
        self.counts["survivors"] += len(survivors)
        self.counts["false_survivors"] += len(survivors) - len(np.unique(combos.tuples))
        return combos

    def _wider(self, search: Search, combos: Combos, vertex: Vertex, first: Int64s) -> Combos:
        """The combinations with every partner in one more input."""
        owners, rows = search.rest(vertex, first, combos.at)
        wider = combos.with_rows(owners, vertex.port, rows)
        if vertex.port in self._compared and wider.size:
            keep = np.ones(wider.size, np.bool_)
            for one, other in zip(vertex.parent_key, vertex.key, strict=True):
                keep &= self._are_equal(wider, (vertex.parent, one), (vertex.port, other))
            wider = wider if keep.all() else wider.chosen(keep)
        # The probes have compared the times of two.
        return self._timely(wider) if len(wider.rows) > 2 else wider

    def _timely(self, combos: Combos) -> Combos:
        """Combinations of which nothing has left its window before the newest part came."""
        times = {port: self._windows[port].ts[rows] for port, rows in combos.rows.items()}
        newest = reduce(np.maximum, times.values())
        keep = np.ones(combos.size, np.bool_)
        for port, ts in times.items():
            # Ages are not negative, and as unsigned numbers they cannot overflow.
            keep &= (newest - ts).view(np.uint64) <= np.uint64(self._windows[port].length)
        return combos if keep.all() else combos.chosen(keep)

    def _agreeing(self, combos: Combos, newest: int | None) -> Combos:
        """Combinations that fulfil the residual equalities which the newest input completes; None: those known before."""
        for one, other in self.plan.residuals:
            ports = {one[0], other[0]}
            is_due = ports <= self.plan.bound if newest is None else newest in ports and ports <= set(combos.rows)
            if is_due and combos.size:
                combos = combos.chosen(self._are_equal(combos, one, other))
        return combos

    def _are_equal(self, combos: Combos, one: Attribute, other: Attribute) -> Mask:
        left, right = (self._windows[port].take(combos.rows[port], [name])[0] for port, name in (one, other))
        every = np.arange(combos.size)
        equal = equal_keys([left], every, [right], every)
        for column in (left, right):
            if column.null_count:
                equal &= column.is_valid().to_numpy(zero_copy_only=False)
        return equal

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, Any]:
        return {
            "order": list(self._order),
            "policy": self.policy.snapshot(),
            "evaluations": self.evaluations.tolist(),
            "drops": self.drops.tolist(),
            "counts": dict(self.counts),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._order = tuple(state["order"])
        self.policy.restore(state["policy"])
        shape = self.evaluations.shape
        self.evaluations = np.array(state["evaluations"], np.int64).reshape(shape)
        self.drops = np.array(state["drops"], np.int64).reshape(shape)
        self.counts = dict(state["counts"])
