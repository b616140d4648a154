"""Items in, trace out: the door for experiments and worked examples.

`run_items(config, items)` (module `run`) plays items of one global order through the same core that the operators use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from penstock.model.batch import Int64s

Int8s = npt.NDArray[np.int8]

#: The least and the greatest key: a punctuation between them is the end of its stream.
LEAST_KEY, GREATEST_KEY = -(2**63), 2**63 - 1


class Kind(IntEnum):
    """Kinds of item."""

    TUPLE = 0
    #: Closes the keys from `keys` to `highs`.
    PUNCTUATION = 1
    #: No later item of the stream is older; `keys` is not looked at.
    HEARTBEAT = 2
    #: A tuple whose key is NULL; `keys` is not looked at.
    NULL_KEY = 3


class Fate(IntEnum):
    """What became of an item."""

    #: Punctuation or heartbeat that was used.
    USED = 0
    STORED = 1
    #: Probed and not stored: all other streams have closed its key.
    PURGED_ON_THE_FLY = 2
    #: Not even probed: its key has left the join.
    DROPPED = 3
    #: Probed and not stored: outside of its window already.
    EXPIRED = 4
    NULL = 5
    #: Breaks a punctuation of its own stream, and was refused.
    VIOLATION = 6
    #: Breaks a punctuation, was believed, and joined with what was still stored.
    TRUSTED = 7
    LATE = 8
    #: Punctuation that announced nothing new.
    REDUNDANT = 9
    #: Punctuation that announces nothing, or that a baseline does not look at.
    IGNORED = 10


#: Totals that only grow, by name; see `Trace.counters`.
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
    "null_keys",
    "violations",
    "trusted",
    "late",
    "redundant",
    "evicted_markers",
)
#: Levels at a moment, by name. `markers` counts intervals of keys remembered without a tuple, `bytes` the core's structures.
LEVELS = ("state", "inodes", "markers", "scheduled", "bytes")


@dataclass(frozen=True, slots=True)
class Items:
    """Items of all streams in the order of processing.

    Parameters
    ----------
    kinds, streams, ts, keys
        `Kind`, number of the stream from 0, time, and key of each item.
    highs
        Last key a punctuation closes; empty: each punctuation closes the one key in `keys`.

    Examples
    --------
    >>> items = Items.of([(Kind.TUPLE, 0, 1, 180), (Kind.PUNCTUATION, 0, 5, 180), (Kind.PUNCTUATION, 1, 6, 1, 9)])
    >>> items.highs.tolist(), len(items)
    ([180, 180, 9], 3)
    """

    kinds: Int8s
    streams: Int64s
    ts: Int64s
    keys: Int64s
    highs: Int64s

    @classmethod
    def of(cls, items: Iterable[tuple[int, ...]]) -> Self:
        """From tuples (kind, stream, time, key) or (kind, stream, time, key, high)."""
        rows = [(*item, item[3]) if len(item) == 4 else item for item in items]
        table = np.array(rows, np.int64).reshape(len(rows), 5)
        stream, time, key, high = np.ascontiguousarray(table[:, 1:].T)
        return cls(table[:, 0].astype(np.int8), stream, time, key, high)

    @classmethod
    def columns(cls, kinds: npt.ArrayLike, streams: npt.ArrayLike, ts: npt.ArrayLike, keys: npt.ArrayLike) -> Self:
        """From columns; every punctuation closes one key."""
        stream, time, key = (np.ascontiguousarray(column, np.int64) for column in (streams, ts, keys))
        return cls(np.ascontiguousarray(kinds, np.int8), stream, time, key, key)

    def __len__(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True, slots=True)
class Marks:
    """Output punctuations, in order: keys `lows` to `highs` left at time `ts`, while item number `items` was processed."""

    lows: Int64s
    highs: Int64s
    ts: Int64s
    #: Stream whose announcement let them leave.
    streams: Int64s
    items: Int64s

    def __len__(self) -> int:
        return len(self.lows)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a join did.

    Parameters
    ----------
    counters
        Final value of every name in `TOTALS` and `LEVELS`.
    sampled_at
        Times of the samples; a sample shows the state after the last item that is not younger.
    samples
        The same names, a value per sample.
    state
        Stored tuples, a row per sample and a column per stream.
    fates
        A `Fate` per item.
    marks
        Output punctuations.
    results
        Combinations, if they were asked for: a row each, with the number of the item of every stream.
    result_items
        Number of the item that completed each of them.
    seconds
        Time the core worked, without reading the samples.
    """

    counters: Mapping[str, int]
    sampled_at: Int64s
    samples: Mapping[str, Int64s]
    state: Int64s
    fates: Int8s
    marks: Marks
    results: Int64s
    result_items: Int64s
    seconds: float
