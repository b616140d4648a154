"""Mistakes of the published procedure: each as printed, with the match it loses or the end it misses, and ours beside it."""

from constraint_oracle import is_consistent
from constraint_strategies import ALPHABET

from penstock.metadata.constraints.clauses import at_most_once, prior, require
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner
from penstock.metadata.constraints.query_graph import query_graph
from penstock.metadata.constraints.registration import register
from penstock.metadata.constraints.statics import static_check
from penstock.metadata.constraints.theory import Theory, bits
from penstock.model.event_patterns import both, either, seq
from penstock.testing.constraint_reference import TraceStatus, Tracker

LIVE, FAILED = TraceStatus.LIVE, TraceStatus.FAILED


def follow(pattern, constraints, trace, types=(*ALPHABET, "E", "F", "K", "S", "W", "X", "Z")):
    """The last state of a trace of single events; `-name` passes no predicate."""
    follower = Tracker(register(pattern, ConstraintSet(("id",), types, tuple(constraints)), ("id",)).conditions)
    state = follower.start()
    for name in trace:
        event = follower.event(name[1:], ()) if name.startswith("-") else follower.event(name)
        state = follower.advance(state, [event])
    return state


def consistent(constraints, trace):
    return is_consistent([(name.lstrip("-"),) for name in trace], ConstraintSet(("id",), tuple("ABCDEFKSWXZ"), tuple(constraints)))


def test_rule_t1_as_printed_loses_a_match():
    pattern, trace = seq("A", "B"), ["A", "B"]
    assert consistent([prior("A", "B")], trace)
    assert follow(pattern, [prior("A", "B")], trace).has_matched
    # With the subscripts reversed an A would forbid a later B, and the query would be called unsatisfiable at once.
    printed = Theory(ConstraintSet((), ("A", "B"), (prior("B", "A"),)))
    assert not static_check(printed, query_graph(pattern)).is_satisfiable


def test_rule_t1_as_printed_fails_a_trace_that_goes_on_to_match():
    rules, trace = [prior("X", "A")], ["X", "A", "B"]
    assert consistent(rules, trace)
    assert follow(seq("A", "B"), rules, trace).has_matched
    assert follow(seq("A", "B"), [prior("A", "X")], trace).status is FAILED  # as printed, X forbids the A that follows


def test_the_requirement_of_p3_as_printed_loses_a_match():
    rules, trace = [prior("K", "X"), require("K", "E")], ["X", "E", "F"]
    assert consistent(rules, trace)
    assert follow(seq("E", "F"), rules, trace).has_matched
    assert follow(seq("E", "F"), [prior("K", "X"), require("E", "K")], trace).status is FAILED  # the implication reversed


def test_without_the_temporal_test_at_run_time_a_hopeless_trace_stays():
    rules = ConstraintSet((), ("A", "B", "W", "Z"), (require("Z", "W"), prior("B", "W"), prior("W", "A")))
    theory, graph = Theory(rules), query_graph(seq("A", "B"))
    reasoner = ExactReasoner(theory, graph)
    follower = Tracker(register(seq("A", "B"), ConstraintSet(("id",), rules.event_types, rules.constraints), ("id",)).conditions)
    event = follower.event("Z")
    assert follower.advance(follower.start(), [event]).status is LIVE
    assert reasoner.refutation(reasoner.advance(reasoner.start(), [event])) is not None


def test_the_static_temporal_test_as_worded_misses_a_mixed_cycle():
    theory = Theory(ConstraintSet((), tuple(ALPHABET), (prior("B", "C"), prior("D", "A"))))
    graph = query_graph(both(seq("A", "B"), seq("C", "D")))
    ordered = [(a, b) for a in range(4) for b in range(4) if graph.precedes(a, b)]
    denied = [(a, b) for a, b in ordered if theory.kills[theory.code[graph.types[a]]] >> theory.code[graph.types[b]] & 1]
    assert denied == []  # no pair of the query contradicts a constraint by itself
    assert not static_check(theory, graph).is_satisfiable


def test_one_flag_per_state_misses_the_branch_that_was_not_entered():
    pattern, rules = seq("S", both(seq("A", "B"), seq("C", "D"))), [prior("C", "X")]
    # As printed, leaving S towards A disarms the conditions of S, those of C among them.
    assert follow(pattern, rules, ["S", "A", "X"]).status is FAILED
    # As printed, there are no conditions before the first leaf is matched.
    assert follow(pattern, rules, ["X"]).status is FAILED
    assert follow(pattern, rules, ["S", "A", "C", "X"]).status is LIVE


def test_testing_on_arrival_loses_a_match_among_simultaneous_events():
    rules = ConstraintSet(("id",), ("A", "B", "Z"), (prior("A", "B"),))
    assert is_consistent([("Z",), ("B", "A")], rules)
    follower = Tracker(register(seq("Z", "A"), rules, ("id",)).conditions)
    state = follower.advance(follower.start(), [follower.event("Z")])
    assert follower.advance(state, [follower.event("B"), follower.event("A")]).has_matched
    one_by_one = follower.advance(follower.advance(state, [follower.event("B")]), [follower.event("A")])
    assert not one_by_one.has_matched


def test_testing_before_matching_loses_a_match():
    rules, trace = [at_most_once("B")], ["A", "B"]
    state = follow(seq("A", "B"), rules, trace)
    assert state.has_matched
    registration = register(seq("A", "B"), ConstraintSet(("id",), ("A", "B"), tuple(rules)), ("id",))
    local = registration.conditions.local[registration.theory.code["B"]][0]
    assert local & ~0b01  # before B is matched its own condition would hold


def test_a_transitive_closure_of_prior_loses_a_match():
    rules, trace = [prior("A", "B"), prior("B", "C")], ["C", "A"]
    assert consistent(rules, trace)
    assert follow(seq("C", "A"), rules, trace).has_matched
    closed = Theory(ConstraintSet((), tuple(ALPHABET), (*rules, prior("A", "C"))))
    assert not static_check(closed, query_graph(seq("C", "A"))).is_satisfiable


def test_events_that_fail_a_predicate_count_as_seen():
    pattern, rules = either(seq("K", "F"), seq("E", "F")), [prior("K", "X"), require("E", "K")]
    trace = ["-K", "X", "E", "F"]
    assert consistent(rules, trace)
    assert follow(pattern, rules, trace).has_matched
    # Were the K forgotten because it passed no predicate, X would end the second branch too.
    assert follow(pattern, rules, ["X"]).status is FAILED


def test_restored_types_keep_their_numbers_when_more_are_declared():
    few = ConstraintSet(("id",), ("B", "A"), (prior("A", "B"),))
    more = few.extended(["C", "A", "D"])
    assert more.event_types == ("B", "A", "C", "D")
    assert [Theory(few).kills[number] for number in bits(0b11)] == [Theory(more).kills[number] for number in bits(0b11)]
