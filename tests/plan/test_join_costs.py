"""The cost model of joins with windows and punctuations: golden numbers, and where the printed formulas are wrong."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from penstock.plan.analysis.join_costs import (
    StreamProfile,
    UnitCosts,
    closing_time,
    closing_time_bound,
    expected_lookups,
    first_published_state,
    punctuation_cost,
    pwjoin_cost,
    row_window_length,
    tuple_cost,
    window_join_cost,
)
from penstock.plan.analysis.lifetimes import mean_residence, relative_state

LIFESPAN = 10.0


def printed_residence(window: float, lag: float) -> float:
    """Equation 6.1 as printed, for a lifespan of 10."""
    if lag <= 0:
        return 0.0
    if lag <= 1:
        return lag * LIFESPAN / 2 if lag * LIFESPAN <= window else lag * window - window**2 / (2 * LIFESPAN)
    if (lag - 1) * LIFESPAN >= window:
        return window
    if lag * LIFESPAN < window:
        return (lag - 0.5) * LIFESPAN
    return lag * window - (window**2 / LIFESPAN - (lag - 1) ** 2 * LIFESPAN) / 2


def measured_residence(window: float, lag: float) -> float:
    """Mean over tuples spread evenly over the lifespan; those after the partner's punctuation are not stored."""
    arrivals = (np.arange(100_000) + 0.5) / 100_000 * LIFESPAN
    return float(np.clip(np.minimum(window, lag * LIFESPAN - arrivals), 0, None).mean())


G17 = [
    (5, 2, 5, 5),
    (5, -0.2, 0, 0),
    (4, 0.8, 2.4, 2.4),
    (5, 0.8, 2.75, 2.75),
    (20, 0.5, 1.25, 2.5),
    (20, 0.8, 3.2, 4.0),
    (20, 1, 5, 5),
    (8, 1.2, 6.2, 6.6),
    (10, 1.5, 8.75, 11.25),
    (12, 1.2, 7.0, 7.4),
    (30, 1.5, 10, 10),
    (30, 2, 15, 15),
    (5, 1.5, 5, 5),
]


@pytest.mark.parametrize(("window", "lag", "correct", "printed"), G17)
def test_g17_er15_residence_is_what_counting_gives_and_not_always_what_is_printed(
    window: float, lag: float, correct: float, printed: float
) -> None:
    assert mean_residence(window, LIFESPAN, lag) == pytest.approx(correct)
    assert measured_residence(window, lag) == pytest.approx(correct, abs=1e-4)
    assert printed_residence(window, lag) == pytest.approx(printed)


def test_er15_the_printed_formula_lets_tuples_outlive_their_window() -> None:
    assert printed_residence(10, 1.5) > 10
    # … and jumps where two of its cases meet.
    assert abs(printed_residence(7.99, 0.8) - printed_residence(8.0, 0.8)) > 0.5
    assert abs(mean_residence(7.99, LIFESPAN, 0.8) - mean_residence(8.0, LIFESPAN, 0.8)) < 0.01


@given(st.floats(0.1, 50), st.floats(0, 10), st.floats(-0.5, 3))
def test_er16_a_wider_window_needs_a_smaller_share_and_never_a_smaller_state(window: float, more: float, lag: float) -> None:
    assert mean_residence(window + more, LIFESPAN, lag) >= mean_residence(window, LIFESPAN, lag) - 1e-9
    assert relative_state(window + more, LIFESPAN, lag) <= relative_state(window, LIFESPAN, lag) + 1e-9


def test_er16_the_printed_negative_correlation_is_wrong_for_the_state() -> None:
    assert mean_residence(8, LIFESPAN, 1.2) > mean_residence(4, LIFESPAN, 1.2)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 20)), min_size=1, max_size=4))
def test_er17_punctuation_plus_window_is_an_upper_bound(drawn: list[tuple[float, float, float]]) -> None:
    others = [(last, window, last + later) for last, window, later in drawn]
    assert closing_time(others) <= closing_time_bound(others) + 1e-9


def test_er17_the_bound_is_not_exact() -> None:
    others = [(2.0, 10.0, 5.0), (3.0, 20.0, 30.0)]
    assert (closing_time(others), closing_time_bound(others)) == (12.0, 15.0)


BOTH = [StreamProfile(rate=500, punctuation_rate=5, window=15, lifespan=4, lag=0.5)] * 2


def test_g18_cpu_of_pwjoin_and_of_the_hash_window_join() -> None:
    costs = UnitCosts()
    assert (BOTH[0].state, BOTH[0].window_state, BOTH[0].purged_on_the_fly) == (250, 7500, 0.5)
    assert tuple_cost(BOTH, 0, 1024, 40, costs) == pytest.approx(11.006104, abs=1e-6)
    assert punctuation_cost(BOTH, 0, 1024, 40, costs) == pytest.approx(0.506104, abs=1e-6)
    with_punctuations, without = pwjoin_cost(BOTH, 0, 1024, 40, costs), window_join_cost(BOTH, 0, 1024, costs)
    assert (with_punctuations, without) == (pytest.approx(5505.5823, abs=1e-4), pytest.approx(9162.1094, abs=1e-4))
    assert with_punctuations / without == pytest.approx(0.6009, abs=1e-4)


def test_equation_7_1_adds_the_states_of_all_streams() -> None:
    costs = UnitCosts()
    four = [BOTH[0]] * 4
    probes = (500 + 5) * 4 * 250 / (2 * 1024 * 40) * costs.equality
    expected = probes + 500 * (2 * 0.5 * 1.0 + 10) + 5 * 0.5 * 1.0
    assert pwjoin_cost(four, 0, 1024, 40, costs) == pytest.approx(expected)


def test_g19_the_model_of_the_first_publication() -> None:
    assert first_published_state(100, 15, 1, 60, 100) == pytest.approx(600)
    assert first_published_state(100, 15, 1, 60, 60) == 0
    assert first_published_state(100, 15, 1, 60, 30) == 0


def test_mwjoin_probes_between_one_and_all_other_tables() -> None:
    assert [round(expected_lookups(matches, 4), 2) for matches in (0, 2, 10)] == [1, 2.61, 3]


def test_a_window_of_rows_spans_the_time_its_rows_need() -> None:
    assert row_window_length(10, 2) == 5
    assert row_window_length(10, 0) == float("inf")
