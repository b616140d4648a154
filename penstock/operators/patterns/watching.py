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
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner
from penstock.metadata.constraints.queries import OnStaticUnsat, is_forgetful, reasoner_for, registered, watched_types
from penstock.metadata.constraints.tables import from_words
from penstock.metadata.constraints.violations import ViolationPolicy, policy_for
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER, Quarantined
from penstock.model.event_patterns import EventOrder
from penstock.operators.patterns._constraints import ENDED, EXHAUSTED, FAILED, LIVE
from penstock.operators.patterns._events import sort_by_code
from penstock.operators.patterns._traces import MOVED, TraceEnds
from penstock.operators.patterns._watch import (
    Findings,
    NewEvents,
    WatchRules,
    judge_traces,
    new_findings,
    unfold,
    watch_events,
)
from penstock.operators.patterns.complaints import Complaints, JudgedEvents
from penstock.operators.patterns.failures import Failures
from penstock.operators.patterns.leaf_masks import LeafMasks
from penstock.operators.patterns.pattern_engine import Outlook
from penstock.operators.patterns.suffixes import SuffixCut
from penstock.operators.patterns.tables import NAMED, Watched
from penstock.operators.patterns.trace_states import Bytes, TraceStates
from penstock.operators.patterns.trace_table import KnownKeys, TraceTable

#: Reason code of late events of a trace that was given up: what was concluded without them may be wrong.
LATE_AFTER_PRUNE = "late_after_prune"
_NO_PROOFS = np.zeros(0, np.bool_)


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


class _Ended(NamedTuple):
    """Traces whose last event came, or that were silent too long: slot, status before that, time of the last event."""

    slots: Int64s
    status: Bytes
    times: Int64s


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
        chosen = options or ConditionOptions()
        self._reasoner = reasoner_for(query, self.conditions)
        self._states = TraceStates(self.conditions)
        self.table = TraceTable(self._states, key_fields, self._silence is not None)
        self._complaints = Complaints(self.conditions, self.policy, not self._is_forgetful)
        self._suffixes = SuffixCut(query, self.conditions) if chosen.suffixes else None
        self._masks = LeafMasks(query, self.conditions)
        guarded = 0 if self._suffixes is None else self._suffixes.guarded
        states, masks = self._states, self._masks
        self._rules = WatchRules(states.tables, masks.leaves, masks.every, guarded, chosen.exhaustion, states.tally)
        # A trace that left the window is forgotten there and not at the end of a batch, or answers would depend on batches.
        breaks, ttl = -1 if self._is_forgetful else NAMED, -1 if self._silence is None else self._silence
        self._ends = TraceEnds(ttl, breaks, query.order is EventOrder.TOTAL)
        counted = ("failed_traces", "exhausted_traces", "ended_traces", "skipped", "probes", "cut_events")
        self.counts = dict.fromkeys(counted, 0)
        self._failures = Failures(states.tally, self.types)

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
        is_live = (self._states.columns.status == LIVE) & ~self.table.is_over
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
        settled_before = self._masks.settled_before(self._states.columns.seen) if self._masks.may_settle else []
        events, silent = self._placed(rows, classes, kinds, keys)
        found = new_findings(len(events.rows), rows.num_rows, self.table.size, self._states.words)
        ended, *counts = watch_events(events, self._states.columns, self._rules, found)
        for name, count in zip(("skipped", "failed_traces", "exhausted_traces", "probes"), counts, strict=True):
            self.counts[name] += count
        slots = np.full(rows.num_rows, -1, np.int64)
        slots[events.rows] = events.slots
        refused = self._broken(rows, events, found)
        told, settled = self._told(events, found, settled_before)
        refused += self._finish(events, found, int(ended), silent, frontier)
        return Sight(found.masked, found.early, slots, told, settled, refused)

    def _placed(self, rows: Batch, classes: Int64s, kinds: Int64s, keys: KnownKeys | None) -> tuple[NewEvents, Int64s]:
        """New rows by trace, and traces that fell silent between them."""
        is_whole = not len(kinds) or kinds.min() >= 0
        chosen = np.arange(len(kinds)) if is_whole else np.flatnonzero(kinds >= 0)
        order, placed = self.table.place(rows, chosen, classes, self._ends, keys)
        mine = classes
        if not is_whole or order is not chosen:
            mine, kinds = classes[order], shared(kinds[order])
        events = NewEvents(order, placed.slots, placed.rank, kinds, self._masks.passed(mine), shared(rows.ts), classes, _NO_PROOFS)
        if self._reasoner is not None:
            events = events._replace(refuted=self._refuted(self._reasoner, events))
        return events, placed.silent

    def _refuted(self, reasoner: ExactReasoner, events: NewEvents) -> Bools:
        """For each event whether the reasoner gives its trace up after it; each state that occurs is judged once."""
        found, columns = np.zeros(len(events.rows), np.bool_), self._states.columns
        asked = np.flatnonzero((columns.status[events.slots] == LIVE) & ~columns.had_match[events.slots])
        if not len(asked):
            return found
        # The loop goes through one trace after the other.
        asked = asked[sort_by_code(events.slots[asked], self.table.size)]
        mine = events._replace(**{name: getattr(events, name)[asked] for name in ("rows", "slots", "rank", "kinds", "passed")})
        width = self._states.words
        seen, matched = (np.empty((len(asked), width), np.uint64) for _ in range(2))
        unfold(mine, self._states.tables, columns, seen, matched)
        states, which = np.unique(np.concatenate([seen, matched], axis=1), axis=0, return_inverse=True)
        hopeless = [reasoner.is_hopeless(from_words(state[:width]), from_words(state[width:])) for state in states]
        found[asked] = np.array(hopeless)[which.reshape(-1)]
        return found

    def _broken(self, rows: Batch, events: NewEvents, found: Findings) -> list[Quarantined]:
        """Rows that break a constraint."""
        if not found.broken.any():
            return []
        judged = JudgedEvents(
            events.rows,
            events.slots,
            events.rank,
            events.kinds,
            found.before,
            found.after,
            found.broken,
            found.earlier,
            found.masked[events.rows] != 0,
            self._masks.released(events.classes[events.rows], found.before, found.earlier),
        )
        return self._complaints.of_events(rows.with_rows(rows.rows.select(self.shown)), judged)

    def _told(self, events: NewEvents, found: Findings, settled_before: list[Bools]) -> tuple[npt.NDArray[np.uint8], Int64s | None]:
        """What is told of traces, and since when their final absences are settled."""
        if self.is_shadow:
            return np.zeros_like(found.told), None
        judge_traces(events.slots, self.table.is_over, self._states.columns, found.told)
        if not self._masks.may_settle:
            return found.told, None
        size = self.table.size
        settled = self._masks.settled(settled_before, events.slots, events.ts[events.rows], events.kinds, size)
        found.told[:size][(settled > NEVER) & (settled < FOREVER)] |= MOVED
        return found.told, np.append(settled, FOREVER)

    def outlook(self, sight: Sight, slots: Int64s) -> Outlook:
        """What the engine is to know of the traces of rows, by their slots."""
        settled = np.full(len(slots), FOREVER, np.int64) if sight.settled is None else sight.settled[slots]
        usable, is_spent = np.full(len(slots), -1, np.int64), np.zeros(len(slots), np.bool_)
        if not self.is_shadow and self.table.size:
            columns, is_traced = self._states.columns, slots >= 0
            failed = columns.failed[slots]
            is_spent = is_traced & ((failed[:, 0] & 1 != 0) | (columns.status[slots] >= EXHAUSTED))
            if self._masks.spares_branches:
                usable = np.where(is_traced, self._masks.usable(failed), -1)
        return Outlook(is_spent, settled, usable)

    @property
    def cuts_suffixes(self) -> bool:
        """Whether single events of a live trace can lose their use."""
        return not self.is_shadow and self._suffixes is not None and self._suffixes.guarded != 0

    def cut(self, classes: Int64s, ts: Int64s, slots: Int64s) -> bool:
        """Take from the classes of kept events what no match can use any more; whether there was anything."""
        return self._suffixes is not None and self._suffixes.cut(classes, ts, slots, self._states.columns.seen) > 0

    def judge_late(self, refused: Quarantined) -> list[Quarantined]:
        """Late rows, with those of traces that were given up apart from the others."""
        names = [item.name for item in self.table.fields]
        if self.is_shadow or not set(names) <= set(refused.batch.schema.names):
            return [refused]
        slots = self.table.known([refused.batch.column(name) for name in names])
        status = self._states.columns.status[np.maximum(slots, 0)] if self.table.size else np.zeros(len(slots), np.uint8)
        pruned = (slots >= 0) & _is_given_up(status)
        if not pruned.any():
            return [refused]
        text = f"{refused.text}; {int(np.count_nonzero(pruned))} of them belong to traces that had been given up without them"
        parts = [(~pruned, refused), (pruned, replace(refused, reason=LATE_AFTER_PRUNE, text=text))]
        return [replace(part, batch=refused.batch.filter(rows)) for rows, part in parts if rows.any()]

    def _finish(self, events: NewEvents, found: Findings, number: int, silent: Int64s, frontier: int) -> list[Quarantined]:
        """Complain of what is missing in traces that have ended, and forget those of which nothing more can come.

        A trace that a constraint ended stays, because what comes then breaks that constraint.
        """
        slots, status, times = found.ended[:number], found.ended_before[:number], found.ended_at[:number]
        over = slots[self.table.is_over[slots]]
        # A constraint ends a trace once. What the last event itself has shown came too late to lose a match.
        is_first = status != ENDED
        if self._silence is None:
            refused = self._ended(_Ended(slots[is_first], status[is_first], times[is_first]))
            self.table.end(np.unique(over))
            return refused
        refused = self._ended(_Ended(slots[is_first], status[is_first], self.table.last[slots[is_first]]))
        is_gone = self.table.last < frontier - self._silence
        is_gone[silent], is_gone[over] = True, False
        status = self._states.columns.status.copy()
        others = np.flatnonzero(is_gone & (status != ENDED))
        status[events.slots] = found.before
        refused += self._ended(_Ended(others, status[others], self.table.last[others]))
        is_gone[over] = True
        self.table.end(np.flatnonzero(is_gone))
        return refused

    def _ended(self, ended: _Ended) -> list[Quarantined]:
        """What the ends of traces tell."""
        if not len(ended.slots):
            return []
        columns = self._states.columns
        has_lost_branches = (columns.failed[ended.slots] != self._states.start.failed).any(axis=1) & self._masks.spares_branches
        self.counts["ended_traces"] += len(ended.slots)

        def named(chosen: Int64s) -> Batch:
            """Rows that stand for traces: their keys, with the time of the last event."""
            rows = self.table.key_rows(ended.slots[chosen])
            return Batch(rows, ended.times[chosen], np.full(len(chosen), -1, np.int64))

        return self._complaints.of_ends(columns.seen[ended.slots], _is_given_up(ended.status) | has_lost_branches, named)


def _is_given_up(status: Bytes) -> Bools:
    found: Bools = (status == FAILED) | (status == EXHAUSTED)
    return found
