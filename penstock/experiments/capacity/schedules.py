"""Whole plans on one processor: orders of turns, load, bursts. E-CP-3 to 5."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from penstock.experiments.capacity.setup import (
    GLOBAL,
    HIERARCHICAL,
    STATEMENTS,
    TARGET,
    Run,
    all_simulated,
    modelled,
    off,
    sweep,
    target_plan,
)
from penstock.experiments.capacity.simulation import Served
from penstock.experiments.contracts import Drawing, Floats, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import listed, spread_of
from penstock.qos.capacity.polled_plans import PolledPlan

_SECONDS = 4_000.0
#: Milliseconds, in figures.
_MS = 1_000.0
_LOADS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
#: Of the model where most operators have something to do at every visit, and below.
_HEAVY = 0.7
_BURST_LOADS, _BURST_SECONDS = (0.5, 0.7, 0.85, 0.95), 3_000.0
#: Shortest bursts and pauses in seconds.
_SHORTEST = (0.01, 0.1, 1.0)
_TURNS = {"hierarchical": HIERARCHICAL, "global": GLOBAL}


def hierarchical_and_global(settings: Settings) -> ReproductionOutcome:
    """E-CP-3: rows pushed up through their query, or operators of other queries in between."""
    plan, seeds = target_plan(), settings.seed_numbers()
    runs = [Run(plan, turns, seed, settings.seconds(_SECONDS)) for turns in _TURNS.values() for seed in seeds]
    served = all_simulated(runs, settings)
    found = dict(zip(_TURNS, (served[: len(seeds)], served[len(seeds) :]), strict=True))
    models = {name: PolledPlan(plan, turns) for name, turns in _TURNS.items()}
    latency = {name: [each.latency["target"] for each in runs] for name, runs in found.items()}
    means = {name: float(np.mean(values)) for name, values in latency.items()}
    errors = [off(_known(models[name].latencies["target"]), means[name]) for name in _TURNS]
    ratio = means["global"] / means["hierarchical"]
    leaves = [off(_wait(found["global"], name), _wait(found["hierarchical"], name)) for name in ("O1", "O2", "O4")]
    upper = [_wait(found["global"], name) / _wait(found["hierarchical"], name) for name in ("O3", "O5")]
    claims = (
        STATEMENTS["E-CP-3a"].judged("E-CP-3a", ratio >= 1.4, f"{ratio:.2f} times", ratio=ratio),
        STATEMENTS["E-CP-3b"].judged(
            "E-CP-3b", max(map(abs, leaves)) < 0.02, f"{100 * max(map(abs, leaves)):.1f} % apart at most", error=leaves
        ),
        STATEMENTS["E-CP-3c"].judged("E-CP-3c", min(upper) >= 15, f"{listed(upper)} times", ratio=upper),
        STATEMENTS["E-CP-3d"].judged(
            "E-CP-3d", max(map(abs, errors)) <= 0.03, " and ".join(f"{100 * error:+.2f} %" for error in errors), error=errors
        ),
    )  # fmt: skip
    panels = tuple(_waits_panel(name, found[name], models[name]) for name in _TURNS)
    return ReproductionOutcome(claims, Drawing("Waits of the operators of a query, load 0.88", panels))


def _known(latency: float | None) -> float:
    assert latency is not None
    return latency


def _wait(runs: Sequence[Served], operator: str) -> float:
    """Mean over the inputs of an operator and over streams."""
    return float(np.mean([np.mean([wait for (name, _), wait in each.waits.items() if name == operator]) for each in runs]))


def _waits_panel(name: str, runs: Sequence[Served], model: PolledPlan) -> Panel:
    places = [(operator, number) for operator in TARGET for number in range(len(model.plan.operator(operator).inputs))]
    counted = np.array([[each.waits[place] for place in places] for each in runs])
    middle, spread = spread_of(counted * _MS)
    ticks = tuple(
        f"{operator}{'' if len(model.plan.operator(operator).inputs) == 1 else f'.{number}'}" for operator, number in places
    )
    series = (
        Series("counted", range(len(places)), middle, spread),
        Series("model", range(len(places)), [_MS * model.wait(*place) for place in places]),
    )
    return Panel("operator and input", "mean wait (ms)", series, "bars", ticks, title=f"{name} turns")


@cache
def _swept(settings: Settings) -> list[list[Served]]:
    return sweep(_LOADS, settings, settings.seconds(2_000.0))


def load(settings: Settings) -> ReproductionOutcome:
    """E-CP-4: latency of all answers over the load."""
    counted = np.array([[each.mean_latency for each in runs] for runs in _swept(settings)]).T
    middle, spread = spread_of(counted)
    predicted = [modelled(load).mean_latency() for load in _LOADS]
    errors = [off(mine, theirs) for mine, theirs in zip(predicted, middle, strict=True)]
    heavy = [error for error, load in zip(errors, _LOADS, strict=True) if load >= _HEAVY]
    slopes = np.diff(middle) / np.diff(_LOADS)
    steady = [latency * (1 - load) for latency, load in zip(middle, _LOADS, strict=True) if load >= _HEAVY]
    claims = (
        STATEMENTS["E-CP-4a"].judged(
            "E-CP-4a", bool((np.diff(slopes) > 0).all()), f"{listed([round(value, 4) for value in middle])} s", seconds=middle
        ),
        STATEMENTS["E-CP-4b"].judged(
            "E-CP-4b", max(map(abs, heavy)) <= 0.03, f"{100 * max(map(abs, heavy)):.1f} % at most", error=heavy
        ),
        STATEMENTS["E-CP-4c"].judged(
            "E-CP-4c", max(map(abs, errors)) <= 0.05, f"{100 * max(map(abs, errors)):.1f} % at most", error=errors
        ),
        STATEMENTS["E-CP-4d"].judged(
            "E-CP-4d", max(steady) / min(steady) <= 1.15, f"{max(steady) / min(steady):.3f} between largest and smallest",
            products=steady,
        ),
    )  # fmt: skip
    series = (Series("counted", _LOADS, middle, spread), Series("model", _LOADS, predicted))
    return ReproductionOutcome(
        claims, Drawing("Latency of 16 queries with 116 operators", (Panel("load", "mean latency (s)", series, "markers"),))
    )


def bursts(settings: Settings) -> ReproductionOutcome:
    """E-CP-5: self-similar streams instead of rows at random."""
    seconds = settings.seconds(_BURST_SECONDS)
    names = {0.0: "at random"} | {shortest: f"bursts from {shortest:g} s" for shortest in _SHORTEST}
    found = {shortest: sweep(_BURST_LOADS, settings, seconds, shortest) for shortest in names}
    means = {shortest: np.array([[each.mean_latency for each in runs] for runs in loads]).T for shortest, loads in found.items()}
    greatest = {shortest: _greatest(loads) for shortest, loads in found.items()}
    more = np.array([means[shortest].mean(axis=0) / means[0.0].mean(axis=0) - 1 for shortest in _SHORTEST])
    low, middle, top = (float(np.abs(more[:, at]).max()) for at in (1, 2, 3))
    least = float(more.min())
    peaks = [float(greatest[shortest][:, 3].max() / greatest[0.0][:, 3].max()) for shortest in _SHORTEST]
    claims = (
        STATEMENTS["E-CP-5a"].judged("E-CP-5a", low <= 0.05, f"{100 * low:.1f} % at most up to a load of 0.7", more=low),
        STATEMENTS["E-CP-5b"].judged("E-CP-5b", middle <= 0.12, f"{100 * middle:.1f} % at most", more=middle),
        STATEMENTS["E-CP-5c"].judged(
            "E-CP-5c", float(more[:, 3].max()) >= 0.25, f"{' / '.join(f'{100 * each:.0f}' for each in more[:, 3])} % more", more=top
        ),
        STATEMENTS["E-CP-5d"].judged("E-CP-5d", least >= -0.01, f"{100 * least:+.1f} % at least", least=least),
        STATEMENTS["E-CP-5e"].judged(
            "E-CP-5e", max(peaks) >= 2, f"{' / '.join(f'{each:.1f}' for each in peaks)} times", ratio=peaks
        ),
    )  # fmt: skip
    drawn = [Series(name, _BURST_LOADS, *spread_of(means[shortest])) for shortest, name in names.items()]
    tall = [Series(name, _BURST_LOADS, *spread_of(greatest[shortest])) for shortest, name in names.items()]
    panels = (
        Panel("load", "mean latency (s)", tuple(drawn), "markers", log_y=True),
        Panel("load", "greatest latency (s)", tuple(tall), "markers", log_y=True),
    )
    return ReproductionOutcome(claims, Drawing("Streams with bursts, 116 operators", panels))


def _greatest(loads: Sequence[Sequence[Served]]) -> Floats:
    return np.array([[max(each.greatest.values()) for each in runs] for runs in loads]).T
