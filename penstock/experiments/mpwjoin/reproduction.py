"""The multiway experiments: E-MW-1, 2 and 3."""

from __future__ import annotations

import numpy as np

from penstock.experiments.contracts import Claim, Drawing, Experiment, Outcome, Panel, Reproduction, Series, Settings
from penstock.experiments.measures import counted, in_seconds, listed
from penstock.experiments.mpwjoin.playing import (
    GAP_MS,
    MWJOIN,
    PWJOIN,
    SECONDS,
    STATEMENTS,
    STREAMS,
    accessed_per_tuple,
    items_of,
    lookups_per_tuple,
    play,
    rate_ratio,
    timed,
)
from penstock.experiments.pwjoin.playing import same_results, stored
from penstock.experiments.pwjoin.timing import TimedOutput, output_panel
from penstock.operators.joins.pwjoin.trace import Trace
from penstock.workloads.arrivals import MICROS
from penstock.workloads.itemised import Items, PunctuatedStream, make_items

_TIME = "time (s)"

#: Tuples of a value per stream: a tuple finds up to ten, and two on average, of each other stream.
_MANY, _FEW = 10, 4

#: Length of the part whose results are compared one by one.
_COMPARED_SECONDS = 15.0

#: When windows have filled and values are old enough to be stale.
_SETTLED = 30.0


def many_matches(settings: Settings) -> Outcome:
    """E-MW-1: ten matches per other stream."""
    items = items_of(_MANY)
    ours, theirs = play(PWJOIN, items), play(MWJOIN, items)
    accessed, outputs = _accessed(ours, theirs), timed(items, settings)
    rate = rate_ratio(outputs)
    claims = (
        _same_bag("E-MW-1a", items, ours, theirs),
        _lookups("E-MW-1b", ours, theirs),
        STATEMENTS["E-MW-1c"].judged(
            "E-MW-1c",
            accessed[0] < accessed[1] and rate >= 1.0,
            f"{listed(accessed)} tuples accessed; {rate:.2f} times the rate of MWJoin",
            pwjoin_accessed=accessed[0],
            mwjoin_accessed=accessed[1],
            rate=rate,
        ),
    )
    return Outcome(claims, _drawing(f"Four streams, {_MANY} tuples of a value in each", ours, theirs, outputs))


def few_matches(settings: Settings) -> Outcome:
    """E-MW-2: two matches per other stream."""
    many, few = items_of(_MANY), items_of(_FEW)
    ours, theirs = play(PWJOIN, few), play(MWJOIN, few)
    accessed, before = _accessed(ours, theirs), _accessed(play(PWJOIN, many), play(MWJOIN, many))
    advantages = [pair[1] / pair[0] for pair in (before, accessed)]
    outputs = [timed(items, settings) for items in (many, few)]
    rates = [rate_ratio(pair) for pair in outputs]
    touched, used = _touched_and_used(few)
    claims = (
        _same_bag("E-MW-2a", few, ours, theirs),
        _lookups("E-MW-2b", ours, theirs),
        STATEMENTS["E-MW-2c"].judged(
            "E-MW-2c",
            touched == used,
            f"{counted(used)} of {counted(touched)} accessed in the first {_COMPARED_SECONDS:.0f} s; "
            f"{listed(accessed)} per tuple over all",
            pwjoin_accessed=accessed[0],
            mwjoin_accessed=accessed[1],
        ),
        STATEMENTS["E-MW-2d"].judged(
            "E-MW-2d",
            advantages[1] > advantages[0],
            f"{counted(advantages[1])} times, in E-MW-1 {counted(advantages[0])} times",
            advantage=advantages,
        ),
        STATEMENTS["E-MW-2e"].judged(
            "E-MW-2e", rates[1] > max(rates[0], 1.0), f"{rates[1]:.2f} times, in E-MW-1 {rates[0]:.2f} times", rate=rates
        ),
    )
    return Outcome(claims, _drawing(f"Four streams, {_FEW} tuples of a value in each", ours, theirs, outputs[1]))


def dropped_tuples(settings: Settings) -> Outcome:
    """E-MW-3: one stream closes values, and the others still bring tuples of them."""
    items = _one_punctuated()
    ours, theirs = (play(config, items, keep_results=True) for config in (PWJOIN, MWJOIN))
    settled = ours.sampled_at >= _SETTLED * MICROS
    first = int(np.flatnonzero(settled)[0])
    dropped, tuples = (int(ours.samples[name][-1] - ours.samples[name][first]) for name in ("dropped", "tuples"))
    share = dropped / tuples
    states = [float(stored(trace)[settled].mean()) for trace in (ours, theirs)]
    outputs = timed(items, settings)
    saving, rate, same = 1.0 - states[0] / states[1], rate_ratio(outputs), same_results(ours, theirs)
    claims = (
        STATEMENTS["E-MW-3a"].judged("E-MW-3a", abs(share - 0.40) <= 0.03, f"{share:.1%} dropped", dropped=share),
        STATEMENTS["E-MW-3b"].judged(
            "E-MW-3b", saving >= 0.35, f"{saving:.1%} fewer: {listed(states)} tuples", saving=saving, state=states
        ),
        STATEMENTS["E-MW-3c"].judged(
            "E-MW-3c", same, f"{counted(ours.counters['results'])} results", results=ours.counters["results"]
        ),
        STATEMENTS["E-MW-3d"].judged("E-MW-3d", rate > 1.0, f"{rate:.2f} times the rate of MWJoin", rate=rate),
    )
    return Outcome(claims, _drawing("Four streams, one of which closes its values", ours, theirs, outputs))


def _one_punctuated() -> Items:
    """Of the three other streams 53 % of the tuples, 40 % of all, have values that were closed and have expired."""
    closing = PunctuatedStream("punct-asc-10-40", GAP_MS)
    # Ten values are closed per second and leave after 10 s: 130 values back is safely past.
    late = PunctuatedStream("punct-asc-10-40", GAP_MS, announces=False, stale_fraction=0.4 * STREAMS / 3, stale_distance=130)
    return make_items([closing, late, late, late], SECONDS, seed=1)


def _same_bag(id: str, items: Items, ours: Trace, theirs: Trace) -> Claim:
    part = _compared(items)
    kept = [play(config, part, keep_results=True) for config in (PWJOIN, MWJOIN)]
    counts = [trace.counters["results"] for trace in (ours, theirs)]
    return STATEMENTS[id].judged(
        id,
        same_results(kept[0], kept[1]) and counts[0] == counts[1],
        f"{counted(counts[0])} and {counted(counts[1])} results",
        results=counts,
    )


def _compared(items: Items) -> Items:
    return items.first(int(np.searchsorted(items.times_us, _COMPARED_SECONDS * MICROS)))


def _lookups(id: str, ours: Trace, theirs: Trace) -> Claim:
    lookups = [lookups_per_tuple(trace) for trace in (ours, theirs)]
    held = lookups[0] == 1.0 and lookups[1] > 2.0
    return STATEMENTS[id].judged(id, held, f"{listed(lookups)} per tuple", pwjoin_lookups=lookups[0], mwjoin_lookups=lookups[1])


def _accessed(ours: Trace, theirs: Trace) -> list[float]:
    return [accessed_per_tuple(trace) for trace in (ours, theirs)]


def _touched_and_used(items: Items) -> tuple[int, int]:
    """Tuples PWJoin accessed, and those of them that became part of a result of the tuple that accessed them."""
    trace = play(PWJOIN, _compared(items), keep_results=True)
    by, partner = np.repeat(trace.result_items, STREAMS), trace.results.ravel()
    pairs = np.unique(by[by != partner] * np.int64(len(items)) + partner[by != partner])
    return trace.counters["accessed"], len(pairs)


def _drawing(title: str, ours: Trace, theirs: Trace, outputs: list[TimedOutput]) -> Drawing:
    names = ("MPWJoin", "MWJoin")
    named = tuple(zip(names, (ours, theirs), strict=True))
    costs = tuple(Series(name, range(2), [lookups_per_tuple(trace), accessed_per_tuple(trace)]) for name, trace in named)
    state = tuple(Series(name, in_seconds(trace.sampled_at), stored(trace)) for name, trace in named)
    panels = (
        output_panel(outputs, names),
        Panel("per tuple", "number", costs, "bars", ("lookups", "tuples accessed")),
        Panel(_TIME, "tuples in state", state, "markers"),
    )
    return Drawing(title, panels)


_STREAMS = f"Four streams of {SECONDS:.0f} s, 100 tuples per second each, joined on one attribute within 10 s."

MPWJOIN = Reproduction(
    "mpwjoin",
    "Multiway PWJoin: one lookup for all inputs",
    "ding2008",
    (
        Experiment(
            "E-MW-1",
            "many matches",
            "Figure 8.5",
            f"{_STREAMS} Each closes a value every {_MANY} tuples; a tuple meets up to ten partners per stream.",
            many_matches,
        ),
        Experiment(
            "E-MW-2",
            "few matches",
            "Figure 8.6",
            f"{_STREAMS} Each closes a value every {_FEW} tuples; a tuple meets two partners per stream on average.",
            few_matches,
        ),
        Experiment(
            "E-MW-3",
            "one stream punctuated",
            "Figure 8.7",
            f"{_STREAMS} One closes a value every 10 tuples; two fifths of all tuples come too late for it.",
            dropped_tuples,
        ),
    ),
)
