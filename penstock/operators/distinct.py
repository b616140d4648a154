"""Duplicate elimination: the first of equal rows in each window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.aggregate import greatest_of
from penstock.columnar.codes import Bools, canonical, group_codes
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER, NEVER, Control, Elements, End, Heartbeat, Metadata
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.operators.group_by.sequencing import RowPositions, TimePositions
from penstock.operators.segments import SegmentLog, sizes_of
from penstock.operators.waiting import Waiting, check_promise
from penstock.operators.window_limit import refuse_too_many

_MOST_SEGMENTS = 8
#: Column of remembered rows: the last window in which the value has been reported.
_UNTIL = "_until"


class Distinct:
    """The first row of each distinct value in each window, by time and position.

    Rows wait until the frontier has passed them, because an earlier one may still come; then the first in a window is
    passed on at once, with its own time and position, once for every window it is first in. It does not matter whether
    a window is ever completed. In landmark windows, and without a window, a value is reported once.

    Parameters
    ----------
    input_schema
        Columns of the input, and of the output; all are compared. NULL equals NULL, NaN equals NaN.
    window
        Values are remembered until the last window they were seen in has closed.
    life
        Rows outside are counted and ignored.

    Notes
    -----
    A punctuation passes unchanged when no row that waits matches it; values that match it are forgotten.

    References
    ----------
    [tucker2003] Tucker, Maier, Sheard, Fegaras. Exploiting Punctuation Semantics in Continuous Data Streams. TKDE 2003,
    duplicate elimination.

    Examples
    --------
    >>> seen = Distinct(pa.schema({"x": pa.int64()}), Unbounded(), Lifespan())
    >>> rows = pa.RecordBatch.from_pydict({"x": [7, 7, 8]})
    >>> seen.on_batch(0, Batch(rows, np.array([5, 3, 9]), np.array([0, 1, 2])))
    ()
    >>> first, _ = seen.on_metadata(0, Heartbeat(9))
    >>> first.rows.to_pylist(), first.ts.tolist()
    ([{'x': 7}], [3])
    """

    def __init__(self, input_schema: pa.Schema, window: Framed | Unbounded, life: Lifespan) -> None:
        self.output_schema = input_schema
        self._window, self._life = window, life
        self._parts = window.partition_by if isinstance(window, Framed) else ()
        self._is_landmark = isinstance(window, Framed) and window.is_landmark
        self._numbering: RowPositions | None = None
        if isinstance(window, Framed) and window.in_rows:
            self._numbering = RowPositions(window, input_schema, window.partition_by)
        self._waiting = self._numbering.waiting if self._numbering else Waiting(input_schema)
        self._clock = TimePositions(window, life)
        self._known = SegmentLog("known")
        self._known_schema = pa.schema([*input_schema, pa.field(_UNTIL, pa.int64())])
        self._held: list[Punctuation] = []
        self._frontier = NEVER
        self._totals = {"expired": 0, "purged": 0, "in_gap": 0, "outside_life": 0}

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        check_promise(batch, self._frontier)
        inside = self._life.holds(batch.ts)
        self._totals["outside_life"] += int((~inside).sum())
        self._waiting.add(batch.filter(inside))
        return ()

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            if mark.ts <= self._frontier:
                return ()
            self._frontier = mark.ts
            return [*self._advance(mark.ts), mark]
        if isinstance(mark, Punctuation):
            self._held.append(mark)
            return self._released()
        return self._advance(FOREVER) if isinstance(mark, End) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        return ()

    def _advance(self, frontier: int) -> list[Batch | Punctuation]:
        rows, first, last = self._placed(frontier)
        inside = first <= last
        self._totals["in_gap"] += int((~inside).sum())
        out: list[Batch | Punctuation] = []
        if inside.any():
            found = self._firsts(rows.filter(inside), first[inside], last[inside])
            out += [found] if found.num_rows else []
        self._forget_closed(frontier)
        return [*out, *self._released()]

    def _placed(self, frontier: int) -> tuple[Batch, Int64s, Int64s]:
        """Rows that may be judged, with their first and last window."""
        if self._numbering:
            rows, first, last = self._numbering.advance(frontier)
        else:
            rows, first, last = self._clock.arrive(self._waiting.release(frontier))
            self._clock.advance(frontier)
        if self._is_landmark:
            # Every later landmark window holds the row again: one window stands for all.
            first = last = np.zeros(rows.num_rows, np.int64)
        return rows, first, last

    def _firsts(self, rows: Batch, first: Int64s, last: Int64s) -> Batch:
        """Each row as often as there are windows in which no equal row came before it; remembers the new values."""
        known = self._known.whole(self._known_schema)
        columns = [canonical(column) for column in rows.rows.columns]
        pairs = zip(known.columns, columns, strict=False)
        codes, _, number = group_codes([pa.concat_arrays([old, new]) for old, new in pairs])
        reported = greatest_of(int64s(known.column(_UNTIL)), codes[: known.num_rows], number)
        own = codes[known.num_rows :]
        before = np.maximum(reported[own], self._clock.least - 1)
        # Rows come in order, so the last window of equal rows only rises: the row just before it decides.
        order = np.argsort(own, kind="stable")
        same = own[order][1:] == own[order][:-1]
        before[order[1:][same]] = last[order[:-1][same]]
        start = np.maximum(first, before + 1)
        refuse_too_many(start, last, self._window)
        copies = np.maximum(last - start + 1, 0)
        self._remember(columns, last, np.flatnonzero(copies))
        return rows.take(np.repeat(np.arange(rows.num_rows), copies))

    def _remember(self, columns: list[pa.Array], last: Int64s, new: Int64s) -> None:
        if len(new):
            kept = [column.take(pa.array(new)) for column in columns]
            self._known.add(pa.RecordBatch.from_arrays([*kept, pa.array(last[new])], schema=self._known_schema))

    def _forget_closed(self, frontier: int) -> None:
        """Drop values whose windows have closed, and join many small segments."""
        if frontier >= self._life.end:
            self._totals["expired"] += self._known.num_rows
            self._known.clear()
        for number in self._known:
            alive = self._alive(self._known[number])
            if 2 * int(alive.sum()) < len(alive):
                self._totals["expired"] += self._keep([number], alive)
        if len(self._known) > _MOST_SEGMENTS:
            numbers = list(self._known)
            self._totals["expired"] += self._keep(numbers, self._alive(self._known.whole(self._known_schema)))

    def _alive(self, known: pa.RecordBatch) -> Bools:
        until = int64s(known.column(_UNTIL))
        if isinstance(self._window, Unbounded) or self._is_landmark:
            return np.ones(len(until), np.bool_)
        source = self._numbering or self._clock
        return until >= source.closed([known.column(name) for name in self._parts])[1]

    def _keep(self, numbers: list[int], mask: Bools) -> int:
        """Replace segments by their rows under the mask; returns how many rows went."""
        rows = pa.concat_batches([self._known[number] for number in numbers])
        for number in numbers:
            self._known.drop(number)
        if mask.any():
            self._known.add(rows.take(pa.array(np.flatnonzero(mask))))
        return int((~mask).sum())

    def _released(self) -> list[Batch | Punctuation]:
        """Held punctuations that no waiting row matches; the values they close are forgotten."""
        ready = [mark for mark in self._held if not self._waiting.holds_match(mark)]
        self._held = [mark for mark in self._held if mark not in ready]
        for mark in ready:
            for number in list(self._known):
                matched = mark.matches_batch(self._known[number])
                if matched.any():
                    self._totals["purged"] += self._keep([number], ~matched)
            if self._numbering and mark.is_exploitable_for(self._parts):
                self._numbering.forget(mark)
        return list(ready)

    def snapshot(self) -> State:
        clock, _ = self._clock.snapshot()
        numbering, segments = self._numbering.snapshot() if self._numbering else ({}, self._waiting.log.stored())
        meta = {
            "frontier": self._frontier,
            "held": [mark.to_json() for mark in self._held],
            "totals": dict(self._totals),
            "next": [self._waiting.log.next, self._known.next],
            "clock": clock,
            "numbering": numbering,
        }
        return State(meta, {**segments, **self._known.stored()})

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._frontier = meta["frontier"]
        self._held = [Punctuation.from_json(mark) for mark in meta["held"]]
        self._totals = dict(meta["totals"])
        self._clock.restore(meta["clock"], state.segments)
        if self._numbering:
            self._numbering.restore(meta["numbering"], state.segments)
        else:
            self._waiting.reload(meta["next"][0], state.segments)
        self._known.reload(meta["next"][1], state.segments)

    def counters(self) -> Mapping[str, int]:
        return {**sizes_of((self._waiting.log, self._known)), **self._totals}
