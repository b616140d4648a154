"""From stored rows to the results of windows that close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import order_codes
from penstock.columnar.hashing import hash_columns
from penstock.model.batch import Batch, Int64s
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.operators.group_by.layout import Groups, Layout
from penstock.operators.window_limit import refuse_too_many

#: Stored rows times windows that are held in memory at once; more windows are closed in several steps.
_MOST_ROWS = 2_000_000


class Closing:
    """Computes and shapes results.

    Parameters
    ----------
    layout
        Of the stored rows.
    schema
        Of the output: keys, aggregates, window columns.
    keys
        How many of the layout's keys are output; the others are partition columns.
    window, life
        Give a window's start and end.
    window_columns
        Names of the start and end in the output; an empty name is left out.
    """

    def __init__(
        self,
        layout: Layout,
        schema: pa.Schema,
        keys: int,
        window: Framed | Unbounded,
        life: Lifespan,
        window_columns: tuple[str, str],
    ) -> None:
        self._layout, self._schema, self._keys = layout, schema, keys
        self._window, self._life, self._window_columns = window, life, window_columns

    def results(self, rows: pa.RecordBatch, first: Int64s, last: Int64s) -> Iterator[tuple[Batch, int]]:
        """Results, window by window, and their number of windows.

        Parameters
        ----------
        rows
            Stored rows.
        first, last
            The windows wanted of each row; none where first > last.
        """
        chosen = np.flatnonzero(first <= last)
        if not len(chosen):
            return
        first, last = first[chosen], last[chosen]
        refuse_too_many(first, last, self._window)
        pending = [(int(first.min()), int(last.max()))]
        while pending:
            low, high = pending.pop()
            start, stop = np.maximum(first, low), np.minimum(last, high)
            lengths = np.maximum(stop - start + 1, 0)
            if low < high and lengths.sum(dtype=np.float64) > _MOST_ROWS:
                middle = (low + high) // 2
                pending += [(middle + 1, high), (low, middle)]
            elif lengths.any():
                index, windows = _spread(start, lengths)
                yield self._shaped(self._layout.results(rows, chosen[index], windows))

    def _shaped(self, groups: Groups) -> tuple[Batch, int]:
        order = _order(groups)
        take = pa.array(order)
        windows, ts = groups.windows[order], groups.ts[order]
        keys = [key.take(take) for key in groups.keys]
        values = [column.take(take) for column in groups.values]
        columns = [*keys[: self._keys], *values, *self._bounds(windows)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        # A name for the result that any batching and any restart gives it again.
        names = hash_columns([pa.array(windows), *keys], len(windows)) >> np.uint64(1)
        return Batch(rows, ts, names.astype(np.int64)), len(np.unique(windows))

    def _bounds(self, windows: Int64s) -> list[pa.Array]:
        wanted = [at for at in (0, 1) if self._window_columns[at]]
        kinds = [self._schema.field(self._window_columns[at]).type for at in wanted]
        if isinstance(self._window, Unbounded):
            return [pa.nulls(len(windows), kind) for kind in kinds]
        # Windows of rows are bounded by sequence numbers, which do not begin with the query's time.
        origin = 0 if self._window.in_rows else self._life.origin
        starts = origin + windows * self._window.move_start
        ends = origin + self._window.size + windows * self._window.move_end
        return [pa.array((starts, ends)[at], pa.int64()).cast(kind) for at, kind in zip(wanted, kinds, strict=True)]


def _spread(start: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s]:
    """Row numbers, each repeated for its windows, and the windows."""
    if (lengths == 1).all():
        return np.arange(len(start)), start
    index = np.repeat(np.arange(len(start)), lengths)
    ends = np.cumsum(lengths)
    return index, start[index] + np.arange(len(index)) - (ends - lengths)[index]


def _order(groups: Groups) -> Int64s:
    """By window, time and key. Keys decide ties, so that the order does not depend on batching."""
    columns = [*_tie_breakers(groups.keys), groups.ts, groups.windows]
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    if prod(spans) >= 2**63:
        return np.lexsort(columns)
    # One integer per row is sorted several times faster than columns one after the other.
    combined = np.zeros(len(groups.ts), np.int64)
    for column, low, span in reversed(list(zip(columns, lows, spans, strict=True))):
        combined = combined * span + (column - low)
    return np.argsort(combined)


def _tie_breakers(keys: Sequence[pa.Array]) -> list[Int64s]:
    columns: list[Int64s] = []
    for key in reversed(keys):
        if pa.types.is_nested(key.type):
            columns.append(hash_columns([key], len(key)).view(np.int64))
            continue
        codes, valid = order_codes(key)
        columns.append(codes)
        if key.null_count:
            columns.append(valid.astype(np.int64))
    return columns
