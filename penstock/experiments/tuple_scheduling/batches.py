"""Where batches should end: E-TS-3 and 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.experiments.contracts import Drawing, ReproductionOutcome, Settings
from penstock.experiments.tuple_scheduling.setup import (
    JOBS,
    LABELS,
    STATEMENTS,
    Outcome,
    Scores,
    Setup,
    Task,
    bars,
    outcomes,
    shown,
    standard,
    sweep,
)

_LOAD = 1.4
#: Parts of the usual factors that are tried.
_LESS, _MORE = 0.7, 1.3


def _variants(settings: Settings) -> Mapping[str, Scores]:
    """Fixed batches are of the mean size of the intelligent ones, strategy by strategy."""
    # Without batches every row is a job at every operator, which takes long to simulate.
    setup = standard(settings, load=_LOAD, rate=40.0)
    names = tuple(LABELS)
    intelligent = outcomes([Task(setup, name) for name in names], settings)
    rows = [float(np.mean([each.batch_rows for each in row])) for row in intelligent]
    others = {
        "none": [replace(setup, batching="none") for _ in rows],
        "fixed length": [replace(setup, batching="fixed_length", size=round(mean)) for mean in rows],
        "fixed interval": [replace(setup, batching="fixed_interval", size=round(mean / setup.rate, 3)) for mean in rows],
    }
    found = {"intelligent": _scores(names, intelligent)}
    for variant, setups in others.items():
        tasks = [Task(each, name) for each, name in zip(setups, names, strict=True)]
        found[variant] = _scores(names, outcomes(tasks, settings))
    return found


def _scores(names: Sequence[str], found: Sequence[Sequence[Outcome]]) -> Scores:
    return {name: np.array([[each.score for each in row]]) for name, row in zip(names, found, strict=True)}


def _means(found: Scores, names: Sequence[str]) -> list[float]:
    return [float(found[name].mean()) for name in names]


def batching(settings: Settings) -> ReproductionOutcome:
    """E-TS-3: intelligent batches, those of fixed size, and none."""
    found = _variants(settings)
    gains = {
        variant: [mine - theirs for mine, theirs in zip(_means(found["intelligent"], JOBS), _means(scores, JOBS), strict=True)]
        for variant, scores in found.items()
        if variant != "intelligent"
    }
    overall = {variant: float(np.mean(_means(scores, JOBS))) for variant, scores in found.items()}
    fixed = [gains["fixed length"], gains["fixed interval"]]
    claims = (
        STATEMENTS["E-TS-3a"].judged(
            "E-TS-3a", min(float(np.mean(each)) for each in fixed) >= 0.05,
            f"over fixed length {shown(fixed[0])}; over fixed interval {shown(fixed[1])}", length=fixed[0], interval=fixed[1],
        ),
        STATEMENTS["E-TS-3b"].judged(
            "E-TS-3b", overall["none"] < min(score for variant, score in overall.items() if variant != "none"),
            "; ".join(f"{variant} {score:.3f}" for variant, score in overall.items()), mean=list(overall.values()),
        ),
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Where batches end", (bars(found, tuple(LABELS)),)))


def factors(settings: Settings) -> ReproductionOutcome:
    """E-TS-4: batches that are longer or shorter by a third."""
    usual = standard(settings, load=_LOAD)
    setups: dict[str, Setup] = {
        "as usual": usual,
        "alpha less": replace(usual, alpha=usual.alpha * _LESS),
        "alpha more": replace(usual, alpha=usual.alpha * _MORE),
        "beta less": replace(usual, beta=usual.beta * _LESS),
        "beta more": replace(usual, beta=usual.beta * _MORE),
    }
    found = {variant: sweep([setup], settings, JOBS) for variant, setup in setups.items()}
    base = _means(found["as usual"], JOBS)
    changes = {
        variant: max(abs(mine - before) for mine, before in zip(_means(scores, JOBS), base, strict=True))
        for variant, scores in found.items()
        if variant != "as usual"
    }
    claim = STATEMENTS["E-TS-4"].judged(
        "E-TS-4",
        max(changes.values()) < 0.03,
        "; ".join(f"{variant} {change:.3f}" for variant, change in changes.items()),
        change=list(changes.values()),
    )
    return ReproductionOutcome((claim,), Drawing("Factors of batching, 30 % less and more", (bars(found, JOBS),)))
