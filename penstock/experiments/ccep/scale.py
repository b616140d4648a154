"""Ten times as many orders side by side: E-CC-6."""

from __future__ import annotations

from dataclasses import replace

from penstock.experiments.ccep.playing import Q1, Q2, STATEMENTS, savings, scaled
from penstock.experiments.ccep.sequences import failing_early, one_branch, percent
from penstock.experiments.contracts import Drawing, Outcome, Panel, Series, Settings


def scalability(settings: Settings) -> Outcome:
    """E-CC-6: savings at a fail ratio of 90 %, small and large."""
    times = 3 if settings.is_quick else 10
    small: list[float] = []
    large: list[float] = []
    same = True
    for query, traffic in ((Q1, failing_early(0.9)), (Q2, one_branch(0.9))):
        usual = scaled(traffic, settings)
        more = replace(usual, events=times * usual.events, side_by_side=times * usual.side_by_side)
        for stream, found in ((usual, small), (more, large)):
            saved = savings(query, stream)
            found += [saved["C"].memory, saved["C"].probes]
            same &= all(each.is_same for each in saved.values())
    apart = max(abs(one - other) for one, other in zip(small, large, strict=True))
    claim = STATEMENTS["E-CC-6"].judged(
        "E-CC-6",
        same and apart <= 0.05,
        f"{percent(small)} and {percent(large)}: at most {100 * apart:.1f} points apart",
        small=small,
        large=large,
    )
    names = ("memory, sequence", "probes, sequence", "memory, AND", "probes, AND")
    orders = scaled(failing_early(0.9), settings).side_by_side
    sizes = {f"{orders:,} orders side by side": small, f"{times * orders:,}": large}
    bars = tuple(Series(name, range(4), [100 * value for value in found]) for name, found in sizes.items())
    panel = Panel("measure and query", "saved against no constraints (%)", bars, "bars", names)
    return Outcome((claim,), Drawing(f"Savings with {times} times the orders, 90 % failing", (panel,)))
