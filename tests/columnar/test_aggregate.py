"""Partial aggregates: parts merge to the whole, and the whole equals exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.columnar.aggregate import aggregate_for
from penstock.errors import NumericOverflow, TypeMistake

FUNCTIONS = ["count", "sum", "avg", "min", "max", "stddev", "stddev_pop", "var_samp", "var_pop"]
integers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))
doubles = st.one_of(st.none(), st.floats(), st.floats(-10, 10), st.sampled_from([0.1, 0.2, 1e16, -1e16, 1.0]))


def computed(function: str, kind: pa.DataType, parts: list[list[object]], distinct: bool = False) -> object:
    chosen = aggregate_for(function, kind, distinct)
    cells = [chosen.accumulator.partial(pa.array(part, kind), np.zeros(len(part), np.int64), 1) for part in parts]
    merged = chosen.accumulator.merge(pa.concat_arrays(cells), np.zeros(len(cells), np.int64), 1)
    (result,) = chosen.read(merged).to_pylist()
    return "NaN" if isinstance(result, float) and math.isnan(result) else result


def in_parts(values: list[object], cuts: list[int]) -> list[list[object]]:
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    return [values[start:stop] for start, stop in pairwise(bounds)]


@settings(max_examples=100, deadline=None)
@given(st.lists(doubles, max_size=12), st.lists(st.integers(0, 12), max_size=3), st.randoms(), st.sampled_from(FUNCTIONS))
@example([1e300, 1.0, -1e300, 1e-300], [1, 2], None, "sum")
def test_doubles_give_the_same_bits_for_every_order_and_partition(values, cuts, random, function):
    shuffled = values[::-1] if random is None else random.sample(values, len(values))
    assert computed(function, pa.float64(), in_parts(shuffled, cuts)) == computed(function, pa.float64(), [values])


@settings(max_examples=100, deadline=None)
@given(st.lists(integers, max_size=12), st.lists(st.integers(0, 12), max_size=3))
def test_integer_sums_are_exact_or_refused(values, cuts):
    kept = [value for value in values if value is not None]
    if abs(sum(kept)) >= 2**63 and sum(kept) != -(2**63):
        with pytest.raises(NumericOverflow):
            computed("sum", pa.int64(), in_parts(values, cuts))
    else:
        assert computed("sum", pa.int64(), in_parts(values, cuts)) == (sum(kept) if kept else None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=12))
def test_double_sums_and_means_are_as_good_as_exact_ones(values):
    assert computed("sum", pa.float64(), [values]) == pytest.approx(math.fsum(values), rel=1e-15, abs=1e-300)
    exact = sum(map(Fraction, values)) / len(values)
    assert computed("avg", pa.float64(), [values]) == pytest.approx(float(exact), rel=1e-15, abs=1e-300)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=12), st.sampled_from([0.0, 0.1, 1e9, 1.7e15]))
def test_variance_survives_a_large_mean(offsets, mean):
    values = [mean + offset for offset in offsets]
    exact = [Fraction(value) for value in values]
    centre = sum(exact) / len(exact)
    expected = float(sum((value - centre) ** 2 for value in exact) / (len(exact) - 1))
    assert computed("var_samp", pa.float64(), [values]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_equal_values_have_no_deviation():
    assert computed("stddev", pa.float64(), [[0.1] * 3, [0.1] * 4]) == 0.0


def test_one_value_has_no_sample_deviation_but_a_population_one():
    assert computed("stddev", pa.float64(), [[3.0]]) is None
    assert computed("stddev_pop", pa.float64(), [[3.0]]) == 0.0


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name != "count"])
def test_an_aggregate_of_no_value_is_null(function):
    assert computed(function, pa.float64(), [[None], []]) is None
    assert computed(function, pa.int64(), [[], [None]]) is None


def test_infinities_and_nan_decide_a_sum():
    inf = float("inf")
    assert computed("sum", pa.float64(), [[1.0, inf], [2.0]]) == inf
    assert computed("sum", pa.float64(), [[inf], [-inf]]) == "NaN"
    assert computed("sum", pa.float64(), [[float("nan")], [inf]]) == "NaN"


def test_sums_beyond_the_range_of_doubles_come_back():
    assert computed("sum", pa.float64(), [[1.7e308, 1.7e308], [-1.7e308]]) == 1.7e308
    assert computed("sum", pa.float64(), [[5e-324], [5e-324]]) == 1e-323


def test_extremes_follow_the_order_of_spark():
    nan = float("nan")
    assert computed("max", pa.float64(), [[1.0, nan], [2.0]]) == "NaN"
    assert computed("min", pa.float64(), [[nan], [2.0]]) == 2.0
    assert computed("max", pa.string(), [["b", None], ["ä", "z"]]) == "ä"
    assert computed("min", pa.bool_(), [[True], [False, None]]) is False


def test_a_distinct_count_counts_each_value_of_a_group_once():
    assert computed("count", pa.string(), [["a", "b", None], ["a"], []], distinct=True) == 2
    assert computed("count", pa.float64(), [[0.0, float("nan")], [-0.0, float("nan")]], distinct=True) == 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", None])), max_size=20))
def test_distinct_values_stay_with_their_group(pairs):
    codes = np.array([group for group, _ in pairs], np.int64)
    chosen = aggregate_for("count", pa.string(), distinct=True)
    cells = chosen.accumulator.partial(pa.array([value for _, value in pairs], pa.string()), codes, 4)
    expected = [len({value for group, value in pairs if group == g and value is not None}) for g in range(4)]
    assert chosen.read(cells).to_pylist() == expected
    halves = chosen.accumulator.merge(pa.concat_arrays([cells, cells]), np.array([0, 1, 2, 3, 3, 2, 1, 0]), 4)
    assert len(halves) == 4


def test_only_numbers_can_be_added():
    with pytest.raises(TypeMistake, match="sum of string"):
        aggregate_for("sum", pa.string())
