"""Estimates from what is left, against all subsets that coins may leave."""

from __future__ import annotations

from itertools import product
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.qos.shedding.compensation import estimated_sum, left_share


@settings(deadline=None)
@given(values=st.lists(st.floats(-100, 100), min_size=1, max_size=6), left=st.floats(0.1, 1.0))
def test_estimates_are_right_on_average_and_so_are_their_squared_errors(values: list[float], left: float) -> None:
    mean, spread, told = 0.0, 0.0, 0.0
    for stays in product((False, True), repeat=len(values)):
        kept = [value for value, stay in zip(values, stays, strict=True) if stay]
        chance = left ** len(kept) * (1 - left) ** (len(values) - len(kept))
        found = estimated_sum(sum(kept), sum(value * value for value in kept), left)
        mean += chance * found.value
        spread += chance * (found.value - sum(values)) ** 2
        told += chance * found.error**2
    assert mean == pytest.approx(sum(values), abs=1e-6)
    assert told == pytest.approx(spread, rel=1e-6, abs=1e-6)


def test_counts_are_sums_of_ones_and_pairs_of_a_join_need_both_their_rows() -> None:
    left = left_share([0.5, 0.2])
    assert left == pytest.approx(0.4)
    found = estimated_sum(40.0, 40.0, left)
    assert (found.value, found.error) == (pytest.approx(100.0), pytest.approx(sqrt(40 * 0.6) / 0.4))
    assert estimated_sum(7.0, 30.0, left_share([])).error == 0.0
