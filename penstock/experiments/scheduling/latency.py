"""Who answers soonest, and whose output is steady: E-SC-1, 2 and 4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.experiments.contracts import Claim, Drawing, ReproductionOutcome, Settings
from penstock.experiments.measures import counted, listed, ranged
from penstock.experiments.scheduling.setup import (
    COMPARED,
    DECISION_MS,
    SHOWN,
    STATEMENTS,
    Task,
    bars,
    free,
    means,
    over_time,
    priced,
    published,
    ratio,
    setup_named,
    values,
)

_ORDER = ("path_capacity", "simple_segment", "segment", "chain")
_TITLES = ("decisions cost nothing", f"{DECISION_MS} ms each")


def latency(settings: Settings) -> ReproductionOutcome:
    """E-SC-1: how long answers take."""
    costless, paths, queries = free(settings), priced(settings), published(settings)
    each = zip(*(values(costless[name], "per_input") for name in _ORDER), strict=True)
    wins = [found[0] < min(found[1:]) for found in each]
    outputs = ratio(costless, "per_output", "path_answers", "path_capacity")
    best = [
        ours < theirs
        for ours, theirs in zip(*(values(costless[name], "per_output") for name in ("path_answers", "path_capacity")), strict=True)
    ]
    claims = (
        _latency_order("E-SC-1a", means(paths, "heavy", _ORDER)),
        _latency_order("E-SC-1b", means(queries, "heavy", _ORDER)),
        _same_as_path_capacity(settings),
        STATEMENTS["E-SC-1d"].judged(
            "E-SC-1d", all(wins), f"on {sum(wins)} of {len(wins)} streams; means {listed(means(costless, 'per_input', _ORDER))} s",
            seconds=means(costless, "per_input", _ORDER),
        ),
        STATEMENTS["E-SC-1e"].judged(
            "E-SC-1e", all(best) and outputs < 0.6,
            f"{outputs:.2f} times the latency, sooner on {sum(best)} of {len(best)} streams", ratio=outputs,
        ),
    )  # fmt: skip
    setup = setup_named("published", settings)
    panels = (
        bars(dict(zip(_TITLES, (costless, paths), strict=True)), "per_output", SHOWN, "latency per answer (s)"),
        bars(dict(zip(_TITLES, (costless, paths), strict=True)), "per_input", SHOWN, "latency per input row (s)"),
        bars({"8 paths": paths, "16 queries": queries}, "p99", SHOWN, "99 % of the answers within (s)"),
        over_time(queries, setup, "latency", COMPARED, "latency, 16 queries (s)"),
    )
    return ReproductionOutcome(claims, Drawing("Latency under waves of load", panels))


def _latency_order(id: str, found: Sequence[float]) -> Claim:
    held = found[0] < found[1] < found[2] <= found[3]
    return STATEMENTS[id].judged(id, held, f"{listed(found)} s", seconds=list(found))


def _same_as_path_capacity(settings: Settings) -> Claim:
    setup, same, answers = setup_named("paths", settings), 0, 0
    seeds = settings.seed_numbers()
    for seed in seeds:
        task = Task(setup, seed, DECISION_MS)
        one, other = task.simulation("path_capacity").run(), task.simulation("threshold", memory="1000 GB", upper="900 GB").run()
        same += np.array_equal(one.made_ns, other.made_ns) and np.array_equal(one.pos, other.pos)
        answers += len(one.pos)
    return STATEMENTS["E-SC-1c"].judged(
        "E-SC-1c",
        same == len(seeds),
        f"{counted(answers)} answers equal in time and order on {same} of {len(seeds)} streams",
        same=same,
    )


def output(settings: Settings) -> ReproductionOutcome:
    """E-SC-2: how steadily answers come."""
    paths, queries = priced(settings), published(settings)
    sets = (free(settings), paths, queries)
    same = all(len({found[name][at].digest for name in found}) == 1 for found in sets for at in range(len(found["chain"])))
    answers = [values(found["chain"], "answers") for found in (paths, queries)]
    peaks = [means(found, "peak_output", ("path_capacity", "chain")) for found in (paths, queries)]
    shares = [means(found, "share", ("path_capacity", "segment", "chain")) for found in (paths, queries)]
    claims = (
        STATEMENTS["E-SC-2a"].judged(
            "E-SC-2a", same,
            f"{'equal' if same else 'not equal'}: {ranged(answers[0])} answers of 8 paths, {ranged(answers[1])} of 16 queries",
            answers=[*answers[0], *answers[1]],
        ),
        STATEMENTS["E-SC-2b"].judged(
            "E-SC-2b", peaks[0][0] < peaks[0][1], f"{listed(peaks[0])} times the mean", peaks=peaks[0]
        ),
        STATEMENTS["E-SC-2c"].judged(
            "E-SC-2c", shares[0][0] > shares[0][1] >= shares[0][2], percent(shares[0]), shares=shares[0]
        ),
        STATEMENTS["E-SC-2d"].judged(
            "E-SC-2d", peaks[1][0] < peaks[1][1] and shares[1][0] > shares[1][1] >= shares[1][2],
            f"{listed(peaks[1])} times the mean; {percent(shares[1])}", peaks=peaks[1], shares=shares[1],
        ),
    )  # fmt: skip
    setup = setup_named("published", settings)
    panels = (
        bars({"8 paths": paths, "16 queries": queries}, "peak_output", COMPARED, "busiest 5 s / mean"),
        over_time(queries, setup, "output", COMPARED[:4], "answers per second, 16 queries"),
    )
    return ReproductionOutcome(claims, Drawing("Output under waves of load", panels))


def percent(found: Sequence[float]) -> str:
    return " / ".join(f"{100 * share:.1f} %" for share in found)


def decisions(settings: Settings) -> ReproductionOutcome:
    """E-SC-4: how often a strategy decides."""
    sets = {"8 paths": priced(settings), "16 queries": published(settings)}
    found = [means(each, "decisions", _ORDER) for each in sets.values()]
    shares = [[number / each[-1] for number in each] for each in found]
    claim = STATEMENTS["E-SC-4"].judged(
        "E-SC-4",
        all(one < two < three < four for one, two, three, four in found),
        "; ".join(f"{name} {listed([round(share, 2) for share in each])}" for name, each in zip(sets, shares, strict=True)),
        paths=shares[0],
        queries=shares[1],
    )
    names = (*_ORDER, "fifo", "threshold")
    panels = tuple(bars({name: each}, "decisions", names, f"decisions, {name}") for name, each in sets.items())
    return ReproductionOutcome((claim,), Drawing("Decisions", panels))
