"""A join core: arrays, room for them, and the compiled loop that works on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.errors import LateRows, PunctuationViolated
from penstock.model.batch import Int64s
from penstock.model.masks import Mask
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._clock import count_rows
from penstock.operators.joins.pwjoin._cluster import run_cluster
from penstock.operators.joins.pwjoin._compiled import FIELDS, Reference
from penstock.operators.joins.pwjoin._index import rehash
from penstock.operators.joins.pwjoin._nodes import live_rows
from penstock.operators.joins.pwjoin._reloading import reload_indexed, reload_table, reschedule, seed
from penstock.operators.joins.pwjoin._split import run_split
from penstock.operators.joins.pwjoin._tables import run_tables
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.layout import Memory, grown, new_memory
from penstock.operators.joins.pwjoin.settling import refresh_order, settle
from penstock.operators.joins.pwjoin.trace import LEVELS, TOTALS, Fate, Int8s, Items, Kind, Marks

#: Items a compiled loop handles at once: room for the worst case is made before.
CHUNK = 1 << 13
#: Results that wait for `flush`.
FLUSH_ROWS = 1 << 20
_LOOPS: Mapping[str, Callable[..., int]] = {"cluster": run_cluster, "split": run_split, "tables": run_tables}
_NO_RANKS = np.empty((0, 1), np.int64)


@dataclass(frozen=True, slots=True)
class Output:
    """What a core has produced: results as rows of every stream, the item that completed each, and punctuations."""

    results: Int64s
    items: Int64s
    marks: Marks


class JoinCore:
    """The state of one join over numbered keys, times and rows.

    Parameters
    ----------
    config
        Windows and strategies.
    collect
        Whether results are wanted, or only counted.
    log_changes
        Whether to remember for which keys announcements changed, for checkpoints.
    """

    def __init__(self, config: JoinConfig, collect: bool = False, log_changes: bool = False) -> None:
        self.config = config
        self._set(new_memory(config, collect))
        self.memory.numbers[lay.LOG] = 0 if log_changes else lay.NONE
        self._loop = _LOOPS[config.state]

    # -- items --------------------------------------------------------------------------------------------------------

    def process(
        self,
        items: Items,
        rows: Int64s,
        fates: Int8s,
        start: int,
        stop: int,
        ranks: Int64s = _NO_RANKS,
        flush: Callable[[], None] | None = None,
    ) -> None:
        """Process some of the items; `rows` names their tuples in the results.

        Parameters
        ----------
        ranks
            For windows of rows that somebody else has numbered: how many tuples of each stream came before each item.
        flush
            Called when many results wait: it takes them, so that one batch cannot exhaust memory.
        """
        kinds = items.kinds.astype(np.int64)
        arrays = (kinds, items.streams, items.ts, items.keys, items.highs, rows, ranks, fates)
        numbers = self.memory.numbers
        for first, last, is_range in self._pieces(items, start, stop):
            at = first
            while at < last:
                if flush is not None and numbers[lay.NEEDED] > FLUSH_ROWS and numbers[lay.FOUND]:
                    flush()
                self._make_room(last - at)
                if is_range:
                    settle(self.memory)
                    refresh_order(self.memory)
                at = int(self._loop(self._reference, *arrays, at, last))
                if numbers[lay.ERROR_ITEM] != lay.NONE:
                    self._refuse(items, fates)
                if numbers[lay.SETTLE]:
                    self.settle()

    def settle(self) -> None:
        """Merge the recent keys into the intervals."""
        room = int(self.memory.numbers[lay.SPANS]) + 2 * int(self.memory.numbers[lay.RECENT]) + 8
        self._set_if_new(spans=grown(self.memory.spans, room), spare_spans=grown(self.memory.spare_spans, room))
        settle(self.memory)

    def _set(self, memory: Memory) -> None:
        self.memory = memory
        self._reference = Reference(*(getattr(memory, name) for name in FIELDS))

    def _pieces(self, items: Items, start: int, stop: int) -> list[tuple[int, int, bool]]:
        """Parts of the items: no more than a chunk, and each range punctuation by itself, because it may need much room."""
        part = slice(start, stop)
        ranges = start + np.flatnonzero((items.kinds[part] == Kind.PUNCTUATION) & (items.keys[part] < items.highs[part]))
        if not len(ranges) and stop - start <= CHUNK:
            return [(start, stop, False)] if start < stop else []
        cuts = np.unique(np.concatenate([np.arange(start, stop, CHUNK), ranges, ranges + 1, [start, stop]]))
        cuts = cuts[(cuts >= start) & (cuts <= stop)].tolist()
        return list(zip(cuts[:-1], cuts[1:], np.isin(cuts[:-1], ranges).tolist(), strict=True))

    def _refuse(self, items: Items, fates: Int8s) -> None:
        item = int(self.memory.numbers[lay.ERROR_ITEM])
        self.memory.numbers[lay.ERROR_ITEM] = lay.NONE
        found = f"a tuple of input {items.streams[item]} at time {items.ts[item]}"
        if fates[item] == Fate.LATE:
            raise LateRows(f"{found} is behind its frontier; send tuples in order, or choose on_late='quarantine'", "join")
        closed = f"{found} has a key that its input has closed"
        raise PunctuationViolated(f"{closed}; repair the source, or choose on_violation='quarantine'", "join")

    # -- room ---------------------------------------------------------------------------------------------------------

    def _make_room(self, items: int) -> None:
        """Enlarge arrays so that so many items fit, whatever they are."""
        numbers = self.memory.numbers
        inodes = int(numbers[lay.INODES_USED]) + 2 * items
        # Every I-Node may leave while the items are processed, and every item may leave a key behind.
        leaving = int(numbers[lay.INODES]) + 2 * items + int(numbers[lay.RANGES])
        recent = max(int(numbers[lay.RECENT]), 1024, int(numbers[lay.SPANS]) // 8) + leaving
        self._make_recent(recent)
        m = self.memory
        spans = 2 * (int(numbers[lay.SPANS]) + 2 * recent) + 8
        nodes = int(numbers[lay.NODES_USED]) + items
        logged = max(int(numbers[lay.LOG]), 0) + 2 * leaving
        self._set_if_new(
            nodes=grown(m.nodes, nodes),
            inodes=grown(m.inodes, inodes),
            lists=grown(m.lists, inodes),
            schedule=grown(m.schedule, inodes, 1),
            spans=grown(m.spans, spans),
            spare_spans=grown(m.spare_spans, spans),
            ranges=grown(m.ranges, int(numbers[lay.RANGES]) + 1),
            order=grown(m.order, 2 * inodes, 1),
            loners=self._loners(leaving),
            marks=grown(m.marks, int(numbers[lay.MARKS]) + leaving),
            found=grown(m.found, int(numbers[lay.NEEDED])),
            scratch=grown(m.scratch, max(nodes, inodes)),
            log=grown(m.log, logged),
        )
        self._widen_index(int(numbers[lay.INODES]) + items)

    def _loners(self, leaving: int) -> Int64s:
        numbers, loners = self.memory.numbers, self.memory.loners
        first, end = int(numbers[lay.LONERS_FIRST]), int(numbers[lay.LONERS_END])
        if first:
            loners[: end - first] = loners[first:end].copy()
            numbers[lay.LONERS_FIRST], numbers[lay.LONERS_END] = 0, end - first
        return grown(loners, end - first + leaving)

    def _set_if_new(self, **arrays: Int64s) -> None:
        changed = {name: array for name, array in arrays.items() if getattr(self.memory, name) is not array}
        if changed:
            self._set(self.memory._replace(**changed))

    def _make_recent(self, entries: int) -> None:
        """A table of recent keys that is at most half full; a larger one starts empty."""
        if 2 * entries > len(self.memory.recent):
            self.settle()
            self._set_if_new(recent=np.zeros((1 << (2 * entries).bit_length(), 5), np.int64))

    def _widen_index(self, inodes: int) -> None:
        """Two I-Nodes per bucket are enough, where the number of buckets is ours to choose."""
        m = self.memory
        if self.config.buckets or self.config.state == "tables" or inodes <= 2 * m.buckets.shape[1]:
            return
        buckets = 1 << inodes.bit_length()
        m.numbers[lay.BUCKETS] = buckets
        self._set_if_new(buckets=np.full((m.buckets.shape[0], buckets, 2), lay.NONE, np.int64))
        rehash(self._reference)

    # -- restoring and asking --------------------------------------------------------------------------------------------

    def put_spans(self, spans: Int64s) -> None:
        """Know this of keys without tuples, and nothing else."""
        room = len(spans) + 8
        self._set_if_new(spans=grown(self.memory.spans, room), spare_spans=grown(self.memory.spare_spans, room))
        self.memory.spans[: len(spans)] = spans
        self.memory.numbers[lay.SPANS] = len(spans)

    def put_ranges(self, ranges: Int64s) -> None:
        """Let range punctuations (stream, low, high) wait; `reschedule` finds out what holds them back."""
        self._set_if_new(ranges=grown(self.memory.ranges, len(ranges) + 1))
        self.memory.ranges[: len(ranges), : lay.P_LIVE] = ranges
        self.memory.ranges[: len(ranges), lay.P_LIVE] = 0
        self.memory.numbers[lay.RANGES] = len(ranges)
        # From now on new I-Nodes are noted, so that a range finds its keys.
        self.memory.numbers[lay.ORDERED] = len(ranges) > 0

    def seed(self, keys: Int64s, masks: Int64s, statuses: Int64s) -> None:
        """Know what was announced of keys that nobody has asked for yet."""
        if len(keys):
            self._make_room(len(keys))
            seed(self._reference, keys, masks, statuses)

    def reload(self, stream: int, keys: Int64s, ts: Int64s, ats: Int64s, rows: Int64s, known: tuple[Int64s, Int64s]) -> None:
        """Store tuples without joining them; `known` are masks and statuses of their keys."""
        self._make_room(len(keys))
        if self.config.state == "tables":
            reload_table(self._reference, stream, keys, ts, ats, rows)
        else:
            reload_indexed(self._reference, self.config.state == "split", stream, keys, ts, ats, rows, *known)

    def reschedule(self) -> None:
        """After all tuples are back: announced keys wait for theirs."""
        if self.config.state != "tables":
            reschedule(self._reference, self.config.state == "split")

    def count_rows(self, stream: int, number: int) -> None:
        """A stream has had so many rows, as somebody else has counted; they leave their window with the next item."""
        count_rows(self._reference, stream, number)

    def knows(self, keys: Int64s) -> Mask:
        """Which keys have tuples, or are remembered."""
        self.settle()
        memory = self.memory
        spans = memory.spans[: memory.numbers[lay.SPANS]]
        inodes = memory.inodes[: memory.numbers[lay.INODES_USED]]
        used: Mask = np.isin(keys, inodes[inodes[:, lay.STATUS] != lay.FREE, lay.KEY])
        if len(spans):
            places = np.minimum(np.searchsorted(spans[:, lay.S_HIGH], keys), len(spans) - 1)
            used |= (spans[places, lay.S_LOW] <= keys) & (keys <= spans[places, lay.S_HIGH])
        return used

    # -- output and levels --------------------------------------------------------------------------------------------

    def take_output(self) -> Output:
        """Hand over results and punctuations, and forget them."""
        results, items = self.take_results()
        numbers = self.memory.numbers
        marks = self.memory.marks[: numbers[lay.MARKS]].copy()
        numbers[lay.MARKS] = 0
        columns = (lay.M_LOW, lay.M_HIGH, lay.M_TS, lay.M_STREAM, lay.M_ITEM)
        return Output(results, items, Marks(*(marks[:, column] for column in columns)))

    def take_results(self) -> tuple[Int64s, Int64s]:
        """Hand over the results so far: a row of tuples each, and the items that completed them."""
        numbers = self.memory.numbers
        found = self.memory.found[: numbers[lay.FOUND]].copy()
        numbers[lay.FOUND] = numbers[lay.NEEDED] = 0
        return found[:, :-1], found[:, -1]

    def arrived(self) -> Int64s:
        """How many rows each stream has had."""
        return self.memory.streams[:, lay.ARRIVED].copy()

    def stored(self) -> Int64s:
        """Stored tuples of each stream."""
        return self.memory.streams[:, lay.STORED].copy()

    def counters(self) -> dict[str, int]:
        """Totals and levels by name."""
        self.settle()
        totals = dict(zip(TOTALS, self.memory.counts.tolist(), strict=True))
        return totals | dict(zip(LEVELS, self._levels(), strict=True))

    def _levels(self) -> tuple[int, ...]:
        m, numbers = self.memory, self.memory.numbers
        spans = m.spans[: numbers[lay.SPANS]]
        markers = int(np.count_nonzero(spans[:, lay.S_MASK] != numbers[lay.ALL]))
        state, inodes = int(m.streams[:, lay.STORED].sum()), int(numbers[lay.INODES])
        scheduled = int(m.streams[:, lay.DUE].sum())
        per_key = m.inodes.shape[1] + m.lists.shape[1] * m.lists.shape[2]
        words = state * m.nodes.shape[1] + inodes * per_key + len(spans) * m.spans.shape[1] + scheduled
        return state, inodes, markers, scheduled, 8 * words

    def live_rows(self, stream: int) -> Int64s:
        """Rows of the stored tuples of a stream, in any order."""
        rows = np.empty(int(self.memory.streams[stream, lay.STORED]), np.int64)
        live_rows(self._reference, stream, rows)
        return rows
