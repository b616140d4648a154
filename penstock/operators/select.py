"""Rows for which a condition holds."""

from __future__ import annotations

import pyarrow as pa

from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.model.batch import Batch
from penstock.model.elements import Elements
from penstock.operators.base import Stateless


class Select(Stateless):
    """Keep rows whose condition is true; NULL is not true. Every punctuation passes: fewer rows break no promise."""

    def __init__(self, input_schema: pa.Schema, condition: Expr) -> None:
        self.condition = condition

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        return (batch.filter(mask(self.condition, batch.rows)),)


class GroupFilter(Select):
    """HAVING: a select over the output of a grouping."""
