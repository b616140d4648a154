"""The multiway experiments: E-MW-1, 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from penstock.experiments.contracts import Claim, Drawing, Experiment, Panel, Reproduction, ReproductionOutcome, Series, Settings
from penstock.experiments.joins.items import Trace
from penstock.experiments.measures import counted, in_seconds, listed, middle, ranged, spread_of
from penstock.experiments.mpwjoin.setup import (
    GAP_MS,
    MWJOIN,
    PWJOIN,
    SECONDS,
    STATEMENTS,
    STREAMS,
    TIMED_SECONDS,
    accessed_per_tuple,
    items_of,
    lookups_per_tuple,
    play,
    rate_ratios,
    timed,
)
from penstock.experiments.pwjoin.setup import same_results, stored
from penstock.experiments.pwjoin.timing import TimedOutput, output_panel
from penstock.workloads.arrivals import MICROS
from penstock.workloads.itemised import Items, PunctuatedStream, make_items

_TIME = "time (s)"

#: Tuples of a value per stream: a tuple finds up to ten, and two on average, of each other stream.
_MANY, _FEW = 10, 4

#: Length of the part whose results are compared one by one.
_COMPARED_SECONDS = 15.0

#: When windows have filled and values are old enough to be stale.
_SETTLED = 30.0


@dataclass(frozen=True)
class _Pair:
    """Both joins over one stream."""

    items: Items
    ours: Trace
    theirs: Trace

    @classmethod
    def of(cls, items: Items, keep_results: bool = False) -> _Pair:
        return cls(items, play(PWJOIN, items, keep_results), play(MWJOIN, items, keep_results))

    @property
    def accessed(self) -> list[float]:
        return [accessed_per_tuple(trace) for trace in (self.ours, self.theirs)]

    @property
    def lookups(self) -> list[float]:
        return [lookups_per_tuple(trace) for trace in (self.ours, self.theirs)]

    @property
    def has_same_results(self) -> bool:
        """The results of the first seconds one by one, of the whole stream their number."""
        part = _Pair.of(_compared(self.items), keep_results=True)
        return same_results(part.ours, part.theirs) and self.ours.totals["results"] == self.theirs.totals["results"]


@cache
def _pairs(tuples: int, seeds: range) -> tuple[_Pair, ...]:
    return tuple(_Pair.of(items_of(tuples, seed)) for seed in seeds)


@cache
def _timed(tuples: int, settings: Settings) -> list[TimedOutput]:
    return timed(items_of(tuples, seconds=settings.timed(TIMED_SECONDS)), settings)


def many_matches(settings: Settings) -> ReproductionOutcome:
    """E-MW-1: ten matches per other stream."""
    pairs, outputs = _pairs(_MANY, settings.seed_numbers()), _timed(_MANY, settings)
    rates = rate_ratios(outputs)
    claims = (
        _same_bag("E-MW-1a", pairs),
        _lookups("E-MW-1b", pairs),
        STATEMENTS["E-MW-1c"].judged(
            "E-MW-1c",
            all(pair.accessed[0] < pair.accessed[1] for pair in pairs) and float(np.median(rates)) >= 1.0,
            f"{_ranged_accesses(pairs)} tuples accessed; {middle(rates)} times the rate of MWJoin",
            pwjoin_accessed=[pair.accessed[0] for pair in pairs],
            mwjoin_accessed=[pair.accessed[1] for pair in pairs],
            rate=rates,
        ),
    )
    return ReproductionOutcome(claims, _drawing(f"Four streams, {_MANY} tuples of a value in each", pairs, outputs))


def few_matches(settings: Settings) -> ReproductionOutcome:
    """E-MW-2: two matches per other stream."""
    many, few = (_pairs(tuples, settings.seed_numbers()) for tuples in (_MANY, _FEW))
    advantages = [[pair.accessed[1] / pair.accessed[0] for pair in pairs] for pairs in (many, few)]
    outputs = [_timed(tuples, settings) for tuples in (_MANY, _FEW)]
    rates = [rate_ratios(pair) for pair in outputs]
    medians = [float(np.median(found)) for found in rates]
    touched, used = (sum(counts) for counts in zip(*(_touched_and_used(pair.items) for pair in few), strict=True))
    claims = (
        _same_bag("E-MW-2a", few),
        _lookups("E-MW-2b", few),
        STATEMENTS["E-MW-2c"].judged(
            "E-MW-2c",
            touched == used,
            f"{counted(used)} of {counted(touched)} accessed in the first {_COMPARED_SECONDS:.0f} s of all streams; "
            f"{_ranged_accesses(few)} per tuple over all",
            pwjoin_accessed=[pair.accessed[0] for pair in few],
            mwjoin_accessed=[pair.accessed[1] for pair in few],
        ),
        STATEMENTS["E-MW-2d"].judged(
            "E-MW-2d",
            min(advantages[1]) > max(advantages[0]),
            f"{ranged(advantages[1])} times, in E-MW-1 {ranged(advantages[0])} times",
            many=advantages[0],
            few=advantages[1],
        ),
        STATEMENTS["E-MW-2e"].judged(
            "E-MW-2e",
            medians[1] > max(medians[0], 1.0),
            f"{middle(rates[1])} times, in E-MW-1 {middle(rates[0])} times",
            rate=medians,
        ),
    )
    return ReproductionOutcome(claims, _drawing(f"Four streams, {_FEW} tuples of a value in each", few, outputs[1]))


def dropped_tuples(settings: Settings) -> ReproductionOutcome:
    """E-MW-3: one stream closes values, and the others still bring tuples of them."""
    pairs = [_Pair.of(_one_punctuated(seed), keep_results=True) for seed in settings.seed_numbers()]
    shares = [_dropped_share(pair.ours) for pair in pairs]
    states = [[_settled_state(trace) for trace in (pair.ours, pair.theirs)] for pair in pairs]
    savings = [1.0 - ours / theirs for ours, theirs in states]
    outputs = timed(_one_punctuated(1, settings.timed(TIMED_SECONDS)), settings)
    rates, same = rate_ratios(outputs), all(same_results(pair.ours, pair.theirs) for pair in pairs)
    results = [pair.ours.totals["results"] for pair in pairs]
    claims = (
        STATEMENTS["E-MW-3a"].judged(
            "E-MW-3a",
            max(abs(share - 0.40) for share in shares) <= 0.03,
            f"{ranged([100 * share for share in shares])} % dropped",
            dropped=shares,
        ),
        STATEMENTS["E-MW-3b"].judged(
            "E-MW-3b",
            min(savings) >= 0.35,
            f"{ranged([100 * saving for saving in savings])} % fewer: {listed(np.mean(states, axis=0).tolist())} tuples on average",
            saving=savings,
        ),
        STATEMENTS["E-MW-3c"].judged("E-MW-3c", same, f"{ranged(results)} results", results=results),
        STATEMENTS["E-MW-3d"].judged(
            "E-MW-3d", float(np.median(rates)) > 1.0, f"{middle(rates)} times the rate of MWJoin", rate=rates
        ),
    )
    return ReproductionOutcome(claims, _drawing("Four streams, one of which closes its values", pairs, outputs))


def _dropped_share(trace: Trace) -> float:
    first = int(np.flatnonzero(trace.sampled_at >= _SETTLED * MICROS)[0])
    dropped, tuples = (int(trace.samples[name][-1] - trace.samples[name][first]) for name in ("dropped", "tuples"))
    return dropped / tuples


def _settled_state(trace: Trace) -> float:
    return float(stored(trace)[trace.sampled_at >= _SETTLED * MICROS].mean())


def _one_punctuated(seed: int, seconds: float = SECONDS) -> Items:
    """Of the three other streams 53 % of the tuples, 40 % of all, have values that were closed and have expired."""
    closing = PunctuatedStream("punct-asc-10-40", GAP_MS)
    # Ten values are closed per second and leave after 10 s: 130 values back is safely past.
    late = PunctuatedStream("punct-asc-10-40", GAP_MS, announces=False, stale_fraction=0.4 * STREAMS / 3, stale_distance=130)
    return make_items([closing, late, late, late], seconds, seed)


def _same_bag(id: str, pairs: Sequence[_Pair]) -> Claim:
    results = [pair.ours.totals["results"] for pair in pairs]
    same = sum(pair.has_same_results for pair in pairs)
    measured = f"equal on {same} of {len(pairs)} streams, {ranged(results)} results"
    return STATEMENTS[id].judged(id, same == len(pairs), measured, results=results)


def _ranged_accesses(pairs: Sequence[_Pair]) -> str:
    return " against ".join(ranged([pair.accessed[side] for pair in pairs]) for side in (0, 1))


def _compared(items: Items) -> Items:
    return items.first(int(np.searchsorted(items.times_us, _COMPARED_SECONDS * MICROS)))


def _lookups(id: str, pairs: Sequence[_Pair]) -> Claim:
    ours, theirs = ([pair.lookups[side] for pair in pairs] for side in (0, 1))
    held = set(ours) == {1.0} and min(theirs) > 2.0
    return STATEMENTS[id].judged(
        id, held, f"{ranged(ours)} against {ranged(theirs)} per tuple", pwjoin_lookups=ours, mwjoin_lookups=theirs
    )


def _touched_and_used(items: Items) -> tuple[int, int]:
    """Tuples PWJoin accessed, and those of them that became part of a result of the tuple that accessed them."""
    trace = play(PWJOIN, _compared(items), keep_results=True)
    by, partner = np.repeat(trace.result_items, STREAMS), trace.results.ravel()
    pairs = np.unique(by[by != partner] * np.int64(len(items)) + partner[by != partner])
    return trace.totals["accessed"], len(pairs)


def _drawing(title: str, pairs: Sequence[_Pair], outputs: list[TimedOutput]) -> Drawing:
    names = ("MPWJoin", "MWJoin")
    costs, state = [], []
    for side, name in enumerate(names):
        traces = [(pair.ours, pair.theirs)[side] for pair in pairs]
        costs.append(Series(name, range(2), *spread_of([[pair.lookups[side], pair.accessed[side]] for pair in pairs])))
        state.append(Series(name, in_seconds(traces[0].sampled_at), *spread_of([stored(trace).tolist() for trace in traces])))
    panels = (
        output_panel(outputs, names),
        Panel("per tuple", "number", tuple(costs), "bars", ("lookups", "tuples accessed")),
        Panel(_TIME, "tuples in state", tuple(state), "markers"),
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
