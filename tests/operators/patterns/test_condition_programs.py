"""Programs of the machine give what the evaluator of expressions gives, whatever events their values come from."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.columnar.codes import owned
from penstock.columnar.compiling import entrance
from penstock.expressions.evaluate import compile as compile_expression
from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import Call, Column, Expr, Literal, transform
from penstock.expressions.parse import parse
from penstock.expressions.typing import BOOL, DOUBLE, typed
from penstock.model.schema import Field, Schema
from penstock.operators.patterns._machine import holds, new_scratch
from penstock.operators.patterns.event_values import values_of
from penstock.operators.patterns.translation import NotTranslated, Read, Translation
from penstock.testing.expressions import COLUMNS, random_expression, random_rows

EVENTS = 3
SCOPE = Schema(tuple(Field(f"{event}.{item.name}", item.type) for event in range(EVENTS) for item in COLUMNS))


class ByEvent:
    """`1.price` is the price of the event in register 1."""

    def resolve(self, name: str) -> Read:
        return Read(int(name.split(".")[0]))

    def on_row(self, expr: Expr) -> Expr:
        return transform(expr, lambda column: replace(column, name=column.name.split(".")[1]))


@entrance
def _holds(programs: Any, registers: Any, values: Any, cells: Any, stack: Any) -> Any:  # pragma: no cover - compiled
    return holds(programs, 0, registers, values, cells, cells.view(np.float64), stack)


def outcome(condition: Expr, rows: pa.RecordBatch) -> bool:
    """Whether the machine finds the condition true; row k is event k."""
    translation = Translation(ByEvent(), COLUMNS)
    translation.translate(typed(condition, SCOPE))
    columns = [compile_expression(expr, COLUMNS)(rows) for expr in translation.derived]
    values = values_of(columns, rows.num_rows)
    return bool(_holds(translation.programs, owned(np.arange(EVENTS)), values, np.zeros(4, np.int64), new_scratch()))


def expected(condition: Expr, rows: pa.RecordBatch) -> bool:
    arrays = [rows.slice(event, 1).column(item.name) for event in range(EVENTS) for item in COLUMNS]
    return evaluate(condition, pa.RecordBatch.from_arrays(arrays, schema=SCOPE.arrow))[0].as_py() is True


def scattered(rng: random.Random, expr: Expr) -> Expr:
    """The expression with each column read of some event."""
    return transform(expr, lambda column: replace(column, name=f"{rng.randrange(EVENTS)}.{column.name}"))


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_random_conditions_agree_with_the_evaluator(depth: int) -> None:
    translated = 0
    for seed in range(120):
        rng = random.Random(f"{depth} {seed}")
        condition, rows = scattered(rng, random_expression(rng, BOOL, depth)), random_rows(rng, EVENTS)
        for test in (condition, Call("not", (condition,)), Call("is_null", (condition,))):
            try:
                found = outcome(test, rows)
            except NotTranslated:
                continue
            translated += 1
            assert found == expected(test, rows), f"{test} over {rows.to_pylist()}"
    assert translated > 180


FUNCTIONS = [
    "abs(`0.n` - `1.n`) > 3",
    "round(`0.d` * `1.d`, 2) = round(`2.d`, 2)",
    "floor(`0.d` + `1.d`) < ceil(`2.d` - `1.d`)",
    "greatest(`0.n`, `1.n`, `2.n`) = `1.n` AND least(`0.d`, `1.d`) <= `2.d`",
    "coalesce(`0.s`, `1.s`, 'nothing') = 'nothing' OR coalesce(`0.i`, `1.i`, 7) = `2.i`",
    "CASE WHEN `0.n` > `1.n` THEN 'more' WHEN `0.n` < `1.n` THEN `2.s` END IN ('more', 'ab')",
    "upper(coalesce(`0.s`, `1.s`)) = upper(`2.s`)",
    "length(greatest(`0.s`, `1.s`)) > length(`2.s`)",
    "substring(CASE WHEN `0.b` THEN `1.s` ELSE `2.s` END, 1, 1) = lower(`0.s`)",
    "coalesce(`0.s`, `1.s`) LIKE 'a%' OR isnan(`0.d` / `1.d`) OR sqrt(`0.d` * `1.d`) > 1 OR power(`0.d`, `1.d`) < 3",
    "CAST(`0.d` * `1.d` AS INT) = CAST(`2.n` + `1.n` AS SMALLINT) OR CAST(`0.n` - `1.n` AS BOOLEAN)",
    "greatest(`0.t`, `1.t`) - least(`0.t`, `2.t`) > 1000 OR CAST(greatest(`0.day`, `1.day`) AS TIMESTAMP) > `2.t`",
    "year(coalesce(`0.t`, `1.t`)) = year(`2.t`)",
]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_across_events_keep_the_logic_of_sql(text: str) -> None:
    condition = parse(text)
    truths = set()
    for seed in range(40):
        rows = random_rows(random.Random(seed), EVENTS, nulls=0.3)
        for test in (condition, Call("is_null", (condition,))):
            found = outcome(test, rows)
            truths.add(found)
            assert found == expected(test, rows), f"{test} over {rows.to_pylist()}"
    assert truths == {True, False}


@given(number=st.floats(allow_nan=False) | st.integers(0, 2**56).map(lambda n: n / 64), digits=st.integers(0, 15))
@example(2.675, 2)
@example(-2.5, 0)
@example(562949953421312.5, 0)
@example(70368744177664.25, 1)
@example(4503599627370.4971, 3)
@example(1e13, 15)
@settings(max_examples=150, deadline=None)
def test_numbers_are_rounded_as_the_evaluator_does(number: float, digits: int) -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array([number, 0.0, 0.0]) if item.type == DOUBLE else pa.nulls(EVENTS, item.type) for item in COLUMNS],
        schema=COLUMNS.arrow,
    )
    wanted = evaluate(Call("round", (Column("d"), Literal(digits, pa.int32()))), rows)[0].as_py()
    rounded = Call("round", (Call("+", (Column("0.d"), Column("1.d"))), Literal(digits, pa.int32())))
    assert math.isnan(wanted) or outcome(Call("=", (rounded, Literal(wanted, DOUBLE))), rows)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("concat(`0.s`, `1.s`) = 'ab'", "'concat.*' is computed of several events; .* Compute anything else of one event alone"),
        ("CAST(`0.n` + `1.n` AS STRING) = '3'", "is computed of several events"),
        (" OR ".join(f"(`0.n` + {n} = `1.n` + {n})" for n in range(70)), "more than 62 values of events; split the query"),
        (f"CASE {' '.join(['WHEN `0.n` = `1.n` THEN 1'] * 40)} END = 1", "more than 64 values at a time; use smaller conditions"),
    ],
)
def test_what_cannot_be_translated_says_what_to_do_and_leaves_no_trace(text: str, reason: str) -> None:
    translation = Translation(ByEvent(), COLUMNS)
    first = translation.translate(typed(parse("`0.n` < `1.n`"), SCOPE))
    with pytest.raises(NotTranslated, match=reason):
        translation.translate(typed(parse(text), SCOPE))
    assert (len(translation.derived), len(translation.programs.code)) == (1, 3)
    assert translation.translate(typed(parse("`0.n` > `1.n`"), SCOPE)) == first + 1
