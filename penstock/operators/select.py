"""Rows for which a condition holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.kernel.row_filters import FilterResult
from penstock.model.batch import Batch
from penstock.model.elements import Elements
from penstock.operators.base import Stateless


class Select(Stateless):
    """Keep rows whose condition is true; NULL is not true. Every punctuation passes: fewer rows break no promise."""

    #: What it raises ends the query; no row is set apart.
    failure = ""

    def __init__(self, input_schema: pa.Schema, condition: Expr) -> None:
        self.condition = condition

    def filter_rows(self, batch: Batch) -> FilterResult:
        return FilterResult(np.flatnonzero(mask(self.condition, batch.rows)))

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        return (batch.filter(mask(self.condition, batch.rows)),)


class GroupFilter(Select):
    """HAVING: a select over the output of a grouping."""
