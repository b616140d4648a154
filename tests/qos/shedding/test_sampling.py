"""How often rates and loads are looked at."""

from __future__ import annotations

import pytest

from penstock.qos.shedding.controller import LoadEstimate
from penstock.qos.shedding.sampling import SHORTEST_S, EstimationPeriod, RateMonitor

PLACE = ("a", 0)


def test_steady_rates_are_sampled_less_often_and_never_less_than_twice_in_the_time_for_an_answer() -> None:
    monitor, now = RateMonitor(latency_s=0.6), 0.0
    for _ in range(50):
        monitor.add(now, rows=round(1_000 * monitor.period_s))
        now += monitor.period_s
    assert monitor.period_s == pytest.approx(0.3)
    assert monitor.mean(0.6) == pytest.approx(1_000, rel=0.02)


def test_rates_that_vary_are_sampled_more_often() -> None:
    monitor, now = RateMonitor(latency_s=2.0), 0.0
    for turn in range(50):
        monitor.add(now, rows=round((2_000 if turn % 2 else 10) * monitor.period_s))
        now += monitor.period_s
    assert monitor.period_s == pytest.approx(SHORTEST_S, abs=0.02)


def test_the_mean_is_over_the_time_asked_for() -> None:
    monitor = RateMonitor(latency_s=2.0)
    assert monitor.mean(1.0) == 0.0
    for tenth in range(30):
        monitor.add(tenth / 10, rows=100 if tenth > 19 else 10)
    assert monitor.mean(1.0) == pytest.approx(1_000)
    assert monitor.mean(2.0) == pytest.approx(550)
    monitor.add(3.0, rows=0)
    monitor.add(5.5, rows=0)
    assert monitor.mean(1.0) == 0.0


def test_loads_are_estimated_often_only_while_they_are_high_and_change() -> None:
    period = EstimationPeriod(latency_s=0.6)
    assert period.period_s == pytest.approx(0.1)
    for offered, rate, expected in ((0.9, 100.0, 0.1), (0.9, 105.0, 0.2), (0.9, 106.0, 0.3), (0.9, 150.0, 0.1), (0.5, 300.0, 0.2)):
        period.follow(LoadEstimate(offered, offered, 0.0, 0.0), {PLACE: rate})
        assert period.period_s == pytest.approx(expected)
