"""Micro-batches of Spark: formulas against a simulation of gates, batches and commits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidModel, Overloaded
from penstock.qos.capacity.batch_costs import ASSUMED, fitted
from penstock.qos.capacity.gated_server import GatedServer, highest_rate

near = pytest.approx


def simulated(server: GatedServer, seconds: float) -> tuple[float, float, float]:
    """Mean latency, its 95th percentile, and the mean cycle."""
    random = np.random.default_rng(7)
    arrivals = np.cumsum(random.exponential(1 / server.rate, int(server.rate * seconds * 1.05) + 100))
    now, done, latencies, batches = 0.0, 0, [], 0
    while now < seconds:
        gate = int(np.searchsorted(arrivals, now, side="right"))
        if server.most_rows is not None:
            gate = min(gate, done + int(server.most_rows))
        length = max(server.fixed_s + server.row_s * (gate - done) + server.fixed_deviation_s * random.standard_normal(), 0.0)
        latencies.append(now + length - arrivals[done:gate])
        done, batches = gate, batches + 1
        due = (np.floor(now / server.trigger_s + 1e-9) + 1) * server.trigger_s if server.trigger_s else 0.0
        now = max(now + length, due)
    found = np.concatenate(latencies)
    return float(found.mean()), float(np.quantile(found, 0.95)), now / batches


@pytest.mark.parametrize(
    ("server", "latency", "batch"),
    [
        (GatedServer(1000, 0.3, 0.5e-3), 0.9008, 0.600),
        (GatedServer(1000, 0.3, 0.9e-3), 4.507, 3.0),
        (GatedServer(1000, 0.3, 0.5e-3, 1.0), 1.3005, 0.8),
        (GatedServer(1000, 0.3, 0.8e-3, 1.0), 2.253, 1.5),
    ],
)
def test_worked_examples(server: GatedServer, latency: float, batch: float) -> None:
    assert (server.latency_s, server.batch_s) == near((latency, batch), rel=1e-4)


@settings(max_examples=25, deadline=None, derandomize=True)
@example(rate=200.0, fixed=0.3, load=0.85, trigger=0.0, variation=0.2)
@given(
    rate=st.floats(100, 1000), fixed=st.floats(0.05, 1.0), load=st.floats(0.05, 0.85),
    trigger=st.sampled_from([0.0, 0.5, 1.0, 3.0]), variation=st.floats(0.0, 0.25),
)  # fmt: skip
def test_latency_and_cycle(rate: float, fixed: float, load: float, trigger: float, variation: float) -> None:
    server = GatedServer(rate, fixed, load / rate, trigger, fixed_deviation_s=variation * fixed)
    away = abs(server.fixed_s + load * trigger - trigger) / trigger if trigger else 1.0
    if away < 0.3:
        return  # micro-batches that are sometimes shorter than the trigger and sometimes longer are neither case
    latency, tail, cycle = simulated(server, 3000.0)
    assert cycle == near(server.cycle_s, rel=0.03)
    assert latency == near(server.latency_s, rel=0.03)
    assert tail == near(server.latency_p95_s, rel=0.04)


@given(rate=st.floats(1, 5000), fixed=st.floats(0.01, 2), row=st.floats(1e-6, 1e-3), trigger=st.floats(0, 5))
def test_more_of_anything_never_makes_answers_earlier(rate: float, fixed: float, row: float, trigger: float) -> None:
    if rate * 1.1 * row * 1.1 >= 1:
        return
    server = GatedServer(rate, fixed, row, trigger)
    worse = (
        GatedServer(rate * 1.1, fixed, row, trigger), GatedServer(rate, fixed * 1.1, row, trigger),
        GatedServer(rate, fixed, row * 1.1, trigger),
    )  # fmt: skip
    for other in worse:
        assert other.latency_s >= server.latency_s * (1 - 1e-9)
    assert server.latency_p95_s >= server.latency_s


def test_a_limit_of_rows_lowers_the_highest_rate() -> None:
    assert highest_rate(0.3, 5e-4) == 2000
    assert highest_rate(0.3, 5e-4, most_rows=600) == near(1000)
    assert GatedServer(999, 0.3, 5e-4, most_rows=600).latency_s > 0
    with pytest.raises(Overloaded):
        GatedServer(1001, 0.3, 5e-4, most_rows=600)
    stuck = simulated(GatedServer(900, 0.3, 5e-4, most_rows=600), 500)[0]
    assert stuck < 10


def test_too_many_rows_are_refused_with_the_share_to_shed() -> None:
    with pytest.raises(Overloaded, match=r"(?s)the query.*needs 200.0 %.*shed at least 50.0 %"):
        GatedServer(4000, 0.3, 5e-4)
    with pytest.raises(InvalidModel, match="'most_rows' is 0"):
        GatedServer(1, 0.3, 5e-4, most_rows=0)
    with pytest.raises(InvalidModel, match="quantile"):
        GatedServer(1, 0.3, 5e-4).quantile(1.5)
    with pytest.raises(InvalidModel, match="'fixed_s' is nan"):
        GatedServer(1, float("nan"), 5e-4)


@given(fixed=st.floats(0.05, 1.0), row=st.floats(1e-6, 1e-4), seed=st.integers(0, 100), disturbed=st.integers(0, 3))
def test_costs_are_found_behind_noise_and_disturbed_micro_batches(fixed: float, row: float, seed: int, disturbed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.uniform(1_000, 40_000, 60)
    seconds = fixed + row * rows + random.normal(0, 0.02 * fixed, 60)
    seconds[:disturbed] += 5.0
    found = fitted(list(zip(rows.tolist(), seconds.tolist(), strict=True)), 2, row_s=row / 10)
    assert found.estimated == ()
    assert found.fixed_s == near(fixed, rel=0.05)
    assert found.row_s * 20_000 == near(row * 20_000, abs=0.05 * fixed)


def test_too_few_or_equal_micro_batches_are_estimates() -> None:
    assert fitted([(1, 1.0)] * 3, 2, 1e-6) is ASSUMED
    alike = fitted([(1000, 0.3)] * 20, 2, 1e-4)
    assert (alike.fixed_s, alike.row_s, alike.estimated) == (near(0.2), 1e-4, ("the cost of reading and writing a row",))
