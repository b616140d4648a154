"""Many traces side by side: their reasoning state as columns, advanced by compiled loops.

The plain form is `penstock.metadata.constraints.tracking`; both agree event by event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from penstock.metadata.constraints import _loops, _narrow_loops
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.exact import ExactReasoner
from penstock.metadata.constraints.tables import ConditionTables, Int64s, Words, condition_tables, from_words, to_words
from penstock.metadata.constraints.tracking import TraceStatus, Tracker

Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: Statuses by the number they have in a bank.
STATUSES = (TraceStatus.LIVE, TraceStatus.FAILED, TraceStatus.EXHAUSTED, TraceStatus.ENDED)
#: Kinds of conditions by the number they have in a bank's tally; `exact`: the reasoner gave the trace up.
REASONS = ("global", "absence", "local", "reflexive", "joint", "exact")

_NONE = np.zeros(0, np.bool_)


class TraceColumns(NamedTuple):
    """One row per trace: types seen, leaves matched, partitions failed, terms alive, types gone, status."""

    seen: Words
    matched: Words
    failed: Words
    alive: Words
    dead: Words
    status: Bytes
    had_match: Bools


class Outcome(NamedTuple):
    """What a batch did, one entry per event.

    Attributes
    ----------
    before, after
        Status of the trace before and after the group the event is in. Events with a `before` other than live need not
        be matched; traces whose `after` is not live need not be kept.
    broken
        1 if the event contradicts what was seen, 2 if it came too late, 3 if both; `ViolationDetector` tells the proof.
    earlier, failing, matched
        Types seen, partitions failed and leaves matched before the group.
    """

    before: Bytes
    after: Bytes
    broken: Bytes
    earlier: Words
    failing: Words
    matched: Words


class TraceBank:
    """The reasoning state of the traces of one query.

    Parameters
    ----------
    conditions, exhaustion
        As for `Tracker`.
    reasoner
        Asked about each state that traces without a match reach, if given: finds what the tables do not, at a price.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.registration import register
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "C"), (exclusive("B", "C"),))
    >>> bank = TraceBank(register(seq("A", "B"), rules, ("id",)).conditions)
    >>> slots = bank.add(2)
    >>> outcome = bank.advance(slots=np.array([0, 0, 1, 1]), times=np.array([1, 2, 1, 2]), kinds=np.array([0, 2, 0, 1]))
    >>> [STATUSES[number].value for number in outcome.after]
    ['live', 'failed', 'live', 'live']
    """

    def __init__(self, conditions: FailingConditions, exhaustion: bool = True, reasoner: ExactReasoner | None = None) -> None:
        self.conditions, self.exhaustion, self.reasoner = conditions, exhaustion, reasoner
        self.tables: ConditionTables = condition_tables(conditions)
        codes = [conditions.theory.code[name] for name in conditions.graph.types]
        self.narrow = _narrow_loops.narrow_tables(self.tables, conditions.triggers, np.array(codes, np.int64))
        first = Tracker(conditions, exhaustion).start()
        types, leaves = len(conditions.theory.names), len(conditions.graph.before)
        #: The state of a trace without events.
        self.start = TraceColumns(
            to_words([first.seen], types),
            to_words([first.matched], leaves),
            to_words([first.failed], len(conditions.graph.partitions)),
            to_words([first.alive], len(conditions.terms)),
            to_words([first.dead], types),
            np.array([STATUSES.index(first.status)], np.uint8),
            np.array([first.has_matched], np.bool_),
        )
        #: Traces that failed, by the type of the event that failed them and the kind of the condition, in all.
        self.tally = np.zeros((types, len(REASONS)), np.int64)
        self.hold(TraceColumns._make(column[:0] for column in self.start))

    def hold(self, columns: TraceColumns) -> None:
        """Go on with these traces instead."""
        self.columns = self._room = columns

    def __len__(self) -> int:
        return len(self.columns.status)

    def add(self, count: int) -> Int64s:
        """Begin traces; returns their slots."""
        first = len(self)
        pairs: Iterable[tuple[Any, Any]] = zip(self.room(count), self.start, strict=True)
        for column, start in pairs:
            column[first : first + count] = start[0]
        self.extend(count)
        return np.arange(first, first + count, dtype=np.int64)

    def room(self, count: int) -> TraceColumns:
        """The columns with room for further traces."""
        first, needed = len(self), len(self) + count
        if needed > len(self._room.status):
            # Twice the room, so that a trace is copied a few times at most and not with every batch.
            spare, old = 2 * needed - first, cast(Iterable[Any], self.columns)
            self._room = TraceColumns._make(np.concatenate((each, np.zeros((spare, *each.shape[1:]), each.dtype))) for each in old)
            self.extend(0)
        return self._room

    def extend(self, count: int) -> None:
        """Count what was written into the room behind the last trace."""
        stop, every = len(self) + count, cast(Iterable[Any], self._room)
        self.columns = TraceColumns._make(each[:stop] for each in every)

    def begin_again(self, slots: Int64s) -> None:
        """Forget what was known of these traces: their keys are used anew."""
        pairs: Iterable[tuple[Any, Any]] = zip(self.columns, self.start, strict=True)
        for column, first in pairs:
            column[slots] = first[0]

    def keep(self, slots: Int64s) -> None:
        """Keep these traces only; slot i is then what slot `slots[i]` was."""
        every: Iterable[Any] = self._room
        for column in every:
            # Faster than an index in brackets, which goes through every row by itself.
            column[: len(slots)] = column.take(slots, axis=0)
        self.columns = TraceColumns._make(column[: len(slots)] for column in every)

    def advance(self, slots: Int64s, times: Int64s, kinds: Int64s, passed: Words | None = None) -> Outcome:
        """Apply events, sorted by trace and then by time; events of one trace and time are simultaneous.

        Parameters
        ----------
        slots, times, kinds
            Trace, time and type number of each event. Under total order give each event of a trace its own time.
        passed
            Leaves whose own predicates each event passes; by default all leaves of its type.
        """
        flags = [np.empty(len(slots), np.uint8) for _ in range(3)]
        wide = (self.columns.seen, self.columns.failed, self.columns.matched)
        words = [np.empty((len(slots), column.shape[1]), np.uint64) for column in wide]
        outcome = Outcome(flags[0], flags[1], flags[2], words[0], words[1], words[2])
        slots, times, kinds = (np.ascontiguousarray(each, np.int64) for each in (slots, times, kinds))
        refuted = _NONE if self.reasoner is None else self._refuted(self.reasoner, slots, times, kinds, passed)
        columns, exhaustion = self.columns, self.exhaustion
        if self.narrow is not None:
            allowed = np.full(len(slots), ~np.uint64(0)) if passed is None else np.ascontiguousarray(passed[:, 0])
            follow = _narrow_loops.follow_all_narrow
            follow(self.narrow, slots, times, kinds, allowed, columns, exhaustion, refuted, outcome, self.tally)
        else:
            leaves = self._leaves(kinds, passed)
            _loops.follow_all(self.tables, slots, times, kinds, leaves, columns, exhaustion, refuted, outcome, self.tally)
        return outcome

    def _leaves(self, kinds: Int64s, passed: Words | None) -> Words:
        every = self.tables.of_type[kinds]
        return np.ascontiguousarray(every if passed is None else passed & every)

    def _refuted(self, reasoner: ExactReasoner, slots: Int64s, times: Int64s, kinds: Int64s, passed: Words | None) -> Bools:
        """For each event whether the reasoner gives its trace up after it; each state that occurs is judged once."""
        found, columns = np.zeros(len(slots), np.bool_), self.columns
        asked = np.flatnonzero((columns.status[slots] == 0) & ~columns.had_match[slots])
        if not len(asked):
            return found
        leaves = self._leaves(kinds[asked], None if passed is None else passed[asked])
        seen, matched = (np.empty((len(asked), words.shape[1]), np.uint64) for words in (columns.seen, columns.matched))
        _loops.unfold(self.tables, slots[asked], times[asked], kinds[asked], leaves, columns, seen, matched)
        states, which = np.unique(np.concatenate([seen, matched], axis=1), axis=0, return_inverse=True)
        width = seen.shape[1]
        hopeless = [reasoner.is_hopeless(from_words(state[:width]), from_words(state[width:])) for state in states]
        found[asked] = np.array(hopeless)[which.reshape(-1)]
        return found

    def codes(self, names: Iterable[str]) -> Int64s:
        """Type numbers of names; -1 for a type the constraints do not know, whose events are not to be given."""
        known = self.conditions.theory.code
        return np.array([known.get(name, -1) for name in names], np.int64)
