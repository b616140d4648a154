"""Filters whose answers stand in the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.experiments.agreedy.workload import correlated
from penstock.model.batch import Batch
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.predicates import OnArrow
from penstock.operators.filtering.static import UInt64s


def flag_batch(columns: list[list[bool | None]], start: int = 0) -> Batch:
    rows = pa.RecordBatch.from_arrays([pa.array(column, pa.bool_()) for column in columns], [f"b{i}" for i in range(len(columns))])
    places = np.arange(start, start + rows.num_rows)
    return Batch(rows, places.copy(), places)


def flag_filters(count: int, **declared) -> list[Filter]:
    """Filter i reads its answer from column i."""
    return [Filter(f"f{i}", OnArrow(lambda column: column, (f"b{i}",)), 1.0, **declared) for i in range(count)]


def flag_schema(count: int) -> pa.Schema:
    return pa.schema([(f"b{i}", pa.bool_()) for i in range(count)])


def drifting(rows: int = 6000) -> Batch:
    first = correlated(3, rows // 2, (0.9, 0.6, 0.3, 0.1))
    second = correlated(3, rows // 2, (0.1, 0.3, 0.6, 0.9), start=rows // 2)
    masks = np.concatenate([first, second])
    return flag_batch([(masks >> i & 1 == 0).tolist() for i in range(4)])


def scanned_view(words: UInt64s, order: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The view counted from the window alone, the slow and obvious way."""
    found = np.zeros((len(order), len(order)), np.int64)
    before = np.uint64(0)
    for row, number in enumerate(order):
        reaching = words[(words & before) == 0]
        for column in range(row, len(order)):
            found[row, column] = int(((reaching >> np.uint64(order[column])) & np.uint64(1)).sum())
        before |= np.uint64(1 << number)
    return found
