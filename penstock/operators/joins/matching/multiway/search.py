"""Probes of a group of rows: which of them have a partner along a path, and where it was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.batch import Int64s
from penstock.model.masks import Mask
from penstock.operators.joins.matching.multiway.graph import PipelinePlan, Vertex
from penstock.operators.joins.storing.chained_rows import Window

#: A probe that has not been made.
_UNKNOWN = -3


@dataclass(frozen=True, slots=True)
class Combos:
    """Combinations of rows: for each input joined its row numbers, the newcomer's time, and the group's row they belong to."""

    rows: Mapping[int, Int64s]
    at: Int64s
    tuples: Int64s

    @property
    def size(self) -> int:
        return len(self.at)

    def chosen(self, which: Int64s | Mask) -> Combos:
        return Combos({port: rows[which] for port, rows in self.rows.items()}, self.at[which], self.tuples[which])

    def with_rows(self, owners: Int64s, port: int, rows: Int64s) -> Combos:
        """The combinations named by `owners`, each with one more row."""
        wider = self.chosen(owners)
        return Combos({**wider.rows, port: rows}, wider.at, wider.tuples)

    def renumbered(self) -> Combos:
        """The same as a group of its own."""
        return Combos(self.rows, self.at, np.arange(self.size))


class Search:
    """Makes probes for the combinations of one group and remembers what they found, so that nothing is looked up twice.

    A probe of an input whose neighbour is known asks for one partner. A probe further down a path asks whether any
    of the partners found so far leads on: all of them are then listed, once. A row sees partners whose window it is in, and
    those in its own: rows may come in any order.
    """

    def __init__(self, plan: PipelinePlan, windows: Sequence[Window], group: Combos) -> None:
        self.plan, self.windows, self.group = plan, windows, group
        self._numbers = {vertex.port: number for number, vertex in enumerate(plan.probes)}
        self._first: dict[int, Int64s] = {}
        self._lists: dict[int, tuple[Mask, Int64s, Int64s]] = {}

    def first(self, vertex: Vertex, parents: Int64s, at: Int64s) -> Int64s:
        """For each row of the parent one partner, -1 where there is none."""
        window = self.windows[vertex.port]
        keys = self.windows[vertex.parent].indexes[vertex.parent_key]
        own = self.windows[self.plan.root].length
        return window.indexes[vertex.key].first(window.ts, keys, parents, at, window.length, own)

    def rest(self, vertex: Vertex, first: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
        """All partners of which `first` found one: (number, row) pairs."""
        window = self.windows[vertex.port]
        return window.indexes[vertex.key].rest(window.ts, first, at, window.length)

    def is_direct(self, vertex: Vertex) -> bool:
        return vertex.parent in self.group.rows

    def witnesses(self, number: int, which: Int64s) -> Int64s:
        """The partner found first for some of the group, by a probe whose neighbour is known."""
        vertex = self.plan.probes[number]
        known = self._first.setdefault(number, np.full(self.group.size, _UNKNOWN, np.int64))
        asked = which[known[which] == _UNKNOWN]
        if len(asked):
            known[asked] = self.first(vertex, self.group.rows[vertex.parent][asked], self.group.at[asked])
        return known[which]

    def holds(self, number: int, which: Int64s) -> Mask:
        """For which of the group the path to a probe's input can be gone to its end."""
        vertex = self.plan.probes[number]
        if self.is_direct(vertex):
            found: Mask = self.witnesses(number, which) >= 0
            return found
        owners, parents = self._partners(self._numbers[vertex.parent], which)
        reached = np.zeros(self.group.size, np.bool_)
        reached[owners[self.first(vertex, parents, self.group.at[owners]) >= 0]] = True
        return reached[which]

    def _partners(self, number: int, which: Int64s) -> tuple[Int64s, Int64s]:
        """All rows of a probe's input that some of the group reach: (member of the group, row) pairs."""
        wanted = np.zeros(self.group.size, np.bool_)
        wanted[which] = True
        if number not in self._lists or not self._lists[number][0][which].all():
            self._lists[number] = (wanted, *self._listed(number, which))
        listed, owners, rows = self._lists[number]
        if np.array_equal(listed, wanted):
            return owners, rows
        mine = wanted[owners]
        return owners[mine], rows[mine]

    def _listed(self, number: int, which: Int64s) -> tuple[Int64s, Int64s]:
        vertex = self.plan.probes[number]
        if self.is_direct(vertex):
            owners, first = which, self.witnesses(number, which)
        else:
            owners, parents = self._partners(self._numbers[vertex.parent], which)
            first = self.first(vertex, parents, self.group.at[owners])
        places, rows = self.rest(vertex, first, self.group.at[owners])
        return owners[places], rows
