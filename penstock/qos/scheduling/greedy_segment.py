"""Segments that end where an operator releases memory slower than the one before it."""

from __future__ import annotations

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.segmentation import greedy_blocks, segments
from penstock.qos.scheduling.stretches import ServesStretches, Stretch


class GreedySegment(ServesStretches):
    """Serve the segment with the largest memory release capacity, cut in one pass over each path.

    Paths may be cut where they need not be, so that queues get a little longer than with `segment`, which is as cheap. Choose
    it to compare.

    Notes
    -----
    Differs from the book, whose listing compares processing capacities; its definition compares memory release capacities.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, algorithm 1.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = GreedySegment()
    >>> first, second = Price(row_ns=200, selectivity=0.5, row_bytes=50), Price(row_ns=900, row_bytes=50)
    >>> policy.plan(WorkPlan((PlannedOperator("a", (first,), (("b", 0),), (0,)), PlannedOperator("b", (second,)))))
    >>> policy.explained()[0]
    "1. segment 'a': 125.0 MB/s, as a row that enters releases 25 B in 200 ns"
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        return segments(plan, greedy_blocks)
