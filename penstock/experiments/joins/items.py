"""Items in, trace out: the one format of all joins here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from penstock.model.batch import Int64s
from penstock.workloads.itemised import Items as StreamItems

Int8s = npt.NDArray[np.int8]

#: Keys lie between these two; a punctuation on all of them ends its stream.
LEAST_KEY, GREATEST_KEY = -(2**62), 2**62


class Kind(IntEnum):
    """Kinds of item; the first two are those of workloads."""

    TUPLE = 0
    #: Closes the keys from `keys` to `highs`.
    PUNCTUATION = 1
    #: Time has come this far.
    HEARTBEAT = 2
    #: All inputs have run dry for now.
    IDLE = 3
    #: Somebody downstream asks for punctuations.
    REQUEST = 4


class Fate(IntEnum):
    """What became of an item."""

    #: No tuple, and it was heard.
    USED = 0
    STORED = 1
    #: Probed and not stored in memory: all other streams have closed its key.
    PURGED_ON_THE_FLY = 2
    #: Not even probed: its key has left the join.
    DROPPED = 3
    #: Probed and not stored: its window holds nothing.
    EXPIRED = 4
    #: Breaks a punctuation of its own stream, and was refused.
    VIOLATION = 5
    #: Punctuation that closed nothing new.
    REDUNDANT = 6
    #: Punctuation that the join does not look at.
    IGNORED = 7


@dataclass(frozen=True, slots=True)
class Items:
    """Items of all streams in the order of processing, which is that of their times.

    Parameters
    ----------
    kinds, streams, ts, keys
        `Kind`, number of the stream from 0, time, and key of each item. The key of what is no tuple and no punctuation is not
        looked at.
    highs
        Last key that a punctuation closes.

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
    def from_workload(cls, items: StreamItems) -> Self:
        """The items of generated streams; every punctuation closes one key."""
        stream, time, key = (np.ascontiguousarray(column, np.int64) for column in (items.streams, items.times_us, items.keys))
        return cls(np.ascontiguousarray(items.kinds, np.int8), stream, time, key, key)

    def __len__(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True, slots=True)
class Marks:
    """Output punctuations in order: keys `lows` to `highs` left at time `ts`, while item number `items` was processed."""

    lows: Int64s
    highs: Int64s
    ts: Int64s
    #: Stream whose announcement let them leave.
    streams: Int64s
    items: Int64s
    #: How many results had come out before.
    after: Int64s

    def __len__(self) -> int:
        return len(self.lows)


@dataclass(frozen=True, slots=True)
class Output:
    """What a join has produced, in order.

    Parameters
    ----------
    results
        Combinations, if they were asked for: a row each, with the number of the item of every stream.
    result_items
        Number of the item after which each of them came out; the number of items for the clean-up stage.
    marks
        Output punctuations.
    """

    results: Int64s
    result_items: Int64s
    marks: Marks


@dataclass(frozen=True, slots=True)
class Trace:
    """What a join did.

    Parameters
    ----------
    sampled_at
        Times of the samples.
    samples
        Counters by name, a value per sample: totals that only grow, and levels at that moment.
    state
        Stored tuples, a row per sample and a column per stream.
    totals
        The counters at the very end, after the clean-up stage.
    fates
        A `Fate` per item.
    results, result_items, marks
        As in `Output`.
    """

    sampled_at: Int64s
    samples: Mapping[str, Int64s]
    state: Int64s
    totals: Mapping[str, int]
    fates: Int8s
    results: Int64s
    result_items: Int64s
    marks: Marks
