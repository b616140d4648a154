"""Traces under constraints: which have become hopeless, which events need not be looked at, and which break a constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools
from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.bank import STATUSES, Outcome, TraceBank
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import OnStaticUnsat, is_forgetful, registered, watched_types
from penstock.metadata.constraints.registration import terminal_types
from penstock.metadata.constraints.supervision import ViolationPolicy, policy_for
from penstock.metadata.constraints.tracking import TraceStatus
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER, Quarantined
from penstock.model.event_patterns import EventOrder
from penstock.operators.patterns._events import rank_events, sort_by_code, split_known
from penstock.operators.patterns.complaints import Complaints
from penstock.operators.patterns.leaf_masks import LeafMasks
from penstock.operators.patterns.tables import Watched
from penstock.operators.patterns.trace_table import TraceTable

_LIVE, _FAILED, _EXHAUSTED = (STATUSES.index(one) for one in (TraceStatus.LIVE, TraceStatus.FAILED, TraceStatus.EXHAUSTED))
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Sight:
    """What constraints tell after new rows; of the traces by slot, with a last entry for rows of no trace.

    Attributes
    ----------
    masked, early
        For each new row the bits of its class that are of no use any more, and those that are of none yet.
    slots, known
        Slot of the trace of each new row, and of each code; -1 for none.
    is_hopeless
        No match can come of the trace at all.
    is_unmatched
        No match has come of it: its events need only be kept.
    is_spent
        No event will extend a match.
    settled
        Since when absences at the end of a match are settled.
    usable
        Bits of classes that kept events may still serve.
    is_moved
        Kept events of the trace are to be looked at again.
    """

    masked: Int64s
    early: Int64s
    slots: Int64s
    known: Int64s
    is_hopeless: Bools
    is_unmatched: Bools
    is_spent: Bools
    settled: Int64s
    usable: Int64s
    is_moved: Bools
    refused: list[Quarantined]


@dataclass(frozen=True, slots=True)
class _Events:
    """New events by trace and time: the rows they are, their slots, and what the reasoner said."""

    rows: Int64s
    ts: Int64s
    rank: Int64s
    kinds: Int64s
    slots: Int64s
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Cut:
    """The traces of new events: first event, slot, time of the last event, whether it goes on from before, has ended."""

    first: Int64s
    slots: Int64s
    last: Int64s
    goes_on: Bools
    ended: Bools


class TraceWatch:
    """Follows the traces of one query under its constraints.

    Parameters
    ----------
    query, constraints
        What is sought, and what its traces obey.
    policy
        What happens when they do not. Constraints nobody vouches for are only watched.
    key_fields
        Columns of the key.
    options, on_static_unsat
        As for `register`.

    Notes
    -----
    Per trace it keeps the key, the types seen, the leaves matched and what has failed, until the trace ends: by a type that
    ends it, by silence, or, where there is a window instead, when it has left the window.
    """

    def __init__(
        self,
        query: EventQuery,
        constraints: ConstraintSet,
        policy: ViolationPolicy,
        key_fields: Sequence[pa.Field],
        options: ConditionOptions | None = None,
        on_static_unsat: OnStaticUnsat = "error",
    ) -> None:
        self.query, self.policy = query, policy_for(constraints, policy)
        self.registration = registered(query, constraints, options, on_static_unsat)
        self.conditions = self.registration.conditions.condensed()
        self._is_forgetful = is_forgetful(query)
        self._silence = query.within if self._is_forgetful else query.trace_ttl
        self._bank = TraceBank(self.conditions, (options or ConditionOptions()).exhaustion)
        self.table = TraceTable(self._bank, key_fields, self._silence is not None)
        self._complaints = Complaints(self.conditions, self.policy, not self._is_forgetful)
        self._masks = LeafMasks(query, self.conditions)
        self.counts = {"failed_traces": 0, "exhausted_traces": 0, "skipped": 0}

    @property
    def is_shadow(self) -> bool:
        return self.policy is ViolationPolicy.SHADOW

    @property
    def is_empty(self) -> bool:
        """Whether no event is worth a look, because the query never matches."""
        return not self.is_shadow and not self.registration.verdict.is_satisfiable

    @property
    def watched(self) -> Watched:
        """What the engine is to know of it."""
        relevant = watched_types(self.query, self.registration)
        return Watched(self.types, relevant, () if self.is_shadow else tuple(terminal_types(self.registration)))

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the types by their number."""
        return tuple(self.conditions.theory.names)

    @property
    def totals(self) -> dict[str, int]:
        return {**self.counts, "violations": self._complaints.number, "watched_traces": len(self.table)}

    def resume(self, totals: Mapping[str, int], traces: pa.RecordBatch | None, types: Sequence[str]) -> None:
        """Go on from earlier totals and traces; `types` are the names of the types by the numbers they had."""
        self.counts = {name: totals[name] for name in self.counts}
        self._complaints.number = totals["violations"]
        if traces is not None:
            self.table.restore(traces, types)

    def has_silent(self, frontier: int) -> bool:
        """Whether some trace ends now for want of events."""
        return self._silence is not None and bool((self.table.last < frontier - self._silence).any())

    # -- events -----------------------------------------------------------------------------------------------------------

    def observe(
        self, rows: Batch, classes: Int64s, kinds: Int64s, codes: Int64s, known: Int64s, number: int, frontier: int
    ) -> Sight:
        """Take in new rows, in order of time, and then the ends of traces by silence before the frontier.

        Parameters
        ----------
        classes, kinds
            Class of each row for the engine, and number of its type or -1.
        codes, known
            Number of the key of each row, and of each trace in the table; all below `number`.
        """
        before, failed_before = self._bank.columns.status.copy(), self._bank.columns.failed.copy()
        settled_before = self._masks.settled_before(self._bank.columns.seen)
        slot_of_code = np.full(number, -1, np.int64)
        slot_of_code[known] = np.arange(len(known))
        events, cut = self._follow(rows, classes, kinds, codes, slot_of_code)
        self._count(events)
        refused = self._complaints.of_events(rows, events.rows, events.slots, events.rank, events.kinds, events.outcome)
        slots, masked = np.full(len(classes), -1, np.int64), np.zeros(len(classes), np.int64)
        slots[events.rows] = events.slots
        masked[events.rows] = self._masks.lost(classes[events.rows], events.kinds, events.outcome)
        early = np.zeros(len(classes), np.int64)
        early[events.rows] = self._masks.idle(classes[events.rows], events.kinds, events.outcome)
        moved = (self._bank.columns.failed[: len(before)] != failed_before).any(axis=1)
        moved |= (before == _LIVE) & (self._bank.columns.status[: len(before)] == _EXHAUSTED)
        sight = self._judged(events, cut, moved, settled_before, (masked, early, slots, slot_of_code), refused)
        refused += self._finish(events, cut, frontier)
        return sight

    def _follow(self, rows: Batch, classes: Int64s, kinds: Int64s, codes: Int64s, slot_of_code: Int64s) -> tuple[_Events, _Cut]:
        order = sort_by_code(codes, len(slot_of_code))
        order = order[kinds[order] >= 0]
        ts, sorted_codes, sorted_classes = rows.ts[order], codes[order], classes[order]
        rank = rank_events(sorted_codes, ts, self.query.order is EventOrder.TOTAL)
        lasts, ttl = np.zeros(len(slot_of_code), np.int64), self.query.trace_ttl
        if ttl is not None:
            lasts[slot_of_code >= 0] = self.table.last[slot_of_code[slot_of_code >= 0]]
        traces, first, slots, last, ended = split_known(
            sorted_codes, ts, rank, sorted_classes, slot_of_code, lasts, -1 if ttl is None else ttl, ttl is None
        )
        goes_on = slots >= 0
        slots[~goes_on] = self._bank.add(int(np.count_nonzero(~goes_on)))
        every_last = np.concatenate([self.table.last, np.zeros(int(np.count_nonzero(~goes_on)), np.int64)])
        every_last[slots] = last
        self.table.add(rows, order[first[~goes_on]], every_last)
        outcome = self._bank.advance(slots[traces], rank, kinds[order], self._masks.passed(sorted_classes))
        return _Events(order, ts, rank, kinds[order], slots[traces], outcome), _Cut(first, slots, last, goes_on, ended)

    def _judged(
        self,
        events: _Events,
        cut: _Cut,
        known_moved: Bools,
        settled_before: list[Bools],
        of_rows: tuple[Int64s, Int64s, Int64s, Int64s],
        refused: list[Quarantined],
    ) -> Sight:
        columns, total = self._bank.columns, len(self._bank)
        has_failed = columns.failed[:, 0] & _ONE != 0
        ended, moved = np.zeros(total, np.bool_), np.zeros(total, np.bool_)
        ended[cut.slots] = cut.ended
        is_spent = has_failed | (columns.status == _EXHAUSTED)
        moved[: len(known_moved)] = known_moved
        settled = self._masks.settled(settled_before, events.slots, events.ts, events.kinds, total)
        if self._masks.may_settle:
            moved |= (settled > NEVER) & (settled < FOREVER)
        usable = self._masks.usable(columns.failed)
        if self.is_shadow:
            has_failed, is_spent, ended, moved = (np.zeros(total, np.bool_) for _ in range(4))
            settled, usable = np.full(total, FOREVER, np.int64), np.full(total, -1, np.int64)
        return Sight(
            *of_rows,
            np.append(~columns.had_match & (has_failed | ended), False),
            np.append(~columns.had_match, False),
            np.append(is_spent, False),
            np.append(settled, FOREVER),
            np.append(usable, -1),
            np.append(moved, False),
            refused,
        )

    def _finish(self, events: _Events, cut: _Cut, frontier: int) -> list[Quarantined]:
        """Complain of what is missing in traces that are over, and forget them."""
        over = np.zeros(len(self.table), np.bool_)
        over[cut.slots] = cut.ended
        if self._silence is not None:
            over |= self.table.last < frontier - self._silence
        gone = np.flatnonzero(over)
        if not len(gone):
            return []
        ended_by_event = over[events.slots]
        columns = self._bank.columns
        status = columns.status.copy()
        # What the last event itself has shown came too late to lose a match.
        status[events.slots[ended_by_event]] = events.outcome.before[ended_by_event]
        is_pruned = (status[gone] == _FAILED) | (status[gone] == _EXHAUSTED)
        refused = self._complaints.of_ends(columns.seen[gone], is_pruned, lambda chosen: self._named(gone[chosen]))
        self.table.keep(np.flatnonzero(~over))
        return refused

    def _named(self, slots: Int64s) -> Batch:
        """Rows that stand for traces: their keys, with the time of the last event."""
        return Batch(self.table.key_rows(slots), self.table.last[slots], np.full(len(slots), -1, np.int64))

    def _count(self, events: _Events) -> None:
        outcome = events.outcome
        self.counts["skipped"] += int(np.count_nonzero((outcome.before == _FAILED) | (outcome.before == _EXHAUSTED)))
        for name, status in (("failed_traces", _FAILED), ("exhausted_traces", _EXHAUSTED)):
            slots = events.slots[(outcome.before == _LIVE) & (outcome.after == status)]
            self.counts[name] += int(np.count_nonzero(np.diff(slots))) + bool(len(slots))
