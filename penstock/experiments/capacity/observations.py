"""What follows from the model, as the publication observes it. E-CP-6."""

from __future__ import annotations

import numpy as np

from penstock.experiments.capacity.setup import HIERARCHICAL, STATEMENTS, TARGET, target_plan
from penstock.experiments.capacity.simulation import Polling, at_random
from penstock.experiments.contracts import Claim, Drawing, Floats, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import spread_of
from penstock.qos.capacity.conditions import condition_service
from penstock.qos.capacity.cycles import Station, cycle_of, limit_recommended, limited_is_stable
from penstock.qos.capacity.distributions import deterministic, exponential, of_moments
from penstock.qos.capacity.plans import ModelPlan, PlanInput, PlanOperator
from penstock.qos.capacity.polled_plans import PolledPlan
from penstock.qos.capacity.single_server import SingleServer, pooled
from penstock.qos.capacity.vacations import Discipline, VacationServer

#: Rates, service times and setups of three operators that share a processor.
_THREE = (("a", 100.0, 0.002, 0.01), ("b", 50.0, 0.004, 0.02), ("c", 20.0, 0.01, 0.03))
_LIMITS = (16, 18, 20, 25, 40, 0)
#: Variation of the time that the processor is away from an operator of the target plan.
_VARIATION = 0.013
_INSERTIONS, _FACTORS = 200, np.linspace(0.3, 1.1, 17)


def observations(settings: Settings) -> ReproductionOutcome:
    """E-CP-6: one fast server, disciplines, limits, insertions, service times, convexity, conditions."""
    counted = _limited(settings)
    mean = counted.mean(axis=0)
    cycle = cycle_of([Station(*each) for each in _THREE], is_light_corrected=False)
    slow = Station(*_THREE[0])
    claims = (
        _pooling(),
        _disciplines(),
        STATEMENTS["E-CP-6c"].judged(
            "E-CP-6c",
            bool((np.diff(mean) <= 0.02 * mean[:-1]).all()) and not limited_is_stable(slow, cycle, 15),
            f"{' / '.join(f'{1000 * each:.0f}' for each in mean)} ms for {', '.join(str(most or 'no limit') for most in _LIMITS)}; "
            f"recommended are {limit_recommended(slow, cycle)}",
            seconds=mean.tolist(),
        ),
        _insertions(),
        _least_service(),
        _convexity(),
        _conditions(),
    )
    places = range(len(_LIMITS))
    series = (Series("counted", places, *spread_of(1_000.0 * counted)),)
    panel = Panel("most rows on a visit", "mean wait (ms)", series, "bars", tuple(str(most or "∞") for most in _LIMITS))
    return ReproductionOutcome(claims, Drawing("A limit of rows on a visit, of which 15 are needed", (panel,)))


def _pooling() -> Claim:
    one = pooled((150.0, deterministic(1 / 440)), (75.0, deterministic(1 / 220)))
    fast = pooled((1500.0, deterministic(1 / 4400)), (750.0, deterministic(1 / 2200)))
    held = abs(fast.in_system / one.in_system - 1) < 1e-9 and abs(10 * fast.latency / one.latency - 1) < 1e-9
    return STATEMENTS["E-CP-6a"].judged(
        "E-CP-6a",
        held,
        f"{fast.in_system:.3f} rows as before, {fast.latency / one.latency:.3f} times the latency",
        ratio=fast.latency / one.latency,
    )


def _disciplines() -> Claim:
    """Of an operator of the target plan, as a queue with vacations."""
    polled = PolledPlan(target_plan(), HIERARCHICAL, is_refined=False, is_light_corrected=False)
    station = polled.stations["O1"]
    away = polled.cycle.vacation(station)
    waits = {
        discipline: VacationServer(
            station.rate, deterministic(station.service), deterministic(station.setup),
            of_moments(away, away**2 * (1 + _VARIATION)), discipline,
        )
        for discipline in (Discipline.EXHAUSTIVE, Discipline.GATED)
    }  # fmt: skip
    difference = waits[Discipline.GATED].wait - waits[Discipline.EXHAUSTIVE].wait
    expected = (station.setup + station.load * away) / (1 - station.load)
    cycles = [served.service_cycle for served in waits.values()]
    held = difference > 0 and abs(difference / expected - 1) < 1e-6 and abs(cycles[0] / cycles[1] - 1) < 1e-6
    return STATEMENTS["E-CP-6b"].judged(
        "E-CP-6b",
        held,
        f"{1000 * difference:.3f} ms, {1000 * expected:.3f} ms expected; cycles of {cycles[0]:.4f} s",
        difference=difference,
    )


def _limited(settings: Settings) -> Floats:
    """Mean wait at the first of three operators under each limit, by stream."""
    operators = tuple(PlanOperator(name, (PlanInput(f"s{name}", service),), setup) for name, _, service, setup in _THREE)
    plan = ModelPlan(operators, {f"s{name}": rate for name, rate, _, _ in _THREE}, {name: name for name, *_ in _THREE})
    seconds = settings.seconds(4_000.0)
    return np.array([
        [
            Polling(plan, "abc", limits={"a": most}).run(at_random(plan, seconds, seed), seconds, seed, 50.0).waits["a", 0]
            for most in _LIMITS
        ]
        for seed in settings.seed_numbers()
    ])  # fmt: skip


def _insertions() -> Claim:
    """Other operators put between those of the target at random."""
    plan, random = target_plan(), np.random.default_rng(1)
    others = HIERARCHICAL[len(TARGET) :]
    known = PolledPlan(plan, HIERARCHICAL).latencies["target"]
    assert known is not None
    worse = []
    for _ in range(_INSERTIONS):
        places = np.sort(random.integers(0, len(TARGET) + 1, len(others)))
        turns = [name for at in range(len(TARGET) + 1) for name in (*np.array(others)[places == at].tolist(), *TARGET[at : at + 1])]
        latency = PolledPlan(plan, tuple(turns)).latencies["target"]
        assert latency is not None
        worse.append(latency / known)
    return STATEMENTS["E-CP-6d"].judged(
        "E-CP-6d", min(worse) >= 1 - 1e-9, f"{min(worse):.3f} to {max(worse):.3f} times, in {_INSERTIONS} orders", least=min(worse)
    )


def _least_service() -> Claim:
    """One query in two forms with the same setups: cheap and with long windows, or dear and with short ones."""
    others = [Station(*each) for each in _THREE[1:]]
    forms = [Station("query", 100.0, service, 0.01) for service in (0.002, 0.003)]
    cycles = [cycle_of([form, *others], is_light_corrected=False).seconds for form in forms]
    return STATEMENTS["E-CP-6e"].judged(
        "E-CP-6e", cycles[0] < cycles[1], f"{1000 * cycles[0]:.0f} and {1000 * cycles[1]:.0f} ms", seconds=cycles
    )


def _convexity() -> Claim:
    """Cycle and waits over a common factor of all rates, and over the number of equal queries."""
    plan = target_plan()
    by_rate = [PolledPlan(plan.scaled(float(factor)), HIERARCHICAL, is_light_corrected=False) for factor in _FACTORS]
    lines = [[polled.wait(name) for polled in by_rate] for name in ("O1", "O2", "O4")]
    lines.append([polled.cycle.seconds for polled in by_rate])
    lines.append(
        [
            cycle_of([Station(f"q{number}", 10.0, 0.004, 0.01) for number in range(count)], is_light_corrected=False).seconds
            for count in range(1, 25)
        ]
    )
    bends = [float((np.diff(line, 2) / np.array(line)[1:-1]).min()) for line in lines]
    return STATEMENTS["E-CP-6f"].judged("E-CP-6f", min(bends) > 0, f"the least bend is {min(bends):.1e} of the value", bends=bends)


def _conditions() -> Claim:
    """Waits in front of a selection with three conditions."""
    exact = condition_service((0.1, 0.3, 0.5), (1.0, 1.0, 1.0))
    ratios = [
        SingleServer(load / exact.mean, exponential(exact.mean)).wait / SingleServer(load / exact.mean, exact).wait
        for load in (0.5, 0.8, 0.9)
    ]
    held = all(abs(ratio - 1.76) < 0.01 for ratio in ratios)
    return STATEMENTS["E-CP-6g"].judged("E-CP-6g", held, f"{100 * (ratios[0] - 1):.0f} % at every load", ratio=ratios)
