"""What comes: how much, how late, and how unevenly. E-TS-7, 8 and 9."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import spread_of
from penstock.experiments.tuple_scheduling.queries import are_ahead, leads
from penstock.experiments.tuple_scheduling.setup import (
    JOBS,
    LABELS,
    PAIRS,
    STATEMENTS,
    Scores,
    Setup,
    Task,
    lines,
    means,
    outcomes,
    shown,
    standard,
    sweep,
)

_LOADS, _DELAYS, _BIASES = (0.9, 1.2, 1.6, 2.2), (0.0, 1.0, 2.0, 3.0), (0.5, 0.6, 0.7, 0.8, 0.9)
_LOAD = 1.2
#: Of valuing one job, where scheduling takes a visible part of the time.
_COSTLY_US = 500.0


def load(settings: Settings) -> ReproductionOutcome:
    """E-TS-7: more and more work."""
    setups = [standard(settings, load=load, seconds=30.0) for load in _LOADS]
    found = sweep(setups, settings)
    lead = leads(found)
    drops = {name: means(found[name])[0] - means(found[name])[-1] for name in LABELS}
    interrupts = np.array([[each.interrupts for each in row] for row in outcomes(_all(JOBS, setups), settings)])
    per_strategy = dict(zip(JOBS, interrupts.reshape(len(JOBS), len(_LOADS), -1), strict=True))
    factors = [float(per_strategy[plain].mean() / per_strategy[better].mean()) for plain, better in PAIRS]
    dropped = "; ".join(f"{LABELS[name]} {drop:.3f}" for name, drop in drops.items())
    heavy = {name: means(found[name])[_LOADS.index(1.6) :] for name in LABELS}
    best = [max(heavy, key=lambda name: heavy[name][at]) for at in range(len(heavy["basic"]))]
    claims = (
        STATEMENTS["E-TS-7a"].judged(
            "E-TS-7a", all(drops[better] < drops[plain] for plain, better in PAIRS),
            dropped, drops=list(drops.values()),
        ),
        STATEMENTS["E-TS-7b"].judged("E-TS-7b", all(are_ahead(found)), f"ahead by {shown(lead)} on average", lead=lead),
        STATEMENTS["E-TS-7c"].judged("E-TS-7c", min(factors) >= 3, f"{shown(factors)} times as many", factors=factors),
        STATEMENTS["E-TS-7d"].judged(
            "E-TS-7d", set(best) == {"profit_deadline"},
            f"best: {', '.join(LABELS[name] for name in best)}; OptProfit+PD {shown(heavy['profit_deadline'])}",
            scores=heavy["profit_deadline"], profit=heavy["profit"],
        ),
    )  # fmt: skip
    counts = tuple(
        Series(LABELS[name], list(_LOADS), *spread_of(per_strategy[name].T.astype(np.float64))) for name in ("basic", "profit")
    )
    panels = (lines(found, _LOADS, "load"), Panel("load", "interrupts by new jobs", counts))
    return ReproductionOutcome(claims, Drawing("Load", panels))


def _all(names: Sequence[str], setups: Sequence[Setup]) -> list[Task]:
    return [Task(setup, name) for name in names for setup in setups]


def urgency(settings: Settings) -> ReproductionOutcome:
    """E-TS-8: rows that come late already."""
    found = sweep([standard(settings, load=_LOAD, delay_s=delay) for delay in _DELAYS], settings)
    losses = {name: means(found[name])[0] - means(found[name])[-1] for name in LABELS}
    aware = [losses[name] for name in ("basic_deadline", "deadline", "basic_profit_deadline", "profit_deadline")]
    others = [losses[name] for name in ("round_robin", "basic", "profit")]
    best = min(losses, key=lambda name: losses[name])
    claims = (
        STATEMENTS["E-TS-8a"].judged(
            "E-TS-8a", max(aware) < min(others),
            "; ".join(f"{LABELS[name]} {loss:.3f}" for name, loss in losses.items()), losses=list(losses.values()),
        ),
        STATEMENTS["E-TS-8b"].judged(
            "E-TS-8b", best == "profit_deadline", f"least: {LABELS[best]} {losses[best]:.3f}", loss=losses["profit_deadline"]
        ),
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Rows that come late", (lines(found, _DELAYS, "age on arrival (s)"),)))


def burstiness(settings: Settings) -> ReproductionOutcome:
    """E-TS-9: the same rows in gusts, where scheduling costs little and where it costs much."""
    cheap = sweep([standard(settings, load=_LOAD, bias=bias) for bias in _BIASES], settings)
    costly = sweep([standard(settings, load=_LOAD, bias=bias, valuing_us=_COSTLY_US) for bias in _BIASES], settings)
    best = [max(LABELS, key=lambda name: means(cheap[name])[at]) for at in range(len(_BIASES))]
    claims = (
        STATEMENTS["E-TS-9a"].judged(
            "E-TS-9a", len(_better(cheap)) > len(LABELS) / 2, _changes(cheap), first=_at(cheap, 0), last=_at(cheap, -1)
        ),
        STATEMENTS["E-TS-9b"].judged(
            "E-TS-9b", set(best) == {"profit_deadline"}, f"best: {', '.join(LABELS[name] for name in best)}",
            scores=means(cheap["profit_deadline"]),
        ),
        STATEMENTS["E-TS-9c"].judged(
            "E-TS-9c", len(_better(costly)) > len(LABELS) / 2, _changes(costly), first=_at(costly, 0), last=_at(costly, -1)
        ),
    )  # fmt: skip
    panels = (
        lines(cheap, _BIASES, "burstiness b", title="valuing a job takes 20 µs"),
        lines(costly, _BIASES, "burstiness b", title=f"valuing a job takes {_COSTLY_US:g} µs"),
    )
    return ReproductionOutcome(claims, Drawing("Burstiness", panels))


def _better(found: Scores) -> list[str]:
    """Strategies that are better where rows come in gusts than where they come evenly."""
    return [name for name in found if means(found[name])[-1] > means(found[name])[0]]


def _at(found: Scores, at: int) -> list[float]:
    return [means(scores)[at] for scores in found.values()]


def _changes(found: Scores) -> str:
    return "; ".join(f"{LABELS[name]} {means(scores)[0]:.3f} → {means(scores)[-1]:.3f}" for name, scores in found.items())
