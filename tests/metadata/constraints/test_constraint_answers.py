"""Constraints never change an answer that obeys them, and never lose a match of one that does not without saying so."""

from __future__ import annotations

from constraint_oracle import all_matches, is_consistent
from constraint_strategies import ALPHABET, any_constraints, constraint_sets, patterns, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.constraints.clauses import Never, horn
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner
from penstock.metadata.constraints.registration import register
from penstock.metadata.constraints.theory import Theory
from penstock.metadata.constraints.violations import ViolationDetector
from penstock.model.event_patterns import EventOrder, atoms_of
from penstock.testing.constraint_reference import TraceStatus, Tracker, trace_violations

MODES = st.sampled_from(["hierarchy", "mask"])


def conditions_of(pattern, rules, order=EventOrder.TIMESTAMP, **options):
    chosen = ConditionOptions(**options)
    return register(pattern, rules, ("id",), order, on_static_unsat="empty", options=chosen).conditions


@st.composite
def judged_traces(draw, is_obedient):
    """A pattern, a trace whose events pass some predicates, and constraints; obeyed by the trace if asked for."""
    pattern, trace = draw(patterns()), draw(traces())
    drawn = draw(st.lists(any_constraints(), max_size=8))
    single = [ConstraintSet(("id",), ALPHABET, (constraint,)) for constraint in drawn]
    kept = tuple(one.constraints[0] for one in single if not is_obedient or is_consistent(trace, one))
    atoms = range(len(atoms_of(pattern)))
    events = [
        (time, name, frozenset(atoms) if draw(st.booleans()) else frozenset(draw(st.lists(st.sampled_from(atoms), max_size=2))))
        for time, group in enumerate(trace)
        for name in group
    ]
    return ConstraintSet(("id",), ALPHABET, kept), pattern, events


def grouped(events, order):
    """Events of one time together, or each for itself."""
    groups = {}
    for number, (time, name, passed) in enumerate(events):
        groups.setdefault(time if order is EventOrder.TIMESTAMP else number, []).append((name, passed))
    return groups


def in_order(events, order):
    return [(number, *rest[1:]) if order is EventOrder.TOTAL else rest for number, rest in enumerate(events)]


def ends_of(pattern, events):
    """The time at which each match ends."""
    return sorted(max(events[number][0] for _, number in match) for match in all_matches(pattern, events))


@settings(max_examples=100, deadline=None)
@given(judged_traces(is_obedient=True), MODES, st.booleans(), st.booleans())
def test_property_b_pruned_traces_have_no_further_match(case, mode, reflexive, is_exact):
    rules, pattern, events = case
    conditions = conditions_of(pattern, rules, disjunctions=mode, reflexive=reflexive)
    follower = Tracker(conditions, reasoner=ExactReasoner(conditions.theory, conditions.graph) if is_exact else None)
    state, live = follower.start(), set()
    for time, group in grouped(events, EventOrder.TIMESTAMP).items():
        if state.status is TraceStatus.LIVE:
            live.add(time)
        state = follower.advance(state, [follower.event(name, passed) for name, passed in group])
    assert all(time in live for time in ends_of(pattern, events))


@settings(max_examples=100, deadline=None)
@given(judged_traces(is_obedient=False), MODES)
def test_a_match_lost_to_wrong_constraints_is_always_reported(case, mode):
    rules, pattern, events = case
    for order in EventOrder:
        conditions = conditions_of(pattern, rules, order, disjunctions=mode)
        follower, detector = Tracker(conditions), ViolationDetector(conditions.theory, conditions.relevant)
        state, lost, groups = follower.start(), 0, []
        ends = ends_of(pattern, in_order(events, order))
        for time, group in grouped(events, order).items():
            lost += ends.count(time) if state.status is not TraceStatus.LIVE else 0
            groups.append(conditions.theory.mask(name for name, _ in group))
            state = follower.advance(state, [follower.event(name, passed) for name, passed in group])
        # A query refuted before the first event is refused, or its author chose the empty answer.
        if lost and follower.start().status is TraceStatus.LIVE:
            assert trace_violations(detector, groups)


@settings(max_examples=60, deadline=None)
@given(constraint_sets(largest=6), traces())
def test_violations_are_found_exactly_in_inconsistent_traces(rules, trace):
    theory = Theory(rules)
    found = trace_violations(ViolationDetector(theory), [theory.mask(group) for group in trace])
    assert bool(found) == (not is_consistent(trace, rules))


def test_contradictions_of_three_types_are_found_at_the_end_by_callers_that_look_at_pairs():
    theory = Theory(ConstraintSet(("id",), ALPHABET, (horn("A", "B", "C"), Never("D"))))
    detector = ViolationDetector(theory)
    assert [v.kind for v in detector.on_end(theory.mask("ABC"), wide=True)] == ["occurrence"]
    assert detector.on_end(theory.mask("ABC")) == []
