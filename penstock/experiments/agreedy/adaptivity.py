"""Experiments on drift: how fast orders follow, and what that is worth at different rates of change."""

from __future__ import annotations

from functools import cache

import numpy as np

from penstock.experiments.agreedy.populations import LABELS, STATEMENTS
from penstock.experiments.agreedy.tuple_at_a_time import base_costs, play
from penstock.experiments.agreedy.workload import APART, Floats, Masks, permuted, reversed_halfway
from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import listed, spread_of
from penstock.operators.filtering.policies.table import make_order
from penstock.operators.filtering.settings import Algorithm, OrderSettings
from penstock.operators.filtering.static import DropStatistics, histogram

_ROWS, _HALF, _BUCKET = 1_200_000, 600_000, 2_000
_SPREAD = tuple(tenth / 10 for tenth in range(2, 10))
#: Selectivities, and the seed of the first stream.
_STREAMS = {"A1": (_SPREAD, 7), "A2": ((0.4, 0.4, 0.5, 0.5, 0.6, 0.6, 0.7, 0.7), 8)}
_POLICIES = {
    "A-Greedy": OrderSettings(Algorithm.AGREEDY),
    "A-Greedy, 500 rows": OrderSettings(Algorithm.AGREEDY, window_rows=500),
    "A-Greedy, 200 rows": OrderSettings(Algorithm.AGREEDY, window_rows=200),
    "Sweep": OrderSettings(Algorithm.SWEEP),
    "Independent": OrderSettings(Algorithm.INDEPENDENT),
    "LocalSwaps": OrderSettings(Algorithm.LOCAL_SWAPS),
    "LocalSwaps, 100 rows": OrderSettings(Algorithm.LOCAL_SWAPS, min_fill=100),
}
_CHANGED_ROWS = 2_000_000
_CHANGING = ("agreedy", "independent", "sweep", "local_swaps")


@cache
def _reversal(stream: str, seed: int) -> tuple[dict[str, Floats], Floats]:
    """Per policy: regret after the change and excess before it; and the timeline of each policy."""
    masks = reversed_halfway(seed, _ROWS, _STREAMS[stream][0])
    before, after = (DropStatistics(histogram(part, 8)) for part in (masks[_HALF // 2 : _HALF], masks[_HALF:]))
    first = DropStatistics(histogram(masks[:_HALF], 8)).greedy()
    found, timelines = dict[str, Floats](), []
    for name, settings in _POLICIES.items():
        costs = base_costs(masks, play(masks, make_order(8, settings), seed))
        regret = costs[_HALF:].sum() - after.cost(after.greedy())
        found[name] = np.array([regret, costs[_HALF // 2 : _HALF].sum() / before.cost(first) - 1])
        timelines.append(costs.reshape(-1, _BUCKET).sum(axis=1))
    return found, np.array(timelines)


def _runs(stream: str, settings: Settings) -> dict[str, Floats]:
    """Regret and excess of each policy, a row for each repetition of the stream."""
    seeds = [_STREAMS[stream][1] + APART * (number - 1) for number in settings.seed_numbers()]
    runs = [_reversal(stream, seed)[0] for seed in seeds]
    return {name: np.array([run[name] for run in runs]) for name in _POLICIES}


def timelines(settings: Settings) -> ReproductionOutcome:
    """E-AG-7: selectivities change places in the middle."""
    runs = {stream: _runs(stream, settings) for stream in _STREAMS}

    def ratio(theirs: str, ours: str) -> list[float]:
        """Of the mean regret, on both streams."""
        return [float(found[theirs][:, 0].mean() / found[ours][:, 0].mean()) for found in runs.values()]

    def least(theirs: str, ours: str) -> float:
        return float(min((found[theirs][:, 0] / found[ours][:, 0]).min() for found in runs.values()))

    matched = ratio("Sweep", "A-Greedy, 500 rows") + ratio("LocalSwaps", "A-Greedy, 500 rows")
    short = ratio("LocalSwaps, 100 rows", "A-Greedy, 200 rows")
    excess = [float(found["Independent"][:, 1].mean()) for found in runs.values()]
    apart = [
        f"{100 * found['Independent'][:, 1].min():.1f} to {100 * found['Independent'][:, 1].max():.1f} %" for found in runs.values()
    ]
    alone = least("LocalSwaps, 100 rows", "A-Greedy, 200 rows")
    singly = min(least("Sweep", "A-Greedy, 500 rows"), least("LocalSwaps", "A-Greedy, 500 rows"))
    unmatched = ratio("Sweep", "A-Greedy") + ratio("LocalSwaps, 100 rows", "A-Greedy")
    claims = (
        STATEMENTS["E-AG-7a"].judged(
            "E-AG-7a", min(matched) >= 2.0, f"{listed(matched)} times, on no single stream less than {singly:.2f}; "
            f"with windows as by default {listed(unmatched)} times",
            ratio=matched, unmatched=unmatched,
        ),
        STATEMENTS["E-AG-7b"].judged(
            "E-AG-7b", min(short) >= 1.3,
            f"{listed(short)} times, on no single stream less than {alone:.2f}", ratio=short,
        ),
        STATEMENTS["E-AG-7c"].judged(
            "E-AG-7c", min(excess) > 0.05, f"{excess[0]:.1%} ({apart[0]}) / {excess[1]:.1%} ({apart[1]})", excess=excess
        ),
    )  # fmt: skip
    return ReproductionOutcome(
        claims, Drawing("Selectivities change places in the middle", tuple(_timeline(stream) for stream in _STREAMS))
    )


def _timeline(stream: str) -> Panel:
    lines = _reversal(stream, _STREAMS[stream][1])[1]
    x = np.arange(lines.shape[1]) * _BUCKET / 1000
    shown = ("A-Greedy", "Sweep", "Independent", "LocalSwaps")
    series = tuple(Series(name, x, lines[list(_POLICIES).index(name)]) for name in shown)
    return Panel("thousand tuples", "evaluations per 2,000 tuples", series, title=stream)


@cache
def _changing(seed: int, period: int, expensive: int) -> Floats:
    """Base and profiling cost of each policy, and the cost of the best order of each phase."""
    masks, costs = _changed(seed, period), (1,) * 4 + (expensive,) * 4
    parts = [DropStatistics(histogram(masks[at : at + period], 8), costs) for at in range(0, _CHANGED_ROWS, period)]
    best = sum(part.cost(part.optimal()) for part in parts)
    runs = [play(masks, make_order(8, OrderSettings(Algorithm(name))), seed, costs) for name in _CHANGING]
    return np.array([[best, 0.0], *([run.base, run.extra] for run in runs)])


@cache
def _changed(seed: int, period: int) -> Masks:
    return permuted(seed, _CHANGED_ROWS, _SPREAD, period)


def _totals(settings: Settings, period: int, expensive: int) -> dict[str, Floats]:
    """Total cost of each policy per tuple, on each stream."""
    runs = np.array([_changing(10 + number, period, expensive).sum(axis=1) for number in settings.seed_numbers()]) / _CHANGED_ROWS
    return dict(zip(("optimal", *_CHANGING), runs.T, strict=True))


def _against(found: dict[str, Floats], theirs: str, ours: str = "agreedy") -> float:
    """Mean cost over mean cost."""
    return float(found[theirs].mean() / found[ours].mean())


def _each(found: dict[str, Floats], theirs: str) -> str:
    """The same stream by stream: how far the streams lie apart."""
    ratios = found[theirs] / found["agreedy"]
    return f"{_against(found, theirs):.3f} ({ratios.min():.3f} to {ratios.max():.3f})"


def _panel(found: dict[str, dict[str, Floats]], x_label: str) -> Panel:
    ticks = tuple(found)
    series = tuple(
        Series(
            LABELS[name],
            range(len(ticks)),
            *spread_of(np.array([tick[name] / tick["optimal"] for tick in found.values()]).T.tolist()),
        )
        for name in _CHANGING
    )
    return Panel(x_label, "cost with profiling / best orders", series, "markers", ticks)


def rate_of_change(settings: Settings) -> ReproductionOutcome:
    """E-AG-8: selectivities are dealt anew, seldom or often."""
    periods = (100_000, 1_000_000) if settings.is_quick else (50_000, 100_000, 200_000, 500_000, 1_000_000)
    found = {f"{period // 1000:,} k": _totals(settings, period, 10) for period in periods}
    often, seldom = found["100 k"], found["1,000 k"]
    sweep = [_against(tick, "sweep") for tick in (often, seldom)]
    swaps = _against(often, "local_swaps")
    claims = (
        STATEMENTS["E-AG-8a"].judged("E-AG-8a", sweep[0] >= 1.1, f"{_each(often, 'sweep')} times A-Greedy", ratio=sweep[0]),
        STATEMENTS["E-AG-8b"].judged("E-AG-8b", sweep[1] <= 0.97, f"{_each(seldom, 'sweep')} times A-Greedy", ratio=sweep[1]),
        STATEMENTS["E-AG-8c"].judged("E-AG-8c", swaps >= 1.1, f"{_each(often, 'local_swaps')} times A-Greedy", ratio=swaps),
    )
    return ReproductionOutcome(claims, Drawing("Rate of change", (_panel(found, "tuples between changes"),)))


def cost_of_fast_change(settings: Settings) -> ReproductionOutcome:
    """E-AG-9: more expensive filters, frequent changes."""
    found = {str(expensive): _totals(settings, 100_000, expensive) for expensive in (1, 10, 50)}
    ratios = [_against(tick, "sweep") for tick in found.values()]
    shown = " / ".join(_each(tick, "sweep") for tick in found.values())
    claims = (
        STATEMENTS["E-AG-9a"].judged("E-AG-9a", min(ratios) >= 1.0, f"Sweep costs {shown} times as much", ratio=ratios),
        STATEMENTS["E-AG-9b"].judged("E-AG-9b", ratios[0] < ratios[1] < ratios[2], f"{listed(ratios)} times", ratio=ratios),
    )
    return ReproductionOutcome(
        claims, Drawing("Expensive filters, changes every 100,000 tuples", (_panel(found, "cost of an expensive filter"),))
    )


def cost_of_slow_change(settings: Settings) -> ReproductionOutcome:
    """E-AG-10: more expensive filters, rare changes."""
    found = {str(expensive): _totals(settings, 1_000_000, expensive) for expensive in (1, 10, 50)}
    ratios = [_against(tick, "sweep") for tick in found.values()]
    shown = " / ".join(_each(tick, "sweep") for tick in found.values())
    falls = ratios[0] > ratios[1] > ratios[2] and ratios[2] < 0.9
    claim = STATEMENTS["E-AG-10"].judged("E-AG-10", falls, f"Sweep costs {shown} of A-Greedy", ratio=ratios)
    return ReproductionOutcome(
        (claim,), Drawing("Expensive filters, changes every 1,000,000 tuples", (_panel(found, "cost of an expensive filter"),))
    )
