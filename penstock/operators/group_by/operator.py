"""The grouping operator: batches and metadata in, results of closed windows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import ENDED_AT, FOREVER, NEVER, Control, Elements, End, Heartbeat, Metadata
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.operators.group_by.closing import Closing
from penstock.operators.group_by.layout import Layout
from penstock.operators.group_by.panes import Panes, Selection
from penstock.operators.group_by.sequencing import RowPositions, TimePositions
from penstock.operators.waiting import check_promise


class GroupBy:
    """Aggregates per group and window, by partial results that windows share.

    Rows of a group that lie in the same windows are one stored row, however long the windows are and however often they
    overlap; a closing window combines its stored rows. `evaluation="recompute"` keeps the rows instead and computes
    every window from scratch: the same results, for comparison.

    Parameters
    ----------
    input_schema
        Columns of the input.
    keys
        Grouping columns, possibly none. NULL is a group.
    aggregates
        What to compute of each group.
    window
        A window is reported when the frontier has passed its end, a window of rows when its last row has been numbered.
        Without a window a group is reported when a punctuation closes it, or at the end.
    life
        Rows outside are counted and ignored; windows that end after it are not reported.
    emit_partial
        Report windows that end after the life, and windows of rows that did not fill, at the end.
    window_columns
        Names of output columns for the start and end of the window; an empty name is left out.
    time_type
        Type of the window columns.
    evaluation
        "reuse" or "recompute".

    Notes
    -----
    An output row's time is the greatest of its group; rows come by window, time and key.

    A punctuation that restricts keys only closes groups. Over time windows, or none, they are reported at once with all
    their windows, forgotten, and the punctuation goes on. Over windows of rows, where whether a window fills depends on
    other rows, it goes on when nothing of the group is left; partitions it closes are forgotten at once. Landmark
    windows report a group in every later window, so there a punctuation closes nothing and ends here.

    Differs from the source: pieces are bounded by starts and ends of windows, which are fewer than pieces of the
    greatest common divisor; a closing row is never lost and a row at the next begin counts (defects 1 and 2 of the
    printed form).

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Springer 2009,
    Algorithm 6. [tucker2003] for punctuations. [li2005] Li, Maier, Tufte, Papadimos, Tucker. No Pane, No Gain. SIGMOD
    Record 2005.

    Examples
    --------
    >>> schema = pa.schema({"car": pa.int64()})
    >>> counting = GroupBy(schema, ["car"], [AggregateCall("count", None, False, "n")], Framed(10, 10, 10), Lifespan())
    >>> rows = pa.RecordBatch.from_pydict({"car": [1, 2, 1]})
    >>> counting.on_batch(0, Batch(rows, np.array([0, 3, 9]), np.array([0, 1, 2])))
    []
    >>> result, promise = counting.on_metadata(0, Heartbeat(10))
    >>> result.rows.to_pylist(), result.ts.tolist(), promise
    ([{'car': 2, 'n': 1}, {'car': 1, 'n': 2}], [3, 9], Heartbeat(ts=10))
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Sequence[AggregateCall],
        window: Framed | Unbounded,
        life: Lifespan,
        emit_partial: bool = False,
        window_columns: tuple[str, str] = ("", ""),
        time_type: pa.DataType = pa.int64(),  # noqa: B008 - an immutable value
        evaluation: str = "reuse",
    ) -> None:
        schema = Schema.from_arrow(input_schema)
        self._keys = tuple(schema[key].name for key in keys)
        self._window, self._life, self._emit_partial = window, life, emit_partial
        parts = window.partition_by if isinstance(window, Framed) else ()
        self._partition_by = tuple(schema[name].name for name in parts)
        every_key = [*self._keys, *(name for name in self._partition_by if name not in self._keys)]
        self._layout = Layout(schema, every_key, aggregates, evaluation == "reuse")
        fields = [pa.field(schema[key].name, self._layout.key_type(key)) for key in self._keys]
        fields += [pa.field(call.name, result_type(call, schema)) for call in aggregates]
        fields += [pa.field(name, time_type) for name in window_columns if name]
        self.output_schema = pa.schema(fields)
        self._closing = Closing(self._layout, self.output_schema, len(self._keys), window, life, window_columns)
        self._positions = self._positions_of(window, life)
        self._panes = Panes(self._layout, self._positions.least)
        self._held: list[Punctuation] = []
        self._frontier = self._promised = NEVER
        self._totals = {"purged": 0, "in_gap": 0, "outside_life": 0, "windows_closed": 0}

    def _positions_of(self, window: Framed | Unbounded, life: Lifespan) -> TimePositions | RowPositions:
        if isinstance(window, Framed) and window.in_rows:
            names = self._layout.stored_names(self._partition_by)
            return RowPositions(window, self._layout.prepared_schema, names)
        return TimePositions(window, life)

    @property
    def _is_landmark(self) -> bool:
        return isinstance(self._window, Framed) and self._window.is_landmark

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return []
        check_promise(batch, self._frontier)
        inside = self._life.holds(batch.ts)
        self._totals["outside_life"] += int((~inside).sum())
        if inside.any():
            self._store(*self._positions.arrive(self._layout.prepared(batch.filter(inside))))
        return []

    def _store(self, rows: Batch, first: Int64s, last: Int64s) -> None:
        inside = first <= last
        if not inside.all():
            self._totals["in_gap"] += int((~inside).sum())
            rows, first, last = rows.filter(inside), first[inside], last[inside]
        if rows.num_rows:
            self._panes.add(self._layout.stored(rows, first, last))

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return self._on_heartbeat(mark.ts)
        if isinstance(mark, Punctuation):
            return self._on_punctuation(mark)
        if isinstance(mark, End):
            return self._on_end()
        return [mark]

    def on_control(self, decision: Control) -> Elements:
        if decision.kind == ENDED_AT and isinstance(self._positions, TimePositions):
            self._positions.ended_at = decision.detail["ts"]
        return []

    def _on_heartbeat(self, frontier: int) -> Elements:
        if frontier <= self._frontier:
            return []
        self._frontier = frontier
        self._store(*self._positions.advance(frontier))
        out = self._close()
        if frontier >= self._life.end:
            out += self._finish()
        return [*out, *self._released(), *self._promise()]

    def _on_end(self) -> Elements:
        out: list[Batch] = []
        if isinstance(self._positions, RowPositions):
            # No earlier row can come any more, and a window that fills with these rows is complete.
            self._store(*self._positions.advance(FOREVER))
            out = self._close()
        return [*out, *self._finish(), *self._released()]

    def _close(self) -> list[Batch]:
        """Report the windows that closed with the last step, let their rows die."""
        if isinstance(self._positions, RowPositions) and self._partition_by:
            return self._close_partitions()
        before, after = self._positions.closed(())
        if before == after or isinstance(self._window, Unbounded):
            return []
        chosen = self._panes.below(int(after))
        out = self._report(chosen, np.maximum(chosen.first, before), np.minimum(chosen.last, after - 1), closing=True)
        self._panes.expire(int(after))
        if self._is_landmark:
            self._panes.fold()
        return out

    def _close_partitions(self) -> list[Batch]:
        chosen = self._panes.everything()
        before, after = self._positions.closed(self._layout.key_columns(chosen.rows, self._partition_by))
        out = self._report(chosen, np.maximum(chosen.first, before), np.minimum(chosen.last, after - 1), closing=True)
        self._panes.expired += self._panes.bury(chosen, chosen.last < after)
        return out

    def _report(self, chosen: Selection, first: Int64s, last: Int64s, closing: bool = False) -> list[Batch]:
        out = []
        for batch, windows in self._closing.results(chosen.rows, first, last):
            out.append(batch)
            self._totals["windows_closed"] += windows if closing else 0
        return out

    def _finish(self) -> list[Batch]:
        """Nothing more comes: report what may be reported of windows that did not close, forget all."""
        chosen, out = self._panes.everything(), []
        if isinstance(self._window, Unbounded):
            out = self._report(chosen, chosen.first, chosen.last)
        elif self._emit_partial and chosen.rows.num_rows:
            out = self._report_partial(chosen)
        self._panes.expired += self._panes.clear()
        if isinstance(self._positions, RowPositions):
            self._positions.finish()
        return out

    def _report_partial(self, chosen: Selection) -> list[Batch]:
        parts = self._layout.key_columns(chosen.rows, self._partition_by)
        first = np.maximum(chosen.first, self._positions.closed(parts)[1])
        last = chosen.last
        if self._is_landmark:
            last = np.minimum(last, self._positions.newest(parts))
        return self._report(chosen, first, last)

    def _on_punctuation(self, mark: Punctuation) -> Elements:
        if self._is_landmark or not mark.is_exploitable_for(self._keys):
            return []
        if isinstance(self._positions, RowPositions):
            self._held.append(mark)
            return self._released()
        chosen = self._panes.matching(self._on_stored(mark))
        last = chosen.last
        if isinstance(self._window, Framed) and not self._emit_partial:
            last = np.minimum(last, self._positions.completable - 1)
        out = self._report(chosen, np.maximum(chosen.first, self._panes.closed), last)
        self._totals["purged"] += self._panes.bury(chosen, np.ones(chosen.rows.num_rows, np.bool_))
        return [*out, self._passed_on(mark)]

    def _released(self) -> list[Batch | Punctuation]:
        """Punctuations over windows of rows that can go on, behind what they still had to wait for."""
        out: list[Batch | Punctuation] = []
        waiting = []
        for mark in self._held:
            assert isinstance(self._positions, RowPositions)
            inner = self._on_stored(mark)
            chosen = self._panes.matching(inner)
            if self._positions.waiting.holds_match(inner):
                waiting.append(mark)
            elif self._partition_by and mark.is_exploitable_for(self._partition_by):
                out += self._report_partial(chosen) if self._emit_partial else []
                self._totals["purged"] += self._panes.bury(chosen, np.ones(chosen.rows.num_rows, np.bool_))
                self._positions.forget(inner)
                out.append(self._passed_on(mark))
            elif chosen.rows.num_rows:
                waiting.append(mark)
            else:
                out.append(self._passed_on(mark))
        self._held = waiting
        return out

    def _on_stored(self, mark: Punctuation) -> Punctuation:
        return self._layout.on_stored(mark)

    def _passed_on(self, mark: Punctuation) -> Punctuation:
        projected = mark.project(self._keys)
        assert projected is not None
        return projected.extend(self.output_schema.names)

    def _promise(self) -> list[Heartbeat]:
        """A later result holds a row that is stored or waits, or one still to come: it cannot be older than these."""
        waiting = self._positions.waiting.oldest if isinstance(self._positions, RowPositions) else FOREVER
        promise = min(self._frontier, self._panes.oldest, waiting)
        if promise <= self._promised:
            return []
        self._promised = promise
        return [Heartbeat(promise)]

    def snapshot(self) -> State:
        panes, pane_segments = self._panes.snapshot()
        positions, position_segments = self._positions.snapshot()
        meta = {
            "frontier": self._frontier,
            "promised": self._promised,
            "held": [mark.to_json() for mark in self._held],
            "totals": dict(self._totals),
            "panes": panes,
            "positions": positions,
        }
        return State(meta, {**pane_segments, **position_segments})

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier, self._promised = meta["frontier"], meta["promised"]
        self._held = [Punctuation.from_json(mark) for mark in meta["held"]]
        self._totals = dict(meta["totals"])
        self._panes.restore(meta["panes"], state.segments)
        self._positions.restore(meta["positions"], state.segments)

    def counters(self) -> Mapping[str, int]:
        levels = self._panes.counters()
        if isinstance(self._positions, RowPositions):
            log = self._positions.waiting.log
            levels["state_rows"] += log.num_rows + self._positions.num_counters
            levels["state_bytes"] += log.num_bytes
            levels["segments"] += len(log)
        return {**levels, "expired": self._panes.expired, **self._totals}
