"""Equation 6.1: corrected cases, their shape, and the integral they come from."""

from __future__ import annotations

from math import inf

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.metadata.residence import mean_residences

lengths = st.floats(0.1, 50)
lags = st.floats(-1, 4)


def mean_residence(window: float, lifespan: float, lag: float) -> float:
    """The stay of rows of one value, which the partner closes so many lifespans after its first row."""
    return float(mean_residences(window, [lifespan], [lag * lifespan])[0])


@pytest.mark.parametrize(
    ("window", "lag", "expected"),
    [
        (5, 2, 5),
        (5, -0.2, 0),
        (4, 0.8, 2.4),
        (5, 0.8, 2.75),
        (20, 0.5, 1.25),
        (20, 0.8, 3.2),
        (20, 1, 5),
        (8, 1.2, 6.2),
        (10, 1.5, 8.75),
        (12, 1.2, 7.0),
        (30, 1.5, 10),
        (30, 2, 15),
        (5, 1.5, 5),
    ],
)
def test_g17_mean_stay_for_a_lifespan_of_ten(window: float, lag: float, expected: float) -> None:
    assert mean_residence(window, 10, lag) == pytest.approx(expected)


def printed_case_4(lifespan: float, lag: float) -> float:
    return lag * lifespan / 2


def printed_case_5(window: float, lifespan: float, lag: float) -> float:
    return lag * window - (window**2 / lifespan - (lag - 1) ** 2 * lifespan) / 2


def test_er15_the_printed_cases_4_and_5_jump_or_outlive_the_window() -> None:
    """Case 4 should meet case 3 where W = γL, and no row stays longer than its window."""
    at_border = mean_residence(8, 10, 0.8)
    assert at_border == pytest.approx(0.8 * 8 - 8**2 / 20)  # case 3
    assert printed_case_4(10, 0.8) != pytest.approx(at_border)
    assert printed_case_5(10, 10, 1.5) > 10
    assert mean_residence(10, 10, 1.5) <= 10


def test_er16_state_grows_with_the_window_and_its_share_of_the_window_falls() -> None:
    windows = np.linspace(1, 40, 30)
    stays = [mean_residence(window, 10, 0.8) for window in windows]
    shares = [stay / window for stay, window in zip(stays, windows, strict=True)]
    assert stays == sorted(stays)
    assert shares == sorted(shares, reverse=True)


@given(window=lengths, lifespan=lengths, lag=lags)
@settings(max_examples=80, deadline=None)
def test_the_closed_form_is_the_mean_over_evenly_spread_rows(window: float, lifespan: float, lag: float) -> None:
    arrivals = (np.arange(20_000) + 0.5) / 20_000 * lifespan
    stays = np.clip(lag * lifespan - arrivals, 0, window)
    assert mean_residence(window, lifespan, lag) == pytest.approx(stays.mean(), abs=1e-3 * max(window, lifespan))


@given(window=lengths, lifespan=lengths, lag=lags, more=st.floats(0, 5))
@settings(max_examples=80, deadline=None)
def test_the_stay_never_falls_with_lag_or_window_and_never_exceeds_the_window(
    window: float, lifespan: float, lag: float, more: float
) -> None:
    stay = mean_residence(window, lifespan, lag)
    assert 0 <= stay <= window + 1e-9
    assert mean_residence(window + more, lifespan, lag) >= stay - 1e-9
    assert mean_residence(window, lifespan, lag + more) >= stay - 1e-9


def test_without_a_window_only_the_partner_ends_the_stay() -> None:
    assert mean_residence(inf, 10, 2) == pytest.approx(15)
    assert mean_residences(inf, [0.0], [7.0]).tolist() == [7.0]
