"""PJoin and XJoin over streams of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.matching import newest_and_place
from penstock.errors import InvalidPlan, PunctuationViolated
from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.declarations import RowPolicy
from penstock.model.elements import FOREVER, NEVER, Control, Elements, End, Heartbeat, Herald, Metadata, Quarantined, Request
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import scoped_from_herald
from penstock.model.value_sets import ANY
from penstock.model.windows import Lifespan, Unbounded, Window
from penstock.operators.joins.pjoin.config import Access, PJoinConfig
from penstock.operators.joins.pjoin.engine import Engine
from penstock.operators.joins.pjoin.payload import Payload
from penstock.operators.joins.pjoin.saving import Saving
from penstock.operators.joins.pjoin.spill import EncodedStore, FileStore, SpillStore

#: Results are handed on in pieces of about this many rows, so that one batch cannot exhaust memory.
OUTPUT_ROWS = 1 << 20
#: Control elements of this kind change thresholds and registry: their detail goes to `PJoinConfig.changed`.
CONTROL = "pjoin"
#: Control elements of this kind give a shard its share of a limit for all joins, `bytes`; None: what the configuration says.
MEMORY = "memory"
#: Requests and control elements of this kind ask for punctuations.
PROPAGATE = "propagate"

_COUNTERS = ("null_keys", "outside_life", "violations", "quarantined", "trusted")


class PJoin:
    """Equi-join of two punctuated streams without windows: exact, with a state that shrinks as punctuations come.

    A row is joined with what is stored of the other input, and stored only if a partner may still come. A punctuation of one
    input removes what it makes useless of the other, and leaves when nothing of its own input matches it. Rows that do not
    fit in memory are spilled bucket by bucket and joined later; where an input announces what its next rows are, rows of the
    other input that they cannot meet are spilled first, and others fetched before they come. Choose it for joins without
    windows whose inputs are punctuated; `WindowJoin` where windows bound the state.

    Parameters
    ----------
    schemas, keys, windows, output_schema, residual, life
        As of `WindowJoin`, for two inputs; the windows must be unbounded.
    config
        Thresholds, strategies and the event registry; the answer does not depend on it.
    spill
        Keeper of spilled rows; by default they stay in this process, encoded.

    Notes
    -----
    Differs from the source: listeners run at safe points after an item instead of in a second thread; punctuations of a
    subset of the key, ranges and lists are exact; closed values are kept apart from pending punctuations, so that rows that
    come after a propagation are still purged. Heartbeats wait for left-over results of spilled rows. The input is idle when
    a heartbeat follows another of the same input and no row came in between.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 3 and 4.

    Examples
    --------
    >>> from penstock.model.value_sets import constant
    >>> schemas = [pa.schema({"a.k": pa.int64()}), pa.schema({"b.k": pa.int64()})]
    >>> join = PJoin(schemas, [["a.k"], ["b.k"]], [Unbounded(), Unbounded()], pa.schema([*schemas[0], *schemas[1]]))
    >>> one = Batch(pa.RecordBatch.from_pydict({"a.k": [5]}), np.array([1]), np.array([0]))
    >>> join.on_batch(0, one), join.counters()["state_rows"]
    ([], 1)
    >>> [str(mark) for mark in join.on_metadata(1, Punctuation(("b.k",), (constant(5),)))]
    ['⟨a.k=5, b.k=*⟩', '⟨a.k=*, b.k=5⟩']
    >>> join.counters()["state_rows"]
    0
    """

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        windows: Sequence[Window],
        output_schema: pa.Schema,
        residual: Expr | None = None,
        life: Lifespan | None = None,
        config: PJoinConfig | None = None,
        spill: SpillStore | None = None,
    ) -> None:
        if len(schemas) != 2 or not all(isinstance(window, Unbounded) for window in windows):
            found = ", ".join(map(str, windows))
            raise InvalidPlan(f"{type(self).__name__} joins two inputs without windows, not windows {found}; use a window join")
        self.keys = tuple(tuple(key) for key in keys)
        self.output_schema = output_schema
        self.residual = residual
        self.life = life or Lifespan()
        self._schemas = [Schema.from_arrow(schema) for schema in schemas]
        self._config = self._settled(config)
        self._spill = spill or EncodedStore()
        self._begin()
        self._out: list[Any] = []
        self._frontiers = [NEVER, NEVER]
        self._sent = NEVER
        self._has_ended = False
        #: Rows and bytes seen; and the rows at the last heartbeat of each input.
        self._rows, self._bytes = 0, 0
        self._rows_at_beat = [-1, -1]
        self._counts = dict.fromkeys(_COUNTERS, 0)

    def _settled(self, config: PJoinConfig | None) -> PJoinConfig:
        return config or PJoinConfig()

    def _begin(self) -> None:
        """Start without any state."""
        self.engine = Engine(self._config, self._schemas, self.keys, self)
        self.payload = Payload(self.engine.core, self._spill)
        self._saving = Saving(self.engine, self.payload)

    def spill_to(self, directory: Path) -> None:
        """Keep what is spilled from now on in files; called before there is any state."""
        self._spill = FileStore(directory)
        self._begin()

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        self.engine.scopes.see(port, batch.rows)
        batch = self._usable(port, batch)
        if not batch.num_rows:
            return []
        kids = self.engine.intern([batch.column(key) for key in self.keys[port]])
        wrong = self.engine.violates(np.full(len(kids), port), kids)
        trusted = np.zeros(len(kids), np.bool_)
        if wrong.any():
            batch, kids, trusted = self._violating(port, batch, kids, wrong)
        self._rows += batch.num_rows
        self._bytes += batch.rows.nbytes
        self.engine.weigh(self._bytes / max(self._rows, 1))
        if batch.num_rows:
            piece = self.payload.open(port, batch)
            rows = np.arange(piece.start, piece.start + batch.num_rows)
            placed = self.engine.accept(np.full(len(kids), port), kids, rows, batch.ts, trusted)
            self.payload.close(piece, placed)
        return self._returned()

    def _usable(self, port: int, batch: Batch) -> Batch:
        """Rows of the query's life with a key."""
        alive = self.life.holds(batch.ts)
        self._counts["outside_life"] += int(np.count_nonzero(~alive))
        for key in self.keys[port]:
            column = batch.column(key)
            if column.null_count:
                null = column.is_null().to_numpy(zero_copy_only=False)
                self._counts["null_keys"] += int(np.count_nonzero(null & alive))
                alive &= ~null
        return batch.filter(alive)

    def _violating(self, port: int, batch: Batch, kids: Int64s, wrong: Mask) -> tuple[Batch, Int64s, Mask]:
        """Rows that match a punctuation of their own input: fail, refuse them, or join them with what is stored."""
        count, policy = int(np.count_nonzero(wrong)), self.engine.config.on_violation
        first = batch.filter(wrong).slice(0, 1)
        text = f"{count} rows of input {port} match a punctuation that came before them, first {first.rows.to_pylist()[0]}"
        if policy is RowPolicy.ERROR:
            advice = "repair the source, or choose to quarantine or trust such rows"
            raise PunctuationViolated(f"{text}; {advice}", f"join, position {int(first.pos[0])}")
        self._counts["violations"] += count
        if policy is RowPolicy.TRUST:
            self._counts["trusted"] += count
            return batch, kids, wrong
        self._counts["quarantined"] += count
        self._out.append(Quarantined(batch.filter(wrong), "punctuation-violated", text))
        return batch.filter(~wrong), kids[~wrong], np.zeros(len(wrong) - count, np.bool_)

    def _returned(self) -> Elements:
        self.payload.tidy()
        out, self._out = self._out, []
        return out

    # -- what the engine asks -----------------------------------------------------------------------------------------

    def emit(self, left: Int64s, right: Int64s) -> None:
        """Results, in pieces that each take from one batch per side."""
        lefts, rights = self.payload.groups(0, left), self.payload.groups(1, right)
        if len(lefts) == 1 or len(rights) == 1:
            parts = [places for _, places in (lefts if len(rights) == 1 else rights)]
        else:
            parts = [np.arange(len(left))]
        for places in parts:
            for start in range(0, len(places), OUTPUT_ROWS):
                chosen = places[start : start + OUTPUT_ROWS]
                sources = [self.payload.gather(side, rows[chosen]) for side, rows in enumerate((left, right))]
                result = self._result(sources)
                if result.num_rows:
                    self._out.append(result)

    def _result(self, sources: Sequence[tuple[Batch, Int64s]]) -> Batch:
        columns: list[pa.Array] = []
        for batch, rows in sources:
            columns += batch.rows.take(pa.array(rows)).columns
        (batch, rows), (other, other_rows) = sources
        ts, pos = batch.ts[rows], batch.pos[rows]
        newest_and_place(ts, pos, other.ts, other.pos, other_rows)
        result = Batch(pa.RecordBatch.from_arrays(columns, schema=self.output_schema), ts, pos)
        return result if self.residual is None else result.filter(mask(self.residual, result.rows))

    def announce_keys(self, side: int, kids: Int64s, seqs: Int64s) -> Sequence[Punctuation]:
        marks = self.engine.knowledge.marks_of(kids, self.keys[0])
        for mark in marks:
            self.announce(side, mark, 0, True)
        return marks

    def announce(self, side: int, mark: Punctuation, seq: int, on_keys: bool) -> None:
        """The statement over the output's columns; one on the keys is made once for each side's, which are equal."""
        patterns = mark.restricted
        statements = [patterns]
        if on_keys and patterns:
            statements = [{names[self.keys[0].index(name)]: pattern for name, pattern in patterns.items()} for names in self.keys]
        names = tuple(self.output_schema.names)
        self._out += [Punctuation(names, tuple(said.get(name, ANY) for name in names)) for said in statements]

    def relocated(self, side: int, slots: Int64s) -> None:
        self.payload.spill(side, slots)

    def fetched(self, side: int, slots: Int64s) -> None:
        self.payload.fetch(side, slots)

    def completed(self, bucket: int, most_chunks: int = 1) -> None:
        self.payload.settle(bucket, most_chunks)

    def match_rows(self, side: int, mark: Punctuation, rows: Int64s) -> Mask:
        return mark.matches_batch(self.payload.take(side, rows).rows)

    # -- metadata -----------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            self._progress(port, mark.ts)
        elif isinstance(mark, Punctuation):
            self.engine.announce(port, mark)
        elif isinstance(mark, End):
            self._end()
        elif isinstance(mark, Herald) and (scope := scoped_from_herald(mark)) is not None:
            # It speaks about rows of this input, not about results: it goes no further.
            self.engine.announce_scope(port, scope)
        elif isinstance(mark, Request) and mark.kind == PROPAGATE:
            # The request goes on behind its answer: whoever else is asked hears it, and the answer is known to be complete.
            self.engine.request()
            self._out.append(mark)
        else:
            self._out.append(mark)
        return self._returned()

    def _progress(self, port: int, ts: int) -> None:
        if ts == FOREVER and self._frontiers[port] != FOREVER:
            self.engine.end(port)
        self._frontiers[port] = max(self._frontiers[port], ts)
        if self._rows_at_beat[port] == self._rows:
            self.engine.idle()
        self._rows_at_beat[port] = self._rows
        least = min(self._frontiers)
        if least == FOREVER:
            self._end()
        elif least > self._sent:
            self.engine.advance(least)
        promised = self.engine.promise(least) if least > self._sent else self._sent
        if promised > self._sent:
            self._sent = promised
            self._out.append(Heartbeat(promised))

    def _end(self) -> None:
        """Clean-up stage; afterwards nothing is needed any more."""
        if not self._has_ended:
            self._has_ended = True
            self.engine.finish()
            self.engine.release_all()
            self.payload.clear()

    def on_control(self, decision: Control) -> Elements:
        if decision.kind == CONTROL:
            self.engine.configure(self.engine.config.changed(decision.detail))
        elif decision.kind == MEMORY:
            share = decision.detail["bytes"]
            self.engine.configure(self.engine.config.changed({"memory_bytes": share or self._config.memory_bytes}))
        elif decision.kind == PROPAGATE:
            self.engine.request()
        return self._returned()

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        saved = self._saving.snapshot()
        own = {
            "frontiers": list(self._frontiers),
            "sent": self._sent,
            "ended": self._has_ended,
            "seen": [self._rows, self._bytes, *self._rows_at_beat],
            "counts": dict(self._counts),
        }
        return State({**saved.meta, **own}, saved.segments)

    def restore(self, state: State) -> None:
        meta = state.meta
        self._frontiers, self._sent, self._has_ended = list(meta["frontiers"]), meta["sent"], meta["ended"]
        self._rows, self._bytes, *self._rows_at_beat = meta["seen"]
        self._counts = dict(meta["counts"])
        self._begin()
        self._saving.restore(state)

    def counters(self) -> Mapping[str, int]:
        counted = self.engine.core.counters
        stored = self.engine.core.stored
        levels = {
            "state_rows": sum(stored),
            "state_rows_0": stored[0],
            "state_rows_1": stored[1],
            "memory_rows": self.engine.core.in_memory,
            "state_bytes": self.payload.num_bytes,
            "closed_entries": self.engine.knowledge.entries,
            "pending_punctuations": sum(map(len, self.engine.pending)),
            "scope_violations": self.engine.scopes.violations,
        }
        purged = counted["purged"] + counted["purged_on_the_fly"]
        return {**levels, **counted, **self._counts, "purged": purged, "purge_threshold": self.engine.purge_threshold}


class XJoin(PJoin):
    """Equi-join of two streams that ignores punctuations: the baseline, and the choice where there are none.

    While rows come it joins in memory; buckets that do not fit are spilled; when the inputs pause, what was spilled is
    joined; at the end the rest.

    References
    ----------
    [urhan2000] Urhan, Franklin. XJoin: A Reactively-Scheduled Pipelined Join Operator. IEEE Data Engineering Bulletin 2000.
    """

    def _settled(self, config: PJoinConfig | None) -> PJoinConfig:
        if config is None:
            return PJoinConfig.xjoin(probe_access=Access.INDEX)
        return replace(config, uses_punctuations=False) if config.uses_punctuations else config
