"""Regret after a change, seed by seed, and the statistics that profiling is predicted from."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.experiments.agreedy.adaptivity import _POLICIES, _reversal
from penstock.experiments.agreedy.populations import population, profiling_cost, profiling_share, random_cost
from penstock.experiments.agreedy.workload import correlated
from penstock.operators.filtering.static import histogram

#: A-Greedy with 1000, 500 and 200 rows, Sweep, Independent, LocalSwaps with 500 and 100 rows.
REGRET = {
    ("A1", 7): (91_427, 54_972, 31_435, 489_631, 328_865, 414_494, 79_880),
    ("A2", 8): (48_453, 31_146, 20_371, 130_637, 247_982, 87_326, 28_987),
}


@pytest.mark.parametrize(("stream", "seed"), REGRET)
def test_regret_after_the_change_has_the_published_integers(stream: str, seed: int) -> None:
    found, lines = _reversal(stream, seed)
    assert tuple(int(found[name][0]) for name in _POLICIES) == REGRET[stream, seed]
    assert lines.shape == (len(_POLICIES), 600)


def test_populations_are_what_streams_converge_to() -> None:
    masks = correlated(5, 400_000, (0.3,) * 5, 3, None)
    assert np.abs(histogram(masks, 5) / len(masks) - population(5, 0.3, 3).weights).max() < 0.003


def test_mean_cost_of_a_random_order() -> None:
    assert [round(random_cost(population(size)), 4) for size in (2, 3, 5, 8)] == [1.5, 1.8, 2.062, 2.1634]


@pytest.mark.parametrize(
    ("filters", "probability", "share"), [(3, 0.01, 0.709), (3, 0.05, 3.448), (8, 0.01, 2.804), (8, 0.05, 12.604)]
)
def test_profiling_share_is_predicted(filters: int, probability: float, share: float) -> None:
    assert round(100 * profiling_share(population(filters), probability), 3) == share


def test_each_algorithm_pays_for_what_it_asks() -> None:
    known = population(3, costs=(1, 2, 4))
    order = (0, 2, 1)
    dropped = [known.rejected(0, 0), known.rejected(2, 1), known.rejected(1, 5)]
    assert profiling_cost(known, order, 1.0, "agreedy") == pytest.approx(6 * dropped[0] + 2 * dropped[1])
    assert profiling_cost(known, order, 1.0, "sweep") == pytest.approx(3 * dropped[0] + 1 * dropped[1])
    assert profiling_cost(known, order, 1.0, "local_swaps") == pytest.approx(4 * dropped[0] + 2 * dropped[1])
