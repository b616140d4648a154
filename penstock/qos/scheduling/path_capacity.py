"""The path that turns rows into answers fastest goes first."""

from __future__ import annotations

from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import path_capacity, paths, time_ns
from penstock.qos.scheduling.explanation import operators_text, per_second, time_text
from penstock.qos.scheduling.stretches import ServesStretches, Stretch, merged
from penstock.qos.scheduling.trees import Step


class PathCapacity(ServesStretches):
    """Serve the operator path with the largest processing capacity; inside it, what is nearest to the answer first.

    The capacity of a path is the number of rows that can enter it per unit of time, 1 / Σ t over its operators, where an
    operator behind selective ones counts only for the rows that reach it. For a fixed backlog this order gives the least
    mean latency per input row. A path with a small capacity may wait for ever under overload.

    Notes
    -----
    Differs from the book: the sum over branches multiplies all selectivities of the shared part (its formula 6.4 leaves out
    the last one). A path on which something waits only behind its entrance is served, too. Where paths branch the book serves
    layer by layer; here a slice is followed to the end of a branch before the next branch gets it. Capacities change only
    with the prices of the plan, never by measuring here.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 6.2.2, (6.2)-(6.4).

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = PathCapacity()
    >>> policy.plan(WorkPlan((PlannedOperator("only", (Price(row_ns=250_000),), entrances=(0,)),)))
    >>> print(*policy.explained(), sep="\\n")
    1. path 'only': 4,000 rows/s, as a row takes 250 µs
       'only': 250 µs and 100 B per row, selectivity 1; rows that reach it: 1 per row that enters
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        return merged(_stretch(tree) for tree in paths(plan))


def _stretch(tree: Step) -> Stretch:
    return Stretch(tuple(tree.walk()), path_capacity(tree), partial(_figures, tree), tree.price.rate)


def _figures(tree: Step) -> str:
    steps = list(tree.walk())
    rate, time = per_second(path_capacity(tree), "rows"), time_text(time_ns(steps))
    return f"path {operators_text(step.operator for step in steps)}: {rate}, as a row takes {time}"
