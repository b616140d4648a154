"""Values that no operator, destination or message can handle: texts that are not UTF-8, times outside the calendar.

A record that holds one is set apart as a whole, as one that did not parse. Where rows enter, each column is asked once; only
a batch with damage is looked at value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.masks import Mask, booleans
from penstock.model.scalars import plain

#: Column with what is wrong about a record; NULL if it is sound.
BAD = "_bad"

#: The first and the last day of the calendar.
CALENDAR_DAYS = ((date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days)
#: The first and the last microsecond of the calendar.
CALENDAR = (plain(datetime.min), plain(datetime.max))


def set_damage_apart(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with NULL for every damaged value, and what was there in the column `_bad`.

    Examples
    --------
    >>> rows = pa.RecordBatch.from_arrays([pa.array([b"ok", b"\\xff"]).view(pa.string())], names=["name"])
    >>> set_damage_apart(rows).to_pylist()
    [{'name': 'ok', '_bad': None}, {'name': None, '_bad': "column 'name' is not UTF-8: \\\\xff"}]
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    damaged = {name: mask for name, column in columns.items() if (mask := _damage(column)) is not None}
    if not damaged:
        return rows
    reasons = _texts(columns.pop(BAD, pa.nulls(rows.num_rows, pa.string())))
    for name, mask in damaged.items():
        if name != BAD:
            for at in np.flatnonzero(mask).tolist():
                reasons[at] = "; ".join(filter(None, (reasons[at], _complaint(name, columns[name], at))))
            columns[name] = pc.if_else(pa.array(mask), pa.scalar(None, columns[name].type), columns[name])
    return pa.RecordBatch.from_pydict({**columns, BAD: pa.array(reasons, pa.string())})


def is_damaged(rows: pa.RecordBatch) -> bool:
    """Whether any value is; costs one look at each column."""
    return any(_damage(column) is not None for column in rows.columns)


def can_be_damaged(kind: pa.DataType) -> bool:
    """Whether values of the type can be: texts, dates and times in microseconds.

    Examples
    --------
    >>> [can_be_damaged(kind) for kind in (pa.string(), pa.date32(), pa.int64())]
    [True, True, False]
    """
    kinds = pa.types
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind)
    return bool(is_text or kinds.is_date32(kind) or (kinds.is_timestamp(kind) and kind.unit == "us"))


def _damage(column: pa.Array) -> Mask | None:
    """Which values are damaged; None if all are sound."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _unless(_is_utf8(column), lambda: np.array([_repaired(value) is not None for value in _bytes(column)], np.bool_))
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _outside(column.view(pa.int64()), *CALENDAR)
    return _outside(column.view(pa.int32()), *CALENDAR_DAYS) if pa.types.is_date32(kind) else None


def _unless(is_sound: bool, look: Callable[[], Mask]) -> Mask | None:
    return None if is_sound else look()


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _outside(numbers: pa.Array, low: int, high: int) -> Mask | None:
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is None or (extremes["min"] >= low and extremes["max"] <= high):
        return None
    return booleans(pc.fill_null(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), False))


def _bytes(column: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return values


def _repaired(value: bytes | None) -> str | None:
    """The text with escapes for bytes that are not UTF-8; None if there are none."""
    try:
        if value is not None:
            value.decode()
    except UnicodeDecodeError:
        assert value is not None
        return value.decode(errors="backslashreplace")
    return None


def _texts(column: pa.Array) -> list[str | None]:
    return [None if value is None else value.decode(errors="backslashreplace") for value in _bytes(column)]


def _complaint(name: str, column: pa.Array, at: int) -> str:
    if pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type):
        unit = "microseconds" if pa.types.is_timestamp(column.type) else "days"
        number = column.view(pa.int64() if unit == "microseconds" else pa.int32())[at].as_py()
        return f"column '{name}' is outside the years 1 to 9999: {number} {unit} after 1970"
    return f"column '{name}' is not UTF-8: {_texts(column.slice(at, 1))[0]}"


def shown(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as plain values for people; what Python has no value for is shown as text."""
    columns = {name: _shown(column) for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _shown(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # also of Unicode
        return [_shown_value(column, at) for at in range(len(column))]
    return values


def _shown_value(column: pa.Array, at: int) -> Any:
    try:
        return column[at].as_py()
    except (ValueError, OverflowError):
        return f"unreadable {column.type}"
