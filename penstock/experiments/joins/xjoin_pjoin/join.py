"""PJoin and XJoin: a monitor over the state that fires events, and a registry that says who listens.

Events are fired after an item, never in another thread; so a second run does exactly the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.experiments.joins.items import Fate, Int8s, Items, Kind, Marks, Output
from penstock.experiments.joins.xjoin_pjoin import layout
from penstock.experiments.joins.xjoin_pjoin.closed import ClosedKeys
from penstock.experiments.joins.xjoin_pjoin.config import Access, DiskJoin, PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.pending import Pending, Released
from penstock.experiments.joins.xjoin_pjoin.registry import Condition, Event, Listener
from penstock.experiments.joins.xjoin_pjoin.state import State
from penstock.model.batch import Int64s
from penstock.model.elements import NEVER
from penstock.model.masks import Mask

_NO_LIMIT = 2**62


class PJoin:
    """Join of two streams without windows; XJoin is the same without punctuations.

    Parameters
    ----------
    keep_results
        Whether the pairs themselves are wanted; otherwise they are only counted.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 4.
    [urhan2000] Urhan, Franklin. XJoin: A Reactively-Scheduled Pipelined Join Operator. IEEE Data Engineering Bulletin 2000.

    Examples
    --------
    >>> from penstock.experiments.joins.playing import play
    >>> items = Items.of([(Kind.TUPLE, 0, 1, 5), (Kind.TUPLE, 1, 2, 5), (Kind.PUNCTUATION, 1, 3, 5), (Kind.TUPLE, 0, 4, 6)])
    >>> trace = play(PJoin(PJoinConfig.published(1), keep_results=True), items)
    >>> trace.results.tolist(), trace.state.tolist()
    ([[0, 1]], [[1, 0], [1, 1], [0, 1], [1, 1]])
    """

    def __init__(self, config: PJoinConfig, keep_results: bool = False) -> None:
        self.config = config
        self._read_memory_limit()
        self.state = State(config.buckets)
        self.closed = ClosedKeys(self.state)
        self.pending = tuple(Pending(side, self.state, self.closed) for side in (0, 1))
        self._keeps_results = keep_results
        self._results: list[Int64s] = []
        self._result_items: list[Int64s] = []
        self._marks: list[tuple[int, int, int, int, int, int]] = []
        #: The item that is processed, and its time.
        self._item, self._now = 0, NEVER
        #: What the next purge shall use: punctuations of each side and the keys they closed.
        self._unused = [0, 0]
        self._useless: list[list[Int64s]] = [[], []]
        self._since_purge = self._since_propagation = 0
        self._last_propagation = NEVER

    def configure(self, config: PJoinConfig) -> None:
        """Go on with other thresholds or another registry; the number of buckets stays."""
        self.config = config
        self._read_memory_limit()
        self._watch_memory()

    def _read_memory_limit(self) -> None:
        """Tuples that must not be reached in memory; any number if nobody listens."""
        listens = bool(self.config.registry.of(Event.STATE_FULL))
        self._memory_limit = (self.config.memory_rows if listens else None) or _NO_LIMIT

    # -- items --------------------------------------------------------------------------------------------------------

    def process(self, items: Items, fates: Int8s, start: int, stop: int) -> None:
        """Process some of the items, which follow those of the call before; their fates are written."""
        first = self.state.known_keys
        kids = self.state.number_keys(items.keys[start:stop])
        self.closed.learn(first)
        if self._last_propagation == NEVER and start < stop:
            self._last_propagation = int(items.ts[start])
        for begin, end in self._parts(items, start, stop):
            self._item, self._now = begin, int(items.ts[end - 1])
            if items.kinds[begin] == Kind.TUPLE:
                self._tuples(items.streams[begin:end], kids[begin - start : end - start], fates[begin:end])
            elif items.kinds[begin] == Kind.PUNCTUATION:
                fates[begin] = self._punctuation(items, int(kids[begin - start]))
            elif items.kinds[begin] == Kind.IDLE:
                self._fire(Event.STREAM_EMPTY)
            elif items.kinds[begin] == Kind.REQUEST:
                self._fire(Event.PROPAGATE_REQUEST)
            if self.config.propagate_time and self._now - self._last_propagation >= self.config.propagate_time:
                self._item = end - 1
                self._fire(Event.PROPAGATE_TIME_EXPIRED)
            self._item = end

    def _parts(self, items: Items, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Runs of tuples, up to the item at which a propagation is due; every other item alone."""
        is_other = items.kinds[start:stop] != Kind.TUPLE
        others = np.append(start + np.flatnonzero(is_other), stop)
        while start < stop:
            end = max(int(others[np.searchsorted(others, start)]), start + 1)
            if self.config.propagate_time:
                due = self._last_propagation + self.config.propagate_time
                end = min(end, start + 1 + int(np.searchsorted(items.ts[start:end], due)))
            yield start, end
            start = end

    def _tuples(self, sides: Int64s, kids: Int64s, fates: Int8s) -> None:
        """Memory join, with a look at the memory threshold whenever it is reached."""
        at, item = 0, self._item
        while at < len(kids):
            at, pairs = self.state.join(sides, kids, item, fates, at, self._memory_limit)
            self._emit(pairs)
            self._watch_memory()

    def _punctuation(self, items: Items, kid: int) -> Fate:
        if not self.config.uses_punctuations:
            return Fate.IGNORED
        side, low, high = int(items.streams[self._item]), int(items.keys[self._item]), int(items.highs[self._item])
        self.state.add(layout.ANNOUNCED)
        fresh = self.closed.close_key(side, kid) if low == high else self.closed.close_range(side, low, high)
        if fresh is None:
            self.state.add(layout.REDUNDANT)
            return Fate.REDUNDANT
        # The number of its item is the number of a punctuation: both ascend.
        self.pending[side].add(self._item, low, high, kid)
        self._useless[side].append(fresh)
        self._unused[side] += 1
        self._since_purge += 1
        self._since_propagation += 1
        is_paired = self._has_closed(1 - side, low, high, kid)
        self._fire(Event.NEW_PUNCTUATION)
        if self._since_purge >= self.config.purge_threshold:
            self._fire(Event.PURGE_THRESHOLD_REACHED)
        if is_paired:
            self._fire(Event.PAIR_ARRIVED)
        if self._since_propagation >= self.config.propagations_every:
            self._fire(Event.PROPAGATE_COUNT_REACHED)
        return Fate.USED

    def finish(self) -> None:
        """Clean-up stage: the left-over joins of all buckets."""
        self._complete(self.state.spilled_buckets())

    # -- monitor ------------------------------------------------------------------------------------------------------

    def _watch_memory(self) -> None:
        while self.state.in_memory >= self._memory_limit:
            before = (self.state.in_memory, sum(self._unused))
            self._fire(Event.STATE_FULL)
            if (self.state.in_memory, sum(self._unused)) == before:
                return

    def _fire(self, event: Event) -> None:
        """Run the rules of an event in order; each looks at its condition when its turn comes."""
        for rule in self.config.registry.of(event):
            if event is Event.STATE_FULL and self.state.in_memory < self._memory_limit:
                return  # a purge has made room
            if self._holds(rule.condition):
                for listener in rule.listeners:
                    self._run(listener, rule.condition)

    def _holds(self, condition: Condition) -> bool:
        if condition is Condition.ACTIVATION_REACHED:
            return bool(self._worthwhile().any())
        if condition is Condition.LEFT_OVER:
            return bool(self.state.due.any())
        if condition is Condition.ALWAYS:
            return True
        return (condition is Condition.PURGE_PENDING) == any(self._unused)

    def _run(self, listener: Listener, condition: Condition) -> None:
        if listener is Listener.DISK_JOIN:
            self._disk_join(condition)
        elif listener is Listener.STATE_PURGE:
            self._purge()
        elif listener is Listener.STATE_RELOCATION:
            while self.state.in_memory >= self._memory_limit:
                self.state.relocate()
        elif listener is Listener.INDEX_BUILD:
            for pending in self.pending:
                pending.build_index(self.config.purge_access is Access.SCAN)
        else:
            self._propagate(listener is Listener.PAIRED_PROPAGATION)

    # -- components ---------------------------------------------------------------------------------------------------

    def _purge(self) -> None:
        """Remove what each side has made useless on the other since the last purge."""
        if not any(self._unused):
            return
        by_key = self.config.purge_access is Access.INDEX
        for side in (0, 1):
            if self._unused[side]:
                self.state.purge(1 - side, np.concatenate(self._useless[side]) if by_key else None)
            self._useless[side], self._unused[side] = [], 0
        self._since_purge = 0
        self.state.add(layout.PURGES)

    def _disk_join(self, condition: Condition) -> None:
        """Which buckets: those that pay, those that hold punctuations back, or all."""
        if condition is Condition.ACTIVATION_REACHED:
            self._join_worthwhile()
        elif condition is Condition.LEFT_OVER:
            self._complete(np.flatnonzero(self.state.due))
        else:
            self._complete(self.state.spilled_buckets())

    def _worthwhile(self) -> Mask:
        """Buckets whose disk join promises enough; if joins are partial, by the side whose disk portion would probe."""
        tuples = self.state.lists[:, :, layout.SIZE].sum(axis=0)
        in_full = self.config.disk_join is DiskJoin.FULL
        promised = self.state.expected_yield(in_full)
        worth: Mask = (promised.sum(axis=0) if in_full else promised) >= np.maximum(
            self.config.activation_share * tuples, self.config.activation_least
        )
        return worth

    def _join_worthwhile(self) -> None:
        """Use a pause: the disk joins that promise enough."""
        worth = self._worthwhile()
        if self.config.disk_join is DiskJoin.FULL:
            self._complete(np.flatnonzero(worth))
            return
        for side, bucket in np.argwhere(worth).tolist():
            self._emit(self.state.probe_away(side, bucket))

    def _complete(self, buckets: Int64s) -> None:
        for bucket in buckets.tolist():
            self._emit(self.state.complete(bucket))

    def _propagate(self, is_paired: bool) -> None:
        """Let punctuations go that nothing is charged to, in order of arrival; paired: only those both inputs announced."""
        free = [(found, side) for side, pending in enumerate(self.pending) for found in pending.release(is_paired)]
        for found, side in sorted(free):
            self._let_go(side, found)
        self._since_propagation = 0
        self._last_propagation = self._now

    def _let_go(self, side: int, found: Released) -> None:
        """Pass a punctuation on, unless the output has announced all of it already."""
        if self._has_closed(layout.OUTPUT, found.low, found.high, found.kid):
            self.state.add(layout.SUPPRESSED)
            return
        self.state.add(layout.PROPAGATED)
        if found.low == found.high:
            self.closed.announce_key(found.kid)
        else:
            self.closed.announce_range(found.low, found.high)
        self._marks.append((found.low, found.high, self._now, side, self._item, int(self.state.book[layout.RESULTS])))

    def _has_closed(self, who: int, low: int, high: int, kid: int) -> bool:
        """Whether a side or the output has closed all keys of a punctuation; `kid` is the number of a single key."""
        return self.closed.is_closed(who, kid) if low == high else self.closed.covers(who, low, high)

    # -- output -------------------------------------------------------------------------------------------------------

    def _emit(self, pairs: Int64s) -> None:
        """Of pairs found in memory the later partner brought them out, of others the item of the event."""
        if self._keeps_results and pairs.shape[1]:
            self._results.append(pairs)
            self._result_items.append(np.maximum(pairs.max(axis=0), self._item))

    def counters(self) -> dict[str, int]:
        """Totals, and the level `memory_rows`."""
        return self.state.counters | {"memory_rows": self.state.in_memory}

    def stored(self) -> Int64s:
        """Stored tuples of each stream: memory, disk and purge buffer together."""
        return self.state.stored()

    def output(self) -> Output:
        """All results and punctuations so far."""
        results = np.concatenate([np.empty((2, 0), np.int64), *self._results], axis=1).T
        items = np.concatenate([np.empty(0, np.int64), *self._result_items])
        return Output(results, items, Marks(*np.array(self._marks, np.int64).reshape(-1, 6).T))
