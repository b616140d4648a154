"""Memory of a join of the PWJoin family: what the compiled loops read and write.

Everything is an array of 64-bit integers with named columns. Compiled functions never allocate, so the host makes room before
a call (`grown`). A T-Node stands for a stored tuple and is a link of two lists: the time list of its stream, and the value
list of its key and stream. An I-Node stands for a key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.experiments.joins.pwjoin.config import JoinWindow, PWJoinConfig
from penstock.model.batch import Int64s
from penstock.model.elements import NEVER
from penstock.model.windows import Rows, Sliding

NONE = -1

#: T-Node. AT is what the window looks at: the time, or the number of the tuple in its stream. ITEM is NONE when the tuple is
#: gone and the node only waits to be unlinked. OWNER is the I-Node, or in hash tables the key itself.
AT, ITEM, OWNER, TIME_NEXT, VALUE_NEXT, LINKS, RING = range(7)
IN_TIME, IN_VALUE = 1, 2
#: I-Node. MASK has a bit for each stream that announced the key. PROP_TIME is the least moment after which it may leave.
KEY, CHAIN, MASK, STATUS, PROP_TIME, NONEMPTY, TABLE = range(7)
OPEN, SCHEDULED, PROPAGATED, FREE = range(4)
#: Value list of an I-Node and a stream. LAST is the greatest AT, PLACE the place in the schedule of the stream.
HEAD, TAIL, LIVE, LAST, PLACE = range(5)
#: Stream. Tuples with AT below LIMIT have left the window. DUE is the length of its schedule.
FIRST, FINAL, STORED, ARRIVED, WINDOW, BY_ROWS, LIMIT, DUE = range(8)
#: Rows of `recent`: remembered keys without tuples. MASK is MISSING when forgotten. Columns of `spans`: intervals of older ones.
R_KEY, R_MASK, R_STATUS, R_BORN = range(4)
S_LOW, S_HIGH, S_MASK, S_STATUS, S_BORN = range(5)
MISSING = -1
#: Output punctuation.
M_KEY, M_TS, M_STREAM, M_ITEM, M_AFTER = range(5)
#: Partners of a stream in the scratch: from BEGIN to END, and the current one.
BEGIN, END, CURRENT = range(3)

#: Single numbers of a join.
(
    NOW,
    STREAMS,
    ALL,
    NODES_USED,
    NODES_FREE,
    INODES_USED,
    INODES_FREE,
    INODES,
    RECENT,
    MARKS,
    FOUND,
    NEEDED,
    EARLY,
    FORGETS,
    MOST_MARKERS,
    COLLECTS,
    BORN,
    SETTLE,
) = range(18)

#: Windows without end, small enough that sums with them stay within 64 bits.
INFINITE = 2**62

#: Totals that only grow, by name.
TOTALS = (
    "tuples",
    "punctuations",
    "results",
    "propagated",
    "lookups",
    "marker_lookups",
    "accessed",
    "comparisons",
    "purge_scans",
    "inserts",
    "purged",
    "purged_on_the_fly",
    "dropped",
    "invalidated",
    "early_failures",
    "schedule_operations",
    "violations",
    "redundant",
    "evicted_markers",
)
(
    N_TUPLES,
    N_PUNCTUATIONS,
    N_RESULTS,
    N_PROPAGATED,
    N_LOOKUPS,
    N_MARKER_LOOKUPS,
    N_ACCESSED,
    N_COMPARISONS,
    N_PURGE_SCANS,
    N_INSERTS,
    N_PURGED,
    N_ON_THE_FLY,
    N_DROPPED,
    N_INVALIDATED,
    N_EARLY_FAILURES,
    N_SCHEDULE,
    N_VIOLATIONS,
    N_REDUNDANT,
    N_EVICTED,
) = range(len(TOTALS))


class Memory(NamedTuple):
    """All arrays of one join."""

    nodes: Int64s
    inodes: Int64s
    lists: Int64s
    #: First and last entry of each bucket of each table.
    buckets: Int64s
    schedule: Int64s
    streams: Int64s
    recent: Int64s
    #: Open addresses of the keys in `recent`.
    recent_table: Int64s
    spans: Int64s
    marks: Int64s
    found: Int64s
    scratch: Int64s
    partners: Int64s
    numbers: Int64s
    counts: Int64s
    saved: Int64s


def new_memory(config: PWJoinConfig, collects: bool) -> Memory:
    """An empty join."""
    streams = config.streams
    # Nodes have a column that is not used: rows of eight words are found by a shift.
    return Memory(
        nodes=np.zeros((64, 8), np.int64),
        inodes=np.zeros((64, 8), np.int64),
        lists=np.zeros((64, streams, 5), np.int64),
        buckets=np.full((1 if config.state == "cluster" else streams, config.buckets, 2), NONE, np.int64),
        schedule=np.zeros((streams, 64), np.int64),
        streams=_streams(config),
        recent=np.zeros((4, 64), np.int64),
        recent_table=np.full(128, NONE, np.int64),
        spans=np.zeros((0, 5), np.int64),
        marks=np.zeros((64, 5), np.int64),
        found=np.zeros((64, streams + 1), np.int64),
        scratch=np.zeros(64, np.int64),
        partners=np.zeros((streams, 3), np.int64),
        numbers=_numbers(config, collects),
        counts=np.zeros(len(TOTALS), np.int64),
        saved=np.zeros(len(TOTALS), np.int64),
    )


def _streams(config: PWJoinConfig) -> Int64s:
    rows = np.zeros((config.streams, 8), np.int64)
    rows[:, FIRST] = rows[:, FINAL] = NONE
    rows[:, LIMIT] = NEVER
    for stream, window in enumerate(config.windows):
        rows[stream, WINDOW] = window_length(window)
        rows[stream, BY_ROWS] = isinstance(window, Rows)
    return rows


def window_length(window: JoinWindow) -> int:
    """Length of a window in its own unit, at most `INFINITE`."""
    size = window.size if isinstance(window, Sliding | Rows) else None
    return INFINITE if size is None else min(size, INFINITE)


def _numbers(config: PWJoinConfig, collects: bool) -> Int64s:
    numbers = np.zeros(18, np.int64)
    numbers[NOW] = NEVER
    numbers[STREAMS] = config.streams
    numbers[ALL] = (1 << config.streams) - 1
    numbers[[NODES_FREE, INODES_FREE]] = NONE
    numbers[EARLY], numbers[FORGETS] = config.early_propagation, config.forgets_closed
    numbers[MOST_MARKERS], numbers[COLLECTS] = config.most_markers, collects
    return numbers


def grown(array: Int64s, places: int, axis: int = 0) -> Int64s:
    """The array with at least so many places along an axis; doubled, so that growth costs little per place."""
    if array.shape[axis] >= places:
        return array
    shape = list(array.shape)
    shape[axis] = max(places, 2 * shape[axis])
    larger = np.zeros(shape, np.int64)
    part: list[Any] = [slice(length) for length in array.shape]
    larger[tuple(part)] = array
    return larger
