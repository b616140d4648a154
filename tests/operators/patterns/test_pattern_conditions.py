"""Conditions across events mean the same inside the compiled loops as everywhere else."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pattern_cases import SCHEMA, answers, events, found_by_operator, query

from penstock.errors import InvalidEventPattern
from penstock.model.event_patterns import Strategy, atom, seq
from penstock.model.schema import Schema
from penstock.operators.patterns.conditions import PatternConditions
from penstock.operators.patterns.operator import PatternMatch

LARGE = 2**63 - 1
NUMBERS = [0, 1, -1, 2, 7, -7, 2**31, LARGE, -LARGE - 1, None]
CONDITIONS = [
    "a.p + b.p > 0",
    "a.p - b.p >= 0",
    "a.p * b.p < 0",
    "a.p % b.p = 1",
    "a.p div b.p <= 0",
    "-a.p = b.p",
    "a.p / b.p < 1",
    "a.p <=> b.p",
    "a.p BETWEEN b.p AND b.p + 5",
    "a.p IN (b.p, b.p + 1, 3)",
    "NOT (a.p = b.p) OR a.p + b.p IS NULL",
    "a.p + 1.5 > b.p % 2.5",
    "abs(a.p) = abs(b.p)",
    "abs(a.p - b.p) <= 1",
    "floor(a.p / b.p) = 0 OR ceil(a.p / b.p) = -1",
    "round(a.p / b.p, 1) > 0.1",
    "greatest(a.p, b.p, 1) = 7 OR least(a.p, b.p) = coalesce(b.p, a.p)",
    "CASE WHEN a.p > b.p THEN 'falls' WHEN a.p < b.p THEN 'rises' END = 'rises'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@given(prices=st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4))
@settings(max_examples=8, deadline=None)
def test_arithmetic_overflow_and_null_agree_with_the_reference(condition: str, prices: list[int | None]) -> None:
    for strategy in (Strategy.ANY, Strategy.NEXT):
        answers(query(seq(atom("A", "a"), atom("B", "b")), condition, strategy=strategy), events("a1 a2 b3 b4", prices))


def test_what_concerns_one_event_is_computed_before_the_search() -> None:
    sought = query(seq(atom("A", "a"), atom("B", "b")), "a.p > 3", "lower(a.s) = b.s", "a.p + 1 < b.p * 2")
    conditions = PatternConditions(sought, Schema.from_arrow(SCHEMA))
    assert [[str(part) for part in parts] for parts in conditions.local] == [["p > 3"], []]
    assert [str(expr) for expr in conditions.translation.derived] == ["lower(s)", "s", "p + 1L", "p * 2L"]
    assert all(each.program >= 0 for each in conditions.across)


def test_a_condition_that_cannot_be_tested_while_a_match_grows_says_what_to_do() -> None:
    sought = query(seq(atom("A", "a"), atom("B", "b")), "concat(a.s, b.s) = 'xy'", strategy=Strategy.NEXT)
    with pytest.raises(
        InvalidEventPattern, match=r"while a match grows: 'concat.* of one event alone, or select among the matches"
    ):
        PatternMatch(sought, SCHEMA)


LIMITS = {
    "`count(a)` <= 2": 20_100,
    "`count(a)` = 2": 19_900,
    "3 > `count(a)`": 20_100,
    "`count(a)` BETWEEN 1 AND 2": 20_100,
    "`count(a)` IN (1, 2)": 20_100,
    "`count(a)` < 2.5 OR `count(a)` = 1": 20_100,
    "`count(a.p)` <= 2": 20_100,
    "`max(a.p)` < 2": 3,
    "`min(a.p)` > 197": 3,
}


@pytest.mark.parametrize("condition", LIMITS)
def test_an_upper_bound_stops_a_list_from_growing(condition: str) -> None:
    """Of two hundred events there are more lists than anybody can try."""
    text = " ".join(f"a{number}" for number in range(200)) + " b200"
    sought, rows = query(seq(atom("A", "a", "+"), atom("B", "b")), condition), events(text, range(201))
    assert len(found_by_operator(sought, rows)) == LIMITS[condition]


def test_under_the_other_strategies_a_list_that_grows_too_long_is_no_match() -> None:
    sought = query(seq(atom("A", "a", "+"), atom("B", "b")), "`count(a)` <= 2", strategy=Strategy.NEXT)
    assert answers(sought, events("a1 a2 a3 b4")) == ["[a2 a3] b4", "[a3] b4"]


def test_what_may_fall_again_limits_nothing() -> None:
    sought = query(seq(atom("A", "a", "+"), atom("B", "b")), "`sum(a.p)` <= 2")
    assert "[a1 a2 a3] b4" in answers(sought, events("a1 a2 a3 b4", [2, 5, -5, 0]))
