"""Rows that can be events at all."""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np

from penstock.columnar.codes import Bools, validity
from penstock.model.batch import Batch
from penstock.model.elements import Quarantined

_NO_KEY = "an event without key belongs to no trace"


def accepted(batch: Batch, key: tuple[str, ...], totals: MutableMapping[str, int]) -> tuple[Batch, tuple[Quarantined, ...]]:
    """Rows with a key, and the others with the reason; `null_keys` are counted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows, counts = pa.RecordBatch.from_pydict({"id": [1, None]}), {"null_keys": 0}
    >>> good, refused = accepted(Batch(rows, np.array([3, 4]), np.arange(2)), ("id",), counts)
    >>> good.num_rows, [each.reason for each in refused], counts["null_keys"]
    (1, ['null_key'], 1)
    """
    if not any(batch.column(name).null_count for name in key):
        return batch, ()
    keyed: Bools = np.ones(batch.num_rows, np.bool_)
    for name in key:
        if batch.column(name).null_count:
            keyed &= validity(batch.column(name))
    totals["null_keys"] += int(np.count_nonzero(~keyed))
    return batch.filter(keyed), (Quarantined(batch.filter(~keyed), "null_key", _NO_KEY),)
