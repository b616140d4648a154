"""Announcements in a checkpoint: what is read back knows the same, in few pieces however much was announced."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.announcements import Announcements
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import ANY, between, constant, one_of

SCHEMA = Schema.of(item=pa.int64(), name=pa.string(), price=pa.float64())
ITEMS = st.integers(-20, 20)
ITEM = st.one_of(
    ITEMS.map(constant), st.lists(ITEMS, min_size=1).map(one_of), st.tuples(ITEMS, ITEMS).map(lambda ends: between(*sorted(ends)))
)
NAME = st.sampled_from([constant("a"), constant(None), one_of(["a", "b"]), between("a", "b")])
PRICE = st.one_of(st.just(ANY), st.integers(0, 4).map(lambda value: constant(value / 2)), st.just(constant(None)))
SINGLE = st.one_of(
    ITEM.map(lambda pattern: {"item": pattern}),
    NAME.map(lambda pattern: {"name": pattern}),
    PRICE.map(lambda pattern: {"price": pattern}),
)
SEVERAL = st.fixed_dictionaries({"item": ITEM, "name": NAME})


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(SINGLE, SINGLE, SEVERAL), max_size=6))
def test_what_is_read_back_knows_the_same(statements: list[dict]) -> None:
    known = Announcements(SCHEMA)
    for patterns in statements:
        known.add(Punctuation.of(tuple(SCHEMA.names), **patterns))
    again = Announcements.from_json(json.loads(json.dumps(known.to_json())), SCHEMA)
    rows = [
        {"item": item, "name": name, "price": price}
        for item in range(-21, 22)
        for name in ("a", "b", None)
        for price in (0.5, None)
    ]
    assert [again.contains(row) for row in rows] == [known.contains(row) for row in rows]
    assert again.entries <= known.entries  # combinations that single attributes cover by now are not needed


def test_many_closed_keys_are_stored_in_one_piece() -> None:
    known = Announcements(SCHEMA)
    for item in range(0, 6000, 3):
        known.add(Punctuation.of(("item",), item=between(item, item + 1)))
    assert len(known.to_json()) == 1
