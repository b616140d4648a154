"""Named expressions of each row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import Column, Expr
from penstock.model.batch import Batch
from penstock.model.elements import Elements, End, Metadata
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import ANY, Pattern
from penstock.operators.base import Stateless


class Project(Stateless):
    """Compute the select list.

    A punctuation passes if it restricts only attributes that are kept as they are; on attributes that are removed or only
    used inside expressions it must be `*`, because rows that differ there could still come.
    """

    def __init__(self, input_schema: pa.Schema, items: Sequence[tuple[str, Expr]], output_schema: pa.Schema) -> None:
        self.items = tuple(items)
        self.output_schema = output_schema
        self._kept = {expr.name.lower(): name for name, expr in reversed(self.items) if isinstance(expr, Column)}

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        columns = [evaluate(expr, batch.rows) for _, expr in self.items]
        cast = [
            column if column.type == item.type else column.cast(item.type)
            for column, item in zip(columns, self.output_schema, strict=True)
        ]
        return (batch.with_rows(pa.RecordBatch.from_arrays(cast, schema=self.output_schema)),)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, End):
            return ()
        if not isinstance(mark, Punctuation):
            return (mark,)
        patterns: dict[str, Pattern] = dict.fromkeys(self.output_schema.names, ANY)
        for name, pattern in mark.restricted.items():
            if name.lower() not in self._kept:
                return ()
            patterns[self._kept[name.lower()]] = pattern
        return (Punctuation(tuple(patterns), tuple(patterns.values()), mark.ts, mark.pos, mark.is_global),)
