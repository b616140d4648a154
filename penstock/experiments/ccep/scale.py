"""Ten times as many orders side by side: E-CC-6."""

from __future__ import annotations

from dataclasses import replace

from penstock.experiments.ccep.engines import Q1, Q2, STATEMENTS, Saving, savings, scaled
from penstock.experiments.ccep.sequences import failing_early, one_branch, percent
from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import spread_of


def scalability(settings: Settings) -> ReproductionOutcome:
    """E-CC-6: savings at a fail ratio of 90 %, small and large."""
    times = 3 if settings.is_quick else 10
    small: list[list[float]] = []
    large: list[list[float]] = []
    same = True
    for seed in settings.seed_numbers():
        for found, factor in ((small, 1), (large, times)):
            each = _saved(settings, seed, factor)
            found.append([value for saved in each for value in (saved["C"].memory, saved["C"].probes)])
            same &= all(saving.is_same for saved in each for saving in saved.values())
    few, many = spread_of(small)[0], spread_of(large)[0]
    apart = max(abs(one - other) for one, other in zip(few, many, strict=True))
    singly = max(abs(one - other) for run, more in zip(small, large, strict=True) for one, other in zip(run, more, strict=True))
    claim = STATEMENTS["E-CC-6"].judged(
        "E-CC-6",
        same and apart <= 0.05,
        f"{percent(few)} and {percent(many)}: at most {100 * apart:.1f} points apart, {100 * singly:.1f} on a single stream",
        small=few,
        large=many,
    )
    names = ("events kept,\nsequence", "probes,\nsequence", "events kept,\nAND", "probes,\nAND")
    orders = scaled(failing_early(0.9), settings).side_by_side
    sizes = {f"{orders:,} orders side by side": small, f"{times * orders:,}": large}
    bars = tuple(
        Series(name, range(4), *spread_of([[100 * value for value in run] for run in found])) for name, found in sizes.items()
    )
    panel = Panel("measure and query", "saved against no constraints (%)", bars, "bars", names)
    return ReproductionOutcome((claim,), Drawing(f"Savings with {times} times the orders, 90 % failing", (panel,)))


def _saved(settings: Settings, seed: int, factor: int) -> list[dict[str, Saving]]:
    """What constraints save in both queries on streams with so many times the orders."""
    found = []
    for query, traffic in ((Q1, failing_early(0.9)), (Q2, one_branch(0.9))):
        usual = scaled(traffic, settings, seed)
        found.append(savings(query, replace(usual, events=factor * usual.events, side_by_side=factor * usual.side_by_side)))
    return found
