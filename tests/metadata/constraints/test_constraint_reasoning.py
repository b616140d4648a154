"""The reasoners against a search through all continuations, and the tables against the reasoners."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from constraint_oracle import can_match, is_consistent, keeps_order
from constraint_strategies import ALPHABET, any_constraints, constraint_sets, patterns, table_constraints, traces
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from penstock.metadata.constraints.clauses import Exclusive, Prior, Require
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner, newly_matched
from penstock.metadata.constraints.explanations import Explanation, explanations
from penstock.metadata.constraints.query_graph import query_graph
from penstock.metadata.constraints.registration import register
from penstock.metadata.constraints.statics import static_check
from penstock.metadata.constraints.theory import Theory, bits
from penstock.model.event_patterns import EventOrder, both, normalised, seq
from penstock.testing.constraint_reference import TraceStatus, Tracker

ORDERS = st.sampled_from(list(EventOrder))


def registered(pattern, rules, order=EventOrder.TIMESTAMP, **options):
    return register(pattern, rules, ("id",), order, on_static_unsat="empty", options=ConditionOptions(**options))


def prefixes(trace, order):
    return [(name,) for group in trace for name in group] if order is EventOrder.TOTAL else trace


@settings(max_examples=80, deadline=None)
@given(constraint_sets(), patterns(), traces(longest=3), ORDERS)
@example(
    ConstraintSet(("id",), ALPHABET, (Require("D", "C"), Prior("B", "C"), Prior("C", "A"))),
    normalised(seq("A", "B")),
    [("D",)],
    EventOrder.TOTAL,
)
def test_the_exact_reasoner_agrees_with_a_search_through_all_continuations(rules, pattern, trace, order):
    reasoner = ExactReasoner(Theory(rules), query_graph(pattern), order)
    follower = Tracker(registered(pattern, rules, order).conditions)
    state = reasoner.start()
    prefix = []
    for group in [(), *prefixes(trace, order)]:
        if group:
            prefix.append(group)
            if not keeps_order(prefix, rules):
                break  # the reasoner is asked about traces that obey the constraints so far
            state = reasoner.advance(state, [follower.event(name) for name in group])
        assert (reasoner.refutation(state) is None) == can_match(prefix, pattern, rules, order)


@settings(max_examples=80, deadline=None)
@given(constraint_sets(largest=6), patterns(), ORDERS)
def test_the_static_check_agrees_with_a_search_through_all_traces(rules, pattern, order):
    verdict = static_check(Theory(rules), query_graph(pattern), order)
    assert verdict.is_satisfiable == can_match([], pattern, rules, order)
    by_partition = static_check(Theory(rules), query_graph(pattern), order, most_terms=0)
    assert by_partition.is_satisfiable or not verdict.is_satisfiable


@settings(max_examples=80, deadline=None)
@given(constraint_sets(largest=5), patterns())
def test_a_proof_needs_no_other_constraint_than_it_names(rules, pattern):
    graph = query_graph(pattern)
    verdict = static_check(Theory(rules), graph)
    for term, proof in verdict.dead_terms:
        alone = ConstraintSet(rules.key, rules.event_types, tuple(proof.used))
        assert term in [dead for dead, _ in static_check(Theory(alone), graph).dead_terms]


@settings(max_examples=100, deadline=None)
@given(constraint_sets(largest=5), patterns(), traces(), ORDERS, st.sampled_from(["hierarchy", "mask"]))
def test_the_tables_give_up_only_what_the_exact_reasoner_gives_up(rules, pattern, trace, order, mode):
    follower = Tracker(registered(pattern, rules, order, disjunctions=mode).conditions)
    reasoner = ExactReasoner(Theory(rules), query_graph(pattern), order)
    state, exact = follower.start(), reasoner.start()
    assert state.status is TraceStatus.LIVE or reasoner.refutation(exact) is not None
    for number, group in enumerate(prefixes(trace, order)):
        if not keeps_order(prefixes(trace, order)[: number + 1], rules):
            break
        events = [follower.event(name) for name in group]
        state, exact = follower.advance(state, events), reasoner.advance(exact, events)
        if state.status is TraceStatus.FAILED:
            assert reasoner.refutation(exact) is not None


@settings(max_examples=100, deadline=None)
@given(constraint_sets(largest=6), patterns(leaves=6), traces(), ORDERS)
def test_the_mask_gives_up_at_least_what_the_hierarchy_gives_up(rules, pattern, trace, order):
    tree = Tracker(registered(pattern, rules, order, disjunctions="hierarchy").conditions)
    mask = Tracker(registered(pattern, rules, order, disjunctions="mask").conditions)
    one, other = tree.start(), mask.start()
    for group in [(), *prefixes(trace, order)]:
        events = [tree.event(name) for name in group]
        one, other = (tree.advance(one, events), mask.advance(other, events)) if group else (one, other)
        if one.status is TraceStatus.FAILED:
            assert other.status in (TraceStatus.FAILED, TraceStatus.ENDED)


def first_four_steps(theory, graph, seen, matched):
    """Run-time check without its temporal test: whether what must occur contradicts itself, or can no longer come."""
    unmatched = graph.real_leaves & ~matched
    need = theory.mask(graph.types[leaf] for leaf in bits(unmatched))
    required = theory.closure(seen | need)
    return bool(required & theory.falsity or (need | (required & ~seen)) & theory.killed_by(seen))


@st.composite
def consistent_cases(draw, with_or, groups=True):
    """A pattern, a complete trace, and constraints the trace obeys."""
    pattern, trace = draw(patterns(with_or)), draw(traces(groups))
    drawn = draw(st.lists(table_constraints() if not with_or else any_constraints(), max_size=8))
    kept = tuple(c for c in drawn if is_consistent(trace, ConstraintSet(("id",), ALPHABET, (c,))))
    return ConstraintSet(("id",), ALPHABET, kept), pattern, trace


@settings(max_examples=100, deadline=None)
@given(consistent_cases(with_or=False))
def test_the_tables_fail_at_the_same_event_as_reasoning_from_scratch(case):
    rules, pattern, trace = case
    registration = registered(pattern, rules)
    assume(registration.verdict.is_satisfiable)
    follower, theory, graph = Tracker(registration.conditions, exhaustion=False), registration.theory, registration.graph
    state, seen, matched = follower.start(), 0, 0
    for group in trace:
        events = [follower.event(name) for name in group]
        state = follower.advance(state, events)
        matched = newly_matched(graph, matched, events)
        seen |= theory.mask(group)
        hopeless = first_four_steps(theory, graph, seen, matched)
        assert (state.failed & 1 == 1) == hopeless
        if hopeless:
            break


@settings(max_examples=100, deadline=None)
@given(constraint_sets(largest=6), st.sets(st.sampled_from(ALPHABET), min_size=1, max_size=2))
def test_explanations_are_the_minimal_sets_of_observations_that_contradict(rules, needed):
    theory = Theory(rules)
    wanted = theory.mask(needed)
    assume(not theory.is_contradiction(wanted))
    mortal = 0
    for killed in theory.kills:
        mortal |= killed
    literals = [(1 << n, 0) for n in range(4) if not wanted >> n & 1] + [(0, 1 << n) for n in bits(mortal & ~wanted)]
    minimal: list[Explanation] = []
    for chosen in chain.from_iterable(combinations(literals, size) for size in range(1, 4)):
        present, absent = sum(p for p, _ in chosen), sum(a for _, a in chosen)
        forced, alone = theory.closure(present | wanted), theory.closure(present)
        if forced & (theory.falsity | absent) and not alone & (theory.falsity | absent):
            smaller = any(not (m.present & ~present or m.absent & ~absent) for m in minimal)
            minimal += [] if smaller else [Explanation(present, absent)]
    assert set(explanations(theory, wanted)) == set(minimal)


@settings(max_examples=60, deadline=None)
@given(constraint_sets(st.one_of(st.builds(Prior, st.sampled_from(ALPHABET), st.sampled_from(ALPHABET))), largest=6))
def test_circles_of_order_are_reported(rules):
    notices = [n for n in registered(normalised(seq("A", "B")), rules).notices if n.startswith("prior runs in a circle")]
    pairs = {(order.first, order.second) for order in rules.orders() if order.first != order.second}
    reach = set(pairs)
    for _ in ALPHABET:
        reach |= {(a, d) for a, b in reach for c, d in pairs if b == c}
    assert bool(notices) == any((name, name) in reach for name in ALPHABET)


@pytest.mark.parametrize("reuse", [True, False])
def test_two_leaves_of_a_type_that_occurs_once_need_one_event(reuse):
    rules = ConstraintSet(("id",), ALPHABET, (Prior("A", "A"),))
    graph = query_graph(both(seq("A", "B"), seq("A", "C")))
    assert static_check(Theory(rules), graph, EventOrder.TOTAL, reuse).is_satisfiable is reuse
    assert static_check(Theory(rules), graph, EventOrder.TIMESTAMP, reuse).is_satisfiable


def test_a_type_that_excludes_what_it_requires_never_occurs():
    rules = ConstraintSet(("id",), ALPHABET, (Require("A", "B"), Exclusive(("A", "B"))))
    assert any(notice.startswith("never(A) follows") for notice in registered(seq("C", "D"), rules).notices)
