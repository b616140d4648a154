"""Whether fragments earn as much as is possible: E-TS-10."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import counted, listed
from penstock.experiments.tuple_scheduling.setup import STATEMENTS
from penstock.qos.scheduling.opt_profit import Fragment, Job, affordable, earned, fragments

#: The worked example: two fragments, of which a budget lets half of a batch through the second.
_WALK = (Job(1), Job(1, 0, 0), Job(2, 1, 1), Job(1, 6, 1), Job(4, 0, 0), Job(3, 0, 4), Job(2, 1, 5), Job(1, 10, 5))
#: Trees on which the published rule fails, with budgets for a row: a root runs too early, a mediocre child is tied to its parent.
_EARLY_ROOT = (Job(3), Job(4, 11, 0), Job(6, 0, 0), Job(1, 10, 2), Job(4, 10, 2)), 3
_DENSE_PARENT = (Job(100), Job(10, 100, 0), Job(1, 5, 1), Job(20, 0, 0), *(Job(1, 50, 3) for _ in range(20))), 150

#: Parts of the cost of a tree that are tried as budgets.
_BUDGETS = tuple(Fraction(part, 5) for part in range(1, 5))


def _tree(draw: np.random.Generator) -> list[Job]:
    """Three to nine jobs with costs of 1 to 6; leaves earn 1 to 12."""
    parents = [None, *(int(draw.integers(0, number)) for number in range(1, int(draw.integers(3, 10))))]
    costs, profits = draw.integers(1, 7, len(parents)).tolist(), draw.integers(1, 13, len(parents)).tolist()
    inner = set(parents)
    return [
        Job(Fraction(cost), Fraction(0 if number in inner else profit), parent)
        for number, (cost, profit, parent) in enumerate(zip(costs, profits, parents, strict=True))
    ]


def _optimum(jobs: Sequence[Job], budget: Fraction) -> Fraction:
    """Of the linear program: on the upper hull of what all sets of jobs that hold their parents cost and earn."""
    best: dict[Fraction, Fraction] = {}
    for chosen in _closed(jobs):
        cost, profit = (sum((Fraction(getattr(jobs[job], what)) for job in chosen), Fraction(0)) for what in ("cost", "profit"))
        best[cost] = max(best.get(cost, Fraction(0)), profit)
    below = [(cost, profit) for cost, profit in best.items() if cost <= budget]
    above = [(cost, profit) for cost, profit in best.items() if cost > budget]
    found = max(profit for _, profit in below)
    for low, less in below:
        for high, more in above:
            found = max(found, less + (more - less) * (budget - low) / (high - low))
    return found


def _closed(jobs: Sequence[Job]) -> list[frozenset[int]]:
    """All sets that hold the parents of their jobs."""
    found: list[frozenset[int]] = [frozenset()]
    for number, job in enumerate(jobs):
        found += [chosen | {number} for chosen in found if job.parent is None or job.parent in chosen]
    return found


def _shortfalls(jobs: Sequence[Job], budget: Fraction) -> tuple[float, float]:
    """How much less than the optimum the published and the repaired rule earn, in parts of it."""
    best = _optimum(jobs, budget)
    by_rule = (fragments(jobs, published=True), fragments(jobs))
    published, repaired = (float(1 - Fraction(earned(rule, budget)) / best) if best else 0.0 for rule in by_rule)
    return published, repaired


def optimality(settings: Settings) -> ReproductionOutcome:
    """E-TS-10: the published rule, and the repaired one."""
    draw = np.random.default_rng(10)
    trees = [_tree(draw) for _ in range(200 if settings.is_quick else 4_000)]
    found = np.array([_shortfalls(jobs, share * sum(Fraction(job.cost) for job in jobs)) for jobs in trees for share in _BUDGETS])
    worse = (found > 0).sum(axis=0).tolist()
    of_all = f"of {counted(len(found))} cases"
    early = _example(*_EARLY_ROOT)
    dense = _example(*_DENSE_PARENT)
    walk = [affordable(fragments(_WALK, published), budget=420, rows=60) for published in (True, False)]
    claims = (
        STATEMENTS["E-TS-10a"].judged(
            "E-TS-10a", worse[0] == 0,
            f"less than the optimum in {counted(worse[0])} {of_all}, by {100 * found[:, 0].max():.1f} % at most",
            worse=worse[0], cases=len(found),
        ),
        STATEMENTS["E-TS-10b"].judged(
            "E-TS-10b", worse[1] == 0, f"less than the optimum in {counted(worse[1])} {of_all}", worse=worse[1]
        ),
        STATEMENTS["E-TS-10c"].judged(
            "E-TS-10c", early[0] < early[1] == 31 / 6 and dense[0] < dense[1] == 1100,
            f"{listed(early)}; {listed(dense)}", early_root=early, dense_parent=dense,
        ),
        STATEMENTS["E-TS-10d"].judged(
            "E-TS-10d", all(_profit(each) == 660 for each in walk), listed([_profit(each) for each in walk]),
            profit=[_profit(each) for each in walk],
        ),
    )  # fmt: skip
    gaps = 100 * np.sort(found[:, 0])[::-1][: max(worse[0], 1)]
    panel = Panel(
        "cases, by shortfall", "less than the optimum (%)", (Series("published rule", np.arange(1, len(gaps) + 1), gaps),)
    )
    return ReproductionOutcome(claims, Drawing("Where the published rule earns less than is possible", (panel,)))


def _example(jobs: Sequence[Job], budget: int) -> list[float]:
    """Earned by the published and by the repaired rule."""
    earning = partial(earned, budget=budget)
    return [float(earning(fragments(jobs, published=True))), float(earning(fragments(jobs)))]


def _profit(chosen: Sequence[tuple[Fragment, int]]) -> float:
    return float(sum(fragment.profit * rows for fragment, rows in chosen))
