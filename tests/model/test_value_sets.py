"""Patterns are sets: every operation is judged by membership of single values."""

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.schema import TIMESTAMP
from penstock.model.value_sets import ANY, EMPTY, Pattern, between, constant, one_of, one_of_array

NAN, INF = float("nan"), float("inf")
BIG = 2**53

DOMAINS = {
    "integers": (pa.int64(), [-3, -1, 0, 1, 2, 3, 5, BIG, BIG + 1]),
    "bytes-wide": (pa.int8(), [-128, -1, 0, 3, 127]),
    "floats": (pa.float64(), [-INF, -1.5, -0.0, 0.0, 1.0, 2.5, float(BIG), INF, NAN]),
    "strings": (pa.string(), ["", "a", "ab", "b", "é", "z", "\U0001f30a"]),
    "bools": (pa.bool_(), [False, True]),
    "dates": (pa.date32(), [date(1969, 12, 31), date(2004, 11, 8), date(2004, 11, 9), date(2008, 1, 1)]),
    "timestamps": (TIMESTAMP, [-1, 0, 1, 1_000_000]),
    "binary": (pa.binary(), [b"", b"a", b"b"]),
    "decimals": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")]),
}
#: Bounds need not be values of the attribute: between integers, beyond the type, not representable as a float.
ODD_BOUNDS = {
    "integers": [0.5, 2.0, -INF, INF, NAN, 10**30, Decimal("1.5")],
    "bytes-wide": [300, -300, 2.5],
    "floats": [BIG + 1, 0, 10**400, Decimal("0.1")],
    "decimals": [0, 2, 0.1],
}


def patterns(values):
    value = st.sampled_from(values)
    bound = st.none() | value
    ranges = st.builds(between, bound, bound, st.booleans(), st.booleans())
    lists = st.builds(one_of, st.lists(st.none() | value, max_size=4))
    return st.one_of(st.just(ANY), st.just(EMPTY), st.builds(constant, st.none() | value), ranges, lists)


@st.composite
def domains(draw, count):
    """A type, values of it (NULL included) and `count` patterns whose bounds may lie beside the values."""
    name = draw(st.sampled_from(sorted(DOMAINS)))
    kind, values = DOMAINS[name]
    bounds = values + ODD_BOUNDS.get(name, [])
    return kind, [None, *values], [draw(patterns(bounds)) for _ in range(count)]


def members(pattern, values):
    return [pattern.matches(value) for value in values]


@settings(max_examples=70, deadline=None)
@given(domains(3))
def test_intersection_obeys_the_laws_of_sets(case):
    _, _, (p, q, r) = case
    assert p & q == q & p
    assert (p & q) & r == p & (q & r)
    assert p & p == p
    assert p & ANY == p
    assert p & EMPTY == EMPTY


@settings(max_examples=70, deadline=None)
@given(domains(2))
def test_a_value_matches_the_intersection_when_it_matches_both(case):
    _, values, (p, q) = case
    assert members(p & q, values) == [a and b for a, b in zip(members(p, values), members(q, values), strict=True)]


@settings(max_examples=70, deadline=None)
@given(domains(2))
def test_subset_and_overlap_agree_with_membership(case):
    _, values, (p, q) = case
    if p.issubset(q):
        assert all(q.matches(value) for value in values if p.matches(value))
    if not (p.is_range and q.values):
        assert p.issubset(q) == (p & q == p)
    if any(p.matches(value) and q.matches(value) for value in values):
        assert not (p & q).is_empty
    assert p.issubset(p)
    assert (p & q).issubset(p)


@settings(max_examples=70, deadline=None)
@given(domains(1))
def test_vectorised_matching_equals_matching_one_value_at_a_time(case):
    kind, values, (p,) = case
    array = pa.array(values, pa.int64()).cast(kind) if kind == TIMESTAMP else pa.array(values, kind)
    assert p.matches_array(array).tolist() == members(p, values)
    assert p.matches_array(array[:0]).tolist() == []
    assert p.matches_array(array[2:]).tolist() == members(p, values[2:])
    assert p.matches_array(pa.chunked_array([array, array])).tolist() == members(p, values) * 2


@settings(max_examples=70, deadline=None)
@given(domains(1), st.booleans())
def test_normalising_keeps_the_values_of_the_type_and_is_done_once(case, nullable):
    kind, values, (p,) = case
    simple = p.normalised(kind, nullable)
    possible = values if nullable else values[1:]
    assert members(simple, possible) == members(p, possible)
    assert simple.normalised(kind, nullable) == simple
    if pa.types.is_integer(kind) and simple.is_range:
        assert simple.lo_inclusive == (simple.lo is not None)
        assert simple.hi_inclusive == (simple.hi is not None)


@settings(max_examples=70, deadline=None)
@given(domains(1))
def test_json_and_pickle_give_back_the_same_pattern(case):
    _, _, (p,) = case
    assert Pattern.from_json(json.loads(json.dumps(p.to_json()))) == p
    again = pickle.loads(pickle.dumps(p))
    assert again == p
    assert hash(again) == hash(p)


def test_golden_g4_intersections():
    assert between(1, 10) & between(5, 20, False, False) == between(5, 10, lo_inclusive=False)
    assert (between(1, 10) & between(5, 20, False, False)).normalised(pa.int64(), True) == between(6, 10)
    assert one_of([1, 5, 9]) & between(2, 9) == one_of([5, 9])
    assert one_of([4]) & between(5, 9) == EMPTY
    assert between(3, 3) == constant(3)
    assert between(3, 3, False, False) == EMPTY
    assert ANY & one_of([7]) == constant(7)


def test_normal_forms_named_in_the_specification():
    assert one_of([]) == EMPTY
    assert one_of([7, 7]) == constant(7)
    assert one_of([9, 1, 5, 1]).values == (1, 5, 9)
    assert between(5, 4) == EMPTY
    assert between(5, 5, True, False) == EMPTY
    assert between(3, 4, False, False).normalised(pa.int32(), True) == EMPTY
    assert between(None, None).normalised(pa.int32(), nullable=False) == ANY
    assert between(None, None).normalised(pa.int32(), nullable=True) == between(None, None)
    days = between(date(2004, 1, 1), date(2004, 1, 4), False, False)
    assert days.normalised(pa.date32(), True) == between(date(2004, 1, 2), date(2004, 1, 3))
    assert between(date.max, None, lo_inclusive=False).normalised(pa.date32(), True) == EMPTY
    assert between(0, 5, False, False).normalised(TIMESTAMP, True) == between(1, 4)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (ANY, "*"),
        (EMPTY, "∅"),
        (constant(180), "180"),
        (constant(None), "NULL"),
        (constant("x"), "'x'"),
        (constant(True), "true"),
        (between(1, 10, hi_inclusive=False), "[1,10)"),
        (between(None, 5), "(-∞,5]"),
        (between(2.5, NAN), "[2.5,NaN]"),
        (between(None, None), "(-∞,∞)"),
        (one_of([5, 1]), "{1,5}"),
        (constant(date(2004, 11, 8)), "2004-11-08"),
    ],
)
def test_patterns_print_as_the_specification_writes_them(pattern, text):
    assert str(pattern) == text


def test_null_matches_only_the_wildcard_and_where_it_is_listed():
    assert ANY.matches(None)
    assert constant(None).matches(None)
    assert one_of([1, None]).matches(None)
    assert not between(None, None).matches(None)
    assert not one_of([1, 2]).matches(None)
    assert constant(None).normalised(pa.int64(), nullable=False) == EMPTY


def test_nan_equals_itself_and_is_greater_than_every_number():
    assert constant(NAN).matches(np.float64("nan"))
    assert between(5, None).matches(NAN)
    assert not between(None, INF).matches(NAN)
    assert between(None, NAN).matches(NAN)
    assert not between(None, NAN, hi_inclusive=False).matches(NAN)
    assert constant(NAN) & one_of([1.0, float("nan")]) == constant(NAN)


def test_negative_zero_is_zero():
    assert constant(-0.0).matches(0.0)
    assert constant(0.0).matches_array(pa.array([-0.0, 0.0])).all()
    assert not between(None, 0.0, hi_inclusive=False).matches(-0.0)


def test_clock_times_are_microseconds_inside_a_pattern():
    moment = datetime(2004, 11, 8, 12, tzinfo=UTC)
    micros = int(moment.timestamp()) * 1_000_000
    assert constant(moment) == constant(micros) == constant(moment.replace(tzinfo=None))
    assert constant(np.datetime64("2004-11-08T12:00:00.000000000")) == constant(micros)
    array = pa.array([moment, None], TIMESTAMP)
    assert between(micros, None).matches_array(array).tolist() == [True, False]
    assert constant(moment).matches_array(array.cast(pa.timestamp("s", tz="UTC"))).tolist() == [True, False]


def test_values_of_another_family_never_match():
    assert not between(1, None).matches("a")
    assert between(1, None) & between("a", None) == EMPTY
    assert between(None, 5) & between(None, "b") == EMPTY
    assert between(1, "b") == EMPTY
    assert between(1, None).matches_array(pa.array(["a", None])).tolist() == [False, False]
    assert one_of([1, "a"]).matches_array(pa.array(["a", "1"])).tolist() == [True, False]
    assert one_of([1, "a"]).normalised(pa.string(), True) == constant("a")


def test_dictionary_columns_match_like_plain_ones():
    array = pa.array(["a", "b", None, "a"])
    assert constant("a").matches_array(array.dictionary_encode()).tolist() == [True, False, False, True]


def test_a_list_taken_from_a_column_holds_its_distinct_values():
    assert one_of_array(pa.array([3, 1, None, 3])) == one_of([1, 3])
    assert one_of_array(pa.array([NAN, -0.0, 0.0, NAN])) == one_of([0.0, NAN])
    assert one_of_array(pa.array(["b", "a"])) == one_of(["a", "b"])
    assert one_of_array(pa.array([1, 0], TIMESTAMP)) == one_of([0, 1])
    assert one_of_array(pa.array([date(2004, 1, 1)])) == constant(date(2004, 1, 1))
    assert one_of_array(pa.array([None], pa.string())) == EMPTY


def test_intersection_of_many_patterns_does_not_depend_on_order():
    many = [between(0, 9), between(2, None), one_of(range(12)), between(None, 7, hi_inclusive=False)]
    assert reduce(Pattern.__and__, many) == reduce(Pattern.__and__, many[::-1]) == one_of(range(2, 7))
