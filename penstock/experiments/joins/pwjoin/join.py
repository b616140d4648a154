"""PWJoin and its relatives: arrays, room for them, and the compiled loop that works on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from penstock.errors import InvalidOption
from penstock.experiments.joins.items import Int8s, Items, Kind, Marks, Output
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin._cluster import run_cluster
from penstock.experiments.joins.pwjoin._split import run_split
from penstock.experiments.joins.pwjoin._tables import run_tables
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.joins.pwjoin.layout import grown, new_memory
from penstock.experiments.joins.pwjoin.markers import merged
from penstock.model.batch import Int64s

#: Items a compiled loop handles at once: room for the worst case is made before.
_CHUNK = 1 << 13
_LOOPS: Mapping[str, Callable[..., int]] = {"cluster": run_cluster, "split": run_split, "tables": run_tables}


class PWJoin:
    """Window join of two or more streams on one key, which punctuations make smaller; or, with hash tables, one blind to them.

    Parameters
    ----------
    config
        Windows and strategies.
    keep_results
        Whether the combinations themselves are wanted; otherwise they are only counted.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 6 and 7.
    [ding2004] Ding, Rundensteiner. Evaluating Window Joins over Punctuated Streams. CIKM 2004.
    """

    def __init__(self, config: PWJoinConfig, keep_results: bool = False) -> None:
        self.config = config
        self.memory = new_memory(config, keep_results)
        self._loop = _LOOPS[config.state]

    # -- items --------------------------------------------------------------------------------------------------------

    def process(self, items: Items, fates: Int8s, start: int, stop: int) -> None:
        """Process some of the items, which follow those of the call before; their fates are written."""
        part = slice(start, stop)
        if ((items.kinds[part] == Kind.PUNCTUATION) & (items.keys[part] != items.highs[part])).any():
            raise InvalidOption("a punctuation on several keys; PWJoin as published takes one key at a time", "PWJoin")
        arrays = (items.kinds, items.streams, items.ts, items.keys, fates)
        for first in range(start, stop, _CHUNK):
            at, last = first, min(first + _CHUNK, stop)
            while at < last:
                self._make_room(last - at)
                at = int(self._loop(self.memory, *arrays, at, last))
                if self.memory.numbers[lay.SETTLE]:
                    self._settle()

    def finish(self) -> None:
        """Nothing is left over: results come with the last of their tuples."""

    def _settle(self) -> None:
        """Merge the recent keys into the intervals."""
        self._set_if_new(spans=merged(self.memory))

    # -- room ---------------------------------------------------------------------------------------------------------

    def _make_room(self, items: int) -> None:
        """Enlarge arrays so that so many items fit, whatever they are."""
        numbers = self.memory.numbers
        inodes, nodes = int(numbers[lay.INODES_USED]) + items, int(numbers[lay.NODES_USED]) + items
        # Every I-Node may leave while the items are processed, and every item may leave a key behind.
        leaving = int(numbers[lay.INODES]) + 2 * items
        self._make_room_for_recent(leaving)
        m = self.memory
        self._set_if_new(
            nodes=grown(m.nodes, nodes),
            inodes=grown(m.inodes, inodes),
            lists=grown(m.lists, inodes),
            schedule=grown(m.schedule, inodes, 1),
            marks=grown(m.marks, int(numbers[lay.MARKS]) + leaving),
            found=grown(m.found, int(numbers[lay.NEEDED])),
            scratch=grown(m.scratch, nodes),
        )

    def _make_room_for_recent(self, leaving: int) -> None:
        """A table of recent keys that is at most half full; a larger one starts empty."""
        keys = int(self.memory.numbers[lay.RECENT]) + leaving
        if 2 * keys > len(self.memory.recent_table):
            self._settle()
            table = np.full(1 << (2 * keys).bit_length(), lay.NONE, np.int64)
            self._set_if_new(recent_table=table, recent=grown(self.memory.recent, keys, 1))

    def _set_if_new(self, **arrays: Int64s) -> None:
        changed = {name: array for name, array in arrays.items() if getattr(self.memory, name) is not array}
        if changed:
            self.memory = self.memory._replace(**changed)

    # -- output and levels --------------------------------------------------------------------------------------------

    def output(self) -> Output:
        """All results and punctuations so far."""
        numbers = self.memory.numbers
        found = self.memory.found[: numbers[lay.FOUND]].copy()
        marks = self.memory.marks[: numbers[lay.MARKS]].copy()
        keys = marks[:, lay.M_KEY]
        columns = (lay.M_TS, lay.M_STREAM, lay.M_ITEM, lay.M_AFTER)
        return Output(found[:, :-1], found[:, -1], Marks(keys, keys, *(marks[:, column] for column in columns)))

    def stored(self) -> Int64s:
        """Stored tuples of each stream."""
        return self.memory.streams[:, lay.STORED].copy()

    def counters(self) -> dict[str, int]:
        """Totals, and levels: stored tuples, I-Nodes, intervals of keys remembered without a tuple, scheduled keys."""
        if self.memory.numbers[lay.RECENT]:
            self._settle()
        m, numbers = self.memory, self.memory.numbers
        levels = {
            "state": int(m.streams[:, lay.STORED].sum()),
            "inodes": int(numbers[lay.INODES]),
            "markers": int(np.count_nonzero(m.spans[:, lay.S_MASK] != numbers[lay.ALL])),
            "scheduled": int(m.streams[:, lay.DUE].sum()),
        }
        return dict(zip(lay.TOTALS, m.counts.tolist(), strict=True)) | levels
