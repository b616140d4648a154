"""Dense group numbers and order-preserving numbers of column values.

Grouping, duplicate elimination and min/max all reduce to integers: equal values get equal *codes*, ordered values get
ordered *order codes*. Codes are exact: nothing here trusts a hash without comparing the values.

Values compare as in Spark: NULL is a value of its own, NaN equals NaN and is greater than every number, and -0.0
equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.compiling import njit
from penstock.model.batch import Int64s

Bools = npt.NDArray[np.bool_]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_NO_MASK = np.empty(0, np.bool_)


class Codes(NamedTuple):
    """`codes[i]` is the group of row i; `first_row[g]` the first row of group g; groups are numbered as first seen."""

    codes: Int64s
    first_row: Int64s
    number: int


def group_codes(columns: Sequence[pa.Array], rows: int = 0) -> Codes:
    """Number the distinct value tuples of some columns.

    Parameters
    ----------
    columns
        Key columns of equal length and any type. None at all: every row is in one group.
    rows
        The number of rows, needed only when there is no column.

    Examples
    --------
    >>> group_codes([pa.array([7, None, 7]), pa.array(["a", "a", "a"])])
    Codes(codes=array([0, 1, 0]), first_row=array([0, 1]), number=2)
    """
    if not columns:
        return Codes(np.zeros(rows, np.int64), np.zeros(min(rows, 1), np.int64), min(rows, 1))
    result = _column_codes(columns[0])
    for column in columns[1:]:
        other = _column_codes(column)
        if result.number <= 1:
            result = other
        elif other.number > 1:
            # Both factors are at most the number of rows, so the product stays far below 2**63.
            result = integer_codes(result.codes * other.number + other.codes)
    return result


def integer_codes(values: Int64s, valid: Bools = _NO_MASK) -> Codes:
    """`group_codes` of one integer column; rows that are not `valid` form a group of their own."""
    values, codes = owned(values), np.empty(len(values), np.int64)
    first = np.empty(len(values), np.int64)
    if not len(values):
        return Codes(codes, first, 0)
    low, high = int(values.min()), int(values.max())
    if high - low <= 2 * len(values) + 1024:
        number = _number_by_address(values, valid, low, high - low + 1, codes, first)
    else:
        number = _number_by_hash(values, valid, codes, first)
    return Codes(codes, first[:number], number)


def canonical(column: pa.Array) -> pa.Array:
    """The column with one representation per value: no -0.0, one NaN, no dictionary encoding."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_floating(column.type):
        return column
    # Adding zero turns -0.0 into 0.0; NaN payloads differ only in bits, so every NaN is replaced.
    positive = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan"), column.type), positive)


def order_codes(column: pa.Array) -> tuple[Int64s, Bools]:
    """Integers in the order of the values, and which rows are not NULL (their integers mean nothing otherwise).

    Examples
    --------
    >>> order_codes(pa.array(["b", "a", None, "c"]))[0][[0, 1, 3]]
    array([1, 0, 2])
    """
    column = canonical(column)
    valid = validity(column)
    if _is_fixed_integer(column.type):
        return as_integers(column), valid
    if pa.types.is_floating(column.type):
        bits = as_integers(column)
        # IEEE doubles order like sign-magnitude integers; the canonical NaN is positive and above infinity.
        return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits), valid
    encoded = column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    indices = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return (ranks[indices] if len(ranks) else np.zeros(len(column), np.int64)), valid


def validity(column: pa.Array) -> Bools:
    """True where the value is not NULL."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    result: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return result


def as_integers(column: pa.Array) -> Int64s:
    """Bits of a fixed-width column as int64; NULL becomes 0. Floats are widened to double first."""
    kind = column.type
    if pa.types.is_floating(kind):
        filled = pc.fill_null(column, pa.scalar(0.0, kind)) if column.null_count else column
        bits: Int64s = filled.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.int64)
        return bits
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if column.null_count:
        column = pc.fill_null(column, 0)
    result: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return result


def owned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, contiguous and writable: compiled loops then need one version only, not one per kind of memory."""
    return np.require(array, requirements=["C", "W"])


def shared(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, contiguous and never writable: for large inputs that a compiled loop only reads."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _is_fixed_integer(kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return True
    return bool(pa.types.is_temporal(kind) and kind.bit_width in (32, 64))


def _column_codes(column: pa.Array) -> Codes:
    column = canonical(column)
    if _is_fixed_integer(column.type) or pa.types.is_floating(column.type):
        return integer_codes(as_integers(column), validity(column) if column.null_count else _NO_MASK)
    if pa.types.is_nested(column.type):
        return _nested_codes(column)
    encoded = column.dictionary_encode().indices
    mask = validity(encoded) if encoded.null_count else _NO_MASK
    return integer_codes(as_integers(encoded), mask)


def _nested_codes(column: pa.Array) -> Codes:
    # Arrow cannot compare nested values; keys of such types are rare enough for a loop over their text.
    seen: dict[str, int] = {}
    return integer_codes(np.array([seen.setdefault(repr(value), len(seen)) for value in column.to_pylist()], np.int64))


@njit(cache=True)
def _number_by_address(values: Any, valid: Any, low: int, span: int, codes: Any, first: Any) -> int:  # pragma: no cover
    table = np.full(span, -1, np.int64)
    number, missing = 0, -1
    for i in range(len(values)):
        if len(valid) and not valid[i]:
            if missing < 0:
                missing = number
                first[number] = i
                number += 1
            codes[i] = missing
            continue
        code = table[values[i] - low]
        if code < 0:
            code = number
            table[values[i] - low] = code
            first[number] = i
            number += 1
        codes[i] = code
    return number


@njit(cache=True)
def _number_by_hash(values: Any, valid: Any, codes: Any, first: Any) -> int:  # pragma: no cover - compiled
    bits, number, missing = 10, 0, -1
    slots = np.full(1 << bits, -1, np.int64)
    for i in range(len(values)):
        if len(valid) and not valid[i]:
            if missing < 0:
                missing = number
                first[number] = i
                number += 1
            codes[i] = missing
            continue
        value = values[i]
        slot = _slot_of(value, bits)
        while slots[slot] >= 0 and values[slots[slot]] != value:
            slot = (slot + 1) & ((1 << bits) - 1)
        if slots[slot] < 0:
            slots[slot] = i
            codes[i] = number
            first[number] = i
            number += 1
            if number * 2 > 1 << bits:
                bits += 1
                slots = _grown(values, first[:number], bits, missing)
        else:
            codes[i] = codes[slots[slot]]
    return number


@njit(cache=True)
def _slot_of(value: Any, bits: Any) -> Any:  # pragma: no cover - compiled
    return np.int64((np.uint64(value) * _MIX) >> np.uint64(64 - bits))


@njit(cache=True)
def _grown(values: Any, first: Any, bits: int, missing: int) -> Any:  # pragma: no cover - compiled
    slots = np.full(1 << bits, -1, np.int64)
    for code in range(len(first)):
        if code != missing:
            slot = _slot_of(values[first[code]], bits)
            while slots[slot] >= 0:
                slot = (slot + 1) & ((1 << bits) - 1)
            slots[slot] = first[code]
    return slots
