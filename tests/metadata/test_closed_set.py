"""What is closed, judged by a plain list of punctuations."""

import json
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.metadata.closed_set import ClosedSet
from penstock.metadata.combinations import combinations_in
from penstock.metadata.intervals import IntervalSet
from penstock.metadata.ordinals import float_ordinals, interval_pattern, ordinal, ordinals, span, value_at
from penstock.model.punctuation import Punctuation
from penstock.model.schema import TIMESTAMP, Field, Schema
from penstock.model.value_sets import ANY, EMPTY, between, constant, one_of

NAN, INF = float("nan"), float("inf")
LEAST, GREATEST = -(2**63), 2**63 - 1
DOMAINS = [
    (pa.int64(), [LEAST, -2, -1, 0, 1, 2, 3, 4, GREATEST]),
    (pa.int8(), [-128, 0, 1, 2, 127]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.float64(), [-INF, -1.5, -0.0, 0.0, 5e-324, 1.0, INF, NAN]),
    (pa.float32(), [-1.5, 0.0, 1.0, NAN]),
    (pa.string(), ["", "a", "b", "c", "é"]),
    (pa.date32(), [date.min, date(2004, 11, 8), date(2004, 11, 9), date.max]),
    (TIMESTAMP, [-1, 0, 1, 1_000_000]),
    (pa.bool_(), [False, True]),
]


def patterns(values):
    bound = st.none() | st.sampled_from(values)
    return st.one_of(
        st.just(EMPTY),
        st.builds(constant, bound),
        st.builds(between, bound, bound, st.booleans(), st.booleans()),
        st.builds(one_of, st.lists(bound, max_size=4)),
    )


def column(values, kind):
    return pa.array(values, pa.int64()).cast(kind) if kind == TIMESTAMP else pa.array(values, kind)


def closing(pattern, name="k"):
    return Punctuation((name,), (pattern,))


@st.composite
def announced_attributes(draw):
    kind, values = draw(st.sampled_from(DOMAINS))
    announced = draw(st.lists(st.one_of(patterns(values), patterns(values), st.just(ANY)), max_size=7))
    return Field("k", kind, draw(st.booleans())), values, announced


def possible_values(field, values):
    return [None, *values] if field.nullable else list(values)


@settings(max_examples=120, deadline=None)
@given(announced_attributes())
@example((Field("k", pa.float64(), False), [-INF, 0.0], [between(None, -INF, hi_inclusive=False)]))
@example((Field("k", pa.float32()), [0.0, NAN], [between(None, NAN, hi_inclusive=False), one_of([None, NAN])]))
def test_closed_values_are_those_some_punctuation_matches(case):
    field, values, announced = case
    closed = ClosedSet([field])
    possible = possible_values(field, values)
    for position, pattern in enumerate(announced):
        before = [closed.contains(value) for value in possible]
        is_new = closed.add(closing(pattern))
        after = [any(p.matches(value) for p in announced[: position + 1]) for value in possible]
        assert [closed.contains(value) for value in possible] == after
        assert is_new or before == after
        assert not closed.add(closing(pattern)), "the same again is redundant"
    expected = [any(p.matches(value) for p in announced) for value in possible]
    assert closed.contains_array(column(possible, field.type)).tolist() == expected
    again = ClosedSet.from_json(json.loads(json.dumps(closed.to_json())), [field])
    assert again.contains_array(column(possible, field.type)).tolist() == expected
    assert (again.redundant, again.memory_entries) == (closed.redundant, closed.memory_entries)


@settings(max_examples=70, deadline=None)
@given(announced_attributes(), st.data())
def test_what_both_have_closed_is_closed_in_the_combination(case, data):
    field, values, ours = case
    theirs = data.draw(st.lists(patterns(values), max_size=5))
    left, right = ClosedSet([field]), ClosedSet([Field("other", field.type, field.nullable)])
    for pattern in ours:
        left.add(closing(pattern))
    for pattern in theirs:
        right.add(closing(pattern, "other"))
    for value in possible_values(field, values):
        assert (left & right).contains(value) == (left.contains(value) and right.contains(value))


KEYS = [None, 0, 1, 2]
key_pattern = st.one_of(st.just(ANY), patterns([0, 1, 2]))
key_pairs = st.builds(lambda a, b: Punctuation(("a", "b"), (a, b)), key_pattern, key_pattern)
constant_pairs = st.builds(
    lambda a, b: Punctuation(("a", "b"), (constant(a), constant(b))), st.sampled_from(KEYS), st.sampled_from(KEYS)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(constant_pairs | key_pairs, max_size=8), st.lists(constant_pairs | key_pairs, max_size=3))
def test_several_attributes_are_closed_as_a_list_of_punctuations_says(announced, theirs):
    fields = [Field("a", pa.int64()), Field("b", pa.float64())]
    closed, others = ClosedSet(fields), ClosedSet(fields)
    for punctuation in announced:
        closed.add(punctuation)
    for punctuation in theirs:
        others.add(punctuation)
    rows = [(a, b) for a in KEYS for b in KEYS]
    expected = [any(p.matches({"a": a, "b": b}) for p in announced) for a, b in rows]
    assert [closed.contains(row) for row in rows] == expected
    first, second = zip(*rows, strict=True)
    arrays = [pa.array(first, pa.int64()), pa.array(second, pa.float64())]
    assert closed.contains_array(arrays).tolist() == expected
    again = ClosedSet.from_json(json.loads(json.dumps(closed.to_json())), fields)
    assert again.contains_array(arrays).tolist() == expected
    both = closed & others
    assert [both.contains(row) for row in rows] == [closed.contains(row) and others.contains(row) for row in rows]


def test_golden_g2_only_the_closed_item_of_the_own_stream_is_closed():
    bids = ClosedSet([Field("item_id", pa.int64())])
    bids.add(Punctuation.of(("item_id", "bidder_id", "price"), item_id=constant(180)))
    assert bids.contains_array(pa.array([180, 181, None])).tolist() == [True, False, False]


def test_golden_g5_a_punctuation_about_one_bidder_does_not_close_the_item():
    bids = ClosedSet([Field("item_id", pa.int64())])
    assert not bids.add(Punctuation.of(("item_id", "bidder_id"), item_id=constant(180), bidder_id=constant(5)))
    assert not bids.contains(180)
    assert bids.not_exploitable == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), TIMESTAMP, pa.date32()])
def test_ascending_punctuations_cost_constant_memory(kind):
    closed = ClosedSet([Field("k", kind)])
    first = date(2004, 1, 1)
    for number in range(3000):
        value = date.fromordinal(first.toordinal() + number) if kind == pa.date32() else number
        closed.add(closing(constant(value)))
    assert len(closed) == closed.memory_entries == 1


def test_growing_float_and_string_ranges_cost_constant_memory():
    for kind, bounds in ((pa.float64(), [0.5 * n for n in range(200)]), (pa.string(), [f"{n:04}" for n in range(200)])):
        closed = ClosedSet([Field("k", kind)])
        for low, high in pairwise(bounds):
            closed.add(closing(between(low, high, hi_inclusive=False)))
        assert len(closed) == 1


def test_combinations_covered_by_one_attribute_are_forgotten():
    closed = ClosedSet([Field("a", pa.int64()), Field("b", pa.int64())])
    for number in range(2000):
        closed.add(Punctuation.of(("a", "b"), a=constant(number), b=constant(number * 7)))
        closed.add(Punctuation.of(("a", "b"), a=between(None, number)))
    assert len(closed) < 200


def test_redundant_useless_and_late_punctuations_are_counted_not_kept():
    closed = ClosedSet([Field("k", pa.int64())])
    assert closed.add(closing(between(1, 9)))
    assert not closed.add(closing(one_of([2, 3])))
    assert not closed.add(closing(EMPTY))
    assert not closed.add(closing(between(3, 4, False, False)))
    assert closed.add(Punctuation(("k",), (ANY,)))
    assert closed.has_ended
    assert not closed.add(closing(constant(77)))
    assert (closed.redundant, closed.useless, len(closed)) == (2, 2, 1)
    assert closed.contains(None)


def test_a_long_list_is_closed_and_probed_without_a_loop_over_rows():
    values = np.random.default_rng(7).integers(0, 10**9, 20_000)
    closed = ClosedSet([Field("k", pa.int64())])
    closed.add(closing(one_of(values[:10_000].tolist())))
    assert closed.contains_array(pa.array(values)).tolist() == np.isin(values, values[:10_000]).tolist()


small_intervals = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 4), st.booleans()), max_size=12)


@settings(max_examples=60, deadline=None)
@given(small_intervals)
def test_intervals_hold_what_a_set_holds_in_the_fewest_pieces(added):
    intervals, reference = IntervalSet(), set()
    for low, length, single in added:
        if single:
            intervals.add_value(low)
            reference.add(low)
        else:
            intervals.add(low, low + length)
            reference.update(range(low, low + length + 1))
    probe = np.arange(-12, 16)
    assert intervals.contains_many(probe).tolist() == [value in reference for value in probe.tolist()]
    assert [intervals.contains(value) for value in probe.tolist()] == [value in reference for value in probe.tolist()]
    assert len(intervals) == sum(value - 1 not in reference for value in reference)
    lows, highs = intervals.within(-3, 5)
    inside = {v for low, high in zip(lows.tolist(), highs.tolist(), strict=True) for v in range(low, high + 1)}
    assert inside == {value for value in reference if -3 <= value <= 5}


def test_intervals_reach_both_ends_of_the_integers():
    intervals = IntervalSet()
    intervals.add_value(LEAST)
    intervals.add_many(np.array([GREATEST, LEAST + 1]))
    intervals.add(LEAST + 2, GREATEST - 1)
    assert (intervals.lows.tolist(), intervals.highs.tolist()) == ([LEAST], [GREATEST])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(), min_size=1), st.floats(), st.floats(), st.booleans(), st.booleans())
def test_float_ordinals_keep_order_and_ranges(values, low, high, low_inclusive, high_inclusive):
    numbers, _ = ordinals(pa.array(values))
    assert numbers.tolist() == [ordinal(value, pa.float64()) for value in values]
    for value, number in zip(values, numbers.tolist(), strict=True):
        assert constant(value_at(number, pa.float64())).matches(value)
    pattern = between(low, high, low_inclusive, high_inclusive)
    if pattern.is_range:
        first, last = span(pattern, pa.float64())
        assert [first <= n <= last for n in numbers.tolist()] == [pattern.matches(value) for value in values]
        if first <= last:
            same = interval_pattern(first, last, pa.float64())
            assert [same.matches(value) for value in values] == [pattern.matches(value) for value in values]


def test_neighbouring_floats_have_neighbouring_ordinals():
    values = np.array([-1.0, -0.0, 0.0, 1.0, 1e300])
    assert (float_ordinals(np.nextafter(values, np.inf)) - float_ordinals(values)).tolist() == [1] * 5


cells = st.sampled_from([None, 0, 1, 2, 300])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(cells, cells, cells), max_size=6),
    st.sets(st.tuples(cells, cells, cells), min_size=1, max_size=6),
)
def test_combinations_are_found_as_tuples_in_a_set_are(rows, wanted):
    columns = [pa.array([row[i] for row in rows], pa.int32()) for i in range(3)]
    assert combinations_in(columns, wanted).tolist() == [row in wanted for row in rows]
    narrow = [pa.array([None if row[i] == 300 else row[i] for row in rows], pa.int8()) for i in range(3)]
    expected = [tuple(None if cell == 300 else cell for cell in row) in wanted for row in rows]
    assert combinations_in(narrow, wanted).tolist() == expected


def test_names_are_taken_from_the_schema():
    schema = Schema.of(item_id=pa.int64(), price=pa.float64())
    assert ClosedSet.over(schema, ["ITEM_ID"]).names == ("item_id",)
