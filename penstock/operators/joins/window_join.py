"""Equi-join of two or more streams with windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from operator import and_
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.columnar.matching import equal_keys, is_one_to_one, sort_run
from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.kernel.segments import part_of, prefixed
from penstock.metadata.closed_set import ClosedSet
from penstock.model.batch import Batch, Int64s
from penstock.model.declarations import RowPolicy
from penstock.model.elements import FOREVER, Control, Elements, End, Heartbeat, Herald, Metadata
from penstock.model.join_kinds import JoinKind
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import scoped_from_herald
from penstock.model.windows import Lifespan, Window
from penstock.operators.joins.forgetting.announcement_log import AnnouncementLog
from penstock.operators.joins.forgetting.extents import FramedExtents, each_window, extents_of
from penstock.operators.joins.forgetting.propagation import Propagation, key_schema
from penstock.operators.joins.forgetting.violations import MOST_MARKERS, MarkerLimit, closed_mask, judge
from penstock.operators.joins.matching.combinations import OUTPUT_ROWS, Combination, in_pieces, merged_where_few, stamps
from penstock.operators.joins.storing.row_store import RowStore, Run
from penstock.operators.joins.storing_join import StoringJoin

#: Kind of the control that changes parameters while the join runs: `memory_bytes`, `max_drop_markers`.
TUNE = "join"

_COUNTERS = ("dropped", "purged_on_the_fly", "expired_on_the_fly", "results", "violations", "quarantined", "trusted")


class JoinOptions(TypedDict, total=False):
    """Parameters of `WindowJoin` that joins made of it hand on."""

    on_violation: RowPolicy | None
    max_drop_markers: int
    emit_partial: bool
    heeds_punctuations: bool
    memory_bytes: int | None


class WindowJoin(StoringJoin[RowStore]):
    """Emit every combination of rows with equal keys whose times the windows allow, exactly once, as soon as it exists.

    Each new batch is combined with the stored rows of the other inputs, one input after another, and stops at the first
    without partner. A row is stored until no partner can come: its window has passed every other input's frontier, or
    punctuations of the others close its key. Rows with a NULL key never join and are only counted.

    Parameters
    ----------
    windows
        `Sliding`, `Unbounded` (no window) or, for all inputs, `Framed`: then windows of equal number are joined, and a pair
        is emitted once for each window both rows are in.
    emit_partial
        Windows that end after the life of the query are joined too, with the rows they have.
    on_violation
        What happens to a row that matches a punctuation of its own input: `error` fails, `quarantine` refuses it, `trust`
        joins it with what is stored and does not store it. None: rows are not judged, because the entry of a shard has done
        that; then a key that all inputs have closed need not be remembered either.
    max_drop_markers
        Most values and intervals remembered as closed; the oldest are forgotten first. That costs speed, memory for rows of
        such values and perhaps a repeated punctuation, never a wrong result.
    heeds_punctuations
        If not, rows go with their windows only and no punctuation is handed on: for comparing.
    memory_bytes
        As of `StoringJoin`.

    Notes
    -----
    Differs from the source: instead of one global order of all inputs, frontiers decide what has expired; the answer is the
    order-insensitive one and does not depend on arrival order. The output's time is the newest of its parts.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 3 and 6 (cross-invalidation, Lemmas 1-3).
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 10.4.
    """

    kind = JoinKind.INNER

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        windows: Sequence[Window],
        output_schema: pa.Schema,
        residual: Expr | None = None,
        life: Lifespan | None = None,
        on_violation: RowPolicy | None = None,
        max_drop_markers: int = MOST_MARKERS,
        emit_partial: bool = False,
        heeds_punctuations: bool = True,
        memory_bytes: int | None = None,
    ) -> None:
        self.keys = tuple(tuple(key) for key in keys)
        self.output_schema = output_schema
        self.residual = residual
        self.on_violation = on_violation
        self._heeds_punctuations = heeds_punctuations
        self._limit = MarkerLimit(max_drop_markers)
        ports = range(len(self.keys))
        rows = [RowStore(f"{port}-", self.keys[port], self._useful_until(port)) for port in ports]
        super().__init__(rows, life, _COUNTERS, memory_bytes)
        self._extents = extents_of(windows, self.life, emit_partial)
        self._closed_logs = [AnnouncementLog(f"closed{port}", key_schema(schemas[port], self.keys[port])) for port in ports]
        self._closed = [ClosedSet.of(log.schema.fields, log.known) for log in self._closed_logs]
        self._propagation = Propagation(self.kind, schemas, self.keys, output_schema)
        self._settled_entries = 0

    def _useful_until(self, port: int) -> Callable[[Batch], Int64s]:
        return lambda batch: self._extents.useful_until(port, batch.ts)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if self.on_violation is None:
            return in_pieces(self._answers(port, batch))
        batch = batch.filter(self._alive(batch))
        wrong = closed_mask(self._closed[port], [batch.column(key) for key in self.keys[port]])
        judged = judge(self.on_violation, port, batch, wrong)
        self._counts["violations"] += int(np.count_nonzero(wrong))
        self._counts["quarantined"] += sum(refused.batch.num_rows for refused in judged.refused)
        answers = chain(self._answers(port, judged.good), self._answers(port, judged.trusted, is_trusted=True))
        return [*judged.refused, *pieces] if isinstance(pieces := in_pieces(answers), list) else chain(judged.refused, pieces)

    def _answers(self, port: int, batch: Batch, is_trusted: bool = False) -> Iterator[Batch]:
        """Results of new rows; those of an input that has closed their key are not stored."""
        for result in self._found(port, batch, is_trusted):
            self._counts["results"] += result.num_rows
            yield result
        self._keep_within_memory()

    def _found(self, port: int, batch: Batch, is_trusted: bool) -> Iterator[Batch]:
        batch = self._usable(port, batch)
        self._counts["trusted"] += batch.num_rows if is_trusted else 0
        if batch.num_rows:
            new = self._arranged(port, batch)
            yield from self._combine(new, self._others(port))
            if not is_trusted:
                self._store(port, new)

    def _arranged(self, port: int, batch: Batch) -> Combination:
        """New rows in a run's order, as combinations of one."""
        hashes = hash_columns([batch.column(key) for key in self.keys[port]], batch.num_rows)
        order = sort_run(hashes, batch.ts)
        batch, hashes = batch.take(order), hashes[order]
        columns = tuple(batch.column(key) for key in self.keys[port])
        return Combination({port: (batch, np.arange(batch.num_rows))}, columns, hashes)

    def _with_key(self, port: int, batch: Batch, alive: Mask) -> Mask:
        """Of the rows alive those without NULL in the key."""
        for key in self.keys[port]:
            column = batch.column(key)
            if column.null_count:
                null = column.is_null().to_numpy(zero_copy_only=False)
                self._counts["null_keys"] += int(np.count_nonzero(null & alive))
                alive = alive & ~null
        return alive

    def _usable(self, port: int, batch: Batch) -> Batch:
        """Rows that can have a partner at all."""
        batch = batch.filter(self._with_key(port, batch, self._alive(batch)))
        if not self._propagation.finished.known.entries or not batch.num_rows:
            return batch
        finished = self._propagation.finished_mask([batch.column(key) for key in self.keys[port]])
        self._counts["dropped"] += int(np.count_nonzero(finished))
        return batch.filter(~finished)

    def _combine(self, found: Combination, others: Sequence[int]) -> Iterator[Batch]:
        if not others:
            yield from self._results(found)
            return
        for wider in merged_where_few((wider for _, wider in self._wider(found, others[0])), others[0]):
            yield from self._combine(wider, others[1:])

    def _wider(self, found: Combination, other: int) -> Iterator[tuple[Run, Combination]]:
        """The combinations together with rows of one more input, run by run."""
        low, high = self._extents.bounds(found.times(), other)
        for run, rows, probes in self._rows[other].partners(found.hashes, low, high):
            if not is_one_to_one(found.keys):
                equal = equal_keys(run.keys, rows, found.keys, found.key_rows[probes])
                rows, probes = rows[equal], probes[equal]
            parts = {**found.chosen(probes), other: (run.batch, rows)}
            yield run, Combination(parts, found.keys, found.hashes[probes])

    def _results(self, found: Combination) -> Iterator[Batch]:
        found, _ = self._numbered(found)
        for start in range(0, found.num_rows, OUTPUT_ROWS):
            piece = self._result(found, start)
            if self.residual is not None:
                piece = piece.filter(mask(self.residual, piece.rows))
            if piece.num_rows:
                yield piece

    def _numbered(self, found: Combination) -> tuple[Combination, Int64s | None]:
        """Combinations once for each window they are in, and its number; None where they count once."""
        if not isinstance(self._extents, FramedExtents):
            return found, None
        rows, numbers = each_window(*self._extents.copies(found.times()))
        return found.subset(rows), numbers

    def _result(self, found: Combination, start: int) -> Batch:
        stop = min(start + OUTPUT_ROWS, found.num_rows)
        parts = [(batch, rows[start:stop]) for batch, rows in (found.parts[port] for port in range(len(self._rows)))]
        columns = [column for port, (batch, rows) in enumerate(parts) for column in self._columns(port, batch, rows)]
        ts, pos = stamps((batch.ts, batch.pos, rows) for batch, rows in parts)
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self.output_schema), ts, pos)

    def _columns(self, port: int, batch: Batch, rows: Int64s) -> list[pa.Array]:
        """What a result shows of rows of an input."""
        # Often each new row has one partner: then its columns need not be copied.
        is_whole = len(rows) == batch.num_rows and np.array_equal(rows, np.arange(len(rows)))
        columns: list[pa.Array] = batch.rows.columns if is_whole else batch.rows.take(pa.array(rows)).columns
        return columns

    def _store(self, port: int, new: Combination) -> None:
        """Keep the rows that a later row of another input may still join."""
        batch, _ = new.parts[port]
        until = self._rows[port].useful_until(batch)
        keep = self._useful(port, until, new.keys)
        if keep.all():
            self._rows[port].insert(batch, new.hashes, until)
        else:
            self._rows[port].insert(batch.take(np.flatnonzero(keep)), new.hashes[keep], until[keep])

    def _useful(self, port: int, until: Int64s, columns: Sequence[pa.Array]) -> Mask:
        """Which new rows may still have a partner."""
        horizon = self._horizon(port)
        keep: Mask = (until >= horizon) & (horizon != FOREVER)
        self._counts["expired_on_the_fly"] += int(np.count_nonzero(~keep))
        needless = self._closed_by_all_others(port, columns)
        self._counts["purged_on_the_fly"] += int(np.count_nonzero(needless & keep))
        return keep & ~needless

    # -- punctuations -------------------------------------------------------------------------------------------------

    def _closed_by_all_others(self, port: int, columns: Sequence[pa.Array]) -> Mask:
        closed = np.ones(len(columns[0]), np.bool_)
        for other in self._others(port):
            closed &= closed_mask(self._closed[other], columns)
            if not closed.any():
                break
        return closed

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return self._progress(port, mark.ts)
        if isinstance(mark, Punctuation):
            return self._punctuated(port, mark) if self._heeds_punctuations else ()
        if isinstance(mark, Herald) and scoped_from_herald(mark) is not None:
            return ()  # it speaks about rows of this input, not about results
        return () if isinstance(mark, End) else (mark,)

    def _punctuated(self, port: int, mark: Punctuation) -> Elements:
        among = self._propagation.wait(port, mark)
        answers = self._purge_closed(port, among) if self._closes(port, mark) else []
        released = self._release()
        self._forget_when_grown()
        return self._said(answers, released)

    def _purge_closed(self, port: int, among: UInt64s | None) -> list[Batch]:
        """Drop rows whose keys this input was the last to close; what is answered because of it."""
        for other in self._others(port):
            if self._rows[other].num_rows:
                self._rows[other].purge(partial(self._closed_by_all_others, other), among)
        return []

    def _closes(self, port: int, mark: Punctuation) -> bool:
        """Take a punctuation in; whether it closes keys that were open."""
        own = mark.project(self.keys[port])
        if own is None or not mark.is_exploitable_for(self.keys[port]) or not self._closed[port].add(own):
            return False
        self._closed_logs[port].note(own)
        return True

    def _forget_when_grown(self) -> None:
        """Keys that every input has closed cannot come again, so nobody will ask for them; looked for after a doubling.

        Where rows are judged somebody does ask: then only the oldest are forgotten, when there are too many.
        """
        if self._closed_entries() > 2 * self._settled_entries + 64:
            by_all = reduce(and_, self._closed)
            if self.on_violation is None:
                for known, log in zip(self._closed, self._closed_logs, strict=True):
                    log.prune(by_all.named(known.names).announcements)
            self._propagation.prune(by_all.announcements)
            self._settled_entries = self._closed_entries()
        if 2 * self._closed_entries() > self._limit.most:
            self._limit.bound(self._limited())

    def _limited(self) -> list[AnnouncementLog]:
        """What of closed keys is remembered up to a limit."""
        return [*self._closed_logs, self._propagation.finished]

    def _closed_entries(self) -> int:
        return sum(map(len, self._closed)) + self._propagation.entries

    def _release(self) -> list[Punctuation]:
        """Let go what nothing holds back; rows whose key can have no result any more go as well, and may free others."""
        released: list[Punctuation] = []
        while True:
            freed = [mark for port, rows in enumerate(self._rows) for mark in self._propagation.release(port, rows)]
            if not freed:
                return released
            released += freed
            among = self._propagation.just_finished()
            if len(self._rows) == 2:
                return released  # what one input has closed was purged from the other when it said so
            for rows in self._rows:
                rows.purge(self._propagation.finished_mask, among)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _progress(self, port: int, ts: int) -> Elements:
        self._frontiers[port] = max(self._frontiers[port], ts)
        horizons = [self._horizon(other) for other in range(len(self._rows))]
        answers = self._overdue(horizons)
        expired = [rows.expire(horizon) for rows, horizon in zip(self._rows, horizons, strict=True)]
        # Rows of semi and anti joins also leave by finding a partner.
        may_release = self._propagation.is_waiting and (any(expired) or not self.kind.shows_pairs)
        return self._said(answers, self._release() if may_release else [])

    def _overdue(self, horizons: Sequence[int]) -> list[Batch]:
        """What is answered because no partner can come any more; `horizons` as of `_horizon`."""
        return []

    def _said(self, answers: Sequence[Batch], released: Sequence[Punctuation]) -> Elements:
        """What metadata leads to, and how far the output has come."""
        self._counts["results"] += sum(answer.num_rows for answer in answers)
        least = self._oldest_to_come()
        is_news = least > self._sent
        self._sent = max(self._sent, least)
        return [*answers, *released, *([Heartbeat(least)] if is_news else [])]

    def _oldest_to_come(self) -> int:
        """No result will be older."""
        return min(self._frontiers)

    # -- state --------------------------------------------------------------------------------------------------------

    def _decide(self, decision: Control) -> None:
        changes = decision.detail if decision.kind == TUNE else {}
        if "memory_bytes" in changes:
            self._limits["own"] = changes["memory_bytes"]
            self._keep_within_memory()
        if "max_drop_markers" in changes:
            self._limit.most = changes["max_drop_markers"]

    def snapshot(self) -> State:
        meta, segments = dict(super().snapshot().meta), dict[str, pa.RecordBatch]()
        for name, (written, parts) in {
            "closed": self._closed_state(), "propagation": self._propagation.snapshot(), "limit": self._limit.snapshot()
        }.items():  # fmt: skip
            meta[name] = written
            segments |= parts
        for port, rows in enumerate(self._rows):
            part = prefixed(f"rows{port}", rows.snapshot())
            meta |= part.meta
            segments |= part.segments
        return State(meta, segments)

    def _closed_state(self) -> tuple[list[Any], dict[str, pa.RecordBatch]]:
        meta: list[Any] = []
        segments: dict[str, pa.RecordBatch] = {}
        for known, log in zip(self._closed, self._closed_logs, strict=True):
            written, parts = log.snapshot()
            meta.append({"log": written, "counts": known.counts})
            segments |= parts
        return meta, segments

    def restore(self, state: State) -> None:
        super().restore(state)
        self._limit.restore(state.meta["limit"], self._limited(), state.segments)
        self._closed = [
            ClosedSet.of(log.schema.fields, log.restore(coded["log"], state.segments), coded["counts"])
            for coded, log in zip(state.meta["closed"], self._closed_logs, strict=True)
        ]
        self._propagation.restore(state.meta["propagation"], state.segments)
        for port, rows in enumerate(self._rows):
            rows.restore(part_of(f"rows{port}", state), self._directory)

    def counters(self) -> Mapping[str, int]:
        found = super().counters()
        return {
            **found,
            "closed_entries": self._closed_entries(),
            "expired": found["expired"] + self._counts["expired_on_the_fly"],
            "purged": sum(rows.purged for rows in self._rows) + self._counts["purged_on_the_fly"],
            "evicted_markers": self._limit.evicted,
            "runs": sum(1 for rows in self._rows for _ in rows),
        }
