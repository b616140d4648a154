"""Formulas of one operator against a plain simulation of what they describe, and what must hold among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from penstock.qos.capacity.distributions import Distribution, deterministic, exponential, gamma, uniform
from penstock.qos.capacity.quantiles import JoinWaits
from penstock.qos.capacity.queue_lengths import Floats, length_probabilities
from penstock.qos.capacity.single_server import SingleServer, pooled
from penstock.qos.capacity.vacations import Discipline, VacationServer

#: A simulation ends after so many rounds at the latest.
_ROUNDS = 120_000
_KINDS = {"deterministic": deterministic, "exponential": exponential, "uniform": uniform}


def drawn(kind: str, mean: float, count: int, random: np.random.Generator) -> Floats:
    if kind == "exponential":
        return random.exponential(mean, count)
    return random.uniform(0, 2 * mean, count) if kind == "uniform" else np.full(count, mean)


def waits_of(gaps: Floats, services: Floats) -> Floats:
    """Lindley's recursion, for all rows at once."""
    sums = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    found: Floats = sums - np.minimum.accumulate(sums)
    return found


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    load=st.floats(0.1, 0.8),
    classes=st.lists(st.tuples(st.floats(0.2, 3.0), st.floats(0.2, 3.0), st.sampled_from(sorted(_KINDS))), min_size=1, max_size=3),
    seed=st.integers(0, 10_000),
)
def test_waits_of_several_classes(load: float, classes: list[tuple[float, float, str]], seed: int) -> None:
    factor = load / sum(rate * mean for rate, mean, _ in classes)
    known = [(rate * factor, mean, kind) for rate, mean, kind in classes]
    server = pooled(*((rate, _KINDS[kind](mean)) for rate, mean, kind in known))
    random, rows = np.random.default_rng(seed), 1_000_000
    chosen = random.choice(len(known), rows, p=[rate / server.rate for rate, _, _ in known])
    services = np.choose(chosen, [drawn(kind, mean, rows, random) for _, mean, kind in known])
    batches = waits_of(random.exponential(1 / server.rate, rows), services).reshape(100, -1).mean(axis=1)
    error = batches.std() / 10
    assert batches.mean() == pytest.approx(server.wait, abs=max(4 * error, 0.02 * server.wait))
    assert server.in_system == pytest.approx(server.load + server.rate * server.wait, rel=1e-12)
    assert server.in_system == pytest.approx(server.rate * server.latency, rel=1e-12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rates=st.tuples(st.floats(0.1, 5), st.floats(0.1, 5)),
    times=st.tuples(st.floats(0.1, 5), st.floats(0.1, 5)),
    load=st.floats(0.05, 0.95),
)
def test_numbers_of_rows_add_up_and_agree_with_their_moments(
    rates: tuple[float, float], times: tuple[float, float], load: float
) -> None:
    factor = load / sum(rate * time for rate, time in zip(rates, times, strict=True))
    scaled = [rate * factor for rate in rates]
    server = pooled(*zip(scaled, map(deterministic, times), strict=True))
    longest = int(server.in_system + 60 * server.in_system_variance**0.5 + 20)
    found = length_probabilities(scaled, times, longest)
    numbers = np.arange(longest + 1)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert found @ numbers == pytest.approx(server.in_system, rel=1e-6)
    assert found @ numbers**2 - server.in_system**2 == pytest.approx(server.in_system_variance, rel=1e-5)
    published = subtracting(scaled, times, min(longest, 30))
    assert found[: len(published)] == pytest.approx(published, abs=1e-10)


def subtracting(rates: list[float], times: tuple[float, float], longest: int) -> list[float]:
    """The published recursion, which subtracts."""
    from math import exp, factorial

    total = sum(rates)
    alpha = [
        sum(rate / total * exp(-total * time) * (total * time) ** k / factorial(k) for rate, time in zip(rates, times, strict=True))
        for k in range(longest + 2)
    ]
    a = [0.0] + [(alpha[k] - alpha[k - 1]) / alpha[0] for k in range(1, longest + 1)]
    b = [0.0, (alpha[1] - 1) / alpha[0], *(alpha[k] / alpha[0] for k in range(2, longest + 2))]
    d = [1.0]
    for k in range(1, longest + 1):
        d.append(a[k] - sum(b[j] * d[k - j] for j in range(1, k + 1)))
    load = sum(rate * time for rate, time in zip(rates, times, strict=True))
    return [(1 - load) * each for each in d]


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    rates=st.tuples(st.floats(0.1, 5), st.floats(0.1, 5)),
    times=st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)),
    load=st.floats(0.2, 0.9),
)
def test_quantiles_of_a_join(rates: tuple[float, float], times: tuple[float, float], load: float) -> None:
    factor = load / sum(rate * time for rate, time in zip(rates, times, strict=True))
    waits = JoinWaits([rate * factor for rate in rates], times)
    random, rows = np.random.default_rng(5), 1_000_000
    chosen = random.random(rows) < rates[1] / sum(rates)
    found = waits_of(random.exponential(1 / waits.server.rate, rows), np.where(chosen, times[1], times[0]))
    for share in (0.5, 0.9, 0.99):
        assert (found <= waits.quantile(share) + 1e-9).mean() == pytest.approx(share if share > 1 - load else 1 - load, abs=0.02)


@settings(max_examples=8, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    rate=st.floats(0.1, 0.8), service=st.sampled_from(sorted(_KINDS)), setup=st.floats(0, 2), vacation=st.floats(0.5, 4),
    kinds=st.tuples(st.sampled_from(sorted(_KINDS)), st.sampled_from(sorted(_KINDS))), discipline=st.sampled_from(Discipline),
)  # fmt: skip
@example(
    rate=0.1, service="uniform", setup=1e-44, vacation=0.5, kinds=("uniform", "deterministic"), discipline=Discipline.GATED
)  # the transform of so short a time was 0
def test_vacations(
    rate: float, service: str, setup: float, vacation: float, kinds: tuple[str, str], discipline: Discipline
) -> None:
    served = VacationServer(rate, _KINDS[service](1.0), _KINDS[kinds[0]](setup), _KINDS[kinds[1]](vacation), discipline)
    random, rows = np.random.default_rng(3), 80_000
    arrivals = np.cumsum(random.exponential(1 / rate, rows))
    begun = np.empty(rows)
    now, done, empty, rounds = 0.0, 0, 0, 0
    services = drawn(service, 1.0, rows, random)
    setups, vacations = (
        iter(drawn(kind, mean, _ROUNDS, random).tolist()) for kind, mean in zip(kinds, (setup, vacation), strict=True)
    )
    while done < rows - 5_000 and rounds < _ROUNDS:
        now += next(vacations)
        rounds += 1
        gate = int(np.searchsorted(arrivals, now, side="right"))
        if gate == done:
            empty += 1
            continue
        now += next(setups)
        if discipline is not Discipline.GATED:
            gate = int(np.searchsorted(arrivals, now, side="right"))
        while done < gate:
            begun[done] = now
            now += services[done]
            done += 1
            if discipline is Discipline.EXHAUSTIVE and done == gate:
                gate = int(np.searchsorted(arrivals, now, side="right"))
    waits = (begun - arrivals)[:done]
    error = waits[: done // 50 * 50].reshape(50, -1).mean(axis=1).std() / 50**0.5
    assert waits.mean() == pytest.approx(served.wait, abs=max(5 * error, 0.02 * served.wait))
    assert empty / rounds == pytest.approx(served.empty_share, abs=0.02)
    assert now / rounds == pytest.approx(served.round, rel=0.03)


@given(rate=st.floats(0.05, 0.9), mean=st.floats(0.1, 1.0), variation=st.floats(0.1, 4.0))
def test_without_vacation_and_setup_it_is_one_server(rate: float, mean: float, variation: float) -> None:
    service, nothing = gamma(mean, variation), deterministic(0.0)
    for discipline in Discipline:
        assert VacationServer(rate, service, nothing, nothing, discipline).wait == SingleServer(rate, service).wait


@given(rate=st.floats(0.05, 0.9), mean=st.floats(0.1, 1.0))
def test_equal_classes_are_one_class(rate: float, mean: float) -> None:
    one = SingleServer(rate, deterministic(mean))
    two = pooled((rate / 3, deterministic(mean)), (2 * rate / 3, deterministic(mean)))
    with_table = pooled((rate, deterministic(mean)), (0.0, deterministic(5.0)))
    for other in (two, with_table):
        assert (other.wait, other.in_system_variance) == pytest.approx((one.wait, one.in_system_variance), rel=1e-9)


@given(part=st.sampled_from([deterministic(2.0), exponential(2.0), uniform(2.0), gamma(2.0, 0.5)]))
def test_moments_are_those_of_the_transform(part: Distribution) -> None:
    step = 1e-3
    values = [float(part.transform(each * step).real) for each in range(4)]
    first = (-11 * values[0] + 18 * values[1] - 9 * values[2] + 2 * values[3]) / (6 * step)
    second = (2 * values[0] - 5 * values[1] + 4 * values[2] - values[3]) / step**2
    assert -first == pytest.approx(part.mean, rel=1e-4)
    assert second == pytest.approx(part.second, rel=1e-2)
