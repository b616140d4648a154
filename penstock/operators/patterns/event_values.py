"""Values of events as the machine reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import as_integers, order_codes, validity
from penstock.model.batch import Int64s
from penstock.operators.patterns._machine import Values

_TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def values_of(columns: Sequence[pa.Array], rows: int, order: Int64s | None = None) -> Values:
    """Columns as integers and as floats of the same bits; texts are numbered in their order, all columns together.

    Parameters
    ----------
    columns, rows
        What conditions read, and the length of each.
    order
        The row at each place of the result; as they are, if not given.
    """
    ints, nulls = np.zeros((len(columns), rows), np.int64), np.zeros(rows, np.int64)
    texts = [number for number, column in enumerate(columns) if column.type in _TEXTS]
    numbered = order_codes(pa.concat_arrays([columns[number] for number in texts]))[0] if texts else ints
    for number, column in enumerate(columns):
        if number in texts:
            start = texts.index(number) * rows
            whole = numbered[start : start + rows]
        else:
            whole = as_integers(column)
        ints[number] = whole if order is None else whole[order]
        if column.null_count:
            missing = ~validity(column)
            nulls |= (missing if order is None else missing[order]).astype(np.int64) << number
    return Values(ints, ints.view(np.float64), nulls)
