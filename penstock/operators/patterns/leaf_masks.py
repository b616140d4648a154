"""Between the engine's classes, a bit per leaf of the pattern, and the reasoner's sets of leaves and partitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.columnar.codes import Bools
from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.queries import settling_types
from penstock.metadata.constraints.tables import Words, to_words, words_of
from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.event_patterns import LastRun
from penstock.operators.patterns._constraints import LIVE
from penstock.operators.patterns._watch import LeafTables
from penstock.operators.patterns.trace_states import Bytes, Sets

#: Sets of leaves and branches up to so many members are looked up rather than gone through.
_FEW = 14


class LeafMasks:
    """Translations for one query.

    The reasoner has a leaf for each type an atom accepts, each in a partition; the engine one bit for each atom.
    """

    def __init__(self, query: EventQuery, conditions: FailingConditions) -> None:
        graph, theory, words = conditions.graph, conditions.theory, words_of(conditions)
        self._atoms = len(query.atoms)
        #: Bits of all atoms.
        self.every = (1 << self._atoms) - 1
        self._branches = len(graph.partitions) - 1
        leaves = range(graph.leaf_count)
        self._leaf_atoms, self._leaf_kinds = graph.engine_leaves, [theory.code[name] for name in graph.types]
        self._leaf_parts = [next(p for p, part in enumerate(graph.partitions) if part.leaves >> leaf & 1) for leaf in leaves]
        of_atom = [sum(1 << leaf for leaf in leaves if graph.engine_leaves[leaf] == atom) for atom in range(self._atoms)]
        self._of_atom, self._before = to_words(of_atom, words), to_words(graph.before, words)
        self._is_same = words == 1 and of_atom == [1 << atom for atom in range(self._atoms)]
        #: The leaves of each type, for compiled loops.
        self.leaves = self._by_type(len(theory.names))
        #: For each type that must be absent at the end, the types after which it cannot come, as flags and as a set.
        sets = settling_types(query, conditions)
        self._settling = [np.array([bool(found >> x & 1) for x in range(len(theory.names))]) for found in sets]
        self._settling_sets = to_words(sets, words)
        trailing = {absence.number for term in query.terms for absence in term.absences if not absence.before}
        #: Bits of classes whose events must not come at the end of a match; of any event, where a longer list may.
        self._awaited = sum(1 << self._atoms + number for number in trailing)
        self._grows = query.last_run is LastRun.MAXIMAL

    def passed(self, classes: Int64s) -> Words:
        """Leaves whose own conditions each event meets; those of other types are none of its business."""
        if self._is_same:
            return (classes & self.every).astype(np.uint64)[:, None]
        found = np.zeros((len(classes), self._of_atom.shape[1]), np.uint64)
        for atom in range(self._atoms):
            found |= np.where((classes >> atom & 1 != 0)[:, None], self._of_atom[atom][None, :], np.uint64(0))
        return found

    def _by_type(self, types: int) -> LeafTables:
        order = np.argsort(self._leaf_kinds, kind="stable")
        kinds = np.array(self._leaf_kinds, np.int64)[order]
        parts = np.array(self._leaf_parts if self._branches else [-1] * len(order), np.int64)
        starts = np.searchsorted(kinds, np.arange(types + 1)).astype(np.int64)
        atoms = np.array(self._leaf_atoms, np.int64)[order]
        before = np.ascontiguousarray(self._before[: len(order)][order])
        return LeafTables(starts, atoms, parts[order], before, self._enabled(), len(self._before))

    def _enabled(self) -> npt.NDArray[np.uint8]:
        """How many leaves take events, by leaves matched and, above them, branches failed; nothing if there are too many."""
        width = len(self._before)
        bits = width + self._branches
        if bits > _FEW:
            return np.zeros(0, np.uint8)
        states = np.arange(1 << bits)
        matched, failed, found = states & (1 << width) - 1, states >> width << 1, np.zeros(1 << bits, np.uint8)
        for leaf, part in enumerate(self._leaf_parts):
            found += (int(self._before[leaf, 0]) & ~matched == 0) & (failed >> part & 1 == 0)
        return found

    def usable(self, failed: Sets) -> Int64s:
        """Bits of classes that events of a trace may still serve, given the partitions that failed."""
        found = np.full(len(failed), -1, np.int64)
        if self._branches and failed.any():
            for atom in range(self._atoms):
                parts = {part for leaf, part in enumerate(self._leaf_parts) if self._leaf_atoms[leaf] == atom}
                is_dead = np.logical_and.reduce([_has(failed, part) for part in parts])
                found &= np.where(is_dead, ~(1 << atom), -1)
        return found

    @property
    def spares_branches(self) -> bool:
        """Whether events of a trace may lose some of their use, and not all."""
        return self._branches > 0

    # -- absences at the end ----------------------------------------------------------------------------------------------

    @property
    def may_settle(self) -> bool:
        """Whether final absences can be settled before the window closes."""
        return bool(self._settling)

    def settled_before(self, seen: Sets) -> list[Bools]:
        """Whether each trace has seen what settles each absence."""
        return [((seen & one[None, :]) != 0).any(axis=1) for one in self._settling_sets]

    def released(self, classes: Int64s, before: Bytes, earlier: Words) -> Bools:
        """Events that came although matches were reported, or cut short, because none like them would come.

        Given the class of each, and the status of its trace and the types seen before its group.
        """
        found = np.zeros(len(classes), np.bool_)
        if self._settling:
            found |= np.logical_and.reduce(self.settled_before(earlier)) & (classes & self._awaited != 0)
        if self._grows:
            found |= (before != LIVE) & (classes & self.every != 0)
        return found

    def settled(self, before: list[Bools], slots: Int64s, ts: Int64s, kinds: Int64s, number: int) -> Int64s:
        """Since when the final absences of each trace are settled; `FOREVER`: they are not."""
        result = np.full(number, NEVER if self._settling else FOREVER, np.int64)
        for each, known in zip(self._settling, before, strict=True):
            times = np.full(number, FOREVER, np.int64)
            hit = each[kinds]
            np.minimum.at(times, slots[hit], ts[hit])
            times[: len(known)][known] = NEVER
            result = np.maximum(result, times)
        return result


def _has(sets: Sets, number: int) -> Bools:
    found: Bools = sets[:, number >> 6].astype(np.uint64) >> np.uint64(number & 63) & np.uint64(1) != 0
    return found
