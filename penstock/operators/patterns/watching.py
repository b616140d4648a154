"""Traces under constraints: which have become hopeless, which events need not be looked at, and which break a constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.codes import Bools, shared
from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.bank import STATUSES, Outcome, TraceBank
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import OnStaticUnsat, is_forgetful, reasoner_for, registered, watched_types
from penstock.metadata.constraints.supervision import ViolationPolicy, policy_for
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, NEVER, Quarantined
from penstock.model.event_patterns import EventOrder
from penstock.operators.patterns._events import sort_by_code
from penstock.operators.patterns._traces import MOVED, Cut, cut_traces, judge
from penstock.operators.patterns._watch import NewRows, Rules, new_findings, watch_rows
from penstock.operators.patterns.complaints import Complaints
from penstock.operators.patterns.engine import Outlook
from penstock.operators.patterns.failures import Failures
from penstock.operators.patterns.leaf_masks import LeafMasks
from penstock.operators.patterns.suffixes import SuffixCut
from penstock.operators.patterns.tables import NAMED, Watched
from penstock.operators.patterns.trace_table import TraceTable

_LIVE, _FAILED, _EXHAUSTED, _ENDED = range(len(STATUSES))
_ONE = np.uint64(1)
#: Reason code of late events of a trace that was given up: what was concluded without them may be wrong.
LATE_AFTER_PRUNE = "late_after_prune"


@dataclass(frozen=True, slots=True)
class Sight:
    """What constraints tell after new rows.

    Attributes
    ----------
    masked, early
        For each new row the bits of its class that are of no use any more, and those that are of none yet.
    slots
        Slot of the trace of each new row; -1 for none.
    told
        For each slot whether the trace is `HOPELESS`, `UNMATCHED`, `MOVED`, with a last entry for no trace; of traces without
        new rows nothing is told.
    settled
        Since when absences at the end of a match are settled, by slot, where that can be told before the window closes.
    refused
        Rows that break a constraint.
    """

    masked: Int64s
    early: Int64s
    slots: Int64s
    told: npt.NDArray[np.uint8]
    settled: Int64s | None
    refused: list[Quarantined]


class KnownKeys(NamedTuple):
    """Number of the key of each row, and for each number the slot of its trace or -1."""

    codes: Int64s
    slots: Int64s


class _Events(NamedTuple):
    """New events by trace and time: the rows they are, where traces begin and end, and what the reasoner said."""

    rows: Int64s
    cut: Cut
    kinds: Int64s
    outcome: Outcome


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
        #: Columns of rows that break a constraint.
        self.shown = [item.name for item in key_fields]
        self.query, self.policy = query, policy_for(constraints, policy)
        self.registration = registered(query, constraints, options, on_static_unsat)
        self.conditions = self.registration.conditions.condensed()
        self._is_forgetful = is_forgetful(query)
        self._silence = query.within if self._is_forgetful else query.trace_ttl
        self._bank = TraceBank(self.conditions, (options or ConditionOptions()).exhaustion, reasoner_for(query, self.conditions))
        self.table = TraceTable(self._bank, key_fields, self._silence is not None)
        self._complaints = Complaints(self.conditions, self.policy, not self._is_forgetful)
        self._suffixes = SuffixCut(query, self.conditions) if (options or ConditionOptions()).suffixes else None
        self._masks = LeafMasks(query, self.conditions, 0 if self._suffixes is None else self._suffixes.guarded)
        counted = ("failed_traces", "exhausted_traces", "ended_traces", "skipped", "probes", "cut_events")
        self.counts = dict.fromkeys(counted, 0)
        self._failures = Failures(self._bank.tally, self.types)
        self._loop = self._one_loop()

    def _one_loop(self) -> Rules | None:
        """What the loop that does everything at once needs, where it can be used."""
        narrow, leaves = self._bank.narrow, self._masks.narrow
        if self.is_shadow or self._masks.may_settle or self._silence is not None or not self.table.is_indexed:
            return None
        if self._bank.reasoner is not None:
            return None
        return None if narrow is None or leaves is None else Rules(narrow, *leaves, self._bank.exhaustion, self._bank.tally)

    @property
    def forgets_by_silence(self) -> bool:
        """Whether a trace may be forgotten while events of it are kept."""
        return self._silence is not None

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
        return Watched(self.types, watched_types(self.query, self.registration))

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the types by their number."""
        return tuple(self.conditions.theory.names)

    @property
    def totals(self) -> dict[str, int]:
        """Running totals, and how many traces are watched, those that were given up too, and how many may still match."""
        is_live = (self._bank.columns.status == _LIVE) & ~self.table.is_over
        levels = {"watched_traces": len(self.table), "live_traces": int(np.count_nonzero(is_live))}
        return {**self.counts, "violations": self._complaints.number, **levels, **self._failures.totals}

    def resume(self, totals: Mapping[str, int], traces: pa.RecordBatch | None, types: Sequence[str]) -> None:
        """Go on from earlier totals and traces; `types` are the names of the types by the numbers they had."""
        self.counts = {name: totals.get(name, 0) for name in self.counts}
        self._failures.resume(totals)
        self._complaints.number = totals["violations"]
        if traces is not None:
            self.table.restore(traces, types)

    def has_silent(self, frontier: int) -> bool:
        """Whether some trace ends now for want of events."""
        return self._silence is not None and bool((self.table.last < frontier - self._silence).any())

    # -- events -----------------------------------------------------------------------------------------------------------

    def observe(self, rows: Batch, classes: Int64s, kinds: Int64s, frontier: int, keys: KnownKeys | None = None) -> Sight:
        """Take in new rows, in order of time, and then the ends of traces by silence before the frontier.

        Parameters
        ----------
        classes, kinds
            Class of each row for the engine, and number of its type or -1.
        keys
            The keys of the rows, where they have been numbered already.
        """
        is_total = self.query.order is EventOrder.TOTAL
        if keys is None and self._loop is not None and (is_total or bool((rows.ts[1:] > rows.ts[:-1]).all())):
            return self._observe_at_once(self._loop, rows, classes, kinds)
        settled_before = self._masks.settled_before(self._bank.columns.seen) if self._masks.may_settle else []
        events = self._follow(rows, classes, kinds, keys)
        masked, early, counts = self._masks.read(events.rows, events.cut.slots, classes, kinds, events.outcome)
        self._count(counts)
        refused = []
        if events.outcome.broken.any():
            shown, cut = rows.with_rows(rows.rows.select(self.shown)), events.cut
            released = self._masks.released(classes, events.rows, events.outcome)
            refused = self._complaints.of_events(
                shown, events.rows, cut.slots, cut.rank, events.kinds, events.outcome, masked, released
            )
        slots = np.full(len(classes), -1, np.int64)
        slots[events.rows] = events.cut.slots
        told, settled = self._judged(rows.ts, events, settled_before)
        return Sight(masked, early, slots, told, settled, [*refused, *self._finish(events, frontier)])

    def _observe_at_once(self, rules: Rules, rows: Batch, classes: Int64s, kinds: Int64s) -> Sight:
        """The same in one loop, for events of which no two are simultaneous and traces that no silence ends."""
        found = new_findings(rows.num_rows, self.table.size)
        column = shared(int64s(rows.column(self.table.fields[0].name)))
        given = NewRows(column, kinds, classes, shared(rows.ts), np.ascontiguousarray(self._masks.passed(classes)[:, 0]))
        traces = self.table.traces(rows.num_rows)
        started, ended, *counts = watch_rows(given, traces, rules, self.table.size, found)
        self.table.started(rows, found.first[:started])
        self._count(counts)
        refused = []
        if found.broken.any():
            shown, every = rows.with_rows(rows.rows.select(self.shown)), np.arange(rows.num_rows)
            outcome = Outcome(found.before, found.after, found.broken, found.earlier, found.earlier, found.earlier)
            released = self._masks.released(classes, every, outcome)
            refused = self._complaints.of_events(shown, every, found.slots, every, kinds, outcome, found.masked, released)
        slots, is_first = found.ended[:ended], found.ended_before[:ended] != _ENDED
        refused += self._ended(slots[is_first], found.ended_before[:ended][is_first])
        self.table.end(np.unique(slots[self.table.is_over[slots]]))
        return Sight(found.masked, found.early, found.slots, found.told[: self.table.size + 1], None, refused)

    def _count(self, counts: Sequence[int]) -> None:
        for name, count in zip(("skipped", "failed_traces", "exhausted_traces", "probes"), counts, strict=True):
            self.counts[name] += count

    def _follow(self, rows: Batch, classes: Int64s, kinds: Int64s, keys: KnownKeys | None) -> _Events:
        chosen = np.flatnonzero(kinds >= 0) if len(kinds) and kinds.min() < 0 else None
        mine = rows if chosen is None else rows.take(chosen)
        if keys is None:
            found, first = self.table.find(mine)
        else:
            found, first = self.table.numbered(keys.codes if chosen is None else keys.codes[chosen], keys.slots)
        number = self.table.size + len(first)
        order = sort_by_code(found, number)
        if chosen is not None:
            order, first = chosen[order], chosen[first]
            found, its = np.full(len(kinds), -1, np.int64), found
            found[chosen] = its
        ttl, is_total = -1 if self._silence is None else self._silence, self.query.order is EventOrder.TOTAL
        # A trace that left the window is forgotten there and not at the end of a batch, or answers would depend on batches.
        breaks = -1 if self._is_forgetful else NAMED
        cut = cut_traces(order, found, shared(rows.ts), classes, self.table.last, number, ttl, breaks, is_total)
        self.table.add(rows, first, cut.extra)
        self.table.last[cut.part_slots] = cut.last_ts
        outcome = self._bank.advance(cut.slots, cut.rank, kinds[order], self._masks.passed(classes[order]))
        return _Events(order, cut, kinds[order], outcome)

    def _judged(self, ts: Int64s, events: _Events, settled_before: list[Bools]) -> tuple[npt.NDArray[np.uint8], Int64s | None]:
        size = self.table.size
        if self.is_shadow:
            return np.zeros(size + 1, np.uint8), None
        told = judge(events.cut, self._bank.columns, events.outcome)
        if not self._masks.may_settle:
            return told, None
        settled = self._masks.settled(settled_before, events.cut.slots, ts[events.rows], events.kinds, size)
        told[:size][(settled > NEVER) & (settled < FOREVER)] |= MOVED
        return told, np.append(settled, FOREVER)

    def outlook(self, sight: Sight, slots: Int64s) -> Outlook:
        """What the engine is to know of the traces of rows, by their slots."""
        settled = np.full(len(slots), FOREVER, np.int64) if sight.settled is None else sight.settled[slots]
        usable, is_spent = np.full(len(slots), -1, np.int64), np.zeros(len(slots), np.bool_)
        if not self.is_shadow and self.table.size:
            columns, is_traced = self._bank.columns, slots >= 0
            failed = columns.failed[slots]
            is_spent = is_traced & ((failed[:, 0] & _ONE != 0) | (columns.status[slots] >= _EXHAUSTED))
            if self._masks.spares_branches:
                usable = np.where(is_traced, self._masks.usable(failed), -1)
        return Outlook(is_spent, settled, usable)

    @property
    def cuts_suffixes(self) -> bool:
        """Whether single events of a live trace can lose their use."""
        return not self.is_shadow and self._suffixes is not None and self._suffixes.guarded != 0

    def cut(self, classes: Int64s, ts: Int64s, slots: Int64s) -> bool:
        """Take from the classes of kept events what no match can use any more; whether there was anything."""
        return self._suffixes is not None and self._suffixes.cut(classes, ts, slots, self._bank.columns.seen) > 0

    def judge_late(self, refused: Quarantined) -> list[Quarantined]:
        """Late rows, with those of traces that were given up apart from the others."""
        names = [item.name for item in self.table.fields]
        if self.is_shadow or not set(names) <= set(refused.batch.schema.names):
            return [refused]
        slots = self.table.known([refused.batch.column(name) for name in names])
        status = np.append(self._bank.columns.status, len(STATUSES))[slots]
        pruned = (status == _FAILED) | (status == _EXHAUSTED)
        if not pruned.any():
            return [refused]
        text = f"{refused.text}; {int(np.count_nonzero(pruned))} of them belong to traces that had been given up without them"
        parts = [(~pruned, refused), (pruned, replace(refused, reason=LATE_AFTER_PRUNE, text=text))]
        return [replace(part, batch=refused.batch.filter(rows)) for rows, part in parts if rows.any()]

    def _finish(self, events: _Events, frontier: int) -> list[Quarantined]:
        """Complain of what is missing in traces that have ended, and forget those of which nothing more can come.

        A trace that a constraint ended stays, because what comes then breaks that constraint.
        """
        cut, columns = events.cut, self._bank.columns
        gone = cut.part_slots[cut.ended]
        if self._silence is not None:
            gone = np.union1d(gone, np.flatnonzero(self.table.last < frontier - self._silence))
        # What the last event itself has shown came too late to lose a match.
        before, after = events.outcome.before, events.outcome.after
        ending = np.flatnonzero((after == _ENDED) & (before != _ENDED))
        ended, first = np.unique(cut.slots[ending], return_index=True)
        status = columns.status.copy()
        status[cut.part_slots] = before[cut.last]
        others = gone[columns.status[gone] != _ENDED]
        refused = self._ended(np.concatenate([ended, others]), np.concatenate([before[ending[first]], status[others]]))
        self.table.end(gone)
        return refused

    def _ended(self, slots: Int64s, status: npt.NDArray[np.uint8]) -> list[Quarantined]:
        """What the ends of traces tell, given the status of each before its last event."""
        if not len(slots):
            return []
        columns = self._bank.columns
        has_lost_branches = (columns.failed[slots] != self._bank.start.failed).any(axis=1) & self._masks.spares_branches
        is_pruned = (status == _FAILED) | (status == _EXHAUSTED) | has_lost_branches
        self.counts["ended_traces"] += len(slots)
        return self._complaints.of_ends(columns.seen[slots], is_pruned, lambda chosen: self._named(slots[chosen]))

    def _named(self, slots: Int64s) -> Batch:
        """Rows that stand for traces: their keys, with the time of the last event."""
        return Batch(self.table.key_rows(slots), self.table.last[slots], np.full(len(slots), -1, np.int64))
