"""Bursty arrivals: at the rate asked for, as bursty as they claim, and the same with the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS, RateSchedule
from penstock.workloads.b_model import BModel
from penstock.workloads.phases import heavy_spans, waves
from penstock.workloads.poisson import Poisson
from penstock.workloads.self_similar import SelfSimilar

_RATE = RateSchedule(100.0)


def _dispersion(times: Int64s, window_s: float) -> float:
    """Variance over mean of the counts: 1 for rows that come at random."""
    counts = np.bincount(times // round(window_s * MICROS))[:-1]
    return float(counts.var() / counts.mean())


def _hurst(times: Int64s) -> float:
    """From how slowly the variance of mean counts falls when they are taken over longer times."""
    counts = np.bincount(times // (MICROS // 2))[:-1].astype(np.float64)
    sizes = np.array([1, 2, 4, 8, 16, 32])
    variances = [counts[: len(counts) // size * size].reshape(-1, size).mean(axis=1).var() for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(variances), 1)[0]
    return 1.0 + float(slope) / 2


@pytest.mark.parametrize("seed", [1, 2])
def test_self_similar_rows_come_at_the_exact_rate(seed: int) -> None:
    times = SelfSimilar(_RATE, seed).times(30_000)
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] / MICROS == pytest.approx(300.0, rel=0.001)


def test_self_similar_rows_have_long_memory_and_rows_at_random_have_none() -> None:
    fast = RateSchedule(1000.0)
    bursty = [SelfSimilar(fast, seed).times(1_000_000) for seed in (1, 2, 3)]
    plain = Poisson(fast, seed=1).times(1000.0)
    assert 0.75 < np.mean([_hurst(times) for times in bursty]) < 1.0
    assert _hurst(plain) == pytest.approx(0.5, abs=0.1)
    assert min(_dispersion(times, 3.0) for times in bursty) > 3.0 > 1.5 > _dispersion(plain, 3.0)


def test_rows_at_random_come_as_often_as_expected_and_vary_as_much_as_they_should() -> None:
    counts = [len(Poisson(_RATE, seed).times(100.0)) for seed in range(200)]
    assert np.mean(counts) == pytest.approx(10_000, rel=0.003)
    assert np.var(counts) == pytest.approx(10_000, rel=0.3)
    stretched = Poisson(waves(100.0, phase_s=10.0, repetitions=1), seed=2).times(30.0)
    assert np.bincount(stretched // (10 * MICROS)).tolist() == pytest.approx([2000, 1000, 250], rel=0.15)


def test_longer_flows_are_more_bursty() -> None:
    found = [_dispersion(SelfSimilar(_RATE, 1, shortest_s=shortest).times(30_000), 3.0) for shortest in (0.01, 0.1, 1.0)]
    assert found[0] < found[1] < found[2]


def test_phases_stretch_self_similar_rows() -> None:
    schedule = waves(100.0, phase_s=10.0, repetitions=2, growth=0.0)
    times = SelfSimilar(schedule, 1, shortest_s=0.01).times(6_500)
    counts = np.bincount(times // (10 * MICROS), minlength=6)
    assert counts[:3].tolist() == pytest.approx([2000, 1000, 250], rel=0.25)
    assert times[-1] <= 60 * MICROS


def test_equal_seeds_give_equal_rows_and_others_do_not() -> None:
    one, same, other = (
        [Poisson(_RATE, seed).times(5.0), SelfSimilar(_RATE, seed).times(500), BModel(0.7, 5.0, seed=seed).times(500)]
        for seed in (4, 4, 5)
    )
    for mine, again, apart in zip(one, same, other, strict=True):
        assert np.array_equal(mine, again)
        assert not np.array_equal(mine, apart)


def test_the_b_model_deals_halves_of_halves() -> None:
    for seed in range(20):
        quarters = BModel(0.75, seconds=4.0, levels=2, seed=seed).counts(16).tolist()
        halves = sorted([sorted(quarters[:2]), sorted(quarters[2:])])
        assert halves == [[1, 3], [3, 9]]


def test_the_b_model_loses_no_row_and_is_even_without_bias() -> None:
    assert BModel(0.8, seconds=10.0, seed=3).counts(12_345).sum() == 12_345
    assert BModel(0.5, seconds=10.0, levels=3).counts(80).tolist() == [10] * 8
    times = BModel(0.8, seconds=10.0, seed=3).times(5_000)
    assert len(times) == 5_000
    assert (np.diff(times) >= 0).all()
    assert 0 <= times[0] <= times[-1] < 10 * MICROS


def test_more_bias_is_more_bursty() -> None:
    found = [_dispersion(BModel(bias, seconds=60.0, seed=1).times(6_000), 1.0) for bias in (0.5, 0.6, 0.7, 0.8)]
    assert found == sorted(found)
    assert found[0] < 0.5


def test_a_bias_outside_of_0_to_1_is_refused() -> None:
    with pytest.raises(InvalidOption, match="leaves nothing"):
        BModel(1.0, seconds=1.0)


def test_waves_grow_with_every_repetition() -> None:
    schedule = waves(10.0, phase_s=20.0, repetitions=3)
    assert schedule.expected_rows(60 * MICROS) == pytest.approx(650.0)
    assert schedule.expected_rows(180 * MICROS) == pytest.approx(650.0 * (1 + 1.05 + 1.05**2))
    assert heavy_spans(20.0, 3) == ((0.0, 20.0), (60.0, 80.0), (120.0, 140.0))
