"""Joins whose windows are numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa

from penstock.columnar.matching import shifted
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.kernel.segments import part_of, prefixed
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, Control, Element, Elements, Heartbeat, Metadata, Quarantined, Routed
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Lifespan, Rows, Unbounded, Window
from penstock.operators.joins.matching.combinations import Combination, piecewise
from penstock.operators.joins.sequencer import Sequencer
from penstock.operators.joins.storing.row_store import Run
from penstock.operators.joins.window_join import JoinOptions, WindowJoin


class CountedJoin(WindowJoin):
    """A window join of rows that a `Sequencer` has numbered: a window may be the last C rows of its input.

    A row of rank r, which so many rows of an input came before, sees the last C of them: those of which more than r - C - 1
    came before. So a row is stored until every other input has promised that more than C rows were counted behind it.

    Parameters
    ----------
    schemas, keys, windows, output_schema, residual, life, options
        As of `WindowJoin`; schemas and output without the ranks; windows are `Rows`, `Sliding` or `Unbounded`.
    ranks
        Names of the columns in which each row says, for each input, how many rows of it came before.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 7.5 (count-based windows).
    """

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        windows: Sequence[Window],
        output_schema: pa.Schema,
        residual: Expr | None = None,
        life: Lifespan | None = None,
        *,
        ranks: Sequence[str],
        **options: Unpack[JoinOptions],
    ) -> None:
        self._sizes = [window.size if isinstance(window, Rows) else None for window in windows]
        self._ranks = tuple(ranks)
        self._own_names = [schema.names for schema in schemas]
        in_time = [Unbounded() if isinstance(window, Rows) else window for window in windows]
        super().__init__(schemas, keys, in_time, output_schema, residual, life, **options)
        #: How many rows of each input (second) every later row of an input (first) has before it at least.
        self._promised: Int64s = np.zeros((len(schemas), len(schemas)), np.int64)

    def _rank(self, batch: Batch, counted: int) -> Int64s:
        return int64s(batch.column(self._ranks[counted]))

    def _useful_until(self, port: int) -> Callable[[Batch], Int64s]:
        size = self._sizes[port]
        return super()._useful_until(port) if size is None else lambda batch: shifted(self._rank(batch, port), size)

    def _horizon(self, port: int) -> int:
        time = super()._horizon(port)
        if self._sizes[port] is None or time == FOREVER:
            return time
        return int(np.delete(self._promised[:, port], port).min())

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _wider(self, found: Combination, other: int) -> Iterator[tuple[Run, Combination]]:
        for run, wider in super()._wider(found, other):
            keep = np.ones(wider.num_rows, np.bool_)
            for port in found.parts:
                keep &= self._sees(wider, port, other) & self._sees(wider, other, port)
            yield run, wider if keep.all() else wider.subset(np.flatnonzero(keep))

    def _sees(self, pairs: Combination, stored: int, port: int) -> Mask | bool:
        """Which rows of an input have in their window those of another; rows that came later are in every window."""
        size = self._sizes[stored]
        if size is None:
            return True
        (mine, rows), (batch, others) = pairs.parts[stored], pairs.parts[port]
        seen: Mask = self._rank(batch, stored)[others] - self._rank(mine, stored)[rows] <= size
        return seen

    def _columns(self, port: int, batch: Batch, rows: Int64s) -> list[pa.Array]:
        return super()._columns(port, batch.with_rows(batch.rows.select(self._own_names[port])), rows)

    # -- metadata -----------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if not isinstance(mark, Punctuation):
            return super().on_metadata(port, mark)
        restricted = mark.restricted
        if len(restricted) == 1 and set(restricted) <= set(self._ranks):
            self._promise_count(port, mark)
            return ()
        own = mark.project(self._own_names[port])
        return () if own is None else super().on_metadata(port, own)

    def _promise_count(self, port: int, mark: Punctuation) -> None:
        ((name, pattern),) = mark.restricted.items()
        counted = self._ranks.index(name)
        if pattern.is_range and pattern.hi is not None:
            self._promised[port, counted] = max(self._promised[port, counted], int(pattern.hi) + pattern.hi_inclusive)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state = super().snapshot()
        return State({**state.meta, "promised": self._promised.tolist()}, state.segments)

    def restore(self, state: State) -> None:
        self._promised = np.array(state.meta["promised"], np.int64)
        super().restore(state)


class RowWindowJoin:
    """Numbers the rows and joins them in one place: for joins that are not spread over the shards.

    Parameters
    ----------
    schemas
        Of the inputs.
    life
        Rows outside of the query's life are not counted.
    make
        Makes the join of the numbered rows.
    ranks
        Names of the columns that tell it the numbers.
    """

    def __init__(self, schemas: Sequence[pa.Schema], life: Lifespan, make: Callable[[], CountedJoin], ranks: Sequence[str]) -> None:
        self._outputs = tuple(map(str, range(len(schemas))))
        self._sequencer = Sequencer(schemas, self._outputs, ranks, life)
        self._join = make()

    def spill_to(self, directory: Path) -> None:
        self._join.spill_to(directory)

    def on_batch(self, port: int, batch: Batch) -> Elements:
        return self._joined(self._sequencer.on_batch(port, batch))

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        return self._joined(self._sequencer.on_metadata(port, mark))

    def _joined(self, numbered: Elements) -> Elements:
        return piecewise(found for item in numbered for found in self._heard(item))

    def _heard(self, item: Element | Quarantined | Routed) -> Iterator[Element | Quarantined | Routed]:
        if isinstance(item, Routed):
            port = self._outputs.index(item.output)
            element = item.element
            yield from self._join.on_batch(port, element) if isinstance(element, Batch) else self._join.on_metadata(port, element)
        elif isinstance(item, Heartbeat):
            for port in range(len(self._outputs)):
                yield from self._join.on_metadata(port, item)
        else:
            yield item

    def on_control(self, decision: Control) -> Elements:
        return self._join.on_control(decision)

    def snapshot(self) -> State:
        counting, join = prefixed("counting", self._sequencer.snapshot()), prefixed("join", self._join.snapshot())
        return State({**counting.meta, **join.meta}, {**counting.segments, **join.segments})

    def restore(self, state: State) -> None:
        self._sequencer.restore(part_of("counting", state))
        self._join.restore(part_of("join", state))

    def counters(self) -> Mapping[str, int]:
        waiting, joined = self._sequencer.counters(), self._join.counters()
        return {
            **joined,
            "state_rows": joined["state_rows"] + waiting["state_rows"],
            "state_bytes": joined["state_bytes"] + waiting["state_bytes"],
            "waiting_rows": waiting["state_rows"],
            "outside_life": waiting["outside_life"],
        }
