"""Layout of the arrays that the compiled loops of PJoin and XJoin work on.

A stored tuple is an entry of `Slots`. It is in exactly one *home* (portion and side) of its bucket, and in one chain of its
key (memory, or away: disk and purge buffer), the last arrived first. `Keys` has one entry per distinct key, `book` the clock
and the counters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: DTS of a tuple in memory.
NEVER_LEFT = np.int64(2**63 - 1)


class Slots(NamedTuple):
    """Stored tuples, one array per field: a probe touches few of them, and they stay in cache."""

    item: Any
    #: Times of arrival in memory and of departure from it, on the logical clock.
    ats: Any
    dts: Any
    kid: Any
    #: The punctuation a tuple is charged to, -1 for none; -1 in free slots too.
    pid: Any
    home: Any
    #: Chain of the key.
    after_in_key: Any
    before_in_key: Any
    #: List of the bucket.
    after: Any
    before: Any
    #: Stack of free slots.
    free: Any


class Keys(NamedTuple):
    """Distinct keys: value, bucket, who has closed them, heads of the chains, and a mark for scans."""

    value: Any
    bucket: Any
    #: By side 0, side 1, and the output.
    closed: Any
    #: In memory of side 0 and 1, away of side 0 and 1.
    chain: Any
    marked: Any


#: Who closes keys, besides the sides.
OUTPUT = 2
#: Homes: portion plus side.
MEMORY, DISK, BUFFER = 0, 2, 4
HOMES = 6
FREE_SLOT = -1
#: Last index of `lists[home, bucket]`.
HEAD, TAIL, SIZE = range(3)
#: Chains of tuples that are away come after those in memory.
AWAY = 2
#: Places of `book`. NULLS has, for each side, the tuples that no punctuation is charged with.
CLOCK, FREE, NULLS, STORED, IN_MEMORY, FIRST_COUNTER = 0, 1, 2, 4, 6, 7
(
    RESULTS,
    PROBED,
    SCANNED,
    PURGED,
    ON_THE_FLY,
    INSERTED,
    BUFFERED,
    SPILLED,
    REREAD,
    DISK_JOINS,
    INDEX_TESTS,
    PURGES,
    PROPAGATED,
    SUPPRESSED,
    ANNOUNCED,
    REDUNDANT,
    VIOLATIONS,
) = range(FIRST_COUNTER, FIRST_COUNTER + 17)
BOOK_FIELDS = FIRST_COUNTER + 17
#: Names of the counters, in the order of their places.
COUNTERS = (
    "results",
    "probe_comparisons",
    "purge_scanned",
    "purged",
    "purged_on_the_fly",
    "inserts",
    "buffered",
    "tuples_spilled",
    "tuples_reread",
    "disk_joins",
    "index_tests",
    "purges",
    "propagated",
    "suppressed",
    "punctuations_in",
    "redundant",
    "violations",
)


def empty_slots(number: int) -> Slots:
    """So many free slots."""
    wide = (np.full(number, -1, np.int64), np.zeros(number, np.int64), np.full(number, NEVER_LEFT, np.int64))
    kinds = (np.int32, np.int32, np.int8, np.int32, np.int32, np.int32, np.int32, np.int32)
    return Slots(*wide, *(np.full(number, -1, kind) for kind in kinds))


def empty_keys(number: int) -> Keys:
    """Room for so many keys: open and without tuples."""
    return Keys(
        np.zeros(number, np.int64),
        np.zeros(number, np.int32),
        np.zeros((3, number), np.int8),
        np.full((2 * AWAY, number), -1, np.int32),
        np.zeros(number, np.int8),
    )
