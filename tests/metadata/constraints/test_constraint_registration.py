"""Registering a query with constraints: refusals, notices, relevant types, windows, and what explain prints."""

import pytest
from constraint_strategies import ALPHABET

from penstock.errors import InvalidConstraint, NeverMatches, UnknownEventType
from penstock.metadata.constraints.clauses import Exclusive, Horn, Prior, exclusive, never, prior, require, terminal
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.describe import describe
from penstock.metadata.constraints.registration import register, terminal_types
from penstock.metadata.constraints.workflows.workflow import order_fulfilment
from penstock.model.event_patterns import absent, any_of, atom, either, seq
from penstock.testing.constraint_reference import TraceStatus, Tracker


def rules(*constraints, types=ALPHABET):
    return ConstraintSet(("id",), types, constraints)


def test_a_query_that_never_matches_is_refused_with_the_proof():
    with pytest.raises(NeverMatches, match=r"can never match:\n  A needs B by require\(A, B\); B and C never occur together"):
        register(seq("A", "C"), rules(require("A", "B"), exclusive("B", "C")), ("id",))


def test_a_query_that_never_matches_may_run_as_the_empty_answer():
    registration = register(seq("A", "C"), rules(exclusive("A", "C")), ("id",), on_static_unsat="empty")
    assert Tracker(registration.conditions).start().status is TraceStatus.FAILED
    assert "its answer is empty" in registration.notices[0]


def test_a_contradictory_type_is_announced_unless_it_is_written_so():
    registration = register(seq("C", "D"), rules(never("A"), require("B", "A")), ("id",))
    assert [notice.split(":")[0] for notice in registration.notices] == ["never(B) follows"]


def test_constraints_speak_of_traces_with_the_key_of_the_query():
    with pytest.raises(InvalidConstraint, match=r"give both the same key"):
        register(seq("A", "B"), rules(prior("A", "B")), ("customer",))


def test_without_a_key_constraints_are_not_used():
    registration = register(seq("A", "B"), rules(exclusive("A", "B")), ())
    assert not registration.is_active
    assert registration.conditions.triggers == 0
    assert "no key" in registration.notices[0]


def test_an_unknown_type_in_a_constraint_names_the_nearest_one():
    with pytest.raises(UnknownEventType, match="Did you mean 'SendQuote'"):
        ConstraintSet(("id",), ("GenerateQuote", "SendQuote"), (prior("GenerateQuote", "SendQuotes"),))


@pytest.mark.parametrize(
    "wrong", [lambda: Exclusive(("A",)), lambda: Exclusive(("A", "A")), lambda: Horn(()), lambda: Prior("", "A")]
)
def test_a_constraint_that_says_nothing_is_refused(wrong):
    with pytest.raises(InvalidConstraint):
        wrong()


def test_relevant_types_are_those_a_run_must_see():
    registration = register(seq("A", "B"), rules(prior("B", "C"), terminal("D"), types=(*ALPHABET, "Other")), ("id",))
    conditions = registration.conditions
    assert conditions.theory.members(conditions.relevant) == ["A", "B", "C", "D"]
    assert terminal_types(registration) == ["D"]


def test_any_of_several_types_fails_when_none_can_come():
    known = rules(prior("B", "D"), exclusive("C", "E"), types=(*ALPHABET, "E"))
    follower = Tracker(register(seq("A", any_of("B", "C")), known, ("id",)).conditions)
    state = follower.advance(follower.start(), [follower.event("D")])
    assert state.status is TraceStatus.LIVE
    assert follower.advance(state, [follower.event("E")]).status is TraceStatus.FAILED
    assert (follower.graph.engine_leaves, follower.graph.types) == ((0, 1, 1), ("A", "B", "C"))


def test_an_optional_run_is_never_waited_for_and_may_still_extend_a_match():
    follower = Tracker(register(seq("A", atom("B", "b", "*")), rules(prior("A", "C"), prior("B", "D")), ("id",)).conditions)
    state = follower.start()
    for name, status in [("A", TraceStatus.LIVE), ("C", TraceStatus.LIVE), ("D", TraceStatus.EXHAUSTED)]:
        state = follower.advance(state, [follower.event(name)])
        assert state.status is status


def test_absent_events_neither_match_nor_fail():
    follower = Tracker(register(seq("A", absent("N"), "B"), rules(prior("N", "A"), types=("A", "B", "N")), ("id",)).conditions)
    state = follower.start()
    for name in ["N", "A", "B"]:
        state = follower.advance(state, [follower.event(name)])
    assert state.has_matched


def test_the_mask_is_refused_for_too_many_alternatives():
    many = seq(*(either("A", "B", "C", "D") for _ in range(7)))
    assert register(many, rules(exclusive("A", "B")), ("id",)).conditions.mode == "hierarchy"
    with pytest.raises(InvalidConstraint, match="too many alternatives"):
        register(many, rules(), ("id",), options=ConditionOptions(disjunctions="mask"))


def test_explain_shows_branches_verdict_conditions_and_relevant_types():
    query = seq(either(seq("OrderFromSupplier", "GenerateQuote"), seq("UseRemoteStock", "GenerateInvoice")), "FinishOrder")
    lines = describe(register(query, order_fulfilment().constraints(), ("order_id",)))
    text = "\n".join(lines)
    assert "the branch of OrderFromSupplier, GenerateQuote" in text
    assert "UseLocalStock fails the branch of UseRemoteStock, GenerateInvoice" in text
    assert "CancelOrder fails the query: FinishOrder and CancelOrder never occur together" in text
    assert "can match" in text
    assert any(line.startswith("events to look at: ") for line in lines)
