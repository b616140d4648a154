"""Constants as they are written: numbers and moments."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa

from penstock.expressions.casts import cast
from penstock.expressions.nodes import Literal
from penstock.expressions.typing import DATE, DOUBLE, INT, LONG, STRING, is_castable
from penstock.model.schema import TIMESTAMP

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def number(text: str) -> Literal | None:
    """An int where it fits, else a bigint, else nothing; a double when it is written with a point or an exponent.

    Spark reads 1.5 as a decimal; Penstock knows no decimals.

    Examples
    --------
    >>> number("2147483648"), number("1.50")
    (Literal(value=2147483648, type=DataType(int64)), Literal(value=1.5, type=DataType(double)))
    """
    if not text.lstrip("-").isdigit():
        double = float(text)
        return Literal(double, DOUBLE) if math.isfinite(double) else None
    value = int(text)
    if -(2**31) <= value < 2**31:
        return Literal(value, INT)
    return Literal(value, LONG) if -(2**63) <= value < 2**63 else None


def shortened(text: str) -> str:
    """A word for a message: of a very long one the ends."""
    return text if len(text) <= 60 else f"{text[:20]}…{text[-20:]} ({len(text)} digits)"


def no_decimals(written: str) -> str:
    """The sentence for a type that Penstock does not have."""
    return f"{written.upper()} is not available: numbers with a point are DOUBLE; for exact amounts use BIGINT, such as cents"


def moment_micros(text: str) -> int | None:
    """Microseconds since the epoch of an ISO 8601 moment, UTC where it names no zone; None when it is none."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // _MICROSECOND


def folded_cast(literal: Literal, kind: pa.DataType) -> Literal | None:
    """The constant that `CAST(literal AS kind)` is, None when it has none; text may name a date or a moment here."""
    if literal.value is None or literal.type == kind:
        return Literal(literal.value, kind, literal.place)
    if literal.type == STRING and kind == TIMESTAMP:
        value: object = moment_micros(literal.value)
    elif literal.type == STRING and kind == DATE:
        moment = moment_micros(literal.value)
        value = None if moment is None else (_EPOCH + dt.timedelta(microseconds=moment)).date()
    elif is_castable(literal.type, kind):
        result = cast(literal.type, kind)(pa.scalar(literal.value, literal.type))
        value = result.value if kind == TIMESTAMP else result.as_py()
    else:
        value = None
    return None if value is None else Literal(value, kind, literal.place)
