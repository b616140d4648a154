"""Events and traces that break a constraint, as rows for the quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools, group_codes
from penstock.errors import ConstraintViolated
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.tables import Words, from_words
from penstock.metadata.constraints.violations import Violation, ViolationDetector, ViolationPolicy
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Quarantined
from penstock.operators.patterns._constraints import LIVE
from penstock.operators.patterns.trace_states import Bytes, Sets

#: Reason code of everything that breaks a constraint.
REASON = "constraint_violated"
#: What may have happened before an event that breaks a constraint: matches were given up, or reported too early.
_LOST, _FALSE = 1, 2


@dataclass(frozen=True, slots=True)
class JudgedEvents:
    """New events with what the reasoner found, those of a trace in order of time and simultaneous ones side by side.

    Attributes
    ----------
    rows, slots, rank, kinds
        Row, trace, group and type of each.
    before, after
        Status of the trace before and after the group.
    broken, earlier
        What the event breaks, given the types seen before the group.
    has_lost, was_awaited
        Whether its row has lost some of its use; whether matches were reported because an event like this would not come.
    """

    rows: Int64s
    slots: Int64s
    rank: Int64s
    kinds: Int64s
    before: Bytes
    after: Bytes
    broken: Bytes
    earlier: Words
    has_lost: Bools
    was_awaited: Bools


class Complaints:
    """Writes violations down, or stops at the first one.

    The compiled loops tell which events break something; what, is looked up here once for each combination that occurs.

    Parameters
    ----------
    conditions
        Constraints, and the types that are seen.
    policy
        Under `error` a violation stops the batch; in the shadow no trace has been given up.
    is_complete
        Whether traces have an end at which missing events can be told.
    """

    def __init__(self, conditions: FailingConditions, policy: ViolationPolicy, is_complete: bool) -> None:
        self.policy, self.is_complete, self.number = policy, is_complete, 0
        self._detector = ViolationDetector(conditions.theory, conditions.relevant)
        #: What the end of a trace tells, by the types it had: traces of one process have few such sets.
        self._at_end: dict[int, list[Violation]] = {}

    def of_events(self, rows: Batch, events: JudgedEvents) -> list[Quarantined]:
        """Rows that break a constraint."""
        broken = np.flatnonzero(events.broken)
        if not len(broken):
            return []
        together = _lower_in_group(events)
        pruned = (events.before[broken] != LIVE) | (events.after[broken] != LIVE) | events.has_lost[broken]
        flags = np.where(pruned, _LOST, 0) | np.where(events.was_awaited[broken], _FALSE, 0)
        flags *= self.policy is not ViolationPolicy.SHADOW
        parts = (
            events.earlier[broken],
            together[broken],
            events.kinds[broken, None].astype(np.uint64),
            flags[:, None].astype(np.uint64),
        )
        kinds_of_breach, which = np.unique(np.concatenate(parts, axis=1), axis=0, return_inverse=True)
        width = events.earlier.shape[1]
        refused = []
        for number, breach in enumerate(kinds_of_breach):
            seen, lower = from_words(breach[:width]), from_words(breach[width : 2 * width])
            found = self._detector.on_event(int(breach[-2]), seen, lower, bool(int(breach[-1]) & _LOST))
            found = [replace(each, was_released=bool(int(breach[-1]) & _FALSE)) for each in found]
            chosen = np.sort(events.rows[broken[which.reshape(-1) == number]])
            refused += self._noted(found, rows.take(chosen))
        return refused

    def of_ends(self, seen: Sets, is_pruned: Bools, keys_of: Callable[[Int64s], Batch]) -> list[Quarantined]:
        """Traces that are over, or forgotten: what is missing in them, and contradictions of more than two types.

        Parameters
        ----------
        keys_of
            Rows that name some of the traces.
        """
        if seen.shape[1] == 1 and all(self._at_end.get(types) == [] for types in np.unique(seen).tolist()):
            return []
        refused = []
        codes, first, _ = group_codes([pa.array(seen[:, word].astype(np.int64)) for word in range(seen.shape[1])])
        for number, row in enumerate(first):
            types = from_words(seen[row])
            if types not in self._at_end:
                found = self._detector.on_end(types, wide=True)
                self._at_end[types] = [each for each in found if self.is_complete or each.kind != "missing"]
            for pruned in (False, True) if self._at_end[types] else ():
                chosen = np.flatnonzero((codes == number) & (is_pruned == pruned))
                if len(chosen):
                    shown = pruned and self.policy is not ViolationPolicy.SHADOW
                    refused += self._noted([replace(each, was_pruned=shown) for each in self._at_end[types]], keys_of(chosen))
        return refused

    def _noted(self, found: list[Violation], rows: Batch) -> list[Quarantined]:
        if not found:
            return []
        text = "; ".join(map(str, found))
        if self.policy is ViolationPolicy.ERROR:
            raise ConstraintViolated(f"{text}; first in {rows.rows.slice(0, 1).to_pylist()[0]}")
        self.number += len(found) * rows.num_rows
        return [Quarantined(rows, REASON, text)]


def _lower_in_group(events: JudgedEvents) -> Words:
    """For each event the types among those simultaneous with it that have no higher number."""
    slots, rank, kinds, width = events.slots, events.rank, events.kinds, events.earlier.shape[1]
    own = np.zeros((len(kinds), width), np.uint64)
    places = np.arange(len(kinds))
    own[places, kinds >> 6] = np.uint64(1) << (kinds & 63).astype(np.uint64)
    starts = np.flatnonzero(np.concatenate([[True], (slots[1:] != slots[:-1]) | (rank[1:] != rank[:-1])]))
    groups = np.bitwise_or.reduceat(own, starts, axis=0)[np.repeat(np.arange(len(starts)), np.diff([*starts, len(kinds)]))]
    below = np.where(np.arange(width)[None, :] < (kinds >> 6)[:, None], ~np.uint64(0), np.uint64(0))
    below[places, kinds >> 6] = own[places, kinds >> 6] | (own[places, kinds >> 6] - np.uint64(1))
    return np.bitwise_and(groups, below)
