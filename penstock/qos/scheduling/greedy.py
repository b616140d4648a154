"""The operator that releases memory fastest goes first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import paths, release_capacity
from penstock.qos.scheduling.explanation import release_text
from penstock.qos.scheduling.ranked import Priority, ServesOperators


class Greedy(ServesOperators):
    """Serve the operator with the largest memory release capacity of its own.

    It does not see that a slow operator may stand before one that releases much: `chain` and `segment` do. Choose it only
    to compare. An operator that several inputs reach has the mean of its capacities, by rates of arrival.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, (6.1).

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = Greedy()
    >>> price = Price(row_ns=200, selectivity=0.2, row_bytes=50)
    >>> policy.plan(WorkPlan((PlannedOperator("a", (price,), (("b", 0),), (0,)), PlannedOperator("b", (price,)))))
    >>> print(*policy.explained(), sep="\\n")
    1. 'b': 250.0 MB/s, as a row that enters releases 10 B in 40 ns
    2. 'a': 200.0 MB/s, as a row that enters releases 40 B in 200 ns
    """

    def priorities(self, plan: WorkPlan) -> Iterable[Priority]:
        for tree in paths(plan):
            for step in tree.walk():
                figures = partial(release_text, step.released, step.time_ns)
                yield Priority(step.operator, release_capacity([step]), figures, tree.price.rate)
