"""What two streams have both announced, computed at once and one punctuation at a time."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from penstock.metadata.announcements import Announcements
from penstock.metadata.closed_set import ClosedSet
from penstock.metadata.intervals import IntervalSet
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import ANY, Pattern, between, constant, one_of

VALUES = range(-3, 16)


def ranged(low: int, length: int) -> Pattern:
    return between(low, low + length)


patterns = st.one_of(
    st.builds(ranged, st.integers(-2, 12), st.integers(0, 6)),
    st.builds(constant, st.one_of(st.none(), st.integers(-2, 12))),
    st.builds(one_of, st.lists(st.integers(-2, 12), min_size=2, max_size=4)),
    st.builds(between, st.none(), st.integers(-2, 12)),
    st.just(ANY),
)
announced = st.lists(patterns, max_size=6)


def closed(name: str, known: list[Pattern]) -> ClosedSet:
    found = ClosedSet.over(Schema.of(**{name: pa.int64(), "v": pa.int64()}), [name])
    for pattern in known:
        found.add(Punctuation.of((name, "v"), **{name: pattern}))
    return found


@settings(max_examples=150, deadline=None)
@given(announced, announced)
def test_what_both_have_closed_is_what_each_has_closed(left, right):
    both = closed("a", left) & closed("b", right)
    assert both.names == ("a",)
    for value in (None, *VALUES):
        expected = closed("a", left).contains(value) and closed("b", right).contains(value)
        assert both.contains(value) == expected


@settings(max_examples=100, deadline=None)
@given(announced, announced)
def test_other_names_change_nothing_else_and_share_nothing(known, more):
    before = closed("a", known)
    other = before.named(["b"])
    assert [other.contains(value) for value in (None, *VALUES)] == [before.contains(value) for value in (None, *VALUES)]
    for pattern in more:
        other.add(Punctuation.of(("b",), b=pattern))
    assert [before.contains(value) for value in VALUES] == [closed("a", known).contains(value) for value in VALUES]


def test_constants_of_several_attributes_meet_too():
    known = Announcements()
    known.add(Punctuation.of(("a", "b"), a=constant(1), b=constant(2)))
    other = Announcements()
    other.add(Punctuation.of(("c", "d"), c=between(0, 5)))
    met = known.meet(other, {"c": "a", "d": "b"})
    assert met.contains({"a": 1, "b": 2})
    assert not met.contains({"a": 1, "b": 3})


@settings(max_examples=100, deadline=None)
@given(*[st.lists(st.tuples(st.integers(-9, 30), st.integers(0, 5)), max_size=8)] * 2)
def test_intervals_meet_in_the_integers_of_both(left, right):
    sets = []
    for spans in (left, right):
        found = IntervalSet()
        for low, length in spans:
            found.add(low, low + length)
        sets.append(found)
    both = sets[0].meet(sets[1])
    numbers = np.arange(-12, 40)
    assert (both.contains_many(numbers) == (sets[0].contains_many(numbers) & sets[1].contains_many(numbers))).all()
    # Intervals stay apart and in order.
    assert (both.lows[1:] > both.highs[:-1]).all()
