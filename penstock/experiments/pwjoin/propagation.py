"""When punctuations leave PWJoin: E-PW-4 and 5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.joins.items import Trace
from penstock.experiments.measures import counted, in_seconds, listed
from penstock.experiments.pwjoin.setup import GAPS_MS, STATEMENTS, items_of, paired_pjoin, play, pwjoin
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS
from penstock.workloads.itemised import PUNCTUATION, Items

_TIME, _LEFT = "time (s)", "output punctuations"
_EVERY = 1.0
_REPORTED_AT = (10, 20, 38)


def early_propagation(settings: Settings) -> ReproductionOutcome:
    """E-PW-4: output punctuations of PWJoin and of paired PJoin over time."""
    runs = {gap: [_both(gap, seed) for seed in settings.seed_numbers()] for gap in GAPS_MS}
    pairs = [pair for gap in GAPS_MS for pair in runs[gap]]
    never_less = all((_left(ours) >= _left(theirs)).all() for ours, theirs in pairs)
    leads = {gap: float(np.mean([(_left(ours) - _left(theirs)).mean() for ours, theirs in runs[gap]])) for gap in GAPS_MS}
    first = runs[10.0][0]
    claims = (
        STATEMENTS["E-PW-4a"].judged(
            "E-PW-4a",
            never_less,
            f"10 ms, at 10, 20 and 38 s: {listed(_reported(first[0]))} against {listed(_reported(first[1]))}",
            pwjoin_10ms=_reported(first[0]),
            pjoin_10ms=_reported(first[1]),
        ),
        STATEMENTS["E-PW-4b"].judged(
            "E-PW-4b",
            all(lead > 0 for lead in leads.values()),
            ", ".join(f"{gap:.0f} ms: {counted(leads[gap])} more" for gap in GAPS_MS),
            **{f"lead_{gap:.0f}ms": leads[gap] for gap in GAPS_MS},
        ),
    )
    panels = tuple(_panel(*runs[gap][0], f"mean gap {gap:.0f} ms") for gap in GAPS_MS)
    return ReproductionOutcome(claims, Drawing("Output punctuations, window 1 s, 30 tuples per punctuation", panels))


def _both(gap_ms: float, seed: int) -> tuple[Trace, Trace]:
    # The later publication does not tell its order. With gaps of 2 ms two ascending streams announce a value within the
    # window of 1 s, and nothing could leave early: the order of the earlier one serves for both.
    items = items_of("punct-asc-30-40", "punct-random-30-40", gap_ms, seed)
    return play(pwjoin(1.0, 1.0), items, _EVERY), play(paired_pjoin(), items, _EVERY)


def _left(trace: Trace) -> Int64s:
    return trace.samples["propagated"]


def _reported(trace: Trace) -> list[int]:
    return [int(_left(trace)[second - 1]) for second in _REPORTED_AT]


def _panel(ours: Trace, theirs: Trace, title: str) -> Panel:
    lines = tuple(
        Series(label, in_seconds(trace.sampled_at), _left(trace)) for label, trace in (("PWJoin", ours), ("PJoin, paired", theirs))
    )
    return Panel(_TIME, _LEFT, lines, "steps", title=title)


def one_sided_punctuations(settings: Settings) -> ReproductionOutcome:
    """E-PW-5: only B closes values; its window is 5 s."""
    window = 5.0
    runs = {gap: [_one_sided(gap, window, seed) for seed in settings.seed_numbers()] for gap in GAPS_MS}
    everything = [run for gap in GAPS_MS for run in runs[gap]]
    paired = sum(run.theirs.totals["propagated"] for run in everything)
    exact = all(_leaves_on_time(run.ours, run.items, window) for run in everything)
    first = runs[10.0][0]
    announced = first.items.punctuations
    claims = (
        STATEMENTS["E-PW-5a"].judged("E-PW-5a", paired == 0, f"{paired} punctuations", propagated=paired),
        STATEMENTS["E-PW-5b"].judged(
            "E-PW-5b",
            exact,
            f"10 ms, at 10, 20 and 38 s: {listed(_reported(first.ours))} of {announced}; "
            f"{'every' if exact else 'not every'} one at its moment",
            at_10_20_38_s_10ms=_reported(first.ours),
            punctuations_10ms=announced,
        ),
    )
    panels = tuple(_panel(runs[gap][0].ours, runs[gap][0].theirs, f"mean gap {gap:.0f} ms") for gap in GAPS_MS)
    return ReproductionOutcome(claims, Drawing("Output punctuations when only B closes values, window 5 s on B", panels))


class _Run(NamedTuple):
    ours: Trace
    theirs: Trace
    items: Items


def _one_sided(gap_ms: float, window: float, seed: int) -> _Run:
    items = items_of("uniform-15000", "punct-asc-30-40", gap_ms, seed)
    return _Run(play(pwjoin(None, window), items, _EVERY), play(paired_pjoin(), items, _EVERY), items)


def _leaves_on_time(trace: Trace, items: Items, window: float) -> bool:
    """Whether the punctuations of B leave exactly when the last tuple of their value has expired, or at once if it has."""
    expected = {}
    own = items.of_stream(1)
    last = dict(zip(own.keys[own.kinds != PUNCTUATION].tolist(), own.times_us[own.kinds != PUNCTUATION].tolist(), strict=True))
    marks = own.take(own.kinds == PUNCTUATION)
    for key, announced in zip(marks.keys.tolist(), marks.times_us.tolist(), strict=True):
        expires = last[key] + round(window * MICROS) if key in last else -1
        # The first item strictly later finds the tuple gone; nothing leaves before it is announced.
        at = np.searchsorted(items.times_us, expires, side="right")
        if expires < announced:
            expected[key] = announced
        elif at < len(items):
            expected[key] = int(items.times_us[at])
    return expected == dict(zip(trace.marks.lows.tolist(), trace.marks.ts.tolist(), strict=True))
