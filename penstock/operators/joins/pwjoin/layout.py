"""Memory of a join core: what the compiled loops read and write.

Everything is an array of 64-bit integers with named columns. Compiled functions take one `Memory`; they never allocate, so
the host makes room before a call (`grown`). A T-Node stands for a stored tuple and is a link of two lists: the time list of
its stream, and the value list of its key and stream. An I-Node stands for a key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.model.batch import Int64s
from penstock.model.elements import NEVER
from penstock.model.windows import Rows, Sliding
from penstock.operators.joins.pwjoin.config import JoinConfig, JoinWindow
from penstock.operators.joins.pwjoin.trace import TOTALS

NONE = -1

#: T-Node. AT is what the window looks at: the time, or the number of the row in its stream. ROW is NONE when the tuple is gone
#: and the node only waits to be unlinked. OWNER is the I-Node, or in hash tables the key itself. IN_STREAM has it in its time list.
TS, AT, ROW, OWNER, TIME_NEXT, TIME_BEFORE, VALUE_NEXT, VALUE_BEFORE, LINKS, RING, IN_STREAM = range(11)
IN_TIME, IN_VALUE = 1, 2
#: I-Node. MASK has a bit for each stream that announced the key. PROP_TIME is the least moment after which it may leave.
KEY, CHAIN, MASK, STATUS, PROP_TIME, NONEMPTY, SINCE, VISIT, STREAM = range(9)
OPEN, SCHEDULED, PROPAGATED, FREE = range(4)
#: Value list of an I-Node and a stream. LAST is the greatest AT, PLACE the place in the schedule of the stream.
HEAD, TAIL, LIVE, LAST, PLACE = range(5)
#: Stream. Tuples with AT below LIMIT have left the window. PROBES and MATCHES steer the probe order of hash tables.
FIRST, FINAL, STORED, ARRIVED, FRONTIER, WINDOW, BY_ROWS, LIMIT, DUE, ENDED, PROBES, MATCHES = range(12)
#: Remembered keys without tuples: a recent one in a hash table, and intervals of older ones. MASK is MISSING when forgotten.
R_KEY, R_MASK, R_STATUS, R_BORN, R_USED = range(5)
S_LOW, S_HIGH, S_MASK, S_STATUS, S_BORN = range(5)
MISSING = -1
#: Range punctuation that waits: some tuples of its stream are still stored.
P_STREAM, P_LOW, P_HIGH, P_LIVE = range(4)
#: Output punctuation.
M_LOW, M_HIGH, M_TS, M_STREAM, M_ITEM = range(5)

#: Single numbers of a core.
(
    NOW,
    STREAMS,
    ALL,
    NODES_USED,
    NODES_FREE,
    INODES_USED,
    INODES_FREE,
    INODES,
    BUCKETS,
    RECENT,
    SPANS,
    RANGES,
    MARKS,
    FOUND,
    NEEDED,
    EARLY,
    DROP,
    ON_VIOLATION,
    CLOCK,
    FORGET,
    LONER_TTL,
    MOST_MARKERS,
    COLLECT,
    SERIAL,
    ORDERED,
    ORDER_MAIN,
    ORDER_TAIL,
    ERROR_ITEM,
    BORN,
    LONERS_FIRST,
    LONERS_END,
    RELEASABLE,
    BY_SELECTIVITY,
    LOG,
    RELOG,
    ON_LATE,
    SETTLE,
    GIVEN,
) = range(38)

_CLOCKS = {"global_order": 0, "source_order": 1, "frontier": 2}
_VIOLATIONS = {"error": 0, "quarantine": 1, "trust_tuple": 2}
#: Windows without end, small enough that sums with them stay within 64 bits.
INFINITE = 2**62

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
    N_NULL,
    N_VIOLATIONS,
    N_TRUSTED,
    N_LATE,
    N_REDUNDANT,
    N_EVICTED,
) = range(len(TOTALS))


class Memory(NamedTuple):
    """All arrays of one core, in the order of `_compiled.FIELDS`."""

    nodes: Int64s
    inodes: Int64s
    lists: Int64s
    buckets: Int64s
    schedule: Int64s
    streams: Int64s
    recent: Int64s
    spans: Int64s
    spare_spans: Int64s
    ranges: Int64s
    order: Int64s
    loners: Int64s
    marks: Int64s
    found: Int64s
    scratch: Int64s
    wheel: Int64s
    log: Int64s
    numbers: Int64s
    counts: Int64s
    saved: Int64s


def new_memory(config: JoinConfig, collect: bool) -> Memory:
    """An empty core."""
    streams = config.streams
    return Memory(
        nodes=np.zeros((64, 11), np.int64),
        inodes=np.zeros((64, 9), np.int64),
        lists=np.zeros((64, streams, 5), np.int64),
        buckets=np.full((_tables(config), config.buckets or (1024 if config.state == "tables" else 64), 2), NONE, np.int64),
        schedule=np.zeros((streams, 64), np.int64),
        streams=_streams(config),
        recent=np.zeros((128, 5), np.int64),
        spans=np.zeros((64, 5), np.int64),
        spare_spans=np.zeros((64, 5), np.int64),
        ranges=np.zeros((8, 4), np.int64),
        order=np.zeros((3, 64), np.int64),
        loners=np.zeros((64, 3), np.int64),
        marks=np.zeros((64, 5), np.int64),
        found=np.zeros((64, streams + 1), np.int64),
        scratch=np.zeros(64, np.int64),
        wheel=np.zeros((streams, 3), np.int64),
        log=np.zeros(64, np.int64),
        numbers=_numbers(config, collect),
        counts=np.zeros(len(TOTALS), np.int64),
        saved=np.zeros(len(TOTALS), np.int64),
    )


def _tables(config: JoinConfig) -> int:
    return 1 if config.state == "cluster" else config.streams


def _streams(config: JoinConfig) -> Int64s:
    rows = np.zeros((config.streams, 12), np.int64)
    rows[:, FIRST] = rows[:, FINAL] = NONE
    rows[:, FRONTIER] = rows[:, LIMIT] = NEVER
    for stream, window in enumerate(config.windows):
        rows[stream, WINDOW] = window_length(window)
        rows[stream, BY_ROWS] = isinstance(window, Rows)
    return rows


def window_length(window: JoinWindow) -> int:
    """Length of a window in its own unit, at most `INFINITE`."""
    size = window.size if isinstance(window, Sliding | Rows) else None
    return INFINITE if size is None else min(size, INFINITE)


def _numbers(config: JoinConfig, collect: bool) -> Int64s:
    numbers = np.zeros(38, np.int64)
    numbers[NOW] = NEVER
    numbers[STREAMS] = config.streams
    numbers[ALL] = (1 << config.streams) - 1
    numbers[[NODES_FREE, INODES_FREE, ERROR_ITEM]] = NONE
    numbers[BUCKETS] = config.buckets or (1024 if config.state == "tables" else 64)
    numbers[EARLY], numbers[DROP] = config.early_propagation, config.drop
    numbers[ON_VIOLATION] = _VIOLATIONS[config.on_violation]
    numbers[ON_LATE] = config.on_late == "quarantine"
    numbers[CLOCK] = _CLOCKS[config.clock]
    numbers[FORGET] = config.forget_closed == "when_all_announced"
    numbers[LONER_TTL], numbers[MOST_MARKERS] = config.loner_ttl, config.max_drop_markers
    numbers[BY_SELECTIVITY] = config.probe_order == "selectivity"
    numbers[COLLECT] = collect
    return numbers


def grown(array: Int64s, rows: int, axis: int = 0) -> Int64s:
    """The array with at least `rows` places along an axis; doubled, so that growth costs little per row."""
    if array.shape[axis] >= rows:
        return array
    shape = list(array.shape)
    shape[axis] = max(rows, 2 * shape[axis])
    larger = np.zeros(shape, np.int64)
    part: list[Any] = [slice(length) for length in array.shape]
    larger[tuple(part)] = array
    return larger
