"""The multiway join over streams of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidPlan
from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.model.batch import Batch
from penstock.model.elements import Elements, End, Heartbeat, Metadata, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Lifespan
from penstock.model.windows import Window as WindowKind
from penstock.operators.joins.forgetting.extents import length_of
from penstock.operators.joins.matching.combinations import OUTPUT_ROWS, piecewise, stamps
from penstock.operators.joins.matching.multiway.graph import JoinGraph, PipelinePlan
from penstock.operators.joins.matching.multiway.orders import OrderBy, ProbeOrder
from penstock.operators.joins.matching.multiway.pipeline import Pipeline
from penstock.operators.joins.matching.multiway.search import Combos
from penstock.operators.joins.storing.chained_rows import Window
from penstock.operators.joins.storing_join import StoringJoin

#: Rows that are processed in one order of probes.
CHUNK_ROWS = 32_768
#: A row that is first combined with another input has many partners there; so many fewer rows make a chunk then.
LEAD_PARTNERS = 16

#: What is learnt of a row is one word of 64 bits, a bit for each probe.
MOST_PROBES = 64

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
        All columns of all inputs in order.
    orders
        Makes the policy of a pipeline: `OrderBy(settings)` for those of adaptive filters.
    residual
        A further condition on results.
    share, seed
        Share of the dropped rows that is shown to the policy, and the seed of the coins.

    Notes
    -----
    Differs from the paper: whole chunks of rows are processed in one order; a probe looks at a span of time instead of the
    window's present content, so rows of other inputs may be stored before or after; partners further down a path are
    listed, not searched for the first; all probes cost the same, because a measured time may not decide anything in a shard.
    Trees and cyclic graphs, which the paper leaves out, follow section 4.14 and 4.15 of the specification.
    Rows leave their window by expiry, which is the paper's order by time wherever windows are equally long; that combinations
    disappear then is not told.

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
        residual: Expr | None = None,
        life: Lifespan | None = None,
        share: float = 0.01,
        seed: int = 0,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        if graph.ports - 1 > MOST_PROBES:
            raise InvalidPlan(
                f"the join has {graph.ports} inputs, so a row makes up to {graph.ports - 1} probes; it orders at most {MOST_PROBES}"
            )
        self.output_schema, self.residual, self.chunk_rows = output_schema, residual, chunk_rows
        plans = [graph.plan(port) for port in range(graph.ports)]
        rows = [
            Window(f"window{port}", schema, length_of(window), _keys(plans, port))
            for port, (schema, window) in enumerate(zip(schemas, windows, strict=True))
        ]
        super().__init__(rows, life, ("late",))
        self._pipelines = [Pipeline(plan, rows, orders(plan), share, seed) for plan in plans]
        self._made = 0

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        batch, refused = self._usable(port, batch)
        return piecewise(chain(refused, self._joined(port, batch))) if batch.num_rows else refused

    def _joined(self, port: int, batch: Batch) -> Iterator[Batch]:
        """Results of new rows, in pieces: all of them may be more than memory holds."""
        rows, nulls = self._rows[port].insert(batch.in_order())
        self._counts["null_keys"] += nulls
        pipeline = self._pipelines[port]
        step = self.chunk_rows if not pipeline.plan.lead else max(self.chunk_rows // LEAD_PARTNERS, 1)
        for start in range(0, len(rows), step):
            for combos in pipeline.run(rows[start : start + step]):
                yield from self._results(combos)
        self._keep_within_memory()

    def _results(self, combos: Combos) -> Iterator[Batch]:
        """Combinations of row numbers as rows; none is older than a promise that was made before."""
        for start in range(0, combos.size, OUTPUT_ROWS):
            chosen = [(window, combos.rows[port][start : start + OUTPUT_ROWS]) for port, window in enumerate(self._rows)]
            columns = [column for window, rows in chosen for column in window.take(rows)]
            ts, pos = stamps((window.ts, window.pos, rows) for window, rows in chosen)
            piece = Batch(pa.RecordBatch.from_arrays(columns, schema=self.output_schema), np.maximum(ts, self._sent), pos)
            if self.residual is not None:
                piece = piece.filter(mask(self.residual, piece.rows))
            if piece.num_rows:
                self._made += piece.num_rows
                yield piece

    def _usable(self, port: int, batch: Batch) -> tuple[Batch, list[Any]]:
        """Rows within the life of the query, and the rows refused because their window has passed."""
        batch = batch.filter(self._alive(batch))
        now = self._frontiers[port]
        late = batch.ts < self._rows[port].begin(now)
        if not late.any():
            return batch, []
        self._counts["late"] += int(np.count_nonzero(late))
        text = f"{np.count_nonzero(late)} rows of input {port} of the join came after their window had passed {now}"
        return batch.filter(~late), [Quarantined(batch.filter(late), "late", text)]

    # -- time ---------------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return self._progress(port, mark.ts)
        # Rows are forgotten by windows alone, so punctuations are neither needed nor promised.
        return () if isinstance(mark, End | Punctuation) else (mark,)

    def _progress(self, port: int, ts: int) -> Elements:
        self._frontiers[port] = max(self._frontiers[port], ts)
        for other, window in enumerate(self._rows):
            window.expire(self._horizon(other))
        least = min(self._frontiers)
        if least <= self._sent:
            return ()
        self._sent = least
        return (Heartbeat(least),)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        windows = [window.snapshot() for window in self._rows]
        meta = {
            **super().snapshot().meta,
            "windows": [state.meta for state in windows],
            "pipelines": [pipeline.snapshot() for pipeline in self._pipelines],
            "results": self._made,
        }
        return State(meta, {name: rows for state in windows for name, rows in state.segments.items()})

    def restore(self, state: State) -> None:
        super().restore(state)
        for window, meta in zip(self._rows, state.meta["windows"], strict=True):
            window.restore(State(meta, state.segments), self._directory)
        for pipeline, meta in zip(self._pipelines, state.meta["pipelines"], strict=True):
            pipeline.restore(meta)
        self._made = state.meta["results"]

    def counters(self) -> Mapping[str, int]:
        probes = {f"probes_{pipeline.plan.root}": int(pipeline.evaluations.sum()) for pipeline in self._pipelines}
        return {
            **super().counters(),
            "waiting_rows": 0,  # all that comes is joined at once
            "results": self._made,
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
