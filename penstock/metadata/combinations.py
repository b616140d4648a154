"""Membership of rows in a set of value combinations, column by column instead of row by row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.masks import Mask, comparable, is_natural, representable

Int64s = npt.NDArray[np.int64]


def combinations_in(arrays: Sequence[pa.Array], wanted: Collection[tuple[Any, ...]]) -> Mask:
    """Which rows of several columns form one of the wanted combinations; NULL is a value here.

    Columns are taken from left to right: each row carries the number of the wanted prefix it has matched so far, or -1.

    Examples
    --------
    >>> combinations_in([pa.array([1, 1, 2]), pa.array(["x", "y", "y"])], {(1, "y"), (2, "x")}).tolist()
    [False, True, False]
    """
    columns = [comparable(array) for array in arrays]
    possible = _possible(wanted, [column.type for column in columns])
    rows = np.zeros(len(columns[0]), np.int64)
    prefixes = np.zeros(len(possible), np.int64)
    if not possible:
        return np.zeros(len(rows), np.bool_)
    for column, values in zip(columns, zip(*possible, strict=True), strict=True):
        listed = pa.array(values, column.type)
        distinct = pc.unique(listed)
        wanted_keys = prefixes * len(distinct) + _codes(listed, distinct)
        codes = _codes(column, distinct)
        row_keys = np.where((rows < 0) | (codes < 0), -1, rows * len(distinct) + codes)
        known = np.unique(wanted_keys)
        rows, prefixes = _numbered(row_keys, known), _numbered(wanted_keys, known)
    matched: Mask = rows >= 0
    return matched


def _possible(wanted: Collection[tuple[Any, ...]], kinds: list[pa.DataType]) -> list[tuple[Any, ...]]:
    """The combinations whose values the columns can hold at all."""
    rows = list(wanted)
    natural = all(is_natural(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True))
    # Integers may still be too large for a narrow column, so only other natural values go unchecked.
    if natural and not any(pa.types.is_integer(kind) and kind != pa.int64() for kind in kinds):
        return rows
    return [row for row in rows if all(_holds(kind, value) for value, kind in zip(row, kinds, strict=True))]


def _holds(kind: pa.DataType, value: Any) -> bool:
    return value is None or bool(representable((value,), kind))


def _codes(values: pa.Array, distinct: pa.Array) -> Int64s:
    codes: Int64s = pc.index_in(values, distinct).fill_null(-1).to_numpy().astype(np.int64)
    return codes


def _numbered(keys: Int64s, known: Int64s) -> Int64s:
    """Position of each key among the known ones, -1 where it is unknown."""
    position = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[position] == keys, position, -1)
