"""Following one trace against the failing conditions of a query: slow and plain, it judges the compiled loop.

For each group of simultaneous events: match first, then ask the tables. An event may both match a leaf and be a trigger, and
a simultaneous one may still match, so that asking earlier would lose matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.exact import ExactReasoner, ExactState, TraceEvent, newly_matched
from penstock.metadata.constraints.theory import bits
from penstock.metadata.constraints.violations import Violation, ViolationDetector


class TraceStatus(StrEnum):
    """What may still come of a trace."""

    LIVE = "live"
    #: It never matched and never will.
    FAILED = "failed"
    #: It matched, and will not match again.
    EXHAUSTED = "exhausted"
    #: Its last event came.
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class TraceState:
    """What is kept of a live trace besides its events; of a failed one, `seen` and `status` suffice."""

    seen: int
    matched: int
    failed: int
    alive: int
    dead: int
    status: TraceStatus = TraceStatus.LIVE
    has_matched: bool = False
    exact: ExactState | None = None


class Tracker:
    """Advances traces of one query.

    Parameters
    ----------
    conditions
        Compiled tables.
    exhaustion
        Whether a trace that matched is released when no match can end in a future event.
    reasoner
        Asked after every group, if given: finds what the tables do not, at a price. For queries whose matches are expensive.

    Examples
    --------
    >>> from penstock.metadata.constraints.registration import register
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "C"), (exclusive("C", "B"),))
    >>> tracker = Tracker(register(seq("A", "B"), rules, key=("id",)).conditions)
    >>> state = tracker.advance(tracker.start(), [tracker.event("A")])
    >>> tracker.advance(state, [tracker.event("C")]).status
    <TraceStatus.FAILED: 'failed'>
    """

    def __init__(self, conditions: FailingConditions, exhaustion: bool = True, reasoner: ExactReasoner | None = None) -> None:
        self.conditions, self.exhaustion, self.reasoner = conditions, exhaustion, reasoner
        self.graph, self.theory = conditions.graph, conditions.theory

    def start(self) -> TraceState:
        """The state before the first event; failed already if the query never matches."""
        alive = (1 << len(self.conditions.terms)) - 1
        failed = self.conditions.failed_at_start
        exact = None if self.reasoner is None else self.reasoner.start()
        state = TraceState(0, self.graph.completed(0), failed, alive, 0, exact=exact)
        return replace(state, status=self._status(state))

    def event(self, name: str, atoms: Iterable[int] | None = None) -> TraceEvent:
        """An event that passes the predicates of the given atoms of the pattern, or of all atoms of its type."""
        passed = None if atoms is None else set(atoms)
        leaves = 0
        for leaf, kind in enumerate(self.graph.types):
            if kind == name and (passed is None or self.graph.engine_leaves[leaf] in passed):
                leaves |= 1 << leaf
        return TraceEvent(self.theory.code[name], leaves)

    def advance(self, state: TraceState, group: Iterable[TraceEvent]) -> TraceState:
        """The state after a group of simultaneous events; under total order a group is one event."""
        events = tuple(group)
        if state.status is TraceStatus.ENDED:
            return state  # what comes now is no part of the trace
        types = 0
        for event in events:
            types |= 1 << event.event_type
        seen, dead = state.seen | types, state.dead | self.theory.killed_by(types)
        after = replace(state, seen=seen, dead=dead)
        if state.status is TraceStatus.LIVE:
            after = self._matched(after, newly_matched(self.graph, state.matched, events))
            failed, alive = self._newly_failed(after, types)
            if failed & ~after.failed or alive != after.alive:
                failed, alive = self.conditions.settled(failed | after.failed, alive)
            after = replace(after, failed=failed | after.failed, alive=alive)
            after = self._reasoned(replace(after, status=self._status(after)), events)
        return replace(after, status=TraceStatus.ENDED) if types & self.theory.terminals else after

    def _matched(self, state: TraceState, matched: int) -> TraceState:
        return replace(state, matched=matched, has_matched=state.has_matched or self.graph.is_matched(matched))

    def _reasoned(self, state: TraceState, events: tuple[TraceEvent, ...]) -> TraceState:
        if self.reasoner is None or state.exact is None:
            return state
        exact = self.reasoner.advance(state.exact, events)
        hopeless = not state.has_matched and state.status is TraceStatus.LIVE and self.reasoner.refutation(exact) is not None
        return replace(state, exact=exact, status=TraceStatus.FAILED if hopeless else state.status)

    def _newly_failed(self, state: TraceState, types: int) -> tuple[int, int]:
        failed, alive = 0, state.alive
        for number in bits(types):
            failed |= self.conditions.plus[number]
            for partition in range(len(self.graph.partitions)):
                unseen = self.conditions.minus[number][partition] & ~state.seen
                if unseen or self.conditions.local[number][partition] & ~state.matched:
                    failed |= 1 << partition
            for joint in (self.conditions.joint[index] for index in self.conditions.joint_of[number]):
                gone = state.dead & ~state.seen
                if not (joint.explanation.present & ~state.seen or joint.explanation.absent & ~gone):
                    failed, alive = failed | joint.partitions, alive & ~joint.terms
        return failed, alive

    def _status(self, state: TraceState) -> TraceStatus:
        over = state.failed & 1 or (self.conditions.mode == "mask" and not state.alive)
        if not over and self.exhaustion and state.has_matched:
            every = (1 << len(self.graph.partitions)) - 1
            sinks = self.graph.sinks_of(every & ~state.failed)
            over = not sinks & ~self._leaves_of_types(state.dead)
        if not over:
            return TraceStatus.LIVE
        return TraceStatus.EXHAUSTED if state.has_matched else TraceStatus.FAILED

    def _leaves_of_types(self, types: int) -> int:
        return sum(1 << leaf for leaf, name in enumerate(self.graph.types) if types >> self.theory.code[name] & 1)


def group_violations(detector: ViolationDetector, seen: int, types: int) -> list[Violation]:
    """Violations shown by simultaneous events of these types, after the types seen before."""
    found, theory = list[Violation](), detector.theory
    for number in bits(types):
        # Of two simultaneous events the later numbered one reports.
        found += detector.on_event(number, seen, types & ((2 << number) - 1))
    is_new = theory.is_contradiction(seen | types) and not theory.is_contradiction(seen)
    if is_new and not any(one.kind == "occurrence" for one in found):
        last = theory.members(types)[-1]
        found.append(Violation("occurrence", last, "", theory.proof(seen | types, theory.falsity), False))
    return found


def trace_violations(detector: ViolationDetector, groups: Iterable[int]) -> list[Violation]:
    """All violations of a complete trace, given as the types of each group of simultaneous events."""
    seen, found = 0, list[Violation]()
    for types in groups:
        found += group_violations(detector, seen, types)
        seen |= types
    return found + detector.on_end(seen)
