"""The worked examples of constraint reasoning, by name."""

import pytest

from penstock.errors import NeverMatches
from penstock.metadata.constraints.clauses import at_most_once, exclusive, horn, prior, require
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner, TraceEvent, newly_matched
from penstock.metadata.constraints.query_graph import query_graph
from penstock.metadata.constraints.registration import register
from penstock.metadata.constraints.statics import static_check
from penstock.metadata.constraints.theory import Theory, bits
from penstock.metadata.constraints.workflows.workflow import order_fulfilment
from penstock.metadata.constraints.worth import worth_watching
from penstock.model.event_patterns import EventOrder, both, either, seq
from penstock.testing.constraint_reference import TraceStatus, Tracker

LIVE, FAILED, EXHAUSTED = TraceStatus.LIVE, TraceStatus.FAILED, TraceStatus.EXHAUSTED

EP1 = seq(both(seq("OrderFromSupplier", "GenerateQuote"), seq("UseRemoteStock", "GenerateInvoice")), "CancelOrder")
Q1 = seq("CheckInventory", "UseRemoteStock", "GenerateInvoice")
Q2 = seq(both(seq("OrderFromSupplier", "GenerateQuote"), seq("UseRemoteStock", "GenerateInvoice")), "FinishOrder")


def rules(types, *constraints):
    return ConstraintSet(("id",), tuple(types), constraints)


def tracker(pattern, types, *constraints, **options):
    return Tracker(register(pattern, rules(types, *constraints), ("id",), options=ConditionOptions(**options)).conditions)


def statuses(follower, trace):
    """The status after each event; `-Name` is an event that passes no predicate."""
    state, found = follower.start(), []
    for name in trace:
        event = follower.event(name[1:], ()) if name.startswith("-") else follower.event(name)
        state = follower.advance(state, [event])
        found.append(state.status)
    return found


def names(conditions, triggers):
    return {conditions.theory.names[number] for number in bits(triggers)}


def test_b_g1_the_excluded_stock_fails_the_order():
    types = ["OrderFromSupplier", "CheckInventory", "UseLocalStock", "UseRemoteStock"]
    follower = tracker(EP1, types, exclusive("UseLocalStock", "UseRemoteStock"))
    assert statuses(follower, ["OrderFromSupplier", "CheckInventory", "UseLocalStock"]) == [LIVE, LIVE, FAILED]


def test_b_g2_no_quote_above_the_limit_before_the_quote_is_sent():
    follower = tracker(EP1, ["GenerateQuote", "SendQuote"], prior("GenerateQuote", "SendQuote"))
    quote = "-GenerateQuote"
    cheap = [
        "OrderFromSupplier",
        quote,
        "UseRemoteStock",
        quote,
        "GenerateInvoice",
        quote,
        "SendQuote",
    ]
    assert statuses(follower, cheap) == [LIVE] * 6 + [FAILED]
    expensive = [*cheap[:1], "GenerateQuote", *cheap[2:], "CancelOrder"]
    state = follower.start()
    for name in expensive:
        event = follower.event(name[1:], ()) if name.startswith("-") else follower.event(name)
        state = follower.advance(state, [event])
    assert (state.status, state.has_matched) == (LIVE, True)


B_G3 = seq("E1", both(seq("E2", "E3"), seq("E4", "E5"), seq("E2", "E6")), both("E7", seq("E8", "E9"), "E9"))


def test_b_g3_the_graph_has_a_leaf_for_every_occurrence():
    graph = query_graph(B_G3)
    assert (graph.leaf_count, len(set(graph.types)), len(graph.partitions)) == (11, 9, 1)
    direct = {
        (first, second)
        for second in range(11)
        for first in range(11)
        if graph.precedes(first, second)
        and not any(graph.precedes(first, between) and graph.precedes(between, second) for between in range(11))
    }
    # The ends of the first AND, E3, E5, E6, each lead to the beginnings of the second, E7, E8, E9.
    assert len(direct) == 3 + 3 + 9 + 1 == 16


@pytest.mark.parametrize(
    ("pattern", "prefix", "matched"),
    [
        (B_G3, ["E1", "E4", "E2", "E3", "E6", "E9"], ["E1", "E2", "E2", "E3", "E4", "E6"]),
        (seq("E1", both(seq("E2", "E3"), seq("E4", "E5")), "E6"), ["E1", "E4", "E2", "E9", "E5"], ["E1", "E2", "E4", "E5"]),
    ],
)
def test_b_g4_matching_sub_query(pattern, prefix, matched):
    graph, done = query_graph(pattern), 0
    for name in prefix:
        leaves = sum(1 << leaf for leaf, kind in enumerate(graph.types) if kind == name)
        done = newly_matched(graph, done, [TraceEvent(0, leaves)])
    assert sorted(graph.types[leaf] for leaf in bits(done)) == matched


def test_b_g5_order_and_requirement_together():
    pattern, types = seq("E3"), ["E1", "E2", "E3"]
    follower = tracker(pattern, types, prior("E1", "E2"), require("E3", "E1"))
    assert statuses(follower, ["E2"]) == [FAILED]
    assert statuses(follower, ["E1", "E2"]) == [LIVE, LIVE]
    # Read the other way round, as printed in the source, E2 forbids nothing.
    assert statuses(tracker(pattern, types, prior("E2", "E1"), require("E3", "E1")), ["E2"]) == [LIVE]


def test_b_g6_condition_tables_of_the_order_queries():
    few = (
        exclusive("UseLocalStock", "UseRemoteStock"),
        exclusive("FinishOrder", "CancelOrder"),
        prior("GenerateInvoice", "SendInvoice"),
    )
    types = order_fulfilment().constraints().event_types
    first = register(Q1, ConstraintSet(("order_id",), types, few), ("order_id",)).conditions
    assert [first.theory.names[x] for x in range(len(types)) if first.plus[x]] == ["UseLocalStock"]
    assert first.local[first.theory.code["SendInvoice"]] == (0b100,)
    second = register(Q2, ConstraintSet(("order_id",), types, few), ("order_id",)).conditions
    assert {second.theory.names[x] for x in range(len(types)) if second.plus[x]} == {"UseLocalStock", "CancelOrder"}
    whole = register(Q1, order_fulfilment().constraints(), ("order_id",)).conditions
    assert {whole.theory.names[x] for x in range(len(types)) if whole.plus[x]} == {"UseLocalStock", "RejectOrder"}
    assert whole.local[whole.theory.code["SendInvoice"]][0] & 0b100
    assert len(names(whole, whole.triggers)) > 3


B_G7 = (require("Z", "W"), prior("B", "W"), prior("W", "A"))


@pytest.mark.parametrize("order", list(EventOrder))
def test_b_g7_a_required_event_without_a_legal_position(order):
    theory, graph = Theory(rules("ABWZ", *B_G7)), query_graph(seq("A", "B"))
    reasoner = ExactReasoner(theory, graph, order)
    start = reasoner.start()
    assert reasoner.refutation(start) is None
    assert reasoner.refutation(reasoner.advance(start, [TraceEvent(theory.code["Z"], 0)])) is not None
    conditions = register(seq("A", "B"), rules("ABWZ", *B_G7), ("id",), order).conditions
    assert statuses(Tracker(conditions, reasoner=reasoner), ["Z"]) == [FAILED]
    # The tables do not see it: they stay sound, not complete.
    assert statuses(tracker(seq("A", "B"), "ABWZ", *B_G7), ["Z"]) == [LIVE]


def test_b_g8_a_mixed_cycle_is_refused_with_its_proof():
    with pytest.raises(NeverMatches) as refusal:
        register(both(seq("A", "B"), seq("C", "D")), rules("ABCD", prior("B", "C"), prior("D", "A")), ("id",))
    for step in ("A comes before B", "prior(B, C)", "C comes before D", "prior(D, A)"):
        assert step in str(refusal.value)


def test_b_g9_prior_is_not_transitive():
    follower = tracker(seq("C", "A"), "ABC", prior("A", "B"), prior("B", "C"))
    assert statuses(follower, ["C", "A"]) == [LIVE, LIVE]
    state = follower.start()
    for name in "CA":
        state = follower.advance(state, [follower.event(name)])
    assert state.has_matched


def test_b_g10_conditions_are_asked_after_the_whole_group():
    follower = tracker(seq("Z", "A"), "ABZ", prior("A", "B"))
    state = follower.advance(follower.start(), [follower.event("Z")])
    together = follower.advance(state, [follower.event("B"), follower.event("A")])
    assert together.has_matched
    assert follower.advance(state, [follower.event("B")]).status is FAILED


def test_b_g11_a_requirement_that_can_no_longer_be_met():
    needed = (prior("K", "X"), require("E", "K"))
    assert statuses(tracker(seq("E", "F"), "EFKX", *needed), ["X"]) == [FAILED]
    assert statuses(tracker(seq("E", "F"), "EFKX", *needed), ["K", "X"]) == [LIVE, LIVE]
    follower = tracker(seq("K", "F"), "FKX", prior("K", "X"))
    assert statuses(follower, ["X"]) == [FAILED]
    assert [entry.kind for entry in follower.conditions.entries] == ["local"]


def test_b_g12_exclusion_is_inherited_along_requirements():
    short = tracker(seq("E"), "EJK", require("J", "K"), exclusive("K", "E"))
    assert statuses(short, ["J"]) == [FAILED]
    long = tracker(seq("E"), "EABJ", require("E", "A"), exclusive("A", "B"), require("J", "B"))
    assert statuses(long, ["J"]) == [FAILED]


B_G13 = seq("A", either(seq("B", "C"), "D"), either("E", seq("F", "G"), "H"), "I")
# One event type that kills each of the five branches.
KILLERS = [exclusive("k1", "B"), exclusive("k2", "D"), exclusive("k3", "E"), exclusive("k4", "F"), exclusive("k5", "H")]
KILLED = [*"ABCDEFGHI", "k1", "k2", "k3", "k4", "k5"]


@pytest.mark.parametrize("mode", ["hierarchy", "mask"])
@pytest.mark.parametrize(
    ("killed", "last"), [(["k1"], LIVE), (["k1", "k2"], FAILED), (["k3", "k4", "k5"], FAILED), (["k1", "k3", "k4"], LIVE)]
)
def test_b_g13_failed_branches_fail_the_query_when_none_is_left(mode, killed, last):
    assert statuses(tracker(B_G13, KILLED, *KILLERS, disjunctions=mode), killed)[-1] is last


def test_b_g13_the_mask_knows_which_branches_go_together():
    rest = (*KILLERS, exclusive("D", "H"))
    killed = ["k1", "k3", "k4"]
    assert statuses(tracker(B_G13, KILLED, *rest, disjunctions="hierarchy"), killed)[-1] is LIVE
    assert statuses(tracker(B_G13, KILLED, *rest, disjunctions="mask"), killed)[-1] is FAILED
    verdict = static_check(Theory(rules(KILLED, *rest)), query_graph(B_G13))
    assert (len(verdict.terms), len(verdict.dead_terms)) == (5, 1)


def test_b_g14_an_event_that_occurs_once_and_fails_its_leaf():
    types = ["CheckInventory", "UseRemoteStock", "GenerateInvoice", "SendInvoice"]
    once = (at_most_once("GenerateInvoice"), prior("GenerateInvoice", "SendInvoice"))
    trace = ["CheckInventory", "UseRemoteStock", "-GenerateInvoice", "SendInvoice"]
    assert statuses(tracker(Q1, types, *once), trace) == [LIVE, LIVE, FAILED, FAILED]
    assert statuses(tracker(Q1, types, *once, reflexive=False), trace) == [LIVE, LIVE, LIVE, FAILED]


def test_b_g15_a_trace_that_matched_is_released_when_its_last_type_cannot_come():
    follower = tracker(seq("A", "B"), "ABX", prior("B", "X"))
    assert statuses(follower, ["A", "B", "X", "A"]) == [LIVE, LIVE, EXHAUSTED, EXHAUSTED]
    assert statuses(Tracker(follower.conditions, exhaustion=False), ["A", "B", "X", "A"]) == [LIVE] * 4


def test_d_5_two_events_together_fail_a_query():
    follower = tracker(seq("X", "C"), "ABCX", horn("A", "B", "C"))
    assert statuses(follower, ["X", "A", "B"]) == [LIVE, LIVE, FAILED]
    assert statuses(follower, ["X", "A"]) == [LIVE, LIVE]


def test_joint_conditions_that_cost_more_than_they_gain_can_be_left_out():
    follower = tracker(seq("X", "C"), "ABCX", horn("A", "B", "C"))
    (pair,) = [item.explanation for item in follower.conditions.joint]
    rates = dict.fromkeys("ABCX", 1.0)
    expensive = worth_watching([pair], follower.theory, rates, {pair: 0.01}, work_left=10)
    assert expensive == []
    assert statuses(Tracker(follower.conditions.watching(expensive)), ["X", "A", "B"]) == [LIVE, LIVE, LIVE]
    cheap = worth_watching([pair], follower.theory, rates, {pair: 0.9}, work_left=10)
    assert statuses(Tracker(follower.conditions.watching(cheap)), ["X", "A", "B"]) == [LIVE, LIVE, FAILED]
