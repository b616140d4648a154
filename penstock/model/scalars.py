"""Attribute values as patterns hold them: one Python form per value, one total order, one JSON encoding.

Clock times are integers of microseconds here, so that a pattern on a timestamp is an integer pattern. NaN follows
Spark: it equals itself and is greater than every other number; -0.0 equals 0.0.
"""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Scalar: TypeAlias = bool | int | float | Decimal | str | bytes | date | None

#: The only NaN patterns hold: sets and tuples find an element by identity first, so one object makes NaN equal itself.
NAN = float("nan")

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def plain(value: Any) -> Any:
    """Return the one form of `value` that patterns hold.

    Examples
    --------
    >>> plain(datetime(1970, 1, 1, 0, 0, 1)), plain(np.int32(7)), plain(-0.0)
    (1000000, 7, 0.0)
    """
    if value is None or type(value) in (int, str, bool, bytes):
        return value
    if isinstance(value, np.datetime64):
        return _plain_datetime64(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, pa.Scalar):
        return plain(value.as_py())
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    if isinstance(value, Decimal):
        return NAN if value.is_nan() else value
    if isinstance(value, datetime):
        return _microseconds(value)
    return value


def _plain_datetime64(value: np.datetime64) -> Any:
    if np.isnat(value):
        return None
    if np.datetime_data(value)[0] == "D":
        return value.item()
    return int(value.astype("datetime64[us]").astype(np.int64))


def _microseconds(value: datetime) -> int | None:
    if value != value:  # pandas' NaT is a datetime
        return None
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return int((aware - _UNIX_EPOCH) // _MICROSECOND)


def family(value: Any) -> str:
    """Name the values `value` can be compared with.

    Examples
    --------
    >>> family(3), family(2.5), family("x"), family(None)
    ('number', 'number', 'text', 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | Decimal):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, date):
        return "date"
    return "bytes" if isinstance(value, bytes) else type(value).__name__


def type_family(kind: pa.DataType) -> str | None:
    """Family of the values of an Arrow type; None when patterns know nothing about the type."""
    types = pa.types
    if types.is_dictionary(kind):
        return type_family(kind.value_type)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    if number or types.is_timestamp(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_date(kind):
        return "date"
    return "bytes" if types.is_binary(kind) or types.is_large_binary(kind) else None


def sort_key(value: Any) -> tuple[Any, ...]:
    """Order values of all families: NULL first, then by family, NaN after every number."""
    if value is None:
        return ("",)
    if value is NAN or value != value:
        return ("number", True, 0)
    return (family(value), False, value)


def fits(value: Any, kind: pa.DataType) -> bool:
    """Whether an attribute of type `kind` can be compared with `value` at all; NULL fits everywhere."""
    if value is None:
        return True
    expected = type_family(kind)
    if expected != "number":
        return expected is None or expected == family(value)
    return family(value) == "number" and isinstance(value, bool) == pa.types.is_boolean(kind)


def encode(value: Any) -> Any:
    """JSON form of a value that `decode` turns back without loss.

    Examples
    --------
    >>> encode(float("inf")), encode(date(2004, 11, 8)), encode(3)
    ({'float': 'inf'}, {'date': '2004-11-08'}, 3)
    """
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    return value


def decode(coded: Any) -> Any:
    """Inverse of `encode`."""
    if not isinstance(coded, dict):
        return plain(coded)
    ((tag, text),) = coded.items()
    if tag == "float":
        return plain(float(text))
    if tag == "date":
        return date.fromisoformat(text)
    return base64.b64decode(text) if tag == "bytes" else Decimal(text)


def readable(value: Any) -> str:
    """Text of a value inside a printed pattern."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value != value:
        return "NaN"
    return repr(value) if isinstance(value, str | bytes) else str(value)
