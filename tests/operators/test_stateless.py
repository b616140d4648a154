"""Select, project, union and split: rows as in the reference, punctuations by their rules."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from penstock.expressions.nodes import Column, Expr
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.elements import Heartbeat, Herald, Quarantined, Request, Routed
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import Pattern, between, constant
from penstock.operators.project import Project
from penstock.operators.select import GroupFilter, Select
from penstock.operators.split import Split
from penstock.operators.union import Union
from penstock.testing import reference
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, rows_of

SCHEMA = pa.schema({"item": pa.int64(), "bidder": pa.int64(), "price": pa.float64()})
OUTPUT = pa.schema({"thing": pa.int64(), "double": pa.float64()})

rows = st.lists(
    st.tuples(
        st.integers(0, 9), st.sampled_from([1, 2, 3, None]), st.sampled_from([1, 5, None]), st.sampled_from([0.5, 2.0, None])
    ),
    max_size=10,
).map(lambda found: [Row(ts, pos, {"item": i, "bidder": b, "price": p}) for pos, (ts, i, b, p) in enumerate(found)])


def mark(**patterns: Pattern) -> Punctuation:
    return Punctuation.of(SCHEMA.names, 0, 0, **patterns)


def texts(elements: Any) -> list[str]:
    return [str(element) for element in elements]


def outcome(found: list[Row]) -> list[Any]:
    return bag((tuple(map(reference.comparable, row.values.values())), row.ts) for row in found)


@given(found=rows)
@settings(max_examples=50, deadline=None)
def test_select_keeps_the_rows_whose_condition_is_true(found: list[Row]) -> None:
    def holds(row: Any) -> bool | None:
        if row["item"] is not None and row["item"] > 1:
            return True
        if row["price"] is not None and row["price"] < 1:
            return True
        return None if row["item"] is None or row["price"] is None else False

    for kind in (Select, GroupFilter):
        out = kind(SCHEMA, parse("item > 1 OR price < 1")).on_batch(0, batch_of(found, SCHEMA))
        assert bag(rows_of(out)) == outcome(reference.select(found, holds))


@given(found=rows)
@settings(max_examples=50, deadline=None)
def test_project_computes_named_expressions_and_keeps_time_and_position(found: list[Row]) -> None:
    items: list[tuple[str, Expr]] = [("thing", Column("item")), ("double", parse("price * 2"))]
    batch = batch_of(found, SCHEMA)
    out = Project(SCHEMA, items, OUTPUT).on_batch(0, batch)
    wanted = {"thing": lambda row: row["item"], "double": lambda row: None if row["price"] is None else row["price"] * 2}
    assert bag(rows_of(out)) == outcome(reference.project(found, wanted))
    assert [position for part in out if isinstance(part, Batch) for position in part.pos.tolist()] == batch.pos.tolist()


def test_every_punctuation_passes_a_select_unchanged() -> None:
    select = Select(SCHEMA, parse("price > 3"))
    for found in (mark(item=constant(180)), mark(item=constant(180), bidder=constant(5)), mark(price=between(1.0, 2.0))):
        assert select.on_metadata(0, found) == (found,)


def test_g29_a_projected_punctuation_must_say_nothing_about_removed_attributes() -> None:
    project = Project(SCHEMA, [("thing", Column("item")), ("double", parse("price * 2"))], OUTPUT)
    assert texts(project.on_metadata(0, mark(item=constant(180)))) == ["⟨thing=180, double=*⟩"]
    assert project.on_metadata(0, mark(item=constant(180), bidder=constant(5))) == ()
    assert project.on_metadata(0, mark(price=constant(2.0))) == ()  # only used inside an expression
    assert texts(project.on_metadata(0, mark())) == ["⟨thing=*, double=*⟩"]


def test_a_column_kept_twice_is_closed_under_its_first_name() -> None:
    twice = pa.schema({"a": pa.int64(), "b": pa.int64()})
    project = Project(SCHEMA, [("a", Column("item")), ("b", Column("item"))], twice)
    assert texts(project.on_metadata(0, mark(item=constant(7)))) == ["⟨a=7, b=*⟩"]


def test_g29_a_union_announces_what_all_inputs_have_announced() -> None:
    union = Union(2, pa.schema({"item": pa.int64()}))

    def one(pattern: Pattern) -> Punctuation:
        return Punctuation(("item",), (pattern,))

    assert union.on_metadata(0, one(constant(5))) == ()
    assert texts(union.on_metadata(1, one(between(1, 9)))) == ["⟨item=5⟩"]
    assert texts(union.on_metadata(0, one(between(4, 20)))) == ["⟨item=[4,9]⟩"]


def test_a_union_promises_the_least_of_its_frontiers_once() -> None:
    union = Union(2, SCHEMA)
    assert union.on_metadata(0, Heartbeat(5)) == ()
    assert union.on_metadata(1, Heartbeat(3)) == (Heartbeat(3),)
    assert union.on_metadata(1, Heartbeat(4)) == (Heartbeat(4),)
    assert union.on_metadata(0, Heartbeat(9)) == ()


@given(left=rows, right=rows)
@settings(max_examples=30, deadline=None)
def test_a_union_passes_all_rows_under_the_first_names(left: list[Row], right: list[Row]) -> None:
    names = ("a", "b", "c")
    schema = pa.schema({name: item.type for name, item in zip(names, SCHEMA, strict=True)})
    union = Union(2, schema)
    out = [*union.on_batch(0, batch_of(left, SCHEMA)), *union.on_batch(1, batch_of(right, SCHEMA))]
    assert bag(rows_of(out)) == outcome(reference.union([left, right], names))
    assert all(part.schema.names == list(names) for part in out if isinstance(part, Batch))


@given(found=rows)
@settings(max_examples=30, deadline=None)
def test_a_split_sends_a_row_to_every_output_whose_condition_holds(found: list[Row]) -> None:
    branches = [("cheap", parse("price < 1")), ("first", parse("item = 1"))]
    for default in ("", "rest"):
        split = Split(SCHEMA, branches, default)
        sent: dict[str, list[int]] = {}
        for part in split.on_batch(0, batch_of(found, SCHEMA)):
            assert isinstance(part, Routed)
            assert isinstance(part.element, Batch)
            sent[part.output] = part.element.pos.tolist()
        cheap = [row.pos for row in found if row.values["price"] == 0.5]
        first = [row.pos for row in found if row.values["item"] == 1]
        rest = [row.pos for row in found if row.pos not in {*cheap, *first}]
        expected = {"cheap": cheap, "first": first, **({"rest": rest} if default else {})}
        assert sent == {output: positions for output, positions in expected.items() if positions}
        assert split.counters()["unmatched"] == (0 if default else len(rest))


def test_marks_an_operator_has_nothing_to_say_about_pass() -> None:
    herald, request = Herald(mark(item=constant(1))), Request("propagate")
    union = Union(2, SCHEMA)
    select = Select(SCHEMA, parse("item > 1"))
    project = Project(SCHEMA, [("item", Column("item"))], pa.schema({"item": pa.int64()}))
    for operator in (union, select, project):
        assert operator.on_metadata(0, herald) == (herald,)
        assert operator.on_metadata(0, request) == (request,)


def test_a_condition_that_is_null_selects_nothing() -> None:
    batch = Batch(
        pa.RecordBatch.from_pydict({"item": [None], "bidder": [1], "price": [None]}, SCHEMA), np.array([1]), np.array([0])
    )
    out = Select(SCHEMA, parse("item = price")).on_batch(0, batch)
    assert rows_of(out) == []
    assert not any(isinstance(part, Quarantined) for part in out)
