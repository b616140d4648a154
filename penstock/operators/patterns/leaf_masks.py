"""Between the engine's classes, a bit per leaf of the pattern, and the reasoner's sets of leaves and partitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.columnar.codes import Bools
from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints._loops import TOO_LATE
from penstock.metadata.constraints.bank import STATUSES, Outcome
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.queries import settling_types
from penstock.metadata.constraints.supervision import CLOSED
from penstock.metadata.constraints.tables import Words, to_words
from penstock.metadata.constraints.tracking import TraceStatus
from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.event_patterns import LastRun
from penstock.operators.patterns._traces import LeafTables, read_verdict

_CLOSED = np.array([status in CLOSED for status in STATUSES])
_LIVE, _FAILED, _EXHAUSTED = (STATUSES.index(one) for one in (TraceStatus.LIVE, TraceStatus.FAILED, TraceStatus.EXHAUSTED))
#: Members a set of one word can have.
_WORD = 64
#: Sets of leaves and branches up to so many members are looked up rather than gone through.
_FEW = 14


class LeafMasks:
    """Translations for one query.

    The reasoner has a leaf for each type an atom accepts, each in a partition; the engine one bit for each atom.
    """

    def __init__(self, query: EventQuery, conditions: FailingConditions, guarded: int = 0) -> None:
        #: Bits of atoms whose events must not be used when they come too late.
        self.guarded = guarded
        graph, theory = conditions.graph, conditions.theory
        self._atoms = len(query.atoms)
        self._every = (1 << self._atoms) - 1
        self._branches = len(graph.partitions) - 1
        leaves = range(graph.leaf_count)
        self._leaf_atoms, self._leaf_kinds = graph.engine_leaves, [theory.code[name] for name in graph.types]
        self._leaf_parts = [next(p for p, part in enumerate(graph.partitions) if part.leaves >> leaf & 1) for leaf in leaves]
        of_atom = [sum(1 << leaf for leaf in leaves if graph.engine_leaves[leaf] == atom) for atom in range(self._atoms)]
        self._of_atom, self._before = to_words(of_atom, len(graph.before)), to_words(graph.before, len(graph.before))
        self._is_same = self._of_atom.shape[1] == 1 and of_atom == [1 << atom for atom in range(self._atoms)]
        self._types = len(theory.names)
        is_narrow = max(self._types, len(graph.before), len(graph.partitions), len(conditions.terms)) <= _WORD
        self._leaf_tables = self._by_type() if is_narrow else None
        #: For each type that must be absent at the end, the types after which it cannot come, as flags and as a set.
        sets = settling_types(query, conditions)
        self._settling = [np.array([bool(found >> x & 1) for x in range(len(theory.names))]) for found in sets]
        self._settling_sets = to_words(sets, len(theory.names))
        trailing = {absence.number for term in query.terms for absence in term.absences if not absence.before}
        #: Bits of classes whose events must not come at the end of a match; of any event, where a longer list may.
        self._awaited = sum(1 << self._atoms + number for number in trailing)
        self._grows = query.last_run is LastRun.MAXIMAL

    def passed(self, classes: Int64s) -> Words:
        """Leaves whose own conditions each event meets; those of other types are none of its business."""
        if self._is_same:
            return (classes & self._every).astype(np.uint64)[:, None]
        found = np.zeros((len(classes), self._of_atom.shape[1]), np.uint64)
        for atom in range(self._atoms):
            found |= np.where((classes >> atom & 1 != 0)[:, None], self._of_atom[atom][None, :], np.uint64(0))
        return found

    def _by_type(self) -> LeafTables:
        """The leaves of each type, for sets of one word."""
        order = np.argsort(self._leaf_kinds, kind="stable")
        kinds = np.array(self._leaf_kinds, np.int64)[order]
        parts = np.array(self._leaf_parts if self._branches else [-1] * len(order), np.int64)
        starts = np.searchsorted(kinds, np.arange(self._types + 1)).astype(np.int64)
        atoms, before = np.array(self._leaf_atoms, np.int64)[order], self._before[: len(order), 0][order]
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

    def read(
        self, order: Int64s, slots: Int64s, classes: Int64s, kinds: Int64s, outcome: Outcome
    ) -> tuple[Int64s, Int64s, tuple[int, int, int, int]]:
        """`lost` and `idle` for rows, given what the reasoner said of them in another order, and what is to be counted.

        Counted are events of traces that were given up, traces that failed and were exhausted now, and leaves probed.
        """
        masked, early = np.zeros(len(classes), np.int64), np.zeros(len(classes), np.int64)
        if self._leaf_tables is not None:
            tables, every = self._leaf_tables, self._every
            counts = read_verdict(order, slots, classes, kinds, tables, every, self.guarded, outcome, masked, early)
            return masked, early, counts
        mine, types = classes[order], kinds[order]
        masked[order], early[order] = self.lost(mine, types, outcome), self.idle(mine, types, outcome)
        skipped = int(np.count_nonzero(_CLOSED[outcome.before]))
        went = [slots[(outcome.before == _LIVE) & (outcome.after == status)] for status in (_FAILED, _EXHAUSTED)]
        failed, exhausted = (int(np.count_nonzero(np.diff(each))) + bool(len(each)) for each in went)
        return masked, early, (skipped, failed, exhausted, self._probes(outcome))

    def _probes(self, outcome: Outcome) -> int:
        """See `probed`."""
        is_live, count = outcome.before == _LIVE, 0
        for leaf, part in enumerate(self._leaf_parts):
            is_enabled = ~(self._before[leaf][None, :] & ~outcome.matched).any(axis=1) & ~_has(outcome.failing, part)
            count += int(np.count_nonzero(is_live & is_enabled))
        return count

    def lost(self, classes: Int64s, kinds: Int64s, outcome: Outcome) -> Int64s:
        """Bits of each event's class that a given-up trace, or a given-up branch, has no use for."""
        found = np.where(_CLOSED[outcome.before], classes & self._every, 0)
        found |= np.where(outcome.broken & TOO_LATE != 0, classes & self.guarded, 0)
        if self._branches and outcome.failing.any():
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
        if self._branches and failed.any():
            for atom in range(self._atoms):
                parts = {part for leaf, part in enumerate(self._leaf_parts) if self._leaf_atoms[leaf] == atom}
                is_dead = np.logical_and.reduce([_has(failed, part) for part in parts])
                found &= np.where(is_dead, ~(1 << atom), -1)
        return found

    @property
    def narrow(self) -> tuple[LeafTables, int, int] | None:
        """Leaves of each type, bits of all and of those that are guarded, where sets fit one word."""
        return None if self._leaf_tables is None else (self._leaf_tables, self._every, self.guarded)

    @property
    def spares_branches(self) -> bool:
        """Whether events of a trace may lose some of their use, and not all."""
        return self._branches > 0

    # -- absences at the end ----------------------------------------------------------------------------------------------

    @property
    def may_settle(self) -> bool:
        """Whether final absences can be settled before the window closes."""
        return bool(self._settling)

    def settled_before(self, seen: Words) -> list[Bools]:
        """Whether each trace has seen what settles each absence."""
        return [((seen & one[None, :]) != 0).any(axis=1) for one in self._settling_sets]

    def released(self, classes: Int64s, order: Int64s, outcome: Outcome) -> Bools:
        """Rows that came although matches were reported, or cut short, because none like them would come; see `read`."""
        found = np.zeros(len(classes), np.bool_)
        if self._settling:
            is_settled = np.logical_and.reduce(self.settled_before(outcome.earlier))
            found[order] = is_settled & (classes[order] & self._awaited != 0)
        if self._grows:
            found[order] |= _CLOSED[outcome.before] & (classes[order] & self._every != 0)
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


def _has(words: Words, number: int) -> Bools:
    found: Bools = words[:, number >> 6] >> np.uint64(number & 63) & np.uint64(1) != 0
    return found
