"""The path that needs least of the processor goes first."""

from __future__ import annotations

from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import paths, per_ns, time_ns
from penstock.qos.scheduling.explanation import number_text, operators_text, time_text
from penstock.qos.scheduling.stretches import ServesStretches, Stretch
from penstock.qos.scheduling.trees import Step


class PathShare(ServesStretches):
    """Serve the operator path that takes the smallest share of the processor, for the weight of its queries; inside it, what is
    nearest to the answer.

    The share is what a row takes on its way, times the rows that come each second. So under overload as many queries as
    possible are up to date, however many rows or answers they have, and those that take most of the time wait. The other
    strategies go by rows or by answers: they neglect a query with few of them although it would cost next to nothing.

    Notes
    -----
    Not in the book. It is the shortest job first, with the work of a second for all rows of a query as the job. Where nobody
    knows how many rows come, all paths count as if equally many came.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, (6.2).

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = PathShare()
    >>> rare = PlannedOperator("rare", (Price(row_ns=9_000, rate=10),), entrances=(0,), answers=("alerts",))
    >>> many = PlannedOperator("many", (Price(row_ns=1_000, rate=50_000),), entrances=(0,), answers=("all",))
    >>> policy.plan(WorkPlan((many, rare)))
    >>> print(*policy.explained(), sep="\\n")
    1. path 'rare': 0.009 % of the processor, as 10 rows/s take 9 µs each; weight 1
       'rare': 9 µs and 100 B per row, selectivity 1; rows that reach it: 1 per row that enters
    2. path 'many': 5 % of the processor, as 50,000 rows/s take 1 µs each; weight 1
       'many': 1 µs and 100 B per row, selectivity 1; rows that reach it: 1 per row that enters
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        found = paths(plan)
        known = [tree.price.rate for tree in found if tree.price.rate > 0]
        usual = sum(known) / len(known) if known else 1.0
        same: dict[frozenset[str], list[tuple[Step, float]]] = {}
        for tree in found:
            operators = frozenset(step.operator for step in tree.walk())
            same.setdefault(operators, []).append((tree, tree.price.rate or usual))
        return [_stretch(plan, arriving, bool(known)) for arriving in same.values()]


def _stretch(plan: WorkPlan, arriving: list[tuple[Step, float]], is_any_known: bool) -> Stretch:
    """Operators with all that arrives for them: the inputs of a join are served together."""
    steps = tuple(step for tree, _ in arriving for step in tree.walk())
    queries = {query for step in steps for query in step.answers}
    weight = sum(plan.terms_of(query).weight for query in queries)
    share = sum(rate * time_ns(tree.walk()) for tree, rate in arriving)
    figures = partial(_figures, arriving, share) if is_any_known else partial(_times, arriving)
    return Stretch(steps, per_ns(weight, share), lambda: f"{figures()}; weight {number_text(weight)}")


def _names(arriving: list[tuple[Step, float]]) -> str:
    return operators_text(dict.fromkeys(step.operator for tree, _ in arriving for step in tree.walk()))


def _times(arriving: list[tuple[Step, float]]) -> str:
    """Where no rate is known, a share would be invented."""
    times = " and ".join(time_text(time_ns(tree.walk())) for tree, _ in arriving)
    return f"path {_names(arriving)}: a row takes {times}; how many rows come is not known, so all paths count alike"


def _figures(arriving: list[tuple[Step, float]], share: float) -> str:
    rows = " and ".join(_rows(tree, rate) for tree, rate in arriving)
    return f"path {_names(arriving)}: {number_text(share / 1e7)} % of the processor, as {rows}"


def _rows(tree: Step, rate: float) -> str:
    guessed = "" if tree.price.rate > 0 else " (the mean of the others, as its own rate is not known)"
    return f"{number_text(rate)} rows/s{guessed} take {time_text(time_ns(tree.walk()))} each"
