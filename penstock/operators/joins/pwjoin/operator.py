"""PWJoin and MWJoin over streams of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import NEVER, Control, Elements, End, Heartbeat, Metadata, Quarantined
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Lifespan, Rows, Window
from penstock.operators.joins.pwjoin.announcements import Announcer
from penstock.operators.joins.pwjoin.config import JoinConfig, JoinWindow
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.operators.joins.pwjoin.emitting import OutputMarks, ResultRows
from penstock.operators.joins.pwjoin.keys import codes_of
from penstock.operators.joins.pwjoin.knowledge import KnowledgeLog
from penstock.operators.joins.pwjoin.ordering import Ordering
from penstock.operators.joins.pwjoin.rows import RowStore
from penstock.operators.joins.pwjoin.saving import restored, saved
from penstock.operators.joins.pwjoin.trace import Fate, Int8s, Items, Kind

_REFUSED = {Fate.VIOLATION: "punctuation-violated", Fate.LATE: "late"}


class PWJoin:
    """Equi-join of 2 to 32 streams with windows and punctuations, item by item, with the structures of the source.

    A row costs one look-up, which finds its partners in all inputs, or that some input has none. It is stored unless the
    other inputs have closed its key. A key leaves the join, and rows of it are dropped unprocessed, when all inputs have
    closed it, or when the last row of one that has closed it leaves its window. Choose it where keys close soon after they
    open, so that little is stored, and where counters of the source are wanted; `WindowJoin` where large batches meet large
    windows.

    Parameters
    ----------
    schemas, keys, windows, output_schema, residual, life
        As of `WindowJoin`; windows are `Sliding`, `Unbounded` or `Rows`. The output may leave columns out.
    config
        State and strategies; its windows are not looked at. Without one: cluster state, and frontiers as the clock, unless
        some window counts rows, which needs a global order: then rows wait until all inputs have passed them.
    ranks
        For windows of rows in a shard: names of the columns in which a `Sequencer` has written, for each input, how many
        rows of it came before. Without them this operator counts, and must see all rows.

    Notes
    -----
    Differs from the source: any patterns, any order within frontiers, and every erratum named in the compiled modules. A
    batch is a loop over items in order, so batching changes nothing but when results are handed on.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 6 and 7.
    [ding2004] Ding, Rundensteiner. Evaluating Window Joins over Punctuated Streams. CIKM 2004.

    Examples
    --------
    >>> from penstock.model.value_sets import constant
    >>> from penstock.model.windows import Sliding
    >>> schemas = [pa.schema({"a.k": pa.int64()}), pa.schema({"b.k": pa.int64()})]
    >>> join = PWJoin(schemas, [["a.k"], ["b.k"]], [Sliding(10), Sliding(5)], pa.schema([*schemas[0], *schemas[1]]))
    >>> join.on_batch(0, Batch(pa.RecordBatch.from_pydict({"a.k": [5]}), np.array([1]), np.array([0])))
    []
    >>> join.on_metadata(0, Punctuation(("a.k",), (constant(5),)))
    []
    >>> [str(mark) for mark in join.on_metadata(1, Heartbeat(12))]
    ['⟨a.k=5, b.k=*⟩', '⟨a.k=*, b.k=5⟩']
    """

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        windows: Sequence[Window],
        output_schema: pa.Schema,
        residual: Expr | None = None,
        life: Lifespan | None = None,
        config: JoinConfig | None = None,
        ranks: Sequence[str] = (),
    ) -> None:
        self.config = _configured(windows, config)
        self.life = life or Lifespan()
        self.keys = tuple(map(tuple, keys))
        self.ranks = tuple(ranks)
        self.core = JoinCore(self.config, collect=True, log_changes=True)
        self.codes = codes_of(schemas, self.keys)
        self.stores = [RowStore(f"rows{port}", schema) for port, schema in enumerate(schemas)]
        self.knowledge = KnowledgeLog(self.core)
        self.announcer = Announcer(self.core, self.codes, schemas, self.keys)
        self.ordering = Ordering(schemas) if self.config.clock == "global_order" else None
        self.frontiers = [NEVER for _ in schemas]
        self.sent = self.told = NEVER
        self.next_rows = [0 for _ in schemas]
        self.outside_life = 0
        self.promised: Int64s = np.zeros((len(schemas), len(schemas)), np.int64)
        self._results = ResultRows(self.stores, output_schema, residual)
        self._marks = OutputMarks(self.keys, output_schema, self.codes)
        self._out: list[Any] = []

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        alive = self.life.holds(batch.ts)
        self.outside_life += int(np.count_nonzero(~alive))
        batch = batch.filter(alive)
        if not batch.num_rows:
            return []
        if self.ordering is not None:
            self.ordering.add(port, batch)
            return []
        self._join([(port, batch)])
        return self._taken()

    def _join(self, parts: Sequence[tuple[int, Batch]]) -> None:
        """Join batches of some inputs; more than one is put into the global order."""
        numbered = [self._numbered(port, batch) for port, batch in parts]
        ports = np.repeat([port for port, _ in parts], [batch.num_rows for _, batch in parts])
        ts = np.concatenate([batch.ts for _, batch in parts])
        order = np.arange(len(ts))
        if len(parts) > 1:
            order = np.lexsort((np.concatenate([batch.pos for _, batch in parts]), ports, ts))
        kinds, keys, rows, ranks = (np.concatenate(column)[order] for column in zip(*numbered, strict=True))
        items = Items(kinds.astype(np.int8), ports[order].astype(np.int64), ts[order], keys, keys)
        arrived = self.core.arrived()
        fates = self._play(items, rows, ranks if self.ranks else None)
        for port, batch in parts:
            mine = items.streams == port
            self._keep(port, batch, fates[mine], int(arrived[port]), ranks[mine, port] if self.ranks else None)

    def _numbered(self, port: int, batch: Batch) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Kind, key, row and ranks of each row; the rows are in the store from now on."""
        columns = [batch.column(name) for name in self.keys[port]]
        valid = np.ones(batch.num_rows, np.bool_)
        for column in columns:
            if column.null_count:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
        keys = np.zeros(batch.num_rows, np.int64)
        if valid.any():
            chosen = columns if valid.all() else [column.filter(pa.array(valid)) for column in columns]
            keys[valid] = self.announcer.numbers_of(chosen)
        rows = np.arange(self.next_rows[port], self.next_rows[port] + batch.num_rows, dtype=np.int64)
        self.next_rows[port] += batch.num_rows
        self.stores[port].append(rows, rows, batch)
        ranks = [int64s(batch.column(name)) for name in self.ranks]
        table = np.stack(ranks, axis=1) if ranks else np.zeros((batch.num_rows, len(self.keys)), np.int64)
        return np.where(valid, Kind.TUPLE, Kind.NULL_KEY).astype(np.int64), keys, rows, table

    def _play(self, items: Items, rows: Int64s, ranks: Int64s | None = None) -> Int8s:
        fates = np.zeros(len(items), np.int8)
        more = {} if ranks is None else {"ranks": np.ascontiguousarray(ranks)}
        self.core.process(items, rows, fates, 0, len(items), flush=self._flush, **more)
        self._flush()
        return fates

    def _flush(self) -> None:
        results, _ = self.core.take_results()
        if len(results):
            self._out += self._results.batches(results)

    def _keep(self, port: int, batch: Batch, fates: Int8s, arrived: int, ranks: Int64s | None) -> None:
        """Keep the stored rows of a new batch, and refuse what breaks a promise."""
        ats = batch.ts
        if isinstance(self.config.windows[port], Rows):
            counts = (fates != Fate.VIOLATION) & (fates != Fate.LATE)
            ats = arrived + np.cumsum(counts) if ranks is None else ranks + 1
        self.stores[port].settle_last(fates == Fate.STORED, ats)
        for fate, reason in _REFUSED.items():
            refused: Mask = fates == fate
            if refused.any():
                text = f"{np.count_nonzero(refused)} rows of input {port} of the join are refused: {reason}"
                self._out.append(Quarantined(batch.filter(refused), reason, text))

    # -- metadata -----------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            self._progress(port, mark.ts)
        elif isinstance(mark, Punctuation):
            self._punctuated(port, mark)
        else:
            return [] if isinstance(mark, End) else [mark]
        return self._taken()

    def _punctuated(self, port: int, mark: Punctuation) -> None:
        if self.config.state == "tables" or mark.is_empty:
            return
        if self.ordering is None or self.ordering.let_pass(port, mark):
            self._announce(port, mark)

    def _announce(self, port: int, mark: Punctuation) -> None:
        if self.ranks and self._counted(port, mark):
            return
        items = self.announcer.items(port, mark)
        if len(items):
            self._play(items, np.zeros(len(items), np.int64))

    def _counted(self, port: int, mark: Punctuation) -> bool:
        """Whether a punctuation tells how many rows of an input have come; as many have, as all other inputs say."""
        restricted = mark.restricted
        if len(restricted) != 1 or not set(restricted) <= set(self.ranks):
            return False
        ((name, pattern),) = restricted.items()
        counted = self.ranks.index(name)
        if pattern.is_range and pattern.hi is not None:
            self.promised[port, counted] = max(self.promised[port, counted], int(pattern.hi) + pattern.hi_inclusive)
        return True

    def _progress(self, port: int, ts: int) -> None:
        self.frontiers[port] = max(self.frontiers[port], ts)
        least = min(self.frontiers)
        if self.ordering is None:
            self._beat(port, ts)
        elif least > self.sent:
            self._release(least)
        if least > self.sent:
            self.sent = least

    def _release(self, least: int) -> None:
        """Join the rows that all inputs have passed; then what was announced behind them holds."""
        assert self.ordering is not None
        parts = self.ordering.release(least)
        if parts:
            self._join(parts)
        for port, mark in self.ordering.passed(least):
            self._announce(port, mark)
        if self.ranks:
            for stream in range(len(self.keys)):
                others = np.delete(self.promised[:, stream], stream)
                self.core.count_rows(stream, int(others.min()))
        self._beat(0, least)

    def _beat(self, port: int, ts: int) -> None:
        self._play(Items.of([(Kind.HEARTBEAT, port, ts, 0)]), np.zeros(1, np.int64))

    def on_control(self, decision: Control) -> Elements:
        return ()

    # -- output -------------------------------------------------------------------------------------------------------

    def _taken(self) -> list[Any]:
        """Everything to hand on: rows first, then what the marks among them promise, then how far all inputs have come."""
        out, self._out = self._out, []
        out += self._marks.stated(self.core.take_output().marks)
        for port, mark in self.announcer.released(self.stores):
            out += self._marks.extended(port, mark)
        for port, store in enumerate(self.stores):
            if store.needs_tidying(int(self.core.stored()[port])):
                store.tidy(self.core.live_rows(port))
        self.announcer.tidy()
        if self.sent > self.told:
            self.told = self.sent
            out.append(Heartbeat(self.sent))
        return out

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return saved(self)

    def restore(self, state: State) -> None:
        restored(self, state)

    def counters(self) -> Mapping[str, int]:
        counted = self.core.counters()
        stored = sum(store.num_bytes for store in self.stores)
        waiting = self.ordering.num_rows if self.ordering is not None else 0
        return {
            **counted,
            "state_rows": counted["state"] + waiting,
            "state_bytes": stored + counted["bytes"],
            "waiting_rows": waiting,
            "expired": counted["invalidated"],
            "outside_life": self.outside_life,
            "known_keys": self.announcer.num_keys,
        }


class MWJoin(PWJoin):
    """The baseline: a hash table per input, probed one after the other; WJoin for two inputs. Punctuations are ignored.

    Choose it to compare with. Parameters are those of `PWJoin`.

    References
    ----------
    [golab2003] Golab, Özsu. Processing Sliding Window Multi-Joins in Continuous Queries over Data Streams. VLDB 2003.
    """

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        windows: Sequence[Window],
        output_schema: pa.Schema,
        residual: Expr | None = None,
        life: Lifespan | None = None,
        config: JoinConfig | None = None,
        ranks: Sequence[str] = (),
    ) -> None:
        given = _configured(windows, config)
        super().__init__(schemas, keys, windows, output_schema, residual, life, given.baseline(given.buckets), ranks)


def _configured(windows: Sequence[Window], config: JoinConfig | None) -> JoinConfig:
    own: tuple[JoinWindow, ...] = tuple(windows)  # type: ignore[arg-type]  # framed windows are refused below
    if config is not None:
        return replace(config, windows=own)
    counts_rows = any(isinstance(window, Rows) for window in own)
    return JoinConfig(own, clock="global_order" if counts_rows else "frontier")
