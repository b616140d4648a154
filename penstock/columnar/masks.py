"""Masks of NULLs that say nothing."""

from __future__ import annotations

import pyarrow as pa


def without_idle_masks(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows; columns without a NULL lose the mask that says so.

    Spark sends one with every column, and taking rows lasts twice as long where there is one.

    Examples
    --------
    >>> masked = pa.array([1, 2, None])[:2]
    >>> masked.buffers()[0] is None
    False
    >>> without_idle_masks(pa.record_batch({"a": masked})).column("a").buffers()[0] is None
    True
    """
    return pa.RecordBatch.from_arrays([_without_idle_mask(column) for column in rows.columns], schema=rows.schema)


def _without_idle_mask(column: pa.Array) -> pa.Array:
    buffers = column.buffers()
    if pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType) or pa.types.is_dictionary(column.type):
        return column
    if not buffers or buffers[0] is None or column.null_count:
        return column
    return pa.Array.from_buffers(column.type, len(column), [None, *buffers[1:]], 0, column.offset)
