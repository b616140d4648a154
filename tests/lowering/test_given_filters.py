"""Conditions handed over by a program: text, functions and filters side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import InvalidConfiguration, SyntaxMistake, UnknownColumn
from penstock.lowering.given_filters import Given, filtered_by
from penstock.lowering.stages import build_job
from penstock.model.declarations import Source, StreamDeclaration
from penstock.model.order_hints import OrderHint
from penstock.model.schema import Schema
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.predicates import OnArrow, OnPandas, OnRows
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.describe import tree
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Scan
from penstock.runners.local.runner import LocalRunner

STREAM = StreamDeclaration("input", Schema.of(k=pa.int64(), Text=pa.string(), ts=pa.int64()), Source(""), "ts")
SHARDED = OrderHint((("mode", "shard"), ("probability", 1.0), ("min_fill", 5)))


def is_even(k: pd.Series) -> pd.Series:
    return k % 2 == 0


def plan(*given: Given) -> Node:
    return filtered_by(Scan(STREAM), given, SHARDED)


def kept(*given: Given) -> list[int]:
    catalog = Catalog()
    catalog.add_stream(STREAM)
    catalog.add_query(ContinuousQuery("answer", plan(*given)))
    runner = LocalRunner(build_job(catalog, 2))
    k = np.arange(100)
    texts = pa.array([f"{number % 7}x" for number in k])
    runner.run({"input": pa.RecordBatch.from_arrays([pa.array(k), texts, pa.array(k)], ["k", "Text", "ts"])})
    runner.end()
    return sorted(row["k"] for row in runner.collected.rows("answer"))


def test_text_functions_and_filters_together_give_their_conjunction() -> None:
    short = Filter("short", OnArrow(lambda text: pc.less(pc.utf8_length(text), 3), ("Text",)), 1e-6)
    small = Filter("small", OnRows(lambda k: k < 60, ("k",)), 1e-5, after=("short",))
    whole = Filter("whole", OnArrow(lambda rows: pc.greater(rows.column("k"), 3)))
    series = Filter("series", OnPandas(lambda k: k > 5, ("k",)), profilable=False)
    found = kept("k <> 30", "text RLIKE '[0-4]'", is_even, lambda Text: Text != "3x", short, small, whole, series)  # noqa: N803
    expected = [k for k in range(6, 60) if k % 2 == 0 and k != 30 and k % 7 in (0, 1, 2, 4)]
    assert found == expected


def test_comparisons_are_left_to_catalyst_unless_they_come_after_something() -> None:
    from penstock.expressions.parse import parse
    from penstock.operators.filtering.predicates import ExpressionPredicate

    late = Filter("late", ExpressionPredicate.of(parse("k < 9"), STREAM.schema.arrow), after=("is_even",))
    assert tree(plan("k > 3 AND k < 90", is_even, late, "Text LIKE '%x%'")).splitlines() == [
        "AdaptiveFilter is_even(k) AND k < 9 AND Text LIKE '%x%'",
        "  . late after is_even",
        "  Select k > 3 AND k < 90",
        "    Scan input",
    ]
    assert tree(plan("k > 3", Filter("f", OnRows(bool, ("k",)), after=("k > 3",)))).splitlines()[0] == "AdaptiveFilter f(k)"
    assert tree(plan("k > 3")).splitlines() == ["Select k > 3", "  Scan input"]
    assert plan() == Scan(STREAM)


def test_circles_of_guards_and_names_that_stand_twice_are_refused_when_planned() -> None:
    one, other = Filter("one", OnRows(bool, ("k",)), after=("other",)), Filter("other", OnRows(bool, ("k",)), after=("one",))
    with pytest.raises(InvalidConfiguration, match="in a circle"):
        kept(one, other)
    with pytest.raises(InvalidConfiguration, match="be different"):
        kept(is_even, is_even)
    with pytest.raises(InvalidConfiguration, match="comes after 'nobody'"):
        kept(is_even, Filter("late", OnRows(bool, ("k",)), after=("nobody",)))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([3], InvalidConfiguration, "condition 1 is a int; give SQL text"),
        ("k > 3", InvalidConfiguration, "give a list of them"),
        (["k + 1"], InvalidConfiguration, "not a condition"),
        (["k >"], SyntaxMistake, "language.syntax"),
        (["z > 3"], UnknownColumn, "no column 'z'"),
        ([lambda z: z], UnknownColumn, "no column 'z'"),
        ([lambda: True], InvalidConfiguration, "reads no column"),
    ],
)
def test_what_is_no_condition_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("+", r"\+")):
        filtered_by(Scan(STREAM), given, None)
