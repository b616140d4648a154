"""At most two segments per path."""

from __future__ import annotations

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.segmentation import segments, two_blocks
from penstock.qos.scheduling.stretches import ServesStretches, Stretch


class SimpleSegment(ServesStretches):
    """Serve the segment with the largest memory release capacity; each path has the first one of `segment` and one more.

    Rows are put aside at most twice on their way. Choose it for queues almost as short as those of `segment` and answers
    almost as soon as those of `path_capacity`; it depends less on exact prices than `segment`.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = SimpleSegment()
    >>> first, second = Price(row_ns=200, selectivity=0.2, row_bytes=50), Price(row_ns=900, row_bytes=50)
    >>> policy.plan(WorkPlan((PlannedOperator("a", (first,), (("b", 0),), (0,)), PlannedOperator("b", (second,)))))
    >>> policy.explained()[0]
    "1. segment 'a': 200.0 MB/s, as a row that enters releases 40 B in 200 ns"
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        return segments(plan, two_blocks)
