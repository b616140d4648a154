"""Operators are worth what their segment is worth."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import paths
from penstock.qos.scheduling.ranked import Priority, ServesOperators
from penstock.qos.scheduling.segmentation import block_text, memory_optimal_blocks


class Chain(ServesOperators):
    """Serve the operator that lies on the steepest part of the lower envelope of a progress chart, what waits longest first.

    A progress chart shows how much memory is left of a row after how much work. Queues are nearly as short as they can be;
    answers come late and in gusts, because operators of equal segments interleave. `segment` has the same envelope and runs
    its parts as one. An operator that several inputs reach has the mean of its slopes, by rates of arrival.

    Notes
    -----
    Differs from the book: slopes are memory per time, and where paths branch the envelope is that of `segment`.

    References
    ----------
    [babcock2004] Babcock, Babu, Datar, Motwani, Thomas. Operator Scheduling in Data Stream Systems. VLDB Journal 13(4), 2004.
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = Chain()
    >>> first, second = Price(row_ns=200, selectivity=0.9, row_bytes=50), Price(row_ns=200, row_bytes=50)
    >>> policy.plan(WorkPlan((PlannedOperator("a", (first,), (("b", 0),), (0,)), PlannedOperator("b", (second,)))))
    >>> print(*policy.explained(), sep="\\n")
    1. 'a': segment 'a', 'b': 131.6 MB/s, as a row that enters releases 50 B in 380 ns
    2. 'b': segment 'a', 'b': 131.6 MB/s, as a row that enters releases 50 B in 380 ns
    """

    def priorities(self, plan: WorkPlan) -> Iterable[Priority]:
        for tree in paths(plan):
            for block in memory_optimal_blocks(tree):
                for step in block.steps:
                    yield Priority(step.operator, block.capacity, partial(block_text, block), tree.price.rate)
