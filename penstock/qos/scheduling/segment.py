"""Segments that keep queues short."""

from __future__ import annotations

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.segmentation import memory_optimal_blocks, segments
from penstock.qos.scheduling.stretches import ServesStretches, Stretch


class Segment(ServesStretches):
    """Serve the segment with the largest memory release capacity; segments are cut so that queues are as short as can be.

    At every moment all queues together hold at most one slice per path more than with any other strategy. Choose it when
    memory is scarce; `simple_segment` needs a little more and answers sooner. A segment that releases slowly may wait for
    ever under overload.

    Notes
    -----
    Differs from the book: it takes the strategy to be optimal, which it is up to one slice per path. Its exponential search
    for segments where paths branch is replaced by an equal one in O(n log n) steps per level. Segments of the same operators
    on several paths have the mean of their capacities, by rates of arrival; a segment is served if anything waits in it, not
    only at its first operator.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, algorithms 2 and 3.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = Segment()
    >>> first, second = Price(row_ns=200, selectivity=0.9, row_bytes=50), Price(row_ns=200, row_bytes=50)
    >>> policy.plan(WorkPlan((PlannedOperator("a", (first,), (("b", 0),), (0,)), PlannedOperator("b", (second,)))))
    >>> policy.explained()[0]
    "1. segment 'a', 'b': 131.6 MB/s, as a row that enters releases 50 B in 380 ns"
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        return segments(plan, memory_optimal_blocks)
