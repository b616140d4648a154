"""Strategies on bursts of random load, by means over many seeds: what the literature reports, as far as it holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from penstock.kernel.contracts import Policy
from penstock.kernel.work import Choice, Price, WorkPlan
from penstock.qos.scheduling.stretches import ServesStretches
from penstock.qos.scheduling.table import make_policy
from penstock.testing.scheduling import UNIT_NS, line, plan_of
from penstock.testing.scheduling_simulator import Arrival, Simulation

pytestmark = pytest.mark.slow

SEEDS = range(20)
MS = 1_000_000
#: Seconds of a phase, and its load relative to the mean one.
PHASE, LOADS = 40, (2, 1, 0.25, 2, 1, 0.25)


@cache
def scene(seed: int) -> tuple[WorkPlan, tuple[Arrival, ...]]:
    """Eight paths with a selective first operator and slow others, each with the same part of a load of 0.7."""
    rng = np.random.default_rng(seed)
    operators, arrivals = [], list[Arrival]()
    for path in range(8):
        prices, reach, work_ns, size = list[Price](), 1.0, 0.0, 1000
        for at in range(rng.integers(3, 7)):
            row_ns = rng.uniform(*((20, 120) if at else (5, 20))) * MS
            selectivity = rng.uniform(*((0.3, 1) if at else (0.2, 0.6)))
            prices.append(Price(0, row_ns, selectivity, size, 1))
            work_ns, reach = work_ns + reach * row_ns, reach * selectivity
            size = int(size * 0.7) if rng.random() < 1 / 3 else size
        operators += line(f"p{path}_", *prices)
        for phase, load in enumerate(LOADS):
            count = rng.poisson(0.7 / 8 * UNIT_NS / work_ns * load * PHASE)
            times = np.sort(rng.uniform(phase * PHASE, (phase + 1) * PHASE, count) * UNIT_NS).astype(np.int64)
            arrivals += [Arrival(int(time), f"p{path}_1", 1) for time in times]
    return plan_of(*operators), tuple(arrivals)


@dataclass(frozen=True)
class Measured:
    """Seconds, tuples of memory, numbers."""

    answers: int
    latency: float
    latest: float
    peak: float
    gusts: float
    under_load: float
    decisions: int


def object_of(policy: Policy, choice: Choice) -> object:
    """What was decided for: a path or segment, or an operator."""
    return tuple(policy.snapshot()["running"]) if isinstance(policy, ServesStretches) else choice.operator


@cache
def measured(name: str, seed: int, decision_ns: int = 2 * MS, peak: float = 0.0) -> Measured:
    """Of one run; a peak of memory makes the thresholds."""
    plan, arrivals = scene(seed)
    parameters = {"memory": 10**9, "upper": round(1150 * peak), "lower": round(800 * peak)} if peak else {}
    policy = make_policy(name, {"oldest_every": 0, **parameters})
    simulation = Simulation(policy, plan, 1, decision_ns, object_of)
    simulation.run(arrivals)
    latencies = np.array([one.latency_ns for one in simulation.answered]) / UNIT_NS
    seconds = np.array([one.at_ns for one in simulation.answered]) / UNIT_NS
    in_burst = (seconds % (3 * PHASE) < PHASE) & (seconds < PHASE * len(LOADS))
    counts = np.bincount(seconds.astype(int) // 10)
    return Measured(
        len(latencies),
        latencies.mean(),
        float(np.percentile(latencies, 99)),
        simulation.peak / 1000,
        counts.max() / counts.mean(),
        in_burst.mean(),
        simulation.decisions,
    )


def mean(name: str, figure: str, decision_ns: int = 2 * MS) -> float:
    return float(np.mean([getattr(measured(name, seed, decision_ns), figure) for seed in SEEDS]))


def ordered(figure: str, *names: str) -> bool:
    """Whether the means grow in this order."""
    means = [mean(name, figure) for name in names]
    return means == sorted(means)


def test_all_make_the_same_answers() -> None:
    for name in ("fifo", "chain", "path_capacity", "path_answers", "segment", "simple_segment"):
        assert [measured(name, seed).answers for seed in SEEDS] == [measured("fifo", seed).answers for seed in SEEDS]


def test_latency_by_strategy() -> None:
    assert ordered("latency", "path_answers", "path_capacity", "simple_segment", "segment", "chain")
    assert all(measured("path_answers", seed).latency < measured("path_capacity", seed).latency for seed in SEEDS)
    assert ordered("latest", "fifo", "path_capacity", "simple_segment", "segment", "chain")


def test_memory_by_strategy() -> None:
    assert ordered("peak", "segment", "chain", "path_capacity", "path_answers", "fifo")
    assert mean("segment", "peak", 0) <= 1.05 * mean("chain", "peak", 0)
    assert mean("segment", "peak") < mean("simple_segment", "peak") <= 1.2 * mean("segment", "peak")
    assert mean("path_capacity", "peak") >= 1.5 * mean("segment", "peak")


def test_answers_under_load_and_in_gusts() -> None:
    assert ordered("under_load", "segment", "path_capacity")
    assert ordered("under_load", "chain", "simple_segment", "path_capacity")
    assert ordered("gusts", "path_capacity", "chain")


def test_decisions_by_strategy() -> None:
    assert ordered("decisions", "path_capacity", "simple_segment", "segment", "chain")


def test_thresholds_keep_memory_near_them_and_answer_sooner_than_segments_on_average() -> None:
    runs = [measured("threshold", seed, 2 * MS, measured("segment", seed).peak) for seed in SEEDS]
    for seed, run in zip(SEEDS, runs, strict=True):
        segment = measured("segment", seed).peak
        assert segment <= run.peak <= min(measured("path_capacity", seed).peak, 1.1 * 1.15 * segment)
    assert mean("path_capacity", "latency") < np.mean([run.latency for run in runs]) < mean("segment", "latency")
