"""Text to expression: what is read, where mistakes are found, and that text written is text read."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, note, settings

from penstock.errors import SyntaxMistake
from penstock.expressions.aggregates import AggregateCall
from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import Call, Column, Literal
from penstock.expressions.parse import from_sqlglot, parse, split_aggregates
from penstock.model.schema import TIMESTAMP
from penstock.testing.expression_reference import plain_values, same
from penstock.testing.expressions import cases


def sql(text: str) -> sqlglot.exp.Expr:
    return sqlglot.parse_one(text, read="spark")


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_the_text_of_an_expression_reads_back_with_the_same_meaning(case):
    expr, rows = case
    note(str(expr))
    again = parse(str(expr))
    # Constants are folded while reading, so the second text is the one that stays.
    assert parse(str(again)) == again
    pairs = zip(plain_values(evaluate(again, rows)), plain_values(evaluate(expr, rows)), strict=True)
    assert all(same(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a.x == 3", "a.x = 3"),
        ("a != b", "a <> b"),
        ("(a + b) * c - d", "(a + b) * c - d"),
        ("a - (b - c)", "a - (b - c)"),
        ("NOT (a AND b) OR c", "NOT (a AND b) OR c"),
        ("a AND b AND c", "a AND b AND c"),
        ("x IS NOT NULL", "x IS NOT NULL"),
        ("isnotnull(x)", "x IS NOT NULL"),
        ("x IS TRUE", "x <=> TRUE"),
        ("x IS DISTINCT FROM y", "NOT x <=> y"),
        ("x NOT IN (1, 2)", "NOT x IN (1, 2)"),
        ("x NOT LIKE 'a%'", "NOT x LIKE 'a%'"),
        ("x NOT BETWEEN 1 AND 2", "NOT x BETWEEN 1 AND 2"),
        ("if(a, 1, 2)", "CASE WHEN a THEN 1 ELSE 2 END"),
        ("CASE x WHEN 1 THEN 'a' END", "CASE WHEN x = 1 THEN 'a' END"),
        ("nullif(a, b)", "CASE WHEN a = b THEN NULL ELSE a END"),
        ("nvl(a, 0)", "coalesce(a, 0)"),
        ("a || 'x'", "concat(a, 'x')"),
        ("mod(a, 2)", "a % 2"),
        ("extract(HOUR FROM t)", "hour(t)"),
        ("`odd name` + 1", "`odd name` + 1"),
        ("x::bigint", "CAST(x AS BIGINT)"),
        ("date_trunc('HOUR', t)", "date_trunc('hour', t)"),
        ("year(t)", "year(t)"),
        ("-x", "-x"),
    ],
)
def test_sparks_spellings_are_read(text, written):
    assert str(parse(text)) == written


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("5", 5, pa.int32()),
        ("-2147483648", -(2**31), pa.int32()),
        ("2147483648", 2**31, pa.int64()),
        ("-9223372036854775808", -(2**63), pa.int64()),
        ("5L", 5, pa.int64()),
        ("1.5", 1.5, pa.float64()),
        ("1e3", 1000.0, pa.float64()),
        ("'it\\'s'", "it's", pa.string()),
        ("TRUE", True, pa.bool_()),
        ("NULL", None, pa.null()),
        ("DATE '2020-02-29'", dt.date(2020, 2, 29), pa.date32()),
        ("TIMESTAMP '1970-01-01 00:00:01'", 1_000_000, TIMESTAMP),
        ("TIMESTAMP '1970-01-01T01:00:00+01:00'", 0, TIMESTAMP),
        ("INTERVAL 5 MINUTES", 300_000_000, pa.int64()),
        ("INTERVAL '1' DAY", 86_400_000_000, pa.int64()),
        ("INTERVAL '1 hour 2 minutes'", 3_720_000_000, pa.int64()),
        ("INTERVAL '0.5' SECONDS", 500_000, pa.int64()),
    ],
)
def test_constants_have_the_value_and_type_they_are_written_with(text, value, kind):
    assert parse(text) == Literal(value, kind)


def test_columns_know_their_place_in_the_text():
    expr = parse("a > 1 AND\n  C_SPEED < 20", "query 'slow'")
    assert isinstance(expr, Call)
    place = expr.args[1].place
    assert place is not None
    assert str(place) == "query 'slow', line 2, column 3\n    C_SPEED < 20\n    ^^^^^^^"


def test_places_do_not_make_expressions_different():
    assert parse("a + 1") == parse("a   +   1") == Call("+", (Column("a"), Literal(1, pa.int32())))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lenght(s) > 1", "there is no function 'lenght'.*Did you mean 'length'"),
        ("a & b", "'a & b' is not available here"),
        ("(SELECT 1)", "a select inside an expression is not available"),
        ("x IN (SELECT y FROM z)", "IN \\(SELECT …\\) is not available: write LEFT SEMI JOIN"),
        ("sum(a) > 3", "aggregate 'sum\\(a\\)' cannot stand here"),
        ("INTERVAL 1 MONTH", "INTERVAL with microseconds"),
        ("99999999999999999999", "does not fit a bigint"),
        ("CAST(x AS money)", "Expected TYPE after CAST at 'money'"),
        ("CAST(x AS decimal(5, 2))", "DECIMAL is not available: numbers with a point are DOUBLE"),
        ("count(a, b) > 3", "'count' takes one argument"),
        ("TIMESTAMP 'yesterday'", "is no timestamp"),
        ("a +", "line 1"),
        ("a xor b", "at 'xor'"),
        ("'open", "the expression"),
    ],
)
def test_mistakes_say_what_was_found_and_what_is_supported(text, message):
    with pytest.raises(SyntaxMistake, match=message) as caught:
        parse(text)
    assert caught.value.place is not None


def test_a_mistake_points_at_the_word():
    with pytest.raises(SyntaxMistake) as caught:
        parse("price > 3 AND foo(x) = 2", "query 'q'")
    assert "query 'q', line 1, column 15\n    price > 3 AND foo(x) = 2\n                  ^^^" in str(caught.value)


def test_trees_of_sqlglot_are_read_without_their_text():
    assert from_sqlglot(sql("a + 1")) == parse("a + 1")


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("count(*)", AggregateCall("count")),
        ("COUNT(1)", AggregateCall("count")),
        ("count(a)", AggregateCall("count", Column("a"))),
        ("count(DISTINCT a)", AggregateCall("count", Column("a"), True)),
        ("stddev_samp(a)", AggregateCall("stddev", Column("a"))),
        ("variance(a)", AggregateCall("var_samp", Column("a"))),
        ("mean(a)", AggregateCall("avg", Column("a"))),
        ("max(DISTINCT a)", AggregateCall("max", Column("a"))),
        ("sum(a) FILTER (WHERE b)", AggregateCall("sum", Call("case", (Column("b"), Column("a"))))),
        ("count_if(b)", AggregateCall("count", Call("case", (Column("b"), Literal(1, pa.int32()))))),
    ],
)
def test_aggregates_are_read_by_all_their_names(text, call):
    assert split_aggregates(sql(text))[1] == [call]


@pytest.mark.parametrize("text", ["sum(DISTINCT a)", "count(DISTINCT a, b)", "sum(max(a))"])
def test_what_is_no_supported_aggregate_is_refused(text):
    with pytest.raises(SyntaxMistake):
        split_aggregates(sql(text))


def test_equal_aggregates_are_computed_once():
    expr, calls = split_aggregates(sql("sum(price) / count(*) + sum(price)"))
    assert str(expr) == "`sum(price)` / `count(*)` + `sum(price)`"
    assert [call.name for call in calls] == ["sum(price)", "count(*)"]


def test_having_reuses_the_aggregates_of_the_select_list():
    known = [AggregateCall("count", name="bids")]
    expr, calls = split_aggregates(sql("count(*) > 3 AND max(price) > 10"), known)
    assert str(expr) == "bids > 3 AND `max(price)` > 10"
    assert [call.name for call in calls] == ["bids", "max(price)"]


def test_aggregates_that_differ_only_in_the_case_of_a_text_get_two_names():
    _, calls = split_aggregates(sql("count_if(s = 'A') + count_if(s = 'a')"))
    assert len({call.name.lower() for call in calls}) == 2
