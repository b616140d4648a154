"""The event-driven join: a monitor over the core that fires events, and a registry that says who listens.

Events are fired at safe points, after an item, never in another thread; so a replay does exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.batch import Int64s
from penstock.model.elements import NEVER
from penstock.model.masks import Mask, value_set
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation
from penstock.operators.joins.pjoin import layout
from penstock.operators.joins.pjoin.components import Components, Host
from penstock.operators.joins.pjoin.config import AUTO, Access, ForgetClosed, PJoinConfig
from penstock.operators.joins.pjoin.core import NO_HISTORY, Core
from penstock.operators.joins.pjoin.keys import common_kind
from penstock.operators.joins.pjoin.knowledge import Knowledge
from penstock.operators.joins.pjoin.pending import Pending
from penstock.operators.joins.pjoin.registry import Condition, Event, Listener, Rule
from penstock.operators.joins.pjoin.scopes import Scopes
from penstock.operators.joins.pjoin.tuning import PurgeTuner

_NO_LIMIT = 2**62


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
        config.warn_if_unbounded()
        self.schemas = tuple(schemas)
        self.keys = tuple(tuple(names) for names in keys)
        self.host = host
        pairs = zip(*self.keys, strict=True)
        kinds = [common_kind(self.schemas[0][left].type, self.schemas[1][right].type) for left, right in pairs]
        self.core = Core(kinds, config.buckets, Access.SCAN in (config.probe_access, config.purge_access))
        self.knowledge = Knowledge(self.core, self.schemas, self.keys)
        self.pending = [Pending(side, self.keys[side]) for side in (0, 1)]
        self.scopes = Scopes(self.core, self.schemas, self.keys)
        self.components = Components(config, self.core, self.knowledge, self.scopes, self.pending, host)
        self.tuner = PurgeTuner(config.buckets)
        self.tuples_in = 0
        #: Average size of a row; 0 where rows have no size.
        self.row_bytes = 0.0
        #: False while the caller keeps key numbers between calls.
        self.recycles_keys = True
        self._sequence = 0
        self._unused = [0, 0]
        self._dirty: list[list[Int64s]] = [[], []]
        self._since_purge = self._since_propagation = 0
        self._last_propagation = self._now = self._goal = NEVER
        self._memory_limit = 0
        self._read_limits()

    # -- parameters ---------------------------------------------------------------------------------------------------

    @property
    def config(self) -> PJoinConfig:
        return self.components.config

    def configure(self, config: PJoinConfig) -> None:
        """Go on with other thresholds or another registry."""
        if config.registry != self.config.registry:
            config.warn_if_unbounded()
        self.components.config = config
        self._read_limits()
        self._watch_memory()

    def _read_limits(self) -> None:
        by_bytes = int(self.config.memory_bytes / self.row_bytes) if self.row_bytes else _NO_LIMIT
        limit = max(min(by_bytes, self.config.memory_rows or _NO_LIMIT), 1)
        self._memory_limit = limit if self.config.registry.of(Event.STATE_FULL) else _NO_LIMIT

    def weigh(self, row_bytes: float) -> None:
        """Learn the average size of a row."""
        self.row_bytes = row_bytes
        self._read_limits()

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

    # -- keys ---------------------------------------------------------------------------------------------------------

    def intern(self, columns: Sequence[pa.Array]) -> Int64s:
        """Key numbers of rows without NULL; new keys learn at once who has closed them."""
        if self.recycles_keys:
            self._recycle_keys()
        kids, start = self.core.keys.intern(columns)
        if self.core.keys.number > start:
            self.knowledge.learn(start)
        return kids

    def _recycle_keys(self) -> None:
        self.knowledge.settle()
        for side in (0, 1):
            in_memory = self.core.keys.records.chain[1 - side]
            self._dirty[side] = [kids[in_memory[kids] >= 0] for kids in self._dirty[side]]
        renumbered = self.core.settle_keys()
        if renumbered is not None:
            for side in (0, 1):
                self.pending[side].renumber(renumbered)
                self._dirty[side] = [renumbered[kids] for kids in self._dirty[side]]

    # -- tuples -------------------------------------------------------------------------------------------------------

    def violates(self, sides: Int64s, kids: Int64s) -> Mask:
        """Which tuples match a punctuation that their own side has sent before."""
        return self.core.is_closed(sides, kids)

    def accept(self, sides: Int64s, kids: Int64s, rows: Int64s, ts: Int64s, trusted: Mask, history: Int64s = NO_HISTORY) -> Int64s:
        """Join and store tuples; `trusted` ones break a promise of their side, are joined and not stored.

        Returns the slot each tuple got, -1 where it was not stored; later events may have taken it away again.
        """
        start, scans = 0, self.config.probe_access is Access.SCAN
        placed = np.empty(len(kids), np.int64)
        self.tuples_in += len(kids)
        while start < len(kids):
            limit = self._memory_limit
            start, left, right = self.core.join(sides, kids, rows, ts, trusted, start, limit, scans, placed, history)
            if len(left):
                self.host.emit(left, right)
            self._watch_memory()
            if len(history):
                history[start - 1] = self.core.book[layout.STORED0 :]
        return placed

    def _watch_memory(self) -> None:
        while self._is_full():
            before = (self.core.in_memory, sum(self._unused))
            self.fire(Event.STATE_FULL)
            if (self.core.in_memory, sum(self._unused)) == before:
                return

    def _is_full(self) -> bool:
        return self.core.in_memory >= self._memory_limit

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
        if kids is not None:
            self.announce_keys(side, kids, mark)
            return
        fresh = self.knowledge.close(side, mark)
        if fresh is None:
            self.core.add(layout.ANNOUNCED)
            return
        self.pending[side].add_whole(self.core, mark, self._sequence)
        self._note(side, fresh, 1)
        self._arrived(1, self.knowledge.covers(1 - side, self.knowledge.renamed(mark, side, 1 - side)))

    def announce_keys(self, side: int, kids: Int64s, mark: Punctuation | None = None) -> None:
        """Constants of one side arrive, given by key numbers, each once; `mark` is the punctuation if there is one."""
        fresh = self.knowledge.close_keys(side, kids, mark)
        self.core.add(layout.ANNOUNCED, len(kids) - len(fresh))
        if len(fresh):
            self.pending[side].add_keys(self.core, fresh, self._sequence)
            self._note(side, fresh, len(fresh))
            self._arrived(len(fresh), bool(self.core.is_closed(1 - side, fresh).any()))

    def announce_scope(self, side: int, scope: ScopedPunctuation) -> None:
        """A side tells what its next tuples are: that decides what is kept in memory of the other."""
        if not self.config.uses_punctuations:
            return
        self.scopes.announce(side, scope)
        if self.scopes.is_known(1 - side) and self._memory_limit < _NO_LIMIT:
            self.components.prefetch(1 - side, self._memory_limit)

    def _announce_rest(self, side: int, mark: Punctuation) -> None:
        """One that may not purge: it announces nothing, or speaks of other columns too and is kept for propagation only."""
        if not self.knowledge.note_rest(side, mark):
            self.core.add(layout.ANNOUNCED)
            return
        self.pending[side].add_whole(self.core, mark, self._sequence)
        self._arrived(1, False)

    def _constants(self, side: int, mark: Punctuation) -> Int64s | None:
        """Key numbers of a constant, or of a list if lists are expanded; None for everything else."""
        patterns = self.pending[side].patterns(mark)
        if any(not pattern.values or None in pattern.values for pattern in patterns):
            return None
        if any(len(pattern.values) > 1 for pattern in patterns) and (len(patterns) > 1 or not self.config.expand_lists):
            return None
        return self.intern([value_set(found.values, kind) for found, kind in zip(patterns, self.core.keys.kinds, strict=True)])

    def _note(self, side: int, fresh: Int64s, number: int) -> None:
        """Remember what the next purge shall use."""
        self._dirty[side].append(fresh)
        self._unused[side] += number
        self._since_purge += number

    def _arrived(self, number: int, is_paired: bool) -> None:
        self._sequence += number
        self._since_propagation += number
        self.core.add(layout.ANNOUNCED, number)
        self.fire(Event.NEW_PUNCTUATION)
        if self._since_purge >= self.purge_threshold:
            self.fire(Event.PURGE_THRESHOLD_REACHED)
        if is_paired:
            self.fire(Event.PAIR_ARRIVED)
        if self._since_propagation >= self.propagate_count:
            self.fire(Event.PROPAGATE_COUNT_REACHED)
        if self.config.forget_closed is ForgetClosed.BOTH:
            self.knowledge.forget_when_grown()

    def end(self, side: int) -> None:
        """No tuple of this side comes any more: everything stored of the other side is useless."""
        if not self.config.uses_punctuations:
            return
        fresh = self.knowledge.close(side, Punctuation((), ()))
        if fresh is not None:
            self._note(side, fresh, 1)
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
        self.components.complete(self.components.spilled_buckets())

    def release_all(self) -> None:
        """Both sides have ended and are clean: nothing needs to be stored, so every punctuation may leave."""
        self.core.clear()
        self.components.build_index()
        self._propagate(False)

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
            return bool(self.components.worthwhile().any())
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
            self.components.relocate(self._memory_limit)
        elif listener is Listener.INDEX_BUILD:
            self.components.build_index()
        else:
            self._propagate(listener is Listener.PAIRED_PROPAGATION)

    def _disk_join(self, rule: Rule) -> None:
        """Which buckets: those that pay, those that hold punctuations or time back, or all."""
        if rule.condition is Condition.ACTIVATION_REACHED:
            self.components.join_worthwhile()
        elif rule.condition is Condition.LEFT_OVER:
            self.components.complete(np.flatnonzero(self.core.due))
        elif rule.event is Event.PROGRESS_HELD:
            self.components.complete(np.flatnonzero(self.core.arrived < self._goal))
        else:
            self.components.complete(self.components.spilled_buckets())

    def _purge(self) -> None:
        if not any(self._unused):
            return
        for side in (0, 1):
            if self._unused[side]:
                self.components.purge(side, self._dirty[side])
            self._dirty[side], self._unused[side] = [], 0
        self._since_purge = 0
        self.core.add(layout.PURGES)
        if self.config.purge_threshold == AUTO:
            book = self.core.book
            work, freed = int(book[layout.PROBED] + book[layout.SCANNED]), int(book[layout.PURGED] + book[layout.BUFFERED])
            self.tuner.after_purge(self.tuples_in, int(book[layout.ANNOUNCED]), work, freed, sum(self.core.stored))

    def _propagate(self, is_paired: bool) -> None:
        self.components.propagate(is_paired)
        self._since_propagation = 0
        self._last_propagation = self._now

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The small record; tuples and pending constants are stored by the host."""
        return {
            "core": self.core.snapshot(),
            "knowledge": self.knowledge.snapshot(),
            "built": [pending.built for pending in self.pending],
            "whole": [[[whole.seq, whole.mark.to_json()] for whole in pending.wholes] for pending in self.pending],
            "monitor": [self._sequence, self._since_purge, self._since_propagation, self._last_propagation, self._now],
            "unused": list(self._unused),
            "tuples_in": self.tuples_in,
            "row_bytes": self.row_bytes,
            "tuner": self.tuner.to_json(),
            "config": self.config.changeable_json(),
            "scopes": self.scopes.snapshot(),
        }

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Take over the record; tuples are placed next, then `restore_index` is called."""
        self.components.config = self.config.changed(meta["config"])
        self.core.restore(meta["core"])
        self.knowledge.restore(meta["knowledge"])
        self._sequence, self._since_purge, self._since_propagation, self._last_propagation, self._now = meta["monitor"]
        self._unused = list(meta["unused"])
        self.tuples_in = meta["tuples_in"]
        self.tuner.restore(meta["tuner"])
        self.weigh(meta["row_bytes"])
        if "scopes" in meta:  # snapshots made before there were any have none
            self.scopes.restore(meta["scopes"])

    def restore_index(self, meta: Mapping[str, Any], constants: Sequence[tuple[Int64s, Int64s]]) -> None:
        """Pending punctuations (key numbers and arrival numbers of constants), and who is charged to them."""
        for side, pending in enumerate(self.pending):
            wholes = [(seq, Punctuation.from_json(coded)) for seq, coded in meta["whole"][side]]
            pending.reload(self.core, *constants[side], wholes, meta["built"][side])
            pending.rebuild(self.core, self.host.match_rows)
            records = self.core.keys.records
            useless = (records.closed[side] > 0) & (records.chain[1 - side] >= 0)
            self._dirty[side] = [np.flatnonzero(useless[: self.core.keys.number])]
