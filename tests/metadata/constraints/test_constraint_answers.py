"""Constraints never change an answer that obeys them, and never lose a match of one that does not without saying so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from constraint_oracle import all_matches, is_consistent
from constraint_strategies import ALPHABET, any_constraints, constraint_sets, patterns, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ConstraintViolated
from penstock.metadata.constraints.automaton import fused_automaton
from penstock.metadata.constraints.bank import STATUSES, TraceBank
from penstock.metadata.constraints.clauses import Never, exclusive, horn, prior, require, terminal
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner
from penstock.metadata.constraints.pruning import KEEP_ALL, NO_EVENT, must_precede, useless_from
from penstock.metadata.constraints.registration import register
from penstock.metadata.constraints.supervision import CLOSED, Supervisor, ViolationPolicy
from penstock.metadata.constraints.tables import from_words, to_words
from penstock.metadata.constraints.theory import Theory, bits
from penstock.metadata.constraints.tracking import TraceStatus, Tracker
from penstock.metadata.constraints.violations import ViolationDetector, violations_of
from penstock.model.event_patterns import EventOrder, atoms_of, seq

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
        follower = Tracker(conditions_of(pattern, rules, order, disjunctions=mode))
        supervisor = Supervisor(follower)
        state, lost, found = follower.start(), 0, []
        ends = ends_of(pattern, in_order(events, order))
        for time, group in grouped(events, order).items():
            lost += ends.count(time) if state.status in CLOSED else 0
            step = supervisor.on_group(state, [follower.event(name, passed) for name, passed in group])
            state, found = step.state, found + list(step.violations)
        found += supervisor.on_end(state).violations
        # A query refuted before the first event is refused, or its author chose the empty answer.
        if lost and follower.start().status is TraceStatus.LIVE:
            assert found
            assert supervisor.tally.violations == len(found)


@settings(max_examples=100, deadline=None)
@given(judged_traces(is_obedient=False))
def test_in_the_shadow_nothing_is_given_up_and_losses_are_counted(case):
    rules, pattern, events = case
    follower = Tracker(conditions_of(pattern, rules))
    supervisor = Supervisor(follower, ViolationPolicy.SHADOW)
    state, lost = follower.start(), 0
    ends = ends_of(pattern, events)
    for time, group in grouped(events, EventOrder.TIMESTAMP).items():
        lost += ends.count(time) if state.status in CLOSED else 0
        step = supervisor.on_group(state, [follower.event(name, passed) for name, passed in group], ends.count(time))
        assert not step.may_skip
        state = step.state
    assert supervisor.tally.lost == lost


@settings(max_examples=60, deadline=None)
@given(constraint_sets(largest=6), traces())
def test_violations_are_found_exactly_in_inconsistent_traces(rules, trace):
    theory = Theory(rules)
    found = list(violations_of(ViolationDetector(theory), [theory.mask(group) for group in trace]))
    assert bool(found) == (not is_consistent(trace, rules))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(judged_traces(is_obedient=False), min_size=1, max_size=3),
    MODES,
    st.booleans(),
    st.sampled_from([0, 70]),
    st.booleans(),
    st.booleans(),
)
def test_the_compiled_loops_agree_with_the_plain_tracker(cases, mode, reflexive, padding, exhaustion, is_exact):
    rules, pattern, _ = cases[0]
    wide = tuple(f"other{number}" for number in range(padding))  # more types than a word has bits
    rules = replace(rules, event_types=wide + rules.event_types)
    conditions = conditions_of(pattern, rules, disjunctions=mode, reflexive=reflexive)
    # Behind a disjunction the bank knows less of single terms than the plain form.
    is_exact = is_exact and len(conditions.graph.terms()) == 1
    reasoner = ExactReasoner(conditions.theory, conditions.graph) if is_exact else None
    follower, bank = Tracker(conditions, exhaustion, reasoner), TraceBank(conditions, exhaustion, reasoner)
    detector = ViolationDetector(conditions.theory, conditions.relevant)
    slots, times, kinds, passed, expected, broken = [], [], [], [], [], []
    for slot, (_, _, events) in enumerate(cases):
        state = follower.start()
        for time, group in grouped(events, EventOrder.TIMESTAMP).items():
            facts = [follower.event(name, chosen) for name, chosen in group]
            types = conditions.theory.mask(name for name, _ in group)
            violated = {v.event_type for v in detector.on_group(state.seen, types) if v.kind == "order" or v.other}
            before, state = state, follower.advance(state, facts)
            for (name, _), fact in zip(group, facts, strict=True):
                slots, times, kinds = [*slots, slot], [*times, time], [*kinds, fact.event_type]
                passed.append(fact.leaves)
                expected.append((before.status, state.status))
                is_never = conditions.theory.is_contradiction(1 << fact.event_type)
                broken.append(name in violated or is_never)
    bank.add(len(cases))
    words = to_words(passed, len(conditions.graph.before)) if passed else None
    outcome = bank.advance(np.array(slots, np.int64), np.array(times, np.int64), np.array(kinds, np.int64), words)
    assert [(STATUSES[a], STATUSES[b]) for a, b in zip(outcome.before, outcome.after, strict=True)] == expected
    assert (outcome.broken > 0).tolist() == broken


@settings(max_examples=100, deadline=None)
@given(judged_traces(is_obedient=False), MODES)
def test_the_fused_automaton_agrees_with_the_plain_tracker(case, mode):
    rules, pattern, events = case
    conditions = conditions_of(pattern, rules, EventOrder.TOTAL, disjunctions=mode, largest_explanation=1)
    automaton = fused_automaton(conditions)
    follower = Tracker(conditions, exhaustion=False)
    plain, at, seen = follower.start(), 0, 0
    failed, alive = plain.failed, plain.alive
    for _, name, passed in events:
        event = follower.event(name, passed)
        plain = follower.advance(plain, [event])
        seen |= 1 << event.event_type
        kind = automaton.class_of(event.event_type, event.leaves)
        fails, at = from_words(automaton.fails[at, kind]), int(automaton.next_state[at, kind])
        for partition, types in enumerate(conditions.minus[event.event_type]):
            fails |= (1 << partition) if types & ~seen else 0
        failed, alive = conditions.settled(failed | fails, alive)
        if plain.status is not TraceStatus.LIVE:
            assert plain.status is TraceStatus.ENDED or failed & 1
            break
        assert (automaton.states[at], failed) == (plain.matched, plain.failed)


def test_the_fused_automaton_is_left_out_when_it_would_be_large():
    rules = ConstraintSet(("id",), ALPHABET, ())
    assert fused_automaton(conditions_of(seq("A", "B", "C"), rules), most_states=3) is None


@settings(max_examples=60, deadline=None)
@given(judged_traces(is_obedient=True), st.integers(0, 6))
def test_events_without_a_partner_to_come_can_be_dropped(case, moment):
    rules, pattern, events = case
    conditions = conditions_of(pattern, rules)
    follower, graph = Tracker(conditions), conditions.graph
    state = follower.start()
    newest = np.full((1, graph.leaf_count), NO_EVENT)
    past = [event for event in events if event[0] <= moment]
    for group in grouped(past, EventOrder.TIMESTAMP).values():
        state = follower.advance(state, [follower.event(name, passed) for name, passed in group])
    for time, name, passed in past:
        for leaf in bits(follower.event(name, passed).leaves):
            newest[0, leaf] = max(newest[0, leaf], time)
    gone = np.array([[bool(state.dead >> conditions.theory.code[kind] & 1) for kind in graph.types]])
    bounds = useless_from(must_precede(graph), gone, newest)[0]
    # What is dropped for a leaf is dropped for its atom; the patterns here have one leaf for each atom.
    kept = [
        (time, name, passed if time > moment else frozenset(atom for atom in passed if time < bounds[atom]))
        for time, name, passed in events
    ]
    later = [end for end in ends_of(pattern, events) if end > moment]
    assert [end for end in ends_of(pattern, kept) if end > moment] == later


def test_b_g16_an_event_that_can_no_longer_be_followed_is_dropped():
    graph = conditions_of(seq("A", "B", "C"), ConstraintSet(("id",), (*ALPHABET, "X"), (prior("B", "X"),))).graph
    bounds = useless_from(must_precede(graph), np.array([[False, True, False]]), np.array([[3, 2, NO_EVENT]]))
    assert bounds.tolist() == [[2, KEEP_ALL, KEEP_ALL]]


def supervised(pattern, rules, **options):
    follower = Tracker(conditions_of(pattern, rules))
    return follower, Supervisor(follower, **options)


def test_the_error_policy_stops_at_the_first_violation():
    follower, supervisor = supervised(
        seq("A", "B"), ConstraintSet(("id",), ALPHABET, (exclusive("C", "D"),)), policy=ViolationPolicy.ERROR
    )
    state = supervisor.on_group(follower.start(), [follower.event("C")]).state
    with pytest.raises(ConstraintViolated, match="exclusive"):
        supervisor.on_group(state, [follower.event("D")])


def test_a_violation_of_a_pruned_trace_says_that_matches_may_be_missing():
    follower, supervisor = supervised(seq("A", "B"), ConstraintSet(("id",), ALPHABET, (exclusive("B", "C"),)))
    state = follower.start()
    for name in "AC":
        step = supervisor.on_group(state, [follower.event(name)])
        state = step.state
    assert step.may_skip
    (found,) = supervisor.on_group(state, [follower.event("B")]).violations
    assert found.was_pruned
    assert "matches of it may be missing" in str(found)


def test_a_key_used_again_after_its_end_is_a_violation_unless_allowed():
    rules = ConstraintSet(("id",), ALPHABET, (terminal("D"),))
    follower, strict = supervised(seq("A", "B"), rules)
    ended = strict.on_group(follower.start(), [follower.event("D")]).state
    assert ended.status is TraceStatus.ENDED
    assert [v.kind for v in strict.on_group(ended, [follower.event("A")]).violations] == ["order"]
    follower, lenient = supervised(seq("A", "B"), rules, reuse_keys=True)
    step = lenient.on_group(ended, [follower.event("A")])
    assert (step.violations, step.state.status) == ((), TraceStatus.LIVE)


def test_what_a_trace_lacks_is_reported_at_its_end():
    follower, supervisor = supervised(seq("A", "B"), ConstraintSet(("id",), ALPHABET, (require("A", "C"),)))
    state = supervisor.on_group(follower.start(), [follower.event("A")]).state
    assert [v.event_type for v in supervisor.on_end(state).violations] == []  # C has no bearing on this query
    follower, supervisor = supervised(seq("A", "B"), ConstraintSet(("id",), ALPHABET, (require("A", "C"), prior("C", "D"))))
    state = supervisor.on_group(follower.start(), [follower.event("A")]).state
    assert [v.event_type for v in supervisor.on_end(state).violations] == ["C"]


def test_late_events_tell_whether_the_trace_was_given_up():
    follower, supervisor = supervised(seq("A", "B"), ConstraintSet(("id",), ALPHABET, (exclusive("B", "C"),)))
    state = follower.start()
    assert supervisor.late_reason(state) == "late"
    assert supervisor.late_reason(supervisor.on_group(state, [follower.event("C")]).state) == "late_after_prune"


def test_contradictions_of_three_types_are_found_at_the_end_by_callers_that_look_at_pairs():
    theory = Theory(ConstraintSet(("id",), ALPHABET, (horn("A", "B", "C"), Never("D"))))
    detector = ViolationDetector(theory)
    assert [v.kind for v in detector.on_end(theory.mask("ABC"), wide=True)] == ["occurrence"]
    assert detector.on_end(theory.mask("ABC")) == []


def test_keys_that_begin_again_forget_what_was_seen():
    bank = TraceBank(conditions_of(seq("A", "B"), ConstraintSet(("id",), ALPHABET, (exclusive("B", "C"),))))
    bank.add(3)
    bank.advance(np.array([0, 1]), np.array([1, 1]), bank.codes(["C", "C"]))
    bank.begin_again(np.array([1]))
    bank.keep(np.array([1, 0]))
    assert [STATUSES[number] for number in bank.columns.status] == [TraceStatus.LIVE, TraceStatus.FAILED]
    assert bank.codes(["A", "Unknown"]).tolist() == [0, -1]


@pytest.mark.parametrize("skipped", [None, 3, 66])
def test_more_leaves_than_a_word_has_bits(skipped):
    names = tuple(f"T{number}" for number in range(70))
    rules = ConstraintSet(("id",), names, tuple(prior(a, b) for a, b in pairwise(names)))
    conditions = conditions_of(seq(*names), rules)
    follower, bank = Tracker(conditions), TraceBank(conditions)
    state, expected = follower.start(), []
    for number, name in enumerate(names):
        state = follower.advance(state, [follower.event(name, () if number == skipped else None)])
        expected.append(state.status)
    bank.add(1)
    passed = to_words((0 if number == skipped else 1 << number for number in range(70)), 70)
    outcome = bank.advance(np.zeros(70, np.int64), np.arange(70), bank.codes(names), passed)
    assert [STATUSES[number] for number in outcome.after] == expected
    assert (TraceStatus.FAILED in expected) == (skipped is not None)
