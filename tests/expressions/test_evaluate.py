"""The vectorised evaluator against the slow one, and Spark's corner cases by name."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings

from penstock.errors import FunctionFailed, SyntaxMistake, TypeMistake
from penstock.expressions.evaluate import compile, evaluate, mask
from penstock.expressions.nodes import TRUE, Column
from penstock.expressions.parse import parse
from penstock.expressions.typing import BOOL, type_of
from penstock.expressions.user_functions import FunctionKind, UserFunction
from penstock.model.schema import TIMESTAMP, Schema
from penstock.testing.expression_reference import evaluate_slowly, plain_values, same
from penstock.testing.expressions import COLUMNS, cases


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def values(text: str, **columns: pa.Array) -> list[object]:
    return plain_values(evaluate(parse(text), batch(**columns)))


@settings(max_examples=250, deadline=None)
@given(case=cases())
def test_every_expression_has_the_value_of_the_slow_evaluator(case):
    expr, rows = case
    note(str(expr))
    fast, slow = evaluate(expr, rows), evaluate_slowly(expr, rows)
    assert fast.type == type_of(expr, COLUMNS)
    different = [(a, b) for a, b in zip(plain_values(fast), slow, strict=True) if not same(a, b)]
    assert not different, str(expr)


@settings(max_examples=40, deadline=None)
@given(case=cases(BOOL))
def test_a_mask_selects_exactly_the_rows_that_are_true(case):
    expr, rows = case
    assert mask(expr, rows).tolist() == [value is True for value in evaluate_slowly(expr, rows)]


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_a_compiled_expression_survives_pickling_and_any_slicing(case):
    expr, rows = case
    compiled = pickle.loads(pickle.dumps(compile(expr, COLUMNS)))
    pieces = [compiled(rows.slice(start, 1)) for start in range(rows.num_rows)]
    together = [value for piece in pieces for value in plain_values(piece)]
    assert all(same(a, b) for a, b in zip(together, plain_values(compiled(rows)), strict=True))


def test_division_is_in_double_and_null_by_zero():
    assert values("a / b", a=pa.array([7, 7, None]), b=pa.array([2, 0, 1])) == [3.5, None, None]


def test_remainder_has_the_sign_of_the_dividend():
    assert values("a % 3", a=pa.array([-7, 7, -(2**63)])) == [-1, 1, -2]


def test_integer_overflow_is_null_and_leaves_other_rows_alone():
    numbers = pa.array([2**63 - 1, 1, None, -(2**63)])
    assert values("a + 1", a=numbers) == [None, 2, None, -(2**63) + 1]
    assert values("a * 2", a=numbers) == [None, 2, None, None]
    assert values("-a", a=numbers) == [-(2**63) + 1, -1, None, None]
    assert values("abs(a)", a=numbers) == [2**63 - 1, 1, None, None]


def test_nan_equals_itself_and_is_greater_than_infinity():
    numbers = pa.array([math.nan, math.inf, -0.0])
    assert values("a = a", a=numbers) == [True, True, True]
    assert values("a > CAST('inf' AS DOUBLE)", a=numbers) == [True, False, False]
    assert values("a < CAST('nan' AS DOUBLE)", a=numbers) == [False, True, True]
    assert values("a IN (0.0)", a=numbers) == [False, False, True]
    assert values("greatest(a, 1.0)", a=numbers)[1:] == [math.inf, 1.0]


def test_null_logic_is_kleenes():
    conditions = pa.array([True, False, None])
    assert values("a AND NULL", a=conditions) == [None, False, None]
    assert values("a OR NULL", a=conditions) == [True, None, None]
    assert values("a <=> NULL", a=conditions) == [False, False, True]
    assert values("NOT a", a=conditions) == [False, True, None]


def test_rounding_is_half_up_in_the_digits_a_number_is_written_with():
    numbers = pa.array([2.675, 1.005, -2.5, 0.125, 4503599627370.4971])
    assert values("round(a, 2)", a=numbers) == [2.68, 1.01, -2.5, 0.13, 4503599627370.5]
    assert values("round(a)", a=numbers) == [3.0, 1.0, -3.0, 0.0, 4503599627370.0]


def test_zero_that_is_left_by_rounding_has_no_sign():
    rounded = values("round(a, 1)", a=pa.array([-0.0, -0.04, 0.04]))
    assert [math.copysign(1, number) for number in rounded] == [1, 1, 1]


def test_a_root_written_as_a_power_is_a_power():
    assert values("power(a, 0.5)", a=pa.array([-math.inf, 4.0])) == [math.inf, 2.0]


def test_casts_of_bad_text_are_null():
    texts = pa.array([" 12 ", "0x1F", "1.5", "", "99999999999", None])
    assert values("CAST(a AS INT)", a=texts) == [12, None, None, None, None, None]
    assert values("CAST(a AS DOUBLE)", a=texts) == [12.0, None, 1.5, None, 99999999999.0, None]


def test_powers_follow_java():
    assert math.isnan(values("power(a, CAST('nan' AS DOUBLE))", a=pa.array([1.0]))[0])
    assert values("power(a, 3)", a=pa.array([2, None])) == [8.0, None]


def test_intervals_move_timestamps_and_differences_are_microseconds():
    moments = pa.array([0, 1_000_000], TIMESTAMP)
    assert values("t + INTERVAL 5 MINUTES", t=moments) == [300_000_000, 301_000_000]
    assert values("t - TIMESTAMP '1970-01-01' >= INTERVAL '1' SECOND", t=moments) == [False, True]


def test_the_calendar_reaches_as_far_as_timestamps_and_dates():
    moments = pa.array([-(2**63), 2**63 - 1, 253_402_300_800_000_000, -62_167_219_200_000_001], TIMESTAMP)
    assert values("year(t)", t=moments) == [-290308, 294247, 10000, -1]
    assert values("month(t)", t=moments) == [12, 1, 1, 12]
    assert values("hour(t)", t=moments) == [19, 4, 0, 23]
    assert values("CAST(t AS BIGINT)", t=moments) == [-9_223_372_036_855, 9_223_372_036_854, 253_402_300_800, -62_167_219_201]
    assert values("CAST(CAST(t AS DATE) AS STRING)", t=moments) == ["-290308-12-21", "+294247-01-10", "+10000-01-01", "-0001-12-31"]


def test_what_would_begin_before_the_first_timestamp_is_null():
    moments = pa.array([-(2**63), 0], TIMESTAMP)
    for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year"):
        assert values(f"date_trunc('{unit}', t)", t=moments)[0] is None
    days = pa.array([106_751_991, 106_751_992, -106_751_991, -106_751_992], pa.int32()).cast(pa.date32())
    assert [value is None for value in values("CAST(d AS TIMESTAMP)", d=days)] == [False, True, False, True]


def test_a_substring_from_the_smallest_start_ends_before_the_last_character():
    assert values("substring(a, -2147483648)", a=pa.array(["abc", ""])) == ["ab", ""]


@pytest.mark.parametrize("pattern", ["%\\\\\\\\", "\\\\\\\\%", "%\\\\\\\\%", "_\\\\\\\\", "\\\\\\\\"])
def test_like_finds_an_escaped_backslash_wherever_it_stands(pattern):
    found = values(f"a LIKE '{pattern}'", a=pa.array(["\\", "x\\", "x", ""]))
    assert found == [pattern[0] != "_", pattern[0] in "%_", False, False]


def test_casing_outside_ascii_may_lengthen_a_text():
    assert values("upper(a)", a=pa.array(["straße", "abc", None])) == ["STRASSE", "ABC", None]


def test_constants_have_a_value_in_every_row_and_in_none():
    rows = batch(a=pa.array([1, 2]))
    assert evaluate(parse("1 + 2 * 3"), rows).to_pylist() == [7, 7]
    assert evaluate(parse("NULL"), rows.slice(0, 0)).to_pylist() == []
    assert mask(TRUE, rows).tolist() == [True, True]


def test_columns_are_found_without_case():
    assert values("PRICE + 1", price=pa.array([1])) == [2]


def test_a_function_sees_only_rows_that_meet_what_is_written_before_it():
    inverse = UserFunction("inverse", (("x", pa.int64()),), pa.float64(), "inverse", FunctionKind.ROWS, body=lambda x: 1 / x)
    rows = batch(a=pa.array([0, 1, None, 5]), b=pa.array([1, 1, 1, 1]))
    functions = {"inverse": inverse}
    assert mask(parse("a <> 0 AND inverse(a) > 0.5 AND b = 1", functions=functions), rows).tolist() == [False, True, False, False]
    with pytest.raises(FunctionFailed):
        mask(parse("inverse(a) > 0.5 AND a <> 0", functions=functions), rows)


def test_a_number_is_no_condition():
    with pytest.raises(TypeMistake, match="not a condition"):
        mask(Column("a"), batch(a=pa.array([1])))


@pytest.mark.parametrize("text", ["s LIKE 'a\\\\x'", "s RLIKE '('"])
def test_patterns_that_mean_nothing_are_refused_when_compiled(text):
    with pytest.raises(SyntaxMistake):
        compile(parse(text), Schema.of(s=pa.string()))


def test_input_is_not_modified():
    numbers = pa.array(np.arange(5))
    values("a + 1", a=numbers)
    assert numbers.to_pylist() == [0, 1, 2, 3, 4]
