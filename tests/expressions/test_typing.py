"""Types of expressions and the messages of mistakes."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidPlan, TypeMistake, UnknownColumn
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.nodes import Column, Literal, columns_of, conjoin, conjuncts, rename, substitute
from penstock.expressions.parse import parse
from penstock.expressions.spark_sql import spark_sql
from penstock.expressions.typing import type_of
from penstock.model.schema import TIMESTAMP
from penstock.testing.expressions import COLUMNS, cases


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i + n", pa.int64()),
        ("tiny + tiny", pa.int8()),
        ("tiny * small", pa.int16()),
        ("i / i", pa.float64()),
        ("n DIV tiny", pa.int64()),
        ("f + f", pa.float32()),
        ("f + i", pa.float64()),
        ("f * d", pa.float64()),
        ("i + NULL", pa.int32()),
        ("-f", pa.float32()),
        ("ceil(d)", pa.int64()),
        ("round(f, 1)", pa.float32()),
        ("t + INTERVAL 1 DAY", TIMESTAMP),
        ("t - t", pa.int64()),
        ("hour(t)", pa.int32()),
        ("year(day)", pa.int32()),
        ("CASE WHEN b THEN i ELSE n END", pa.int64()),
        ("coalesce(NULL, s)", pa.string()),
        ("i = d", pa.bool_()),
        ("NULL", pa.null()),
        ("length(s)", pa.int32()),
    ],
)
def test_types_follow_spark(text, kind):
    assert type_of(parse(text), COLUMNS) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s = 1", "given string, int in 's = 1'; these cannot be compared"),
        ("s + 1", "it takes numbers"),
        ("i AND b", "it takes conditions"),
        ("NOT i", "it takes conditions"),
        ("t > '2020-01-01'", "write TIMESTAMP"),
        ("day = '2020-01-01'", "write DATE"),
        ("day < t", "cannot be compared"),
        ("t + 5", "an INTERVAL or a bigint of microseconds"),
        ("t * 2L", "an INTERVAL"),
        ("day + 1", "cast the date to timestamp"),
        ("d DIV 2", "it takes integers"),
        ("CASE WHEN i THEN 1 END", "WHEN takes conditions"),
        ("CASE WHEN b THEN 1 ELSE 's' END", "must have one type"),
        ("s LIKE s", "must be a constant text"),
        ("substring(s, i)", "must be a constant integer"),
        ("round(d, 99)", "0 to 15 digits"),
        ("CAST(s AS TIMESTAMP)", "a string cannot be cast to timestamp"),
        ("CAST(d AS STRING)", "cannot be cast"),
        ("date_trunc('century', t)", "knows second"),
        ("concat(s, i)", "cast the others to string"),
        ("hour(day)", "it takes a timestamp"),
        ("i IN (1, 'a')", "cannot be compared"),
    ],
)
def test_mistakes_name_the_types_found_and_say_what_to_do(text, message):
    with pytest.raises(TypeMistake, match=message) as caught:
        type_of(parse(text), COLUMNS)
    assert caught.value.place is not None


def test_an_unknown_column_is_named_with_its_place_and_the_nearest():
    with pytest.raises(UnknownColumn, match="Did you mean 'small'") as caught:
        type_of(parse("i > 0 AND smal < 3"), COLUMNS.named("stream 'cars'"))
    assert "line 1, column 11" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (AggregateCall("count"), pa.int64()),
        (AggregateCall("count", Column("s"), True), pa.int64()),
        (AggregateCall("sum", Column("tiny")), pa.int64()),
        (AggregateCall("sum", Column("f")), pa.float64()),
        (AggregateCall("avg", Column("i")), pa.float64()),
        (AggregateCall("stddev", Column("i")), pa.float64()),
        (AggregateCall("min", Column("t")), TIMESTAMP),
        (AggregateCall("max", Column("s")), pa.string()),
    ],
)
def test_aggregates_have_sparks_types(call, kind):
    assert result_type(call, COLUMNS) == kind


def test_aggregates_that_mean_nothing_are_refused():
    with pytest.raises(TypeMistake, match=r"'sum\(s\)' takes numbers, not string"):
        result_type(AggregateCall("sum", Column("s")), COLUMNS)
    with pytest.raises(InvalidPlan, match="there is no aggregate 'median'"):
        AggregateCall("median", Column("i"))
    with pytest.raises(InvalidPlan, match="needs an argument"):
        AggregateCall("sum")
    with pytest.raises(InvalidPlan, match="DISTINCT"):
        AggregateCall("sum", Column("i"), True)


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_expressions_survive_pickling_and_hash_alike(case):
    expr, _ = case
    again = pickle.loads(pickle.dumps(expr))
    assert again == expr
    assert hash(again) == hash(expr)


def test_helpers_take_expressions_apart_and_put_them_together():
    expr = parse("a > 1 AND (b < 2 AND c) AND (d OR a)")
    assert [str(part) for part in conjuncts(expr)] == ["a > 1", "b < 2", "c", "d OR a"]
    assert conjuncts(conjoin([])) == []
    assert columns_of(conjoin(conjuncts(expr)[:2])) == {"a", "b"}
    assert str(rename(expr, {"a": "l.a"})) == "l.a > 1 AND (b < 2 AND c) AND (d OR l.a)"
    assert str(substitute(parse("x * 2"), {"x": parse("a + b")})) == "(a + b) * 2"


def test_spark_text_is_independent_of_session_settings():
    text = spark_sql(parse("i + n > 2.5 OR CAST(s AS INT) = tiny / 3"), COLUMNS)
    assert text == (
        "((CAST(try_add(CAST(`i` AS BIGINT), `n`) AS DOUBLE) > 2.5D) OR "
        "(CAST(try_cast(`s` AS INT) AS DOUBLE) = try_divide(CAST(`tiny` AS DOUBLE), 3.0D)))"
    )


def test_spark_text_writes_constants_of_exactly_their_type():
    constants = [Literal(-1, pa.int8()), Literal(0.1, pa.float32()), Literal("it's", pa.string()), Literal(-0.0, pa.float64())]
    assert [spark_sql(constant) for constant in constants] == ["(-1Y)", "float('0.1')", "'it\\'s'", "(-0.0D)"]
    assert spark_sql(Column("a`b")) == "`a``b`"
