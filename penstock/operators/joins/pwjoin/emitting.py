"""From row numbers and key numbers back to rows and punctuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.matching import newest_and_place
from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.model.batch import Batch, Int64s
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import ANY, Pattern
from penstock.operators.joins.pwjoin.keys import BookCodes, OrdinalCodes
from penstock.operators.joins.pwjoin.rows import RowStore
from penstock.operators.joins.pwjoin.trace import Marks

#: Results are handed on in pieces of about this many rows.
OUTPUT_ROWS = 1 << 20


class ResultRows:
    """Makes rows of combinations: the columns of all inputs side by side, as far as the output has them."""

    def __init__(self, stores: Sequence[RowStore], output: pa.Schema, residual: Expr | None) -> None:
        self._stores = tuple(stores)
        self._output = output
        self._residual = residual
        wanted = set(output.names)
        self._chosen = [[at for at, name in enumerate(store.schema.names) if name in wanted] for store in stores]

    def batches(self, found: Int64s) -> list[Batch]:
        pieces = [found[start : start + OUTPUT_ROWS] for start in range(0, len(found), OUTPUT_ROWS)]
        return [batch for piece in pieces if (batch := self._batch(piece)).num_rows]

    def _batch(self, found: Int64s) -> Batch:
        columns: list[pa.Array] = []
        ts, pos = np.empty(0, np.int64), np.empty(0, np.int64)
        for port, store in enumerate(self._stores):
            source, places = store.gather(np.ascontiguousarray(found[:, port]))
            taken = pa.array(places)
            columns += [source.rows.column(at).take(taken) for at in self._chosen[port]]
            if port == 0:
                ts, pos = source.ts[places], source.pos[places]
            else:
                newest_and_place(ts, pos, source.ts, source.pos, places)
        result = Batch(pa.RecordBatch.from_arrays(columns, schema=self._output), ts, pos)
        return result if self._residual is None else result.filter(mask(self._residual, result.rows))


class OutputMarks:
    """States what has left a join. All key columns of a result are equal, so it is stated once for each of them."""

    def __init__(self, keys: Sequence[Sequence[str]], output: pa.Schema, codes: OrdinalCodes | BookCodes) -> None:
        self._keys = [names for names in keys if set(names) <= set(output.names)]
        self._all_keys = tuple(map(tuple, keys))
        self._names = tuple(output.names)
        self._codes = codes

    def stated(self, marks: Marks) -> list[Punctuation]:
        """Single keys together, then ranges."""
        is_single = marks.lows == marks.highs
        patterns = self._codes.singles(np.unique(marks.lows[is_single]))
        if isinstance(self._codes, OrdinalCodes):
            wide = zip(marks.lows[~is_single].tolist(), marks.highs[~is_single].tolist(), strict=True)
            patterns += [(self._codes.range(low, high),) for low, high in wide]
        return [mark for pattern in patterns for mark in self._for_each_input(pattern)]

    def _for_each_input(self, patterns: Sequence[Pattern]) -> list[Punctuation]:
        if all(pattern.is_wildcard for pattern in patterns):
            return [self._over({})]
        return [self._over(dict(zip(names, patterns, strict=True))) for names in self._keys]

    def extended(self, port: int, mark: Punctuation) -> list[Punctuation]:
        """A punctuation of an input as one of the output; none if it speaks of a column the output does not have."""
        restricted = mark.restricted
        if set(restricted) <= set(self._all_keys[port]):
            return self._for_each_input([mark.pattern(name) for name in self._all_keys[port]])
        return [self._over(restricted)] if set(restricted) <= set(self._names) else []

    def _over(self, patterns: Mapping[str, Pattern]) -> Punctuation:
        return Punctuation(self._names, tuple(patterns.get(name, ANY) for name in self._names))
