"""`CREATE CONSTRAINT`, `CREATE CONSTRAINTS … FROM WORKFLOW`, and what they do to event queries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import (
    ConstraintViolated,
    InvalidConstraint,
    InvalidWorkflow,
    NeverMatches,
    SyntaxMistake,
    UnknownColumn,
    UnknownEventType,
    UserError,
)
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.metadata.constraints.clauses import at_most_once, exclusive, horn, never, prior, require, terminal
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.testing.undisturbed import undisturbed

STREAM = """
CREATE STREAM event (order_id BIGINT, kind STRING, price BIGINT, at BIGINT, WATERMARK at DELAY OF 0);
"""
QUERY = "CREATE CQ late AS EVENT SEQ(Confirm c, Pack p) FROM event TYPE kind WHERE [order_id] WITHIN 100"


def planned(text: str, name: str = "late") -> PatternMatch:
    plan = parse_application(text).queries[name].plan
    assert isinstance(plan, PatternMatch)
    return plan


def test_every_kind_of_constraint_has_its_words() -> None:
    text = """CREATE CONSTRAINT rules ON event (order_id) AS PRIOR(A, B), EXCLUSIVE(A, B, C), REQUIRE(A, C), AT_MOST_ONCE(A),
              TERMINAL(D), NEVER(E), HORN(A, B -> C), HORN(A, B -> FALSE)"""
    declared = parse_application(STREAM + text).constraints["rules"]
    assert declared.rules.constraints == (
        prior("A", "B"),
        exclusive("A", "B", "C"),
        require("A", "C"),
        at_most_once("A"),
        terminal("D"),
        never("E"),
        horn("A", "B", then="C"),
        horn("A", "B"),
    )
    assert (declared.stream, declared.rules.key, declared.on_violation) == ("event", ("order_id",), ViolationPolicy.RECORD)


@pytest.mark.parametrize(("word", "policy"), [("QUARANTINE", "record"), ("ERROR", "error"), ("SHADOW", "shadow")])
def test_constraints_reach_the_plan_with_their_policy(word: str, policy: str) -> None:
    node = planned(STREAM + f"CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Send) ON VIOLATION {word};" + QUERY)
    assert node.constraints is not None
    assert node.constraints.constraints == (prior("Pack", "Send"),)
    assert node.on_violation == policy


def test_all_constraints_of_one_stream_act_together() -> None:
    rules = (
        "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Send); CREATE CONSTRAINT two ON event (ORDER_ID) AS NEVER(Lose);"
    )
    node = planned(STREAM + rules + QUERY)
    assert node.constraints is not None
    assert node.constraints.constraints == (prior("Pack", "Send"), never("Lose"))


def test_a_query_that_can_never_match_is_refused_with_the_proof() -> None:
    with pytest.raises(NeverMatches, match=r"no Pack comes after a Confirm by prior\(Pack, Confirm\)") as caught:
        planned(STREAM + "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Confirm);" + QUERY)
    assert "query 'late'" in str(caught.value)


def test_a_query_may_do_without_constraints() -> None:
    rules = "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Confirm);"
    assert planned(STREAM + rules + QUERY + " OPTIONS (reasoning 'off')").constraints is None


def test_constraints_for_another_key_are_not_used_and_the_author_is_told() -> None:
    catalog = parse_application(STREAM + "CREATE CONSTRAINT one ON event (price) AS PRIOR(Pack, Confirm);" + QUERY)
    assert catalog.queries["late"].plan.constraints is None  # type: ignore[union-attr]
    assert any("constraint 'one' is not used" in warning for warning in catalog.warnings)


def test_the_shipped_workflow_gives_constraints_and_ends_of_traces() -> None:
    text = """CREATE CONSTRAINTS process ON event FROM WORKFLOW 'order_fulfilment' REUSE KEYS;
              CREATE CQ late AS EVENT SEQ(CheckInventory, UseRemoteStock, GenerateInvoice g) FROM event TYPE kind
              WHERE [order_id] AND g.price > 200"""
    node = planned(STREAM + text)
    assert node.query.terminal == ("RejectOrder", "FinishOrder", "CancelOrder")
    shown = str(explain(parse_application(STREAM + text)))
    assert "UseLocalStock fails the query" in shown
    assert "exclusive(UseLocalStock, UseRemoteStock)" in shown


def test_a_workflow_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "process.yaml"
    file.write_text("key: [order_id]\ntree:\n  sequence: [Confirm, Pack, Send]\n", encoding="utf-8")
    node = planned(STREAM + f"CREATE CONSTRAINTS process ON event FROM WORKFLOW '{file}';" + QUERY)
    assert node.constraints is not None
    assert prior("Confirm", "Pack") in node.constraints.constraints


def test_types_that_are_streams_are_read_because_constraints_need_them() -> None:
    streams = "".join(
        f"CREATE STREAM {name} (id BIGINT, at BIGINT, WATERMARK at DELAY OF 0);" for name in ("Confirm", "Pack", "Send", "Other")
    )
    rules = "CREATE CONSTRAINT one ON (id) AS PRIOR(Pack, Send), PRIOR(Pack, Pack);"
    node = planned(streams + rules + "CREATE CQ late AS EVENT SEQ(Confirm c, Pack p) WHERE [id] WITHIN 100")
    assert isinstance(node.input, Merged)
    assert len(node.input.inputs) == 3
    with pytest.raises(UnknownEventType, match="Packs"):
        planned(streams + "CREATE CONSTRAINT one ON (id) AS PRIOR(Packs, Send)")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("CREATE CONSTRAINT one ON event (order_id) AS BEFORE(A, B)", SyntaxMistake, "expected PRIOR"),
        ("CREATE CONSTRAINT one ON event (order_id) AS PRIOR(A)", SyntaxMistake, "PRIOR takes two types, not 1"),
        ("CREATE CONSTRAINT one ON event (order_id) AS EXCLUSIVE(A)", SyntaxMistake, "two or more types"),
        ("CREATE CONSTRAINT one ON event (order_id) AS HORN(A, B)", SyntaxMistake, "->"),
        ("CREATE CONSTRAINT one ON event (nothing) AS PRIOR(A, B)", UnknownColumn, "nothing"),
        ("CREATE CONSTRAINT one AS PRIOR(A, B)", SyntaxMistake, "ON stream"),
        ("CREATE CONSTRAINT one ON event (order_id) AS NEVER(A) ON VIOLATION IGNORE", SyntaxMistake, "QUARANTINE"),
        ("CREATE CONSTRAINTS one ON event FROM WORKFLOW 'nowhere.yaml'", InvalidWorkflow, "cannot be read"),
    ],
)
def test_a_mistake_in_a_constraint_is_shown_in_its_place(text: str, kind: type[UserError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        parse_application(STREAM + text)
    assert "line 3" in str(caught.value)


def test_two_policies_for_one_query_are_refused() -> None:
    rules = """CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Send);
               CREATE CONSTRAINT two ON event (order_id) AS NEVER(Lose) ON VIOLATION SHADOW;"""
    with pytest.raises(InvalidConstraint, match="choose one"):
        planned(STREAM + rules + QUERY)


def events_of(text: str) -> pa.RecordBatch:
    """`c1 p2` is a Confirm of order 1 at time 1 and a Pack at time 2; other letters are other steps."""
    names = {"c": "Confirm", "p": "Pack", "s": "Send", "l": "Lose"}
    words = text.split()
    times = [int(word[1:]) for word in words]
    columns = {"order_id": [1] * len(words), "kind": [names[word[0]] for word in words], "price": [0] * len(words), "at": times}
    schema = pa.schema({"order_id": pa.int64(), "kind": pa.string(), "price": pa.int64(), "at": pa.int64()})
    return pa.RecordBatch.from_pydict(columns, schema)


@pytest.mark.parametrize(("word", "is_exact"), [("fast", False), ("exact", True)])
def test_how_hopelessness_is_proved_can_be_chosen(word: str, is_exact: bool) -> None:
    rules = "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Send), REQUIRE(Call, Note), PRIOR(Note, Pack);"
    node = planned(STREAM + rules + f"{QUERY} OPTIONS (reasoning '{word}')")
    assert node.is_exact == is_exact
    assert (node.relevant_types is not None and "Call" in node.relevant_types) == is_exact


RULES = "CREATE CONSTRAINT one ON event (order_id) AS EXCLUSIVE(Lose, Pack) ON VIOLATION {};"


def test_answers_are_those_without_constraints() -> None:
    rows = {"event": events_of("c1 p2 c3 p4")}
    plain = undisturbed(STREAM + QUERY, rows).collected.rows("late")
    assert undisturbed(STREAM + RULES.format("QUARANTINE") + QUERY, rows).collected.rows("late") == plain
    assert len(plain) == 3


def test_an_event_that_breaks_a_constraint_is_set_aside_with_the_reason() -> None:
    ran = undisturbed(STREAM + RULES.format("QUARANTINE") + QUERY, {"event": events_of("c1 l2 p3")})
    assert ran.collected.rows("late") == []
    (refused,) = ran.collected.refused
    assert refused.reason == "constraint_violated"
    assert "Lose and Pack never occur together" in refused.text
    assert "matches of it may be missing" in refused.text


def test_the_shadow_keeps_the_match_and_reports_the_event() -> None:
    ran = undisturbed(STREAM + RULES.format("SHADOW") + QUERY, {"event": events_of("c1 l2 p3")})
    assert len(ran.collected.rows("late")) == 1
    assert [item.reason for item in ran.collected.refused] == ["constraint_violated"]


def test_the_strict_policy_stops_the_query() -> None:
    with pytest.raises(ConstraintViolated, match="never occur together"):
        undisturbed(STREAM + RULES.format("ERROR") + QUERY, {"event": events_of("c1 l2 p3")})


# -- ends of traces -------------------------------------------------------------------------------------------------------

ENDS = "CREATE CONSTRAINT ends ON event (order_id) AS TERMINAL(Lose) {};"


def test_an_event_after_the_end_of_its_trace_breaks_the_constraint() -> None:
    ran = undisturbed(STREAM + ENDS.format("") + QUERY, {"event": events_of("c1 l2 p3")})
    assert ran.collected.rows("late") == []
    (refused,) = ran.collected.refused
    assert "no Pack comes after a Lose by terminal(Lose)" in refused.text
    assert "matches of it may be missing" in refused.text
    with pytest.raises(ConstraintViolated, match="no Pack comes after a Lose"):
        undisturbed(STREAM + ENDS.format("ON VIOLATION ERROR") + QUERY, {"event": events_of("c1 l2 p3")})


@pytest.mark.parametrize("policy", ["", "ON VIOLATION SHADOW", "ON VIOLATION ERROR"])
def test_where_keys_are_used_again_an_event_after_the_end_begins_a_new_trace(policy: str) -> None:
    ran = undisturbed(STREAM + ENDS.format(f"REUSE KEYS {policy}") + QUERY, {"event": events_of("c1 l2 p3 c4 p5")})
    assert len(ran.collected.rows("late")) == 1
    assert ran.collected.refused == []


def test_a_query_without_window_must_know_whether_keys_are_used_again() -> None:
    query = QUERY.replace(" WITHIN 100", "")
    with pytest.raises(UserError, match=r"nothing comes after Lose.*REUSE KEYS behind constraint 'ends'"):
        parse_application(STREAM + ENDS.format("") + query)
    node = planned(STREAM + ENDS.format("REUSE KEYS") + query)
    assert node.query.terminal == ("Lose",)
    assert planned(STREAM + ENDS.format("") + query + " OPTIONS (trace_ttl 100)").query.terminal == ()


def test_explain_says_which_constraints_nobody_checks() -> None:
    rules = "CREATE CONSTRAINT one ON event (order_id) AS EXCLUSIVE(Lose, Pack), PRIOR(Ask, Answer), REQUIRE(Ask, Answer);"
    shown = str(explain(parse_application(STREAM + rules + QUERY)))
    assert "not checked: constraints on Ask, Answer, which the search does not look at" in shown
    assert "not checked: what REQUIRE and HORN need, and what comes after a silence longer than the window" in shown
    exact = str(explain(parse_application(STREAM + rules + QUERY + " OPTIONS (reasoning 'exact')")))
    assert "constraints on Ask, Answer" not in exact


# -- worth ----------------------------------------------------------------------------------------------------------------

SINGLE = "CREATE CQ late AS EVENT Pack p FROM event TYPE kind WHERE [order_id] WITHIN 100"
DEAR = "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Pack, Send) {};"


def test_constraints_that_cost_more_than_they_save_are_not_watched() -> None:
    text = STREAM + DEAR.format("") + SINGLE
    shown = str(explain(parse_application(text)))
    assert "constraints are not watched: for a trace that would add the work of 0.8 events and spare that of 0.2" in shown
    assert "OPTIONS (reasoning 'fast') has them watched" in shown
    assert "events to look at" not in shown
    assert planned(text).relevant_types == {"Pack"}
    rows = {"event": events_of("p1 s2 p3")}
    ran = undisturbed(text, rows)
    assert ran.collected.rows("late") == undisturbed(STREAM + SINGLE, rows).collected.rows("late")
    assert ran.collected.refused == []


@pytest.mark.parametrize(("policy", "options"), [("ON VIOLATION QUARANTINE", ""), ("", "OPTIONS (reasoning 'fast')")])
def test_constraints_are_watched_for_those_who_ask_for_it(policy: str, options: str) -> None:
    text = STREAM + DEAR.format(policy) + f"{SINGLE} {options}"
    assert "not watched" not in str(explain(parse_application(text)))
    assert planned(text).relevant_types == {"Pack", "Send"}
    (refused,) = undisturbed(text, {"event": events_of("p1 s2 p3")}).collected.refused
    assert "no Pack comes after a Send" in refused.text


def test_streams_of_types_that_only_unwatched_constraints_name_are_not_read() -> None:
    streams = "".join(f"CREATE STREAM {name} (id BIGINT, at BIGINT, WATERMARK at DELAY OF 0);" for name in ("Pack", "Send"))
    query = "CREATE CQ late AS EVENT Pack p WHERE [id] WITHIN 100"
    text = streams + "CREATE CONSTRAINT one ON (id) AS PRIOR(Pack, Send) {};" + query
    assert isinstance(planned(text.format("ON VIOLATION QUARANTINE")).input, Merged)
    assert not isinstance(planned(text.format("")).input, Merged)


def test_joint_conditions_that_cost_more_than_they_save_are_named() -> None:
    rules = "CREATE CONSTRAINT one ON event (order_id) AS HORN(Ask, Lose, Pack -> FALSE), EXCLUSIVE(Pack, Send);"
    shown = str(explain(parse_application(STREAM + rules + QUERY)))
    assert "not watched, because that costs more than it spares:" in shown
    assert "Ask with Lose fails the query" in shown.split("not watched")[1]
    asked = str(explain(parse_application(STREAM + rules + QUERY + " OPTIONS (reasoning 'fast')")))
    assert "fail together:" in asked
    assert "not watched" not in asked


# -- types ----------------------------------------------------------------------------------------------------------------

WORKFLOW = "CREATE CONSTRAINTS process ON event FROM WORKFLOW '{}';"


@pytest.mark.parametrize("options", ["", " OPTIONS (reasoning 'off')"])
def test_a_type_that_the_process_does_not_have_is_refused_with_the_nearest(tmp_path: Path, options: str) -> None:
    file = tmp_path / "process.yaml"
    file.write_text("{key: [order_id], tree: {sequence: [Confirm, {optional: Lose}, Pack]}, others: [Call]}", encoding="utf-8")
    declared = STREAM + WORKFLOW.format(file)
    with pytest.raises(UnknownEventType, match=r"stream 'event' has no event type 'Confrim'.*Did you mean 'Confirm'") as caught:
        parse_application(declared + QUERY.replace("Confirm", "Confrim") + options)
    assert caught.value.place is not None
    assert caught.value.place.column > 1
    between = "CREATE CQ expensive AS SELECT at, kind AS what, order_id FROM event WHERE price > 3;"
    over = QUERY.replace("event TYPE kind", "expensive TYPE what")
    with pytest.raises(UnknownEventType, match=r"Did you mean 'Pack'"):
        parse_application(declared + between + over.replace("Pack", "Pakc") + options)
    assert parse_application(declared + between + over + options).warnings == []
    with pytest.raises(UnknownEventType, match="'Closed'"):
        parse_application(declared + QUERY + " OPTIONS (terminal 'Closed')")
    assert parse_application(declared + QUERY.replace("Pack", "Call") + options).warnings == []


def test_a_type_that_resembles_another_one_is_told_where_types_are_not_known() -> None:
    other = QUERY.replace("late", "other").replace("Confirm", "Confrim")
    (warning,) = parse_application(f"{STREAM}{QUERY};{other}").warnings
    assert "type 'Confrim'; did you mean 'Confirm'?" in warning
    rules = "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(confirm, Pack);"
    (warning,) = parse_application(STREAM + rules + QUERY).warnings
    assert "did you mean 'confirm'?" in warning
    unlike = "CREATE CONSTRAINT one ON event (order_id) AS PRIOR(Send, Sent), PRIOR(Packs, Send);"
    assert parse_application(STREAM + unlike + QUERY.replace("Pack", "Remote")).warnings == []
