"""Constraints given to `ps.match`: what they become in a plan; no Spark session is needed."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.errors import (
    InvalidDeclaration,
    InvalidEventPattern,
    NeverMatches,
    SyntaxMistake,
    UnknownColumn,
    UnknownEventType,
)
from penstock.language.application import parse_application, parse_query
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.patterns import PatternMatch
from penstock.runners.spark.dataframes.matching import MatchRules

STREAM = "CREATE STREAM events (type STRING, id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed;"
CASH_AND_CARD = "EVENT SEQ(Cash a, Card b) FROM events PARTITION BY id WITHIN 1 hour"
PROCESS = """
key: [id]
tree:
  sequence:
    - Order
    - choice: [Cash, Card]
    - Done
"""


def declared(rules: MatchRules) -> Catalog:
    catalog = parse_application(STREAM)
    rules.declare(catalog)
    return catalog


def test_constraints_as_text_refuse_what_they_forbid() -> None:
    catalog = declared(MatchRules("EXCLUSIVE(Cash, Card)", "quarantine", "events", ("id",)))
    with pytest.raises(NeverMatches, match="Cash and Card never occur together"):
        parse_query(CASH_AND_CARD, catalog)


def test_a_workflow_tells_its_constraints() -> None:
    workflow = ps.Workflow.from_yaml(PROCESS)
    catalog = declared(MatchRules(workflow, "shadow", "events", ("id",)))
    assert catalog.constraints["constraints"].on_violation is ViolationPolicy.SHADOW
    with pytest.raises(NeverMatches, match="can never match"):
        parse_query(CASH_AND_CARD, catalog)
    assert parse_query("EVENT SEQ(Order a, Card b) FROM events PARTITION BY id WITHIN 1 hour", catalog)


def test_a_workflow_lists_all_types() -> None:
    catalog = declared(MatchRules(ps.Workflow.from_yaml(PROCESS), "shadow", "events", ("id",)))
    with pytest.raises(UnknownEventType, match="Did you mean 'Order'"):
        parse_query("EVENT SEQ(Ordre a, Card b) FROM events PARTITION BY id WITHIN 1 hour", catalog)


@pytest.mark.parametrize("given", [ps.Workflow.from_yaml(PROCESS), "TERMINAL(Done)"], ids=["workflow", "text"])
def test_keys_are_used_again_only_where_that_is_said(given: ps.Workflow | str) -> None:
    endless = "EVENT SEQ(Order a, Card b) FROM events PARTITION BY id"
    with pytest.raises(InvalidEventPattern, match="REUSE KEYS"):
        parse_query(endless, declared(MatchRules(given, "error", "events", ("id",))))
    plan = parse_query(endless, declared(MatchRules(given, "error", "events", ("id",), reuse_keys=True))).plan
    assert isinstance(plan, PatternMatch)
    assert plan.query.terminal == ("Done",)


def test_constraints_of_streams_by_type_name_the_streams() -> None:
    catalog = parse_application(
        STREAM.replace("events (type STRING, ", "Cash (") + STREAM.replace("events (type STRING, ", "Card (")
    )
    MatchRules("EXCLUSIVE(Cash, Card)", "error", "", ("id",)).declare(catalog)
    with pytest.raises(NeverMatches):
        parse_query("EVENT SEQ(Cash a, Card b) PARTITION BY id WITHIN 1 hour", catalog)


@pytest.mark.parametrize(
    ("rules", "mistake", "text"),
    [
        (("EXCLUSIVE(A, B)", "quarantine", "events", ()), InvalidDeclaration, "by=…"),
        (("EXCLUSIVE(A, B)", "ignore", "events", ("id",)), InvalidDeclaration, "quarantine, error, shadow"),
        (("EXCLUSIVE(A)", "quarantine", "events", ("id",)), SyntaxMistake, "two or more types"),
        (("EXCLUSIVE(A, B)", "quarantine", "events", ("it",)), UnknownColumn, "id"),
    ],
)
def test_mistakes_say_what_to_write(rules: tuple[str, str, str, tuple[str, ...]], mistake: type[Exception], text: str) -> None:
    with pytest.raises(mistake, match=text):
        declared(MatchRules(*rules))
