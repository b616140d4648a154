"""Batches for tests of shedders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch


def batch(values: Sequence[float | None], first: int = 0) -> Batch:
    """Rows with these values at positions from `first` on."""
    places = np.arange(first, first + len(values))
    return Batch(pa.RecordBatch.from_pydict({"value": pa.array(list(values), pa.float64())}), places, places)


def pieces(values: Sequence[float | None], sizes: Sequence[int]) -> list[Batch]:
    """The same rows in batches of these sizes, over and over."""
    found, first, turn = list[Batch](), 0, 0
    while first < len(values):
        size = max(sizes[turn % len(sizes)], 1)
        found.append(batch(values[first : first + size], first))
        first, turn = first + size, turn + 1
    return found
