"""How many tuples PJoin keeps: E-PJ-1, 2, 4, 6 and 9."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.experiments.contracts import Claim, Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.joins.items import Items, Trace
from penstock.experiments.joins.playing import play as play_join
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.measures import counted, in_seconds, is_increasing, listed, sample_times
from penstock.experiments.pjoin.setup import (
    EVERY,
    SECONDS,
    STATEMENTS,
    Streams,
    average,
    final_state,
    mean_state,
    pjoin,
    play,
    play_seeds,
    xjoin,
)

_TIME, _STATE = "time (s)", "tuples in state"

#: A mean over fewer seeds than this need not be monotone: independent streams drift apart.
_LEAST_SEEDS = 8


def _over_time(label: str, trace: Trace, stream: int | None = None) -> Series:
    rows = trace.state.sum(axis=1) if stream is None else trace.state[:, stream]
    return Series(label, in_seconds(trace.sampled_at), rows)


def _mean_over_time(label: str, traces: list[Trace]) -> Series:
    means = np.mean([trace.state.sum(axis=1) for trace in traces], axis=0)
    return Series(label, in_seconds(traces[0].sampled_at), means)


def pjoin_against_xjoin(settings: Settings) -> ReproductionOutcome:
    """E-PJ-1: the state of both over time."""
    ours, theirs = (play_seeds(config, 40, 40, settings) for config in (pjoin(1), xjoin()))
    mean, final = average(map(mean_state, ours)), average(map(final_state, theirs))
    claim = STATEMENTS["E-PJ-1"].judged(
        "E-PJ-1",
        mean < 0.02 * final,
        f"{counted(mean)} against {counted(final)} tuples: {mean / final:.2%}",
        pjoin_mean_state=mean,
        xjoin_final_state=final,
    )
    lines = (_over_time("PJoin-1", ours[0]), _over_time("XJoin", theirs[0]))
    panels = (Panel(_TIME, _STATE, lines), Panel(_TIME, f"{_STATE} (logarithmic)", lines, log_y=True))
    return ReproductionOutcome((claim,), Drawing("State of PJoin-1 and XJoin, 40 tuples per punctuation", panels))


def tuples_per_punctuation(settings: Settings) -> ReproductionOutcome:
    """E-PJ-2: the state for 10, 20, 30 and 40 tuples per punctuation."""
    sizes = (10, 20, 30, 40)
    enough = replace(settings, seeds=max(settings.seeds, _LEAST_SEEDS))
    runs = {size: play_seeds(pjoin(1), size, size, enough) for size in sizes}
    drifting = [average(map(mean_state, runs[size])) for size in sizes]
    seconds = settings.seconds(SECONDS)
    together = [mean_state(play(pjoin(1), Streams(size, size, 1, seconds, lockstep=True))) for size in sizes]
    claims = (
        _monotone("E-PJ-2a", drifting, f"{listed(drifting)} tuples, mean of {len(runs[10])} seeds"),
        _monotone("E-PJ-2b", together, f"{listed(together)} tuples"),
        _equals_xjoin(seconds),
    )
    over_time = tuple(_mean_over_time(f"{size} tuples per punctuation", runs[size]) for size in sizes[:3])
    means = (Series("independent streams", range(4), drifting), Series("lockstep", range(4), together))
    panels = (
        Panel(_TIME, f"{_STATE}, mean of seeds", over_time),
        Panel("tuples per punctuation", f"mean {_STATE}", means, "bars", tuple(map(str, sizes))),
    )
    return ReproductionOutcome(claims, Drawing("State of PJoin-1 by tuples per punctuation", panels))


def _monotone(id: str, states: list[float], measured: str) -> Claim:
    return STATEMENTS[id].judged(id, is_increasing(states), measured, mean_state=states)


def _equals_xjoin(seconds: float) -> Claim:
    items = Items.from_workload(Streams(10, 10, 1, seconds).items().without_punctuations())
    ours, theirs = (play_join(PJoin(config), items, sample_times(seconds, EVERY)) for config in (pjoin(1), xjoin()))
    same = np.array_equal(ours.state, theirs.state) and all(
        np.array_equal(ours.samples[name], theirs.samples[name]) for name in ("results", "probe_comparisons", "inserts")
    )
    results, comparisons = ours.totals["results"], ours.totals["probe_comparisons"]
    return STATEMENTS["E-PJ-2c"].judged(
        "E-PJ-2c",
        same,
        f"{'equal' if same else 'different'}: {counted(results)} results, {counted(comparisons)} comparisons",
        results=results,
        probe_comparisons=comparisons,
    )


def eager_and_lazy(settings: Settings) -> ReproductionOutcome:
    """E-PJ-4: the state with purge thresholds 1 and 10."""
    runs = {threshold: play_seeds(pjoin(threshold), 10, 10, settings) for threshold in (1, 10)}
    states = [average(map(mean_state, traces)) for traces in runs.values()]
    claim = STATEMENTS["E-PJ-4"].judged("E-PJ-4", states[0] < states[1], f"{listed(states)} tuples", mean_state=states)
    lines = tuple(_mean_over_time(f"PJoin-{threshold}", runs[threshold]) for threshold in (1, 10))
    panel = Panel(_TIME, f"{_STATE}, mean of seeds", lines)
    return ReproductionOutcome((claim,), Drawing("State with eager and lazy purge, 10 tuples per punctuation", (panel,)))


def asymmetric_punctuations(settings: Settings) -> ReproductionOutcome:
    """E-PJ-6: A closes its values faster than B."""
    sizes = (20, 30, 40)
    runs = {size: play_seeds(pjoin(1), 10, size, settings) for size in sizes}
    state_a, state_b = ([average(final_state(trace, side) for trace in runs[size]) for size in sizes] for side in (0, 1))
    is_b_small = all(b < 0.01 * a for a, b in zip(state_a, state_b, strict=True))
    claim = STATEMENTS["E-PJ-6"].judged(
        "E-PJ-6",
        is_increasing(state_a) and is_b_small,
        f"A {listed(state_a)}, B {listed(state_b)} tuples",
        state_a=state_a,
        state_b=state_b,
    )
    lines = [_over_time(f"A, while B closes a value every {size} tuples", runs[size][0], 0) for size in reversed(sizes)]
    panel = Panel(_TIME, _STATE, (*lines, _over_time("B, closing a value every 20 tuples", runs[20][0], 1)))
    return ReproductionOutcome((claim,), Drawing("State of PJoin-1 when A closes a value every 10 tuples", (panel,)))


def lazy_memory(settings: Settings) -> ReproductionOutcome:
    """E-PJ-9: what lazy purge costs in memory with asymmetric streams."""
    runs = {threshold: play_seeds(pjoin(threshold), 10, 20, settings) for threshold in (1, 100)}
    states = [average(map(final_state, traces)) for traces in runs.values()]
    claim = STATEMENTS["E-PJ-9"].judged(
        "E-PJ-9",
        states[1] <= 1.05 * states[0],
        f"{listed(states)} tuples: {states[1] / states[0] - 1:+.2%}",
        pjoin_1=states[0],
        pjoin_100=states[1],
    )
    theirs = _over_time("XJoin", play_seeds(xjoin(), 10, 20, settings)[0])
    ours = (_over_time(f"PJoin-{threshold}", runs[threshold][0]) for threshold in (1, 100))
    panel = Panel(_TIME, _STATE, (*ours, theirs))
    return ReproductionOutcome((claim,), Drawing("State with A 10 and B 20 tuples per punctuation", (panel,)))
