"""What an engine does with traces that constraints give up, and with data that break the constraints.

Three policies. `record` gives traces up and writes every violation, with a note whether matches may be missing; `error`
stops at the first violation; `shadow` gives nothing up, so that the answer is that of an engine without constraints, and
counts what giving up would have saved and which matches it would have lost. Constraints mined from logs are hypotheses:
run them in the shadow first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.errors import ConstraintViolated
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import TraceEvent
from penstock.metadata.constraints.tracking import TraceState, TraceStatus, Tracker
from penstock.metadata.constraints.violations import Violation, ViolationDetector

#: Statuses in which a trace has been given up.
PRUNED = frozenset((TraceStatus.FAILED, TraceStatus.EXHAUSTED))
#: Statuses in which a trace's events need not be looked at any more: what comes now breaks a constraint, or matches nothing.
CLOSED = PRUNED | {TraceStatus.ENDED}


class ViolationPolicy(StrEnum):
    """What happens when data break a constraint."""

    RECORD = "record"
    ERROR = "error"
    SHADOW = "shadow"


def policy_for(constraints: ConstraintSet, wanted: ViolationPolicy = ViolationPolicy.RECORD) -> ViolationPolicy:
    """The wanted policy, or the shadow for constraints that nobody vouches for.

    Examples
    --------
    >>> policy_for(ConstraintSet(("id",), ("A",), (), is_trusted=False)).value
    'shadow'
    """
    return wanted if constraints.is_trusted else ViolationPolicy.SHADOW


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over all traces.

    Attributes
    ----------
    skipped
        Events of traces given up; in the shadow, those that would have been skipped.
    failed, exhausted
        Traces given up before and after a match.
    lost
        Matches that giving up would have lost; counted in the shadow only, where they are in the answer.
    violations
        Broken constraints.
    """

    events: int = 0
    skipped: int = 0
    failed: int = 0
    exhausted: int = 0
    lost: int = 0
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What a group of events did to a trace.

    Attributes
    ----------
    may_skip
        The engine may drop what it keeps of the trace; matches that wait for the absence of an event stay.
    """

    state: TraceState
    may_skip: bool
    violations: tuple[Violation, ...]


class Supervisor:
    """Follows the traces of one query under a policy; the engine keeps the states and does the matching.

    Parameters
    ----------
    reuse_keys
        Whether a key may begin a new trace after the end of the old one; otherwise such events are violations.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.metadata.constraints.registration import register
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "C"), (exclusive("C", "B"),))
    >>> tracker = Tracker(register(seq("A", "B"), rules, ("id",)).conditions)
    >>> supervisor = Supervisor(tracker, ViolationPolicy.SHADOW)
    >>> state = tracker.start()
    >>> for name in "CAB":
    ...     state = supervisor.on_group(state, [tracker.event(name)], matches=name == "B").state
    >>> supervisor.tally.lost, supervisor.tally.violations
    (1, 1)
    """

    def __init__(self, tracker: Tracker, policy: ViolationPolicy = ViolationPolicy.RECORD, reuse_keys: bool = False) -> None:
        self.tracker, self.policy, self.reuse_keys = tracker, policy, reuse_keys
        self.detector = ViolationDetector(tracker.theory, tracker.conditions.relevant)
        self.tally = Tally()

    def on_group(self, state: TraceState, group: Iterable[TraceEvent], matches: int = 0) -> Step:
        """Advance a trace by simultaneous events; `matches` is how many the engine found to end in them."""
        events = tuple(group)
        if state.status is TraceStatus.ENDED and self.reuse_keys:
            state = self.tracker.start()
        was_pruned = state.status in CLOSED
        types = 0
        for event in events:
            types |= 1 << event.event_type
        found = self.detector.on_group(state.seen, types, was_pruned and self.policy is not ViolationPolicy.SHADOW)
        after = self.tracker.advance(state, events)
        self._count(state, after, len(events), matches)
        self._settle(found)
        return Step(after, self.policy is not ViolationPolicy.SHADOW and after.status in CLOSED, tuple(found))

    def on_end(self, state: TraceState) -> Step:
        """The trace is over: its last event came, or nothing came for as long as a trace lives."""
        was_pruned = state.status in PRUNED and self.policy is not ViolationPolicy.SHADOW
        found = self.detector.on_end(state.seen, was_pruned)
        self._settle(found)
        return Step(replace(state, status=TraceStatus.ENDED), True, tuple(found))

    def late_reason(self, state: TraceState) -> str:
        """Why a late event is set aside; it is never applied, since it might contradict what was concluded without it."""
        return "late_after_prune" if state.status in PRUNED else "late"

    def _count(self, before: TraceState, after: TraceState, events: int, matches: int) -> None:
        was_pruned, tally = before.status in CLOSED, self.tally
        is_new = not was_pruned
        self.tally = replace(
            tally,
            events=tally.events + events,
            skipped=tally.skipped + (events if was_pruned else 0),
            failed=tally.failed + (is_new and after.status is TraceStatus.FAILED),
            exhausted=tally.exhausted + (is_new and after.status is TraceStatus.EXHAUSTED),
            lost=tally.lost + (matches if was_pruned else 0),
        )

    def _settle(self, found: list[Violation]) -> None:
        self.tally = replace(self.tally, violations=self.tally.violations + len(found))
        if found and self.policy is ViolationPolicy.ERROR:
            raise ConstraintViolated("\n".join(map(str, found)))
