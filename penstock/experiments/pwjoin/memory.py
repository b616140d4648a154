"""How many tuples and markers PWJoin keeps, and what that costs in time: E-PW-1, 2, 3 and 6."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.experiments.contracts import Claim, Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.joins.items import Trace
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.measures import counted, in_seconds, is_increasing, listed, middle
from penstock.experiments.pwjoin.setup import (
    GAPS_MS,
    STATEMENTS,
    TIMED_SECONDS,
    items_of,
    mean_from,
    play,
    pwjoin,
    same_results,
    stored,
    wjoin,
)
from penstock.experiments.pwjoin.timing import output_panel, ratios_of, time_ratios, timed_parts
from penstock.workloads.itemised import Items

_TIME, _STATE = "time (s)", "tuples in state"
_PATTERN = "punct-asc-100-40"

#: Most intervals of values without tuples: closing values one after the other needs one, closing them in random order
#: inside blocks of fifty at most fifty.
_MOST_MARKERS = 64


def window_sizes(settings: Settings) -> ReproductionOutcome:
    """E-PW-1: state of both joins for windows of 1, 5 and 15 s."""
    windows = (1.0, 5.0, 15.0)
    runs = {(gap, size): _both(gap, size, settings.seed_numbers()) for gap in GAPS_MS for size in windows}
    never_more = all((stored(ours) <= stored(theirs)).all() for pairs in runs.values() for ours, theirs in pairs)
    states = {gap: [_mean_states(runs[gap, size], size) for size in windows] for gap in GAPS_MS}
    savings = {gap: [1.0 - ours / theirs for ours, theirs in states[gap]] for gap in GAPS_MS}
    claims = (
        STATEMENTS["E-PW-1a"].judged("E-PW-1a", never_more, "at every sample" if never_more else "not at every sample"),
        STATEMENTS["E-PW-1b"].judged(
            "E-PW-1b",
            all(is_increasing(savings[gap]) for gap in GAPS_MS),
            "; ".join(_savings_text(gap, states[gap], savings[gap]) for gap in GAPS_MS),
            **{f"saving_{gap:.0f}ms": savings[gap] for gap in GAPS_MS},
            **{f"state_{gap:.0f}ms": [ours for ours, _ in states[gap]] for gap in GAPS_MS},
            **{f"wjoin_state_{gap:.0f}ms": [theirs for _, theirs in states[gap]] for gap in GAPS_MS},
        ),
    )
    panels = tuple(_state_panel(gap, {size: runs[gap, size][0] for size in windows}) for gap in GAPS_MS)
    return ReproductionOutcome(claims, Drawing("State of PWJoin and WJoin by window, 100 tuples per punctuation", panels))


def _both(gap_ms: float, size: float, seeds: Sequence[int]) -> list[tuple[Trace, Trace]]:
    streams = [items_of(_PATTERN, _PATTERN, gap_ms, seed) for seed in seeds]
    return [(play(pwjoin(size, size), items), play(wjoin(size, size), items)) for items in streams]


def _mean_states(pairs: list[tuple[Trace, Trace]], size: float) -> tuple[float, float]:
    ours, theirs = (float(np.mean([mean_from(pair[side], size) for pair in pairs])) for side in (0, 1))
    return ours, theirs


def _savings_text(gap_ms: float, states: list[tuple[float, float]], savings: list[float]) -> str:
    shares = " / ".join(f"{saving:.0%}" for saving in savings)
    ours, theirs = (listed([round(pair[side]) for pair in states]) for side in (0, 1))
    return f"{gap_ms:.0f} ms: {shares} ({ours} against {theirs})"


def _state_panel(gap_ms: float, traces: dict[float, tuple[Trace, Trace]]) -> Panel:
    lines = [
        Series(f"{name} {size:.0f} s", in_seconds(pair[side].sampled_at), stored(pair[side]))
        for side, name in ((0, "PWJoin"), (1, "WJoin"))
        for size, pair in traces.items()
    ]
    return Panel(_TIME, f"{_STATE} (logarithmic)", tuple(lines), "markers", log_y=True, title=f"mean gap {gap_ms:.0f} ms")


def output_rates(settings: Settings) -> ReproductionOutcome:
    """E-PW-2: the same answer, in which time."""
    cases = [(gap, size) for gap in GAPS_MS for size in (5.0, 15.0)]
    streams = {gap: items_of(_PATTERN, _PATTERN, gap) for gap in GAPS_MS}
    long = {gap: items_of(_PATTERN, _PATTERN, gap, seconds=settings.timed(TIMED_SECONDS[gap])) for gap in GAPS_MS}
    same = {case: _same_bag(case[1], streams[case[0]]) for case in cases}
    curves = {case: timed_parts(_both_joins(case[1]), long[case[0]], settings.repetitions) for case in cases}
    ratio = {case: ratios_of(theirs, ours) for case, (ours, theirs) in curves.items()}
    claims = (
        STATEMENTS["E-PW-2a"].judged(
            "E-PW-2a",
            all(equal for equal, _ in same.values()),
            "; ".join(f"{gap:.0f} ms, {size:.0f} s: {counted(same[gap, size][1])} results" for gap, size in cases),
            results=[count for _, count in same.values()],
        ),
        _rate_claim("E-PW-2b", {case: rate for case, rate in ratio.items() if case[1] == 15.0}, 1.0),
        _rate_claim("E-PW-2c", {case: rate for case, rate in ratio.items() if case[1] == 5.0}, 0.9),
    )
    names = ("PWJoin", "WJoin")
    panels = tuple(output_panel(curves[gap, size], names, f"window {size:.0f} s, mean gap {gap:.0f} ms") for gap, size in cases)
    return ReproductionOutcome(claims, Drawing("Output of PWJoin and WJoin, limited by the processor", panels))


def _both_joins(size: float) -> tuple[PWJoinConfig, PWJoinConfig]:
    return pwjoin(size, size), wjoin(size, size)


def _same_bag(size: float, items: Items) -> tuple[bool, int]:
    ours, theirs = (play(config, items, keep_results=True) for config in _both_joins(size))
    return same_results(ours, theirs), ours.totals["results"]


def _rate_claim(id: str, ratio: dict[tuple[float, float], list[float]], least: float) -> Claim:
    return STATEMENTS[id].judged(
        id,
        all(float(np.median(rates)) >= least for rates in ratio.values()),
        "; ".join(f"{gap:.0f} ms: {middle(rates)} times the rate of WJoin" for (gap, _), rates in ratio.items()),
        **{f"rate_{gap:.0f}ms": rates for (gap, _), rates in ratio.items()},
    )


_USELESS_STREAMS = (("punct-asc-30-40", 2.0), ("punct-asc-30-40", 10.0), ("punct-random-30-40", 10.0))


def useless_punctuations(settings: Settings) -> ReproductionOutcome:
    """E-PW-3: every punctuation speaks of a value that no tuple has."""
    size = 5.0
    streams = [items_of(pattern, pattern, gap, useless=1.0) for pattern, gap in _USELESS_STREAMS]
    long = [
        items_of(pattern, pattern, gap, 1, settings.timed(TIMED_SECONDS[gap]), useless=1.0) for pattern, gap in _USELESS_STREAMS
    ]
    pairs = [(play(pwjoin(size, size), items), play(wjoin(size, size), items)) for items in streams]
    turns = [time_ratios(*_both_joins(size), items, settings.repetitions) for items in long]
    ratios = [float(np.median(found)) for found in turns]
    removed = sum(ours.totals[name] for ours, _ in pairs for name in ("purged", "purged_on_the_fly", "dropped"))
    markers = [int(ours.samples["markers"].max()) for ours, _ in pairs]
    claims = (
        STATEMENTS["E-PW-3a"].judged(
            "E-PW-3a",
            removed == 0 and all(_equal_samples(ours, theirs) for ours, theirs in pairs),
            f"{removed} tuples removed by {sum(items.punctuations for items in streams):,} punctuations",
            removed=removed,
        ),
        STATEMENTS["E-PW-3b"].judged("E-PW-3b", max(ratios) <= 1.05, f"{' / '.join(map(middle, turns))} times", time_ratio=ratios),
        STATEMENTS["E-PW-3c"].judged(
            "E-PW-3c", max(markers) <= _MOST_MARKERS, f"at most {listed(markers)} intervals", markers=markers
        ),
    )
    names = tuple(f"{pattern.split('-')[1]}, {gap:.0f} ms" for pattern, gap in _USELESS_STREAMS)
    time = Panel("streams", "time over that of WJoin", (_ratio_bars(turns),), "bars", names)
    lines = tuple(
        Series(name, in_seconds(ours.sampled_at), ours.samples["markers"]) for name, (ours, _) in zip(names, pairs, strict=True)
    )
    kept = Panel(_TIME, "intervals of closed values", lines, "steps")
    return ReproductionOutcome(claims, Drawing("Useless punctuations, 30 tuples each, window 5 s", (time, kept)))


def _ratio_bars(turns: Sequence[Sequence[float]]) -> Series:
    spread = [min(found) for found in turns], [max(found) for found in turns]
    return Series("PWJoin", range(len(turns)), [float(np.median(found)) for found in turns], spread)


def _equal_samples(ours: Trace, theirs: Trace) -> bool:
    names = ("results", "inserts", "invalidated")
    equal = all(np.array_equal(ours.samples[name], theirs.samples[name]) for name in names)
    return equal and np.array_equal(ours.state, theirs.state)


def no_punctuations(settings: Settings) -> ReproductionOutcome:
    """E-PW-6: streams without punctuations."""
    size = 5.0
    streams = [items_of(_PATTERN, _PATTERN, gap).without_punctuations() for gap in GAPS_MS]
    long = [items_of(_PATTERN, _PATTERN, gap, 1, settings.timed(TIMED_SECONDS[gap])).without_punctuations() for gap in GAPS_MS]
    pairs = [(play(pwjoin(size, size), items), play(wjoin(size, size), items)) for items in streams]
    same = all(_equal_samples(ours, theirs) for ours, theirs in pairs)
    turns = [time_ratios(*_both_joins(size), items, settings.repetitions) for items in long]
    ratios = [float(np.median(found)) for found in turns]
    results = [ours.totals["results"] for ours, _ in pairs]
    claims = (
        STATEMENTS["E-PW-6a"].judged(
            "E-PW-6a", same, f"{'equal' if same else 'different'}: {listed(results)} results", results=results
        ),
        STATEMENTS["E-PW-6b"].judged("E-PW-6b", max(ratios) <= 1.03, f"{' / '.join(map(middle, turns))} times", time_ratio=ratios),
    )
    names = tuple(f"mean gap {gap:.0f} ms" for gap in GAPS_MS)
    ours, theirs = pairs[0]
    state = tuple(
        Series(label, in_seconds(trace.sampled_at), stored(trace)) for label, trace in (("PWJoin", ours), ("WJoin", theirs))
    )
    panels = (
        Panel(_TIME, _STATE, state, "markers", title=names[0]),
        Panel("streams", "time over that of WJoin", (_ratio_bars(turns),), "bars", names),
    )
    return ReproductionOutcome(claims, Drawing("Streams without punctuations, window 5 s", panels))
