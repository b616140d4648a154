"""Whether answers come in time: E-LS-1 to 3."""

from __future__ import annotations

import numpy as np

from penstock.experiments.contracts import Drawing, ReproductionOutcome, Settings
from penstock.experiments.measures import listed, ranged
from penstock.experiments.shedding.setup import FOR_MANY, PER_PATH, STATEMENTS, Found, bars, groups, late, lost, many, worst

PC, EDF = "path_capacity", "earliest_deadline"
#: Mean loads: below and above what can be served.
BELOW, ABOVE = 0.92, 1.025
#: Of the three groups, the one with the strictest contract and the one with the loosest.
STRICT, LOOSE = 0, 2
#: Longest time that an answer of each group may take.
_BOUNDS = (0.6, 1.0, 1.5)


def _percents(values: list[float]) -> str:
    return ranged([100 * value for value in values]) + " %"


def _cut(found: Found, policy: str, variant: str, group: int) -> float:
    """Geometric mean over the streams: how many times less the greatest latency is than without shedding."""
    pairs = zip(worst(found, policy, "none", group), worst(found, policy, variant, group), strict=True)
    return float(np.exp(np.mean([np.log(before / after) for before, after in pairs])))


def _peaks(found: Found, policy: str, variant: str) -> list[float]:
    return [each.peak for each in found[policy, variant]]


def _smaller_peaks(found: Found, policy: str, variant: str) -> list[bool]:
    return [mine < theirs for mine, theirs in zip(_peaks(found, policy, variant), _peaks(found, policy, "none"), strict=True)]


def path_capacity(settings: Settings) -> ReproductionOutcome:
    """E-LS-1: a strategy that knows no deadlines."""
    slow, fast = groups(ABOVE, True, settings), groups(ABOVE, False, settings)
    with_it, without = worst(slow, PC, "full", STRICT), worst(slow, PC, "none", STRICT)
    loose = worst(slow, PC, "full", LOOSE)
    other = worst(fast, PC, "full", LOOSE)
    strict = worst(fast, PC, "full", STRICT)
    cuts = [_cut(slow, PC, "full", STRICT), _cut(fast, PC, "full", LOOSE)]
    smaller = [*_smaller_peaks(slow, PC, "full"), *_smaller_peaks(fast, PC, "full")]
    first = [
        (shed.first_shed_s, plain.first_late_s) for shed, plain in zip(slow[PC, "full"], slow[PC, "none"], strict=True)
    ]  # fmt: skip
    claims = (
        STATEMENTS["E-LS-1a"].judged(
            "E-LS-1a", float(np.mean(with_it)) > _BOUNDS[STRICT] and all(a < b for a, b in zip(with_it, without, strict=True)),
            f"{ranged(with_it)} s, without shedding {ranged(without)} s", seconds=[*with_it, *without],
        ),
        STATEMENTS["E-LS-1b"].judged("E-LS-1b", max(loose) <= _BOUNDS[LOOSE], f"{ranged(loose)} s", seconds=loose),
        STATEMENTS["E-LS-1c"].judged(
            "E-LS-1c", float(np.mean(other)) > _BOUNDS[LOOSE] and max(strict) <= _BOUNDS[STRICT],
            f"group 3: {ranged(other)} s, group 1: {ranged(strict)} s", seconds=[*other, *strict],
        ),
        STATEMENTS["E-LS-1d"].judged("E-LS-1d", min(cuts) > 3, f"{listed(cuts)} times", times=cuts),
        STATEMENTS["E-LS-1e"].judged(
            "E-LS-1e", all(smaller), f"on {sum(smaller)} of {len(smaller)} streams, down to "
            f"{ranged([a / b for a, b in zip(_peaks(slow, PC, 'full'), _peaks(slow, PC, 'none'), strict=True)])} of the rows",
            peaks=[*_peaks(slow, PC, "full"), *_peaks(slow, PC, "none")],
        ),
        STATEMENTS["E-LS-1f"].judged(
            "E-LS-1f", all(shed < plain for shed, plain in first),
            f"{ranged([shed for shed, _ in first])} s against {ranged([plain for _, plain in first])} s",
            seconds=[second for pair in first for second in pair],
        ),
    )  # fmt: skip
    panels = (
        bars(slow, PC, worst, "greatest latency (s), group 1 slowest", log_y=True),
        bars(fast, PC, worst, "greatest latency (s), group 1 fastest", log_y=True),
        bars(slow, PC, late, "late answers (%), group 1 slowest", 100),
        bars(slow, PC, lost, "rows left out (%), group 1 slowest", 100),
    )
    return ReproductionOutcome(claims, Drawing("Path capacity with and without shedding", panels))


def earliest_deadline(settings: Settings) -> ReproductionOutcome:
    """E-LS-2: a strategy that goes by deadlines."""
    below, above, fast = groups(BELOW, True, settings), groups(ABOVE, True, settings), groups(ABOVE, False, settings)
    held = {
        variant: [each.any_late for found in (below, above, fast) for each in found[EDF, variant]]
        for variant in ("headroom", "backlog")
    }
    feasible = [each.feasible for found in (below, above, fast) for each in found[EDF, "headroom"]]
    full = [each.any_late for found in (below, above, fast) for each in found[EDF, "full"]]
    without = worst(above, EDF, "none", STRICT)
    cut = _cut(above, EDF, "headroom", STRICT)
    smaller = [*_smaller_peaks(below, EDF, "headroom"), *_smaller_peaks(above, EDF, "headroom")]
    extra = [
        100 * (b - f) for b, f in zip(lost(above, EDF, "backlog", LOOSE), lost(above, EDF, "full", LOOSE), strict=True)
    ]  # fmt: skip
    drained = [
        b < f for b, f in zip(worst(above, EDF, "backlog", LOOSE), worst(above, EDF, "full", LOOSE), strict=True)
    ]  # fmt: skip
    claims = (
        STATEMENTS["E-LS-2a"].judged(
            "E-LS-2a", max(held["headroom"]) == 0,
            f"late: {_percents(held['headroom'])}; feasible at {100 * min(feasible):.0f} % of the estimations or more",
            late=held["headroom"],
        ),
        STATEMENTS["E-LS-2b"].judged(
            "E-LS-2b", max(held["backlog"]) == 0, f"late: {_percents(held['backlog'])}", late=held["backlog"]
        ),
        STATEMENTS["E-LS-2c"].judged("E-LS-2c", max(full) < 0.02, f"late: {_percents(full)}", late=full),
        STATEMENTS["E-LS-2d"].judged(
            "E-LS-2d", cut > 10, f"{cut:.3g} times; without shedding {ranged(without)} s", times=cut, seconds=without
        ),
        STATEMENTS["E-LS-2e"].judged("E-LS-2e", all(smaller), f"on {sum(smaller)} of {len(smaller)} streams", smaller=sum(smaller)),
        STATEMENTS["E-LS-2f"].judged(
            "E-LS-2f", all(drained) and 0 < float(np.mean(extra)) < 10,
            f"{ranged(extra)} percentage points; greatest latency smaller on {sum(drained)} of {len(drained)} streams",
            points=extra,
        ),
    )  # fmt: skip
    panels = (
        bars(below, EDF, worst, f"greatest latency (s), mean load {BELOW}", log_y=True),
        bars(above, EDF, worst, f"greatest latency (s), mean load {ABOVE}", log_y=True),
        bars(above, EDF, late, f"late answers (%), mean load {ABOVE}", 100),
        bars(above, EDF, lost, f"rows left out (%), mean load {ABOVE}", 100),
    )
    return ReproductionOutcome(claims, Drawing("Earliest deadline first with and without shedding", panels))


def sixteen_queries(settings: Settings) -> ReproductionOutcome:
    """E-LS-3: queries that share operators and join streams."""
    found = many(ABOVE, settings)
    cuts = [min(_cut(found, policy, "backlog", group) for group in range(3)) for policy in (PC, EDF)]
    smaller = [*_smaller_peaks(found, PC, "backlog"), *_smaller_peaks(found, EDF, "backlog")]
    strict, split = late(found, EDF, PER_PATH, STRICT), late(found, EDF, "backlog", STRICT)
    feasible = [float(np.mean([each.feasible for each in found[EDF, variant]])) for variant in ("backlog", PER_PATH)]
    budgets = [max(lost(found, EDF, "backlog", group)) for group in range(3)]
    claims = (
        STATEMENTS["E-LS-3a"].judged("E-LS-3a", min(cuts) > 1, f"PC {cuts[0]:.3g}, EDF {cuts[1]:.3g} times", times=cuts),
        STATEMENTS["E-LS-3b"].judged("E-LS-3b", all(smaller), f"on {sum(smaller)} of {len(smaller)} runs", smaller=sum(smaller)),
        STATEMENTS["E-LS-3c"].judged("E-LS-3c", max(strict) == 0, f"late: {_percents(strict)}", late=strict),
        STATEMENTS["E-LS-3d"].judged(
            "E-LS-3d", all(mine <= allowed for mine, allowed in zip(budgets, (0.15, 0.25, 0.5), strict=True)),
            f"at most {' / '.join(f'{100 * each:.1f}' for each in budgets)} % of the answers of a group are missing", lost=budgets,
        ),
        STATEMENTS["E-LS-3e"].judged(
            "E-LS-3e", feasible[0] < feasible[1],
            f"{100 * feasible[0]:.0f} % of the estimations against {100 * feasible[1]:.0f} %; late in the strict group: "
            f"{_percents(split)}",
            feasible=feasible, late=split,
        ),
    )  # fmt: skip
    panels = (
        bars(found, PC, worst, "greatest latency (s)", log_y=True, variants=FOR_MANY),
        bars(found, EDF, worst, "greatest latency (s)", log_y=True, variants=FOR_MANY),
        bars(found, EDF, late, "late answers (%)", 100, variants=FOR_MANY),
        bars(found, EDF, lost, "missing answers (%)", 100, variants=FOR_MANY),
    )
    return ReproductionOutcome(claims, Drawing("Sixteen queries with and without shedding", panels))
