"""One 64-bit hash for any key columns: it routes rows to shards and orders join segments.

Values that SQL calls equal hash equal: -0.0 and 0.0, all NaNs, equal strings whatever their Arrow layout. The hash is a
function of the value only, so it is the same on every machine and in every version of this file (stored state relies on it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.compiling import njit

UInt64s = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_NO_BOUNDS = np.frombuffer(bytes(4), np.int32)


@njit(cache=True)
def _mix(x: Any) -> Any:
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _hash_words(words: Any, out: Any) -> None:
    for i in range(len(words)):
        out[i] = _mix(out[i] * np.uint64(31) + _mix(words[i] + np.uint64(0x9E3779B97F4A7C15)))


@njit(cache=True)
def _hash_bytes(offsets: Any, data: Any, out: Any) -> None:
    prime = np.uint64(0x100000001B3)
    for i in range(len(offsets) - 1):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * prime
        out[i] = _mix(out[i] * np.uint64(31) + _mix(h))


@njit(cache=True)
def mixed(left: Any, right: Any) -> Any:
    """Position of a row made of two others: a hash, so that it does not depend on when they met."""
    h = _mix(_mix(np.uint64(left) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(31) + np.uint64(right))
    return np.int64(h >> np.uint64(1))


@njit(cache=True)
def mix_positions(left: Any, right: Any) -> Any:
    """`mixed` for two columns."""
    out = np.empty(len(left), np.int64)
    for i in range(len(left)):
        out[i] = mixed(left[i], right[i])
    return out


def hash_columns(columns: Sequence[pa.Array], rows: int) -> UInt64s:
    """Hash of each row's values in `columns` (none: all rows hash to 0).

    Examples
    --------
    >>> zero, minus_zero = hash_columns([pa.array([0.0, -0.0])], 2)
    >>> bool(zero == minus_zero)
    True
    """
    out: UInt64s = np.zeros(rows, np.uint64)
    for column in columns:
        _fold(column, out)
    return out


def _fold(column: pa.Array, out: UInt64s) -> None:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    before = out.copy() if column.null_count else None
    words = fixed_words(column)
    if words is not None:
        _hash_words(words, out)
    else:
        offsets, data = _short_layout(column) if pa.types.is_string(column.type) else byte_layout(column)
        _hash_bytes(offsets, data, out)
    if before is not None:
        null = column.is_null().to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            out[null] = before[null] * np.uint64(31) + _NULL


def fixed_words(column: pa.Array) -> UInt64s | None:
    """Values of a fixed-width column as 64-bit words, equal exactly where the values are; None for other types."""
    kind = column.type
    if pa.types.is_floating(kind):
        # A call costs more than the values of a small column, so none is made for nothing.
        column = pc.fill_null(column, 0.0) if column.null_count else column
        column = column if pa.types.is_float64(kind) else column.cast(pa.float64())
        values = column.to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        words: UInt64s = values.view(np.uint64)
        is_nan = np.isnan(values)
        return np.where(is_nan, np.uint64(0x7FF8000000000000), words) if is_nan.any() else words
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        column = column.view(pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    if column.null_count:
        column = pc.fill_null(column, 0)
    integers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return integers.view(np.uint64)


def _short_layout(column: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """The same as `byte_layout` for texts as they are, without a copy."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1] if len(column) else _NO_BOUNDS
    return bounds, np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)


def byte_layout(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and bytes of a string-like column; other types are compared by their text."""
    if not (pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)):
        text = pa.types.is_string(column.type) or pa.types.is_string_view(column.type)
        if pa.types.is_binary(column.type) or pa.types.is_binary_view(column.type) or pa.types.is_fixed_size_binary(column.type):
            column = column.cast(pa.large_binary())
        else:
            column = column.cast(pa.large_string()) if text else column.cast(pa.string()).cast(pa.large_string())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    if len(bounds) == 0:
        bounds = np.zeros(1, np.int64)
    return bounds, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
