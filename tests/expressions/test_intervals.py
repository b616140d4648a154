"""What predicates imply is never too narrow."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from penstock.expressions.evaluate import evaluate, mask
from penstock.expressions.intervals import EVERYTHING, NOTHING, Interval, bounds, can_be_true, implied
from penstock.expressions.nodes import Call, Column, Expr
from penstock.expressions.parse import parse
from penstock.expressions.typing import BOOL, NUMBERS
from penstock.testing.expression_reference import plain_rows, plain_values
from penstock.testing.expressions import batches, cases, random_literal

ends = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([math.inf, -math.inf, math.nan, 0.5, -0.0]))
intervals = st.builds(Interval, ends, ends, st.booleans(), st.booleans())
points = st.one_of(st.integers(-7, 7), st.sampled_from([math.inf, -math.inf, math.nan, 0.5, 0.25]))


def random_predicate(rng: random.Random, depth: int = 3) -> Expr:
    """Predicates of the kind reasoners see: columns against constants and simple arithmetic, joined by logic."""
    if depth and rng.random() < 0.6:
        op = rng.choice(("and", "or", "not"))
        return Call(op, tuple(random_predicate(rng, depth - 1) for _ in range(1 if op == "not" else 2)))
    names = ("tiny", "i", "n", "f", "d")
    column, other = (Column(rng.choice(names)) for _ in range(2))
    constant = random_literal(rng, rng.choice(NUMBERS))
    side = rng.choice([constant, other, Call(rng.choice("+-*"), (other, constant)), Call("neg", (other,))])
    match rng.choice(("compare", "compare", "in", "between", "is_null")):
        case "in":
            return Call("in", (column, constant, side))
        case "between":
            return Call("between", (column, constant, side))
        case "is_null":
            return Call("is_null", (column,))
    pair = (column, side) if rng.random() < 0.7 else (side, column)
    return Call(rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>")), pair)


predicates = st.randoms(use_true_random=False).map(random_predicate)
any_predicate = st.one_of(st.tuples(predicates, batches(25)), cases(BOOL, rows=25))


def known_of(rows: pa.RecordBatch) -> dict[str, Interval]:
    """The tightest intervals around the values of each column; open above where NaN occurs."""
    found = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        values = [value for value in plain_values(column) if value is not None]
        has_nan = any(isinstance(value, float) and math.isnan(value) for value in values)
        numbers = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
        if numbers:
            found[name] = Interval(min(numbers), None if has_nan else max(numbers))
        else:
            found[name] = Interval(math.inf) if has_nan else NOTHING
    return found


@settings(max_examples=200, deadline=None)
@given(case=any_predicate)
def test_rows_that_satisfy_a_predicate_lie_in_the_intervals_it_implies(case):
    expr, rows = case
    note(str(expr))
    restriction = implied(expr)
    for row, selected in zip(plain_rows(rows), mask(expr, rows).tolist(), strict=True):
        if selected:
            assert {name for name, interval in restriction.items() if not interval.contains(row[name])} == set()


@settings(max_examples=200, deadline=None)
@given(case=any_predicate)
def test_a_predicate_that_is_true_for_some_row_can_be_true(case):
    expr, rows = case
    note(str(expr))
    if mask(expr, rows).any():
        assert can_be_true(expr, known_of(rows))


@settings(max_examples=150, deadline=None)
@given(case=st.sampled_from(NUMBERS).flatmap(cases))
def test_values_lie_within_bounds(case):
    expr, rows = case
    note(str(expr))
    interval = bounds(expr, known_of(rows))
    assert all(value is None or interval.contains(value) for value in plain_values(evaluate(expr, rows)))


@given(one=intervals, other=intervals, value=points)
def test_intersection_and_hull_contain_what_they_must(one, other, value):
    assert one.intersect(other).contains(value) == (one.contains(value) and other.contains(value))
    if one.contains(value) or other.contains(value):
        assert one.hull(other).contains(value)
    if one.is_empty:
        assert not one.contains(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 5", {"a": "(5, ∞)"}),
        ("5 > a", {"a": "(-∞, 5)"}),
        ("a BETWEEN 1 AND 3", {"a": "[1, 3]"}),
        ("a NOT BETWEEN 1 AND 3", {}),
        ("a IN (4, 1, 9)", {"a": "[1, 9]"}),
        ("a > 1 AND a <= 7 AND b = 'x'", {"a": "(1, 7]", "b": "[x, x]"}),
        ("a < 1 OR a = 4", {"a": "(-∞, 4]"}),
        ("a < 1 OR b < 1", {}),
        ("(a > 5 AND a < 3) OR a = 9", {"a": "[9, 9]"}),
        ("NOT (a < 1 OR a > 4)", {"a": "[1, 4]"}),
        ("a > 5 AND a < 3", {"a": "∅"}),
        ("a = NULL", {"a": "∅"}),
        ("a <=> NULL", {}),
        ("a <=> 4", {"a": "[4, 4]"}),
        ("a <=> 4 + CAST(NULL AS INT)", {}),
        ("a IS NULL OR a > 3", {}),
        ("a <> 3", {}),
        ("a > 2 + 3", {"a": "(5, ∞)"}),
        ("b", {"b": "[True, True]"}),
        ("NOT b", {"b": "[False, False]"}),
    ],
)
def test_predicates_imply(text, expected):
    assert {name: str(interval) for name, interval in implied(parse(text)).items()} == expected


def test_a_timestamp_compares_in_microseconds():
    assert implied(parse("t >= TIMESTAMP '1970-01-01 00:01:00'")) == {"t": Interval(60_000_000)}


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("a < b", False),
        ("a = b", True),
        ("a - b >= 0", True),
        ("a + b < 6", False),
        ("a < 0 OR b > 3", True),
        ("a < 0 OR b > 9", False),
        ("NOT a >= b", False),
        ("a IN (1, 2)", False),
        ("c IS NULL", True),
        ("FALSE", False),
        ("c > 1 AND NULL", False),
        ("c = 1", True),
    ],
)
def test_predicates_are_refuted_by_what_is_known(text, possible):
    assert can_be_true(parse(text), {"a": Interval(5, 9), "b": Interval(1, 5)}) is possible


def test_everything_contains_nan_and_nothing_contains_null():
    assert EVERYTHING.contains(math.nan)
    assert not EVERYTHING.contains(None)
    assert not Interval(hi=math.inf).contains(math.nan)
