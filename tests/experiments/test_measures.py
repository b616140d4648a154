"""How runs are compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.experiments.measures import is_increasing, linear_fit, rate_between, sample_times
from penstock.experiments.pwjoin.setup import items_of, play, pwjoin, same_results


def test_equal_bags_are_recognised_in_any_order_and_different_ones_are_not() -> None:
    trace = play(pwjoin(1.0, 1.0), items_of("punct-asc-30-40", "punct-asc-30-40", 10.0, seconds=5.0), keep_results=True)
    turned = replace(trace, results=trace.results[::-1])
    doubled = replace(trace, results=np.concatenate([trace.results[1:], trace.results[-1:]]))
    assert len(trace.results) > 100
    assert same_results(trace, turned)
    assert not same_results(trace, doubled)
    assert not same_results(trace, replace(trace, results=trace.results[1:]))


def test_bags_of_numbers_too_large_for_one_word_are_compared_as_well() -> None:
    trace = play(pwjoin(1.0, 1.0), items_of("punct-asc-30-40", "punct-asc-30-40", 10.0, seconds=5.0), keep_results=True)
    far = replace(trace, results=trace.results + 2**40)
    assert same_results(far, replace(far, results=far.results[::-1]))
    assert not same_results(far, replace(far, results=far.results[::-1] + 1))


def test_rates_fits_and_orders_are_what_their_names_say() -> None:
    times = sample_times(4.0, 1.0)
    assert rate_between(times, np.array([10, 20, 40, 60]), 0.0, 2.0) == 10.0
    assert linear_fit(np.arange(4.0), np.array([0.0, 5.0, 0.0, 5.0])) < 0.5
    assert linear_fit(np.arange(4.0), np.array([3.0, 3.0, 3.0, 3.0])) == pytest.approx(1.0)
    assert is_increasing([1.0, 2.0])
    assert not is_increasing([1.0, 1.0])
