"""The event-driven join: a monitor over the core that fires events, and the components that listen to them.

Events are fired at safe points, after an item, never in another thread; so a replay does exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.metadata.announcements import Announcements
from penstock.metadata.closed_set import ClosedSet
from penstock.model.batch import Int64s
from penstock.model.elements import NEVER
from penstock.model.masks import Mask, value_set
from penstock.model.patterns import constant, one_of_array
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.operators.joins.pjoin import _loops
from penstock.operators.joins.pjoin.config import AUTO, Access, DiskJoin, ForgetClosed, PJoinConfig
from penstock.operators.joins.pjoin.core import NO_HISTORY, Core
from penstock.operators.joins.pjoin.keys import common_kind
from penstock.operators.joins.pjoin.pending import Pending, Released
from penstock.operators.joins.pjoin.registry import Condition, Event, Listener, Rule
from penstock.operators.joins.pjoin.tuning import PurgeTuner

_NO_LIMIT = 2**62


class Host(Protocol):
    """What the engine asks of the one who owns the rows."""

    def emit(self, left: Int64s, right: Int64s) -> None:
        """Results: rows of the first and of the second side."""
        ...

    def announce(self, side: int, mark: Punctuation, seqs: Int64s, on_keys: bool) -> None:
        """A punctuation leaves; one on the keys is in the names of the first side, any other in those of its own."""
        ...

    def relocated(self, side: int, slots: Int64s) -> None:
        """The tuples in these slots are on disk now."""
        ...

    def completed(self, bucket: int) -> None:
        """A disk join has completed a bucket; rows that are not stored any more may go."""
        ...

    def match_rows(self, side: int, mark: Punctuation, rows: Int64s) -> Mask:
        """Which stored rows match a punctuation that speaks of other columns than the key."""
        ...


class Engine:
    """PJoin over tuples that are key numbers and row numbers.

    Parameters
    ----------
    schemas, keys
        Attributes of both sides, and the names of the key columns.
    host
        Owner of the rows.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 4.
    """

    def __init__(self, config: PJoinConfig, schemas: Sequence[Schema], keys: Sequence[Sequence[str]], host: Host) -> None:
        self.config = config
        self.schemas = tuple(schemas)
        self.keys = tuple(tuple(names) for names in keys)
        self.host = host
        pairs = zip(*self.keys, strict=True)
        kinds = [common_kind(self.schemas[0][left].type, self.schemas[1][right].type) for left, right in pairs]
        self.core = Core(kinds, config.buckets)
        self.closed = [ClosedSet.over(schema, names) for schema, names in zip(self.schemas, self.keys, strict=True)]
        self.pending = [Pending(side, self.keys[side]) for side in (0, 1)]
        self._key_schema = self.schemas[0].select(self.keys[0])
        #: Keys the output has closed, in the names of the first side.
        self.finished = Announcements(self._key_schema)
        self.tuner = PurgeTuner(config.buckets)
        #: Average size of a row; 0 where rows have no size.
        self.row_bytes = 0.0
        #: False while the caller keeps key numbers between calls.
        self.recycles_keys = True
        self.tuples_in = 0
        self._sequence = 0
        self._unused = [0, 0]
        self._dirty: list[list[Int64s]] = [[], []]
        self._since_purge = self._since_propagation = 0
        self._last_propagation = self._now = NEVER
        self._settled_entries = 0
        self._goal = NEVER
        #: Punctuations on other columns whose keys were closed already.
        self.redundant = 0

    # -- parameters ---------------------------------------------------------------------------------------------------

    @property
    def purge_threshold(self) -> int:
        if self.config.purge_threshold != AUTO:
            return int(self.config.purge_threshold)
        return 1 if self.config.purge_access is Access.INDEX else self.tuner.threshold

    @property
    def propagate_count(self) -> int:
        if self.config.propagate_count is not None:
            return self.config.propagate_count
        return 1 if self.config.purge_access is Access.INDEX else self.purge_threshold

    @property
    def next_seq(self) -> int:
        """Arrival number of the next punctuation."""
        return self._sequence

    @property
    def next_propagation(self) -> int | None:
        """Time at which the time propagation threshold is reached; None when it is off or time has not begun."""
        if self.config.propagate_time is None or self._last_propagation == NEVER:
            return None
        return self._last_propagation + self.config.propagate_time

    @property
    def memory_limit(self) -> int:
        """Tuples in memory at which the state is full."""
        if not self.config.registry.of(Event.STATE_FULL):
            return _NO_LIMIT
        by_bytes = int(self.config.memory_bytes / self.row_bytes) if self.row_bytes else _NO_LIMIT
        return max(min(by_bytes, self.config.memory_rows or _NO_LIMIT), 1)

    def configure(self, config: PJoinConfig) -> None:
        """Go on with other thresholds or another registry."""
        self.config = config
        self._watch_memory()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def intern(self, columns: Sequence[pa.Array]) -> Int64s:
        """Key numbers of rows without NULL; new keys learn at once who has closed them."""
        if self.recycles_keys:
            self._recycle_keys()
        kids, start = self.core.keys.intern(columns)
        if self.core.keys.number > start:
            for side, known in enumerate(self.closed):
                if len(known) or known.has_ended:
                    fresh = self.core.keys.slice(start)
                    mask = known.contains_array(fresh[0] if len(fresh) == 1 else fresh)
                    self.core.close(side, start + np.flatnonzero(mask))
        return kids

    def _recycle_keys(self) -> None:
        for side in (0, 1):
            victims = _loops.CHAIN + 4 * (1 - side)
            self._dirty[side] = [kids[self.core.keys.records[kids, victims] >= 0] for kids in self._dirty[side]]
        renumbered = self.core.settle_keys()
        if renumbered is not None:
            for side in (0, 1):
                self.pending[side].renumber(renumbered)
                self._dirty[side] = [renumbered[kids] for kids in self._dirty[side]]

    # -- tuples -------------------------------------------------------------------------------------------------------

    def violates(self, sides: Int64s, kids: Int64s) -> Mask:
        """Which tuples match a punctuation that their own side has sent before."""
        return self.core.is_closed(sides, kids)

    def accept(self, sides: Int64s, kids: Int64s, rows: Int64s, ts: Int64s, trusted: Mask, history: Int64s = NO_HISTORY) -> None:
        """Join and store tuples; `trusted` ones break a promise of their side, are joined and not stored."""
        start, scans = 0, self.config.probe_access is Access.SCAN
        self.tuples_in += len(kids)
        while start < len(kids):
            start, left, right = self.core.join(sides, kids, rows, ts, trusted, start, self.memory_limit, scans, history)
            if len(left):
                self.host.emit(left, right)
            self._watch_memory()
            if len(history):
                history[start - 1] = self.core.book[_loops.STORED0 :]

    def _watch_memory(self) -> None:
        while self._is_full():
            before = (self.core.in_memory, sum(self._unused))
            self.fire(Event.STATE_FULL)
            if (self.core.in_memory, sum(self._unused)) == before:
                return

    def _is_full(self) -> bool:
        return self.core.in_memory >= self.memory_limit

    # -- punctuations -------------------------------------------------------------------------------------------------

    def announce(self, side: int, mark: Punctuation) -> None:
        """A punctuation of one side arrives."""
        if not self.config.uses_punctuations:
            return
        mark = mark.normalised(self.schemas[side])
        if mark.is_empty or not mark.is_exploitable_for(self.keys[side]):
            self._announce_rest(side, mark)
            return
        kids = self._constants(side, mark)
        if not self.closed[side].add(mark):
            self.core.add(_loops.ANNOUNCED)
            return
        other, seq = 1 - side, self._sequence
        if kids is None:
            fresh = self.core.close(side, np.flatnonzero(self.core.keys.matching(self.pending[side].patterns(mark))))
            self.pending[side].add_whole(self.core, mark, seq)
            number, is_paired = 1, self.closed[other].covers(self._named(mark, side, other))
        else:
            fresh = self.core.close(side, kids)
            self.pending[side].add_keys(self.core, fresh, seq)
            number, is_paired = len(fresh), bool(self.core.is_closed(other, fresh).any())
        self._dirty[side].append(fresh)
        self._unused[side] += number
        self._since_purge += number
        self._arrived(number, is_paired)

    def _announce_rest(self, side: int, mark: Punctuation) -> None:
        """One that may not purge: it announces nothing, or speaks of other columns too and is kept for propagation only."""
        self.closed[side].add(mark)
        if mark.is_empty or self.closed[side].covers(mark):
            self.core.add(_loops.ANNOUNCED)
            self.redundant += not mark.is_empty
            return
        self.pending[side].add_whole(self.core, mark, self._sequence)
        self._arrived(1, False)

    def _constants(self, side: int, mark: Punctuation) -> Int64s | None:
        """Key numbers of a constant, or of a list if lists are expanded; None for everything else."""
        names, patterns = self.keys[side], self.pending[side].patterns(mark)
        if any(not pattern.values or None in pattern.values for pattern in patterns):
            return None
        if any(len(pattern.values) > 1 for pattern in patterns) and (len(names) > 1 or not self.config.expand_lists):
            return None
        columns = [value_set(pattern.values, kind) for pattern, kind in zip(patterns, self.core.keys.kinds, strict=True)]
        return self.intern(columns)

    def _named(self, mark: Punctuation, side: int, other: int) -> Punctuation:
        return mark.rename(dict(zip(self.keys[side], self.keys[other], strict=True)))

    def _arrived(self, number: int, is_paired: bool) -> None:
        self._sequence += number
        self._since_propagation += number
        self.core.add(_loops.ANNOUNCED, number)
        self.fire(Event.NEW_PUNCTUATION)
        if self._since_purge >= self.purge_threshold:
            self.fire(Event.PURGE_THRESHOLD_REACHED)
        if is_paired:
            self.fire(Event.PAIR_ARRIVED)
        if self._since_propagation >= self.propagate_count:
            self.fire(Event.PROPAGATE_COUNT_REACHED)
        if self.config.forget_closed is ForgetClosed.BOTH:
            self._forget_when_grown()

    def end(self, side: int) -> None:
        """No tuple of this side comes any more: everything stored of the other side is useless."""
        if self.closed[side].add(Punctuation((), ())) and self.config.uses_punctuations:
            self._dirty[side].append(self.core.close(side, np.arange(self.core.keys.number)))
            self._unused[side] += 1
            self._purge()

    # -- other items --------------------------------------------------------------------------------------------------

    def idle(self) -> None:
        """Both inputs have run dry."""
        self.fire(Event.STREAM_EMPTY)

    def request(self) -> None:
        """Somebody downstream wants punctuations."""
        self.fire(Event.PROPAGATE_REQUEST)

    def advance(self, ts: int) -> None:
        """Time has come to `ts`."""
        if self._last_propagation == NEVER:
            self._last_propagation = ts
        self._now = max(self._now, ts)
        if self.config.propagate_time is not None and ts - self._last_propagation >= self.config.propagate_time:
            self.fire(Event.PROPAGATE_TIME_EXPIRED)

    def promise(self, ts: int) -> int:
        """The latest time up to `ts` that no later result lies before; left-over joins may be finished for it."""
        if self.core.arrived.min() < ts:
            self._goal = ts
            self.fire(Event.PROGRESS_HELD)
        return min(ts, int(self.core.arrived.min()))

    def finish(self) -> None:
        """Clean-up stage: the left-over joins of all buckets."""
        self._complete(self._spilled_buckets())

    def release_all(self) -> None:
        """Both sides have ended: nothing is stored, so every punctuation may leave."""
        self.core.clear()
        self._build_index()
        self._propagate()

    # -- events -------------------------------------------------------------------------------------------------------

    def fire(self, event: Event) -> None:
        """Run the rules of an event in order; each looks at its condition when its turn comes."""
        for rule in self.config.registry.of(event):
            if event is Event.STATE_FULL and not self._is_full():
                return  # a purge has made room
            if self._holds(rule.condition):
                for listener in rule.listeners:
                    self._run(listener, rule)

    def _holds(self, condition: Condition) -> bool:
        if condition is Condition.ACTIVATION_REACHED:
            return bool(self._worthwhile().any())
        if condition is Condition.LEFT_OVER:
            return bool(self.core.due.any())
        if condition is Condition.ALWAYS:
            return True
        return (condition is Condition.PURGE_PENDING) == any(self._unused)

    def _run(self, listener: Listener, rule: Rule) -> None:
        if listener is Listener.DISK_JOIN:
            self._disk_join(rule)
        elif listener is Listener.STATE_PURGE:
            self._purge()
        elif listener is Listener.STATE_RELOCATION:
            self._relocate()
        elif listener is Listener.INDEX_BUILD:
            self._build_index()
        else:
            self._propagate(is_paired=listener is Listener.PAIRED_PROPAGATION)

    # -- components ---------------------------------------------------------------------------------------------------

    def _purge(self) -> None:
        if not any(self._unused):
            return
        for side in (0, 1):
            if self._unused[side]:
                by_key = self.config.purge_access is Access.INDEX
                self.core.purge(1 - side, np.concatenate(self._dirty[side]) if by_key else None)
            self._dirty[side], self._unused[side] = [], 0
        self._since_purge = 0
        self.core.add(_loops.PURGES)
        book = self.core.book
        if self.config.purge_threshold == AUTO:
            work = int(book[_loops.PROBED] + book[_loops.SCANNED])
            freed = int(book[_loops.PURGED] + book[_loops.BUFFERED])
            self.tuner.after_purge(self.tuples_in, int(book[_loops.ANNOUNCED]), work, freed, sum(self.core.stored))

    def _relocate(self) -> None:
        while self.core.in_memory >= self.memory_limit:
            side, _, moved = self.core.relocate()
            self.host.relocated(side, moved)

    def _build_index(self) -> None:
        for pending in self.pending:
            pending.build(self.core, self.host.match_rows, self.config.purge_access is Access.SCAN)

    def _spilled_buckets(self) -> Int64s:
        away = self.core.sizes(_loops.DISK) + self.core.sizes(_loops.BUFFER)
        return np.flatnonzero(away.sum(axis=0))

    def _worthwhile(self) -> Mask:
        """Buckets whose disk join promises enough; per side whose disk portion probes if joins are partial."""
        rows = self.core.lists[:, :, _loops.SIZE].sum(axis=0)
        enough = np.maximum(self.config.activation_share * rows, self.config.activation_least)
        promised = self.core.expected_yield()
        if self.config.disk_join is DiskJoin.FULL:
            promised = promised.sum(axis=0)
        worth: Mask = promised >= enough
        return worth

    def _disk_join(self, rule: Rule) -> None:
        if rule.condition is Condition.ACTIVATION_REACHED:
            worth = self._worthwhile()
            if self.config.disk_join is DiskJoin.PARTIAL:
                self._probe_away(worth)
            else:
                self._complete(np.flatnonzero(worth))
        elif rule.condition is Condition.LEFT_OVER:
            self._complete(np.flatnonzero(self.core.due))
        elif rule.event is Event.PROGRESS_HELD:
            self._complete(np.flatnonzero(self.core.arrived < self._goal))
        else:
            self._complete(self._spilled_buckets())

    def _complete(self, buckets: Int64s) -> None:
        for bucket in buckets.tolist():
            left, right = self.core.left_over(bucket)
            if len(left):
                self.host.emit(left, right)
            self.core.settle(bucket)
            self.host.completed(bucket)

    def _probe_away(self, worth: Mask) -> None:
        for side, bucket in zip(*(part.tolist() for part in np.nonzero(worth)), strict=True):
            mine, theirs = self.core.probe_away(side, bucket)
            if len(mine):
                self.host.emit(*((mine, theirs) if side == 0 else (theirs, mine)))

    def _propagate(self, is_paired: bool = False) -> None:
        for side in (0, 1):
            other = 1 - side
            wanted = (lambda mark, of=side, to=other: self.closed[to].covers(self._named(mark, of, to))) if is_paired else None
            for released in self.pending[side].release(self.core, wanted):
                self._let_go(side, released)
        self._since_propagation = 0
        self._last_propagation = self._now

    def _let_go(self, side: int, released: Released) -> None:
        if released.mark is None:
            self._let_go_keys(side, released)
            return
        on_keys = set(released.mark.restricted) <= set(self.keys[side])
        mark = self._named(released.mark, side, 0) if on_keys else released.mark
        key_part = Punctuation(self.keys[0], tuple(self.pending[side].patterns(released.mark)))
        if self.finished.covers(key_part):
            self.core.add(_loops.SUPPRESSED)
            return
        if on_keys:
            self.finished.add(key_part)
            mark = key_part
        self.core.add(_loops.PROPAGATED)
        self.host.announce(side, mark, released.seqs, on_keys)

    def _let_go_keys(self, side: int, released: Released) -> None:
        """Many constants: those the output has closed already are suppressed, single columns leave as one list."""
        columns = self.core.keys.take(released.kids)
        fresh = ~self.finished.mask(dict(zip(self.keys[0], columns, strict=True)), len(released.kids))
        number = int(np.count_nonzero(fresh))
        self.core.add(_loops.SUPPRESSED, len(fresh) - number)
        self.core.add(_loops.PROPAGATED, number)
        if not number:
            return
        chosen, seqs = [column.filter(pa.array(fresh)) for column in columns], released.seqs[fresh]
        if len(chosen) == 1:
            marks = [(Punctuation(self.keys[0], (one_of_array(chosen[0]),)), seqs)]
        else:
            rows = zip(*(column.to_pylist() for column in chosen), strict=True)
            marks = [(Punctuation(self.keys[0], tuple(map(constant, row))), seqs[at : at + 1]) for at, row in enumerate(rows)]
        for mark, numbers in marks:
            self.finished.add(mark)
            self.host.announce(side, mark, numbers, True)

    def _forget_when_grown(self) -> None:
        """Keys that both sides have closed cannot come again; looked for after a doubling, when no such tuple is stored."""
        entries = self.closed_entries
        if entries <= 2 * self._settled_entries + 64:
            return
        records = self.core.keys.records[: self.core.keys.number]
        finished = (records[:, _loops.CLOSED] > 0) & (records[:, _loops.CLOSED + 1] > 0)
        if (records[finished][:, _loops.CHAIN : _loops.PENDING : 2] >= 0).any():
            return
        by_both = reduce(and_, self.closed)
        for known in self.closed:
            known.forget(by_both.named(known.names))
        self.finished.prune(by_both.announcements)
        self._settled_entries = self.closed_entries

    @property
    def closed_entries(self) -> int:
        return sum(map(len, self.closed)) + self.finished.entries

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The small record; tuples and pending constants are stored by the host."""
        return {
            "core": self.core.snapshot(),
            "closed": [known.to_json() for known in self.closed],
            "finished": self.finished.to_json(),
            "built": [pending.built for pending in self.pending],
            "whole": [[[whole.seq, whole.mark.to_json()] for whole in pending.wholes] for pending in self.pending],
            "monitor": [self._sequence, self._since_purge, self._since_propagation, self._last_propagation, self._now],
            "unused": list(self._unused),
            "counts": [self.tuples_in, self.redundant, self._settled_entries],
            "row_bytes": self.row_bytes,
            "tuner": self.tuner.to_json(),
            "config": self.config.changeable_json(),
        }

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Take over the record; tuples are placed next, then `restore_index` is called."""
        self.config = self.config.changed(meta["config"])
        self.core.restore(meta["core"])
        self.closed = [ClosedSet.from_json(coded, known.fields) for coded, known in zip(meta["closed"], self.closed, strict=True)]
        self.finished = Announcements.from_json(meta["finished"], self._key_schema)
        self._sequence, self._since_purge, self._since_propagation, self._last_propagation, self._now = meta["monitor"]
        self._unused = list(meta["unused"])
        self.tuples_in, self.redundant, self._settled_entries = meta["counts"]
        self.row_bytes = meta["row_bytes"]
        self.tuner.restore(meta["tuner"])

    def restore_index(self, meta: Mapping[str, Any], constants: Sequence[tuple[Int64s, Int64s]]) -> None:
        """Pending punctuations (key numbers and arrival numbers of constants), and who is charged to them."""
        due = self.core.due.copy()
        for side, pending in enumerate(self.pending):
            wholes = [(seq, Punctuation.from_json(coded)) for seq, coded in meta["whole"][side]]
            pending.reload(self.core, *constants[side], wholes, meta["built"][side])
            pending.rebuild(self.core, self.host.match_rows)
            records = self.core.keys.records[: self.core.keys.number]
            useless = (records[:, _loops.CLOSED + side] > 0) & (records[:, _loops.CHAIN + 4 * (1 - side)] >= 0)
            self._dirty[side] = [np.flatnonzero(useless)]
        self.core.due[:] = due
