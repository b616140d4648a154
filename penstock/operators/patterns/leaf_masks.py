"""Between the engine's classes, a bit per leaf of the pattern, and the reasoner's sets of leaves and partitions."""

from __future__ import annotations

import numpy as np

from penstock.columnar.codes import Bools
from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.bank import STATUSES, Outcome
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.queries import settling_types
from penstock.metadata.constraints.supervision import PRUNED
from penstock.metadata.constraints.tables import Words, to_words
from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER, NEVER

_PRUNED = np.array([status in PRUNED for status in STATUSES])


class LeafMasks:
    """Translations for one query.

    The reasoner has a leaf for each type an atom accepts, each in a partition; the engine one bit for each atom.
    """

    def __init__(self, query: EventQuery, conditions: FailingConditions) -> None:
        graph, theory = conditions.graph, conditions.theory
        self._atoms = len(query.atoms)
        self._every = (1 << self._atoms) - 1
        self._has_branches = len(graph.partitions) > 1
        leaves = range(graph.leaf_count)
        self._leaf_atoms, self._leaf_kinds = graph.engine_leaves, [theory.code[name] for name in graph.types]
        self._leaf_parts = [next(p for p, part in enumerate(graph.partitions) if part.leaves >> leaf & 1) for leaf in leaves]
        of_atom = [sum(1 << leaf for leaf in leaves if graph.engine_leaves[leaf] == atom) for atom in range(self._atoms)]
        self._of_atom, self._before = to_words(of_atom, len(graph.before)), to_words(graph.before, len(graph.before))
        self._is_same = self._of_atom.shape[1] == 1 and of_atom == [1 << atom for atom in range(self._atoms)]
        #: For each type that must be absent at the end, the types after which it cannot come, as flags and as a set.
        sets = settling_types(query, conditions)
        self._settling = [np.array([bool(found >> x & 1) for x in range(len(theory.names))]) for found in sets]
        self._settling_sets = to_words(sets, len(theory.names))

    def passed(self, classes: Int64s) -> Words:
        """Leaves whose own conditions each event meets; those of other types are none of its business."""
        if self._is_same:
            return (classes & self._every).astype(np.uint64)[:, None]
        found = np.zeros((len(classes), self._of_atom.shape[1]), np.uint64)
        for atom in range(self._atoms):
            found |= np.where((classes >> atom & 1 != 0)[:, None], self._of_atom[atom][None, :], np.uint64(0))
        return found

    def lost(self, classes: Int64s, kinds: Int64s, outcome: Outcome) -> Int64s:
        """Bits of each event's class that a given-up trace, or a given-up branch, has no use for."""
        found = np.where(_PRUNED[outcome.before], classes & self._every, 0)
        if self._has_branches and outcome.failing.any():
            for atom, kind, partition in zip(self._leaf_atoms, self._leaf_kinds, self._leaf_parts, strict=True):
                found |= np.where((kinds == kind) & _has(outcome.failing, partition), classes & 1 << atom, 0)
        return found

    def idle(self, classes: Int64s, kinds: Int64s, outcome: Outcome) -> Int64s:
        """Bits of each event's class that stand for leaves whose predecessors had no event yet: it is too early for them."""
        found = np.zeros(len(classes), np.int64)
        for leaf, (atom, kind) in enumerate(zip(self._leaf_atoms, self._leaf_kinds, strict=True)):
            if self._before[leaf].any():
                is_early = (self._before[leaf][None, :] & ~outcome.matched).any(axis=1) & (kinds == kind)
                found |= np.where(is_early, classes & 1 << atom, 0)
        return found

    def usable(self, failed: Words) -> Int64s:
        """Bits of classes that events of a trace may still serve, given the partitions that failed."""
        found = np.full(len(failed), -1, np.int64)
        if self._has_branches and failed.any():
            for atom in range(self._atoms):
                parts = {part for leaf, part in enumerate(self._leaf_parts) if self._leaf_atoms[leaf] == atom}
                is_dead = np.logical_and.reduce([_has(failed, part) for part in parts])
                found &= np.where(is_dead, ~(1 << atom), -1)
        return found

    # -- absences at the end ----------------------------------------------------------------------------------------------

    @property
    def may_settle(self) -> bool:
        """Whether final absences can be settled before the window closes."""
        return bool(self._settling)

    def settled_before(self, seen: Words) -> list[Bools]:
        """Whether each trace has seen what settles each absence."""
        return [((seen & one[None, :]) != 0).any(axis=1) for one in self._settling_sets]

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


def _has(words: Words, number: int) -> Bools:
    found: Bools = words[:, number >> 6] >> np.uint64(number & 63) & np.uint64(1) != 0
    return found
