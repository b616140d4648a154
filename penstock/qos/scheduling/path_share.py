"""The path that needs least of the processor goes first."""

from __future__ import annotations

from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import paths, per_ns, time_ns
from penstock.qos.scheduling.stretches import ServesStretches, Stretch, merged
from penstock.qos.scheduling.trees import Step
from penstock.qos.scheduling.wording import number_text, operators_text, time_text


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
       'rare': 9 µs and 100 B a row, 1 rows out for each; 1 rows come here for a row that enters
    2. path 'many': 5 % of the processor, as 50,000 rows/s take 1 µs each; weight 1
       'many': 1 µs and 100 B a row, 1 rows out for each; 1 rows come here for a row that enters
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        found = paths(plan)
        known = [tree.price.rate for tree in found if tree.price.rate > 0]
        usual = sum(known) / len(known) if known else 1.0
        return merged(_stretch(plan, tree, tree.price.rate or usual) for tree in found)


def _stretch(plan: WorkPlan, tree: Step, rate: float) -> Stretch:
    steps = tuple(tree.walk())
    weight = sum(plan.terms_of(query).weight for step in steps for query in step.answers)
    return Stretch(steps, per_ns(weight, rate * time_ns(steps)), partial(_figures, steps, rate, weight))


def _figures(steps: tuple[Step, ...], rate: float, weight: float) -> str:
    time = time_ns(steps)
    names = operators_text(step.operator for step in steps)
    share = f"{number_text(rate * time / 1e7)} % of the processor, as {number_text(rate)} rows/s take {time_text(time)} each"
    return f"path {names}: {share}; weight {number_text(weight)}"
