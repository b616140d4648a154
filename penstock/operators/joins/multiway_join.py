"""The multiway join over streams of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidConfiguration
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER, Elements, End, Heartbeat, Metadata, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Lifespan
from penstock.model.windows import Window as WindowKind
from penstock.operators.joins.matching.combinations import OUTPUT_ROWS, piecewise
from penstock.operators.joins.matching.multiway.checking import check_graph, lengths_of
from penstock.operators.joins.matching.multiway.graph import JoinGraph, PipelinePlan, Style
from penstock.operators.joins.matching.multiway.orders import OrderBy, ProbeOrder
from penstock.operators.joins.matching.multiway.pipeline import Pipeline
from penstock.operators.joins.matching.multiway.results import Results
from penstock.operators.joins.matching.multiway.search import Spans
from penstock.operators.joins.ordering.ordering import Ordering, in_one_order
from penstock.operators.joins.storing.chained_rows import Window
from penstock.operators.joins.storing_join import StoringJoin

#: Rows that are processed in one order of probes.
CHUNK_ROWS = 32_768
#: Rows of all inputs that are stored together where results must be in order: a probe passes over those newer than itself.
TURN_ROWS = 8192
#: A row that is first combined with another input has many partners there; so many fewer rows make a chunk then.
LEAD_PARTNERS = 16

A_GREEDY = OrderBy()


class MJoin(StoringJoin[Window]):
    """Equi-join of several streams with windows in which each input has an order of probes of its own that adapts.

    A new row first asks the other windows, one after the other, whether they have any partner at all; the first that has
    none ends its way. Only rows that pass all these probes are combined, so the work that depends on the order is the
    work of dropping rows, and the order of each pipeline is decided like that of filters. The answer never depends on it.
    Choose it for three and more inputs of which some seldom have a partner, for predicates on different columns, and where
    it changes which input that is; `WindowJoin` where punctuations close keys.

    Parameters
    ----------
    schemas
        Of the inputs, which must not share column names.
    graph
        Join predicates: a star, a tree or any connected graph. Of a cyclic one a tree is probed and the rest is compared
        when combinations are made.
    windows
        `Sliding` or `Unbounded`, one for each input.
    output_schema
        All columns of all inputs in order; behind them the column of `change`, if there is one.
    orders
        Makes the policy of a pipeline: `OrderBy(settings)` for those of adaptive filters.
    change
        Name of a column of type int8 that tells +1 when a combination appears and -1 when it disappears, because the
        first of its rows leaves its window. Rows then wait until all inputs have passed them. Without it combinations are
        handed on as soon as they exist, and their disappearing is not.
    residual
        A further condition on results.
    share, seed
        Share of the dropped rows that is shown to the policy, and the seed of the coins.
    style
        See `Style`.

    Notes
    -----
    Differs from the paper: whole chunks of rows are processed in one order; a probe looks at a span of time instead of the
    window's present content, so rows of other inputs may be stored before or after; partners further down a path are
    listed, not searched for the first; all probes cost the same, because a measured time may not decide anything in a shard.
    Trees and cyclic graphs, which the paper leaves out, follow section 4.14 and 4.15 of the specification.
    Rows leave their window by expiry, which is the paper's order by time wherever windows are equally long.

    References
    ----------
    [babu2004] Babu, Motwani, Munagala, Nishizawa, Widom. Adaptive Ordering of Pipelined Stream Filters. SIGMOD 2004, section 8.

    Examples
    --------
    >>> from penstock.model.windows import Sliding
    >>> schemas = [pa.schema({f"{name}.k": pa.int64()}) for name in "abc"]
    >>> graph = JoinGraph.natural([["a.k"], ["b.k"], ["c.k"]])
    >>> join = MJoin(schemas, graph, [Sliding(5)] * 3, pa.schema([field for schema in schemas for field in schema]))
    >>> def row(name, ts):
    ...     return Batch(pa.RecordBatch.from_pydict({f"{name}.k": [7]}), np.array([ts]), np.array([ts]))
    >>> [*join.on_batch(0, row("a", 1)), *join.on_batch(1, row("b", 2))]
    []
    >>> [batch.rows.to_pylist() for batch in join.on_batch(2, row("c", 3))]
    [[{'a.k': 7, 'b.k': 7, 'c.k': 7}]]
    """

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        graph: JoinGraph,
        windows: Sequence[WindowKind],
        output_schema: pa.Schema,
        orders: Callable[[PipelinePlan], ProbeOrder] = A_GREEDY,
        change: str = "",
        residual: Expr | None = None,
        life: Lifespan | None = None,
        share: float = 0.01,
        seed: int = 0,
        chunk_rows: int = CHUNK_ROWS,
        style: Style = "auto",
    ) -> None:
        if not 0 <= share <= 1:
            raise InvalidConfiguration(f"share is {share}; it must be between 0 and 1")
        if chunk_rows < 1:
            raise InvalidConfiguration(f"chunk_rows is {chunk_rows}; it must be at least 1")
        check_graph(graph, schemas)
        self.lengths = lengths_of(windows, graph.ports)
        self.change, self.chunk_rows = change, chunk_rows
        plans = [graph.plan(port, style) for port in range(graph.ports)]
        rows = [Window(f"window{port}", schema, self.lengths[port], _keys(plans, port)) for port, schema in enumerate(schemas)]
        super().__init__(rows, life, ("late",))
        self._pipelines = [Pipeline(plan, rows, orders(plan), share, seed, not change and graph.ports > 2) for plan in plans]
        self._results = Results(rows, output_schema, residual, bool(change))
        self._ordering = Ordering(schemas)

    # -- what rows see of other inputs --------------------------------------------------------------------------------

    def _seen_on_arrival(self, port: int) -> Spans:
        """Rows come in any order: whatever is near enough, older or newer."""
        return Spans(self.lengths, (self.lengths[port],) * len(self.lengths))

    def _seen_in_order(self, port: int) -> Spans:
        """Rows before this one in the order of time and input that are still in their windows."""
        return Spans(self.lengths, tuple(0 if other < port else -1 for other in range(len(self.lengths))))

    def _seen_when_late(self) -> Spans:
        """Everything that has been inserted and not expired."""
        return Spans(self.lengths, (-1,) * len(self.lengths))

    def _seen_when_leaving(self, port: int) -> Spans:
        """Rows that are in their windows and do not leave before this one; equal moments are in the order of inputs."""
        longer = [min(length, FOREVER - 1) + 1 for length in self.lengths]
        before = tuple(self.lengths[other] if other < port else longer[other] for other in range(len(self.lengths)))
        return Spans(before, (-1,) * len(self.lengths))

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        batch, refused = self._usable(port, batch)
        if not batch.num_rows:
            return refused
        if not self.change:
            return piecewise(chain(refused, self._joined(port, batch)))
        self._order_or_join(port, batch)
        self._keep_within_memory()
        return [*refused, *self._results.taken(not_before=self._sent)]

    def _joined(self, port: int, batch: Batch) -> Iterator[Batch]:
        """Results of new rows, in pieces: all of them may be more than memory holds."""
        rows = self._stored(port, batch.in_order())
        for _ in self._join_in_pieces(port, rows, self._seen_on_arrival(port), self._rows[port].ts[rows], 1):
            if self._results.waiting_rows > OUTPUT_ROWS:
                yield from self._results.taken(not_before=self._sent)
        self._keep_within_memory()
        yield from self._results.taken(not_before=self._sent)

    def _usable(self, port: int, batch: Batch) -> tuple[Batch, list[Any]]:
        """Rows within the life of the query, and the rows refused because their window has passed."""
        batch = batch.filter(self._alive(batch))
        now = self._sent if self.change else self._frontiers[port]
        late = batch.ts < self._rows[port].begin(now)
        if not late.any():
            return batch, []
        self._counts["late"] += int(np.count_nonzero(late))
        text = f"{np.count_nonzero(late)} rows of input {port} of the join came after their window had passed {now}"
        return batch.filter(~late), [Quarantined(batch.filter(late), "late", text)]

    def _order_or_join(self, port: int, batch: Batch) -> None:
        """Let rows wait for their turn; those whose turn has passed are joined now, as if they had come at this moment."""
        late = batch.ts < self._sent
        if late.any():
            rows = self._stored(port, batch.filter(late).in_order())
            self._join(port, rows, self._seen_when_late(), np.full(len(rows), self._sent))
            batch = batch.filter(~late)
        if batch.num_rows:
            self._ordering.add(port, batch)

    def _stored(self, port: int, batch: Batch) -> Int64s:
        rows, nulls = self._rows[port].insert(batch)
        self._counts["null_keys"] += nulls
        return rows

    def _join(self, port: int, rows: Int64s, spans: Spans, at: Int64s | None = None, change: int = 1) -> None:
        """Join stored rows at given moments, by default their own times."""
        for _ in self._join_in_pieces(port, rows, spans, self._rows[port].ts[rows] if at is None else at, change):
            pass

    def _join_in_pieces(self, port: int, rows: Int64s, spans: Spans, at: Int64s, change: int) -> Iterator[None]:
        """The same; stops after each piece of the results."""
        pipeline = self._pipelines[port]
        step = self.chunk_rows if not pipeline.plan.lead else max(self.chunk_rows // LEAD_PARTNERS, 1)
        for start in range(0, len(rows), step):
            chunk = slice(start, start + step)
            for combos in pipeline.run(rows[chunk], at[chunk], spans):
                self._results.add(combos, change)
                yield

    # -- time ---------------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return self._progress(port, mark.ts)
        # Rows are forgotten by windows alone, so punctuations are neither needed nor promised.
        return () if isinstance(mark, End | Punctuation) else (mark,)

    def _progress(self, port: int, ts: int) -> Elements:
        self._frontiers[port] = max(self._frontiers[port], ts)
        least = min(self._frontiers)
        if not self.change:
            for other, window in enumerate(self._rows):
                window.expire(self._horizon(other))
        elif least > self._sent:
            self._release(least)
        if least <= self._sent:
            return ()
        self._sent = least
        return [*self._results.taken(not_before=NEVER), Heartbeat(least)]

    def _release(self, least: int) -> None:
        """Process everything before `least`: rows in the order of time and input, between them rows that leave."""
        for arrived, newest in _in_turns(self._ordering.release(least), min(self.chunk_rows, TURN_ROWS)):
            stored = [(port, self._stored(port, batch)) for port, batch in arrived]
            for port, rows in stored:
                self._join(port, rows, self._seen_in_order(port))
            self._let_leave(newest)
        self._let_leave(least)

    def _let_leave(self, now: int) -> None:
        """Take back what disappears up to a moment, and forget rows that have left; nothing older comes any more."""
        for port, window in enumerate(self._rows):
            rows = window.leaving(now)
            if len(rows):
                moments = np.minimum(window.useful_until(window.ts[rows]), FOREVER - 1) + 1
                self._join(port, rows, self._seen_when_leaving(port), moments, -1)
        for window in self._rows:
            window.expire(now)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        windows = [window.snapshot() for window in self._rows]
        waiting, segments = self._ordering.snapshot()
        meta = {
            **super().snapshot().meta,
            "windows": [state.meta for state in windows],
            "pipelines": [pipeline.snapshot() for pipeline in self._pipelines],
            "waiting": waiting,
            "results": self._results.count,
        }
        for state in windows:
            segments |= state.segments
        return State(meta, segments)

    def restore(self, state: State) -> None:
        super().restore(state)
        for window, meta in zip(self._rows, state.meta["windows"], strict=True):
            window.restore(State(meta, state.segments), self._directory)
        for pipeline, meta in zip(self._pipelines, state.meta["pipelines"], strict=True):
            pipeline.restore(meta)
        self._ordering.restore(state.meta["waiting"], state.segments)
        self._results.count = state.meta["results"]

    def counters(self) -> Mapping[str, int]:
        found, waiting = super().counters(), self._ordering.num_rows
        probes = {f"probes_{pipeline.plan.root}": int(pipeline.evaluations.sum()) for pipeline in self._pipelines}
        return {
            **found,
            "state_rows": found["state_rows"] + waiting,
            "state_bytes": found["state_bytes"] + self._ordering.num_bytes,
            "waiting_rows": waiting,
            "results": self._results.count,
            "probes": sum(probes.values()),
            "drops": sum(int(pipeline.drops.sum()) for pipeline in self._pipelines),
            **probes,
            **{name: sum(pipeline.counts[name] for pipeline in self._pipelines) for name in self._pipelines[0].counts},
        }


def _keys(plans: Sequence[PipelinePlan], port: int) -> list[tuple[str, ...]]:
    """The keys by which rows of an input are looked for, or look for others, in any pipeline."""
    vertices = [vertex for plan in plans for vertex in (*plan.lead, *plan.probes)]
    keys = [vertex.key for vertex in vertices if vertex.port == port]
    return list(dict.fromkeys(keys + [vertex.parent_key for vertex in vertices if vertex.parent == port]))


def _in_turns(parts: Sequence[tuple[int, Batch]], chunk_rows: int) -> Iterator[tuple[list[tuple[int, Batch]], int]]:
    """Pieces of all inputs' rows, in one order by time, input and position, and the newest time of each piece."""
    if not parts:
        return
    ports, ts, order = in_one_order(parts)
    taken = dict.fromkeys((port for port, _ in parts), 0)
    for start in range(0, len(order), chunk_rows):
        turn = order[start : start + chunk_rows]
        counts = np.bincount(ports[turn], minlength=parts[-1][0] + 1).tolist()
        # Each input's rows are in order already, so its share of a turn is a slice.
        arrived = [(port, batch.slice(taken[port], counts[port])) for port, batch in parts if counts[port]]
        taken = {port: first + counts[port] for port, first in taken.items()}
        yield arrived, int(ts[turn[-1]])
