"""Which stored events of a live trace can go, although the trace may still match.

When no further event of a leaf's type can come, an event that must stand before that leaf is of use only if one of the
leaf's events that did come is later.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.metadata.constraints.query_graph import QueryGraph

Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: Newest time of a leaf without events.
NO_EVENT = np.iinfo(np.int64).min
#: Bound of a leaf all of whose events stay.
KEEP_ALL = np.iinfo(np.int64).max


def must_precede(graph: QueryGraph) -> Bools:
    """Entry (m, n): every match with leaf m also has leaf n, strictly later."""
    count = graph.leaf_count
    holders = [next(p for p, part in enumerate(graph.partitions) if part.leaves >> leaf & 1) for leaf in range(count)]
    result = np.zeros((count, count), np.bool_)
    for first in range(count):
        for second in range(count):
            # A leaf in another branch is not in every match, so it forbids nothing.
            always = graph.above(holders[first]) >> holders[second] & 1
            result[first, second] = bool(always) and graph.precedes(first, second)
    return result


def useless_from(precede: Bools, gone: Bools, newest: Int64s) -> Int64s:
    """For each trace and leaf the time from which on its stored events can be dropped.

    Parameters
    ----------
    precede
        From `must_precede`.
    gone
        For each trace and leaf, whether no further event of the leaf's type can come.
    newest
        For each trace and leaf, the time of its newest event, or `NO_EVENT`.

    Examples
    --------
    SEQ(A, B, C) after a1 b2 a3, when no B can come any more: a3 is of no use.

    >>> from penstock.metadata.constraints.query_graph import query_graph
    >>> from penstock.model.event_patterns import seq
    >>> precede = must_precede(query_graph(seq("A", "B", "C")))
    >>> bounds = useless_from(precede, np.array([[False, True, False]]), np.array([[3, 2, NO_EVENT]]))
    >>> int(bounds[0, 0]), bool(bounds[0, 1] == KEEP_ALL)
    (2, True)
    """
    limits = np.where(gone, newest, KEEP_ALL)
    spread = np.where(precede[None, :, :], limits[:, None, :], KEEP_ALL)
    bounds: Int64s = spread.min(axis=2, initial=KEEP_ALL)
    return bounds
