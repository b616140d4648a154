"""Casts between Arrow columns, NULL where a value has no counterpart: what Spark's `try_cast` gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions import clock
from penstock.expressions.distinct_values import by_distinct_value
from penstock.expressions.numeric import Datum, column, nulls, saturated, values
from penstock.expressions.typing import BOOL, DATE, FLOATS, INTEGERS, LONG, NULL, NUMBERS, STRING
from penstock.model.schema import TIMESTAMP

#: What Spark removes around a text before it reads an integer or a truth value from it, and before it reads a float.
BLANKS = "".join(map(chr, [*range(0x21), 0x7F]))
FLOAT_BLANKS, FLOAT_BLANK_CLASS = "".join(map(chr, range(0x21))), r"[\x00-\x20]"
INTEGER_FORM = r"^[+-]?[0-9]+$"
#: Java reads more (hexadecimal floats, a type letter at the end); both readings of a cast refuse that alike.
FLOAT_FORM = r"^([+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)|(?i:nan))$"
TRUE_WORDS, FALSE_WORDS = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def cast(source: pa.DataType, target: pa.DataType) -> Callable[[Datum], Datum]:
    """The function that casts; `typing.is_castable` says which pairs exist."""
    if source == target:
        return lambda value: value
    if source == STRING:
        return _boolean_from_text if target == BOOL else _number_from_text(target)
    if source in FLOATS and target in INTEGERS:
        return _integer_from_float(target)
    if source in INTEGERS and target in INTEGERS:
        return _integer_from_integer(target)
    if target == BOOL and source in NUMBERS:
        return lambda value: pc.not_equal(value, pa.scalar(0, source))
    if source == BOOL and target in FLOATS:
        return lambda value: pc.cast(pc.cast(value, pa.int8()), target)
    if source == TIMESTAMP and target == LONG:
        return clock.seconds_of
    if source == TIMESTAMP and target == DATE:
        return clock.date_of
    if source == DATE:
        return clock.midnight_of if target == TIMESTAMP else clock.date_text
    assert source == NULL or target in (*NUMBERS, STRING, TIMESTAMP), f"no cast from {source} to {target}"
    return lambda value: pc.cast(value, target, safe=False)


def _integer_from_integer(target: pa.DataType) -> Callable[[Datum], Datum]:
    limits = np.iinfo(target.to_pandas_dtype())

    def apply(value: Datum) -> Datum:
        try:
            return pc.cast(value, target)
        except pa.ArrowInvalid:
            numbers = values(value)
            outside = (numbers < limits.min) | (numbers > limits.max)
            return column(np.where(outside, 0, numbers).astype(limits.dtype), nulls(value) | outside, target)

    return apply


def _integer_from_float(target: pa.DataType) -> Callable[[Datum], Datum]:
    limits = np.iinfo(target.to_pandas_dtype())

    def apply(value: Datum) -> Datum:
        numbers = values(value).astype(np.float64)
        # Spark compares with the limits as doubles, so that 2^63 still becomes the largest bigint; narrow types go by int.
        checked = limits if limits.bits >= 32 else np.iinfo(np.int32)
        low, high = float(checked.min), float(checked.max)
        inside = (np.floor(numbers) <= high) & (np.ceil(numbers) >= low)
        cut = saturated(np.trunc(numbers), checked.dtype.type)
        inside &= (cut >= limits.min) & (cut <= limits.max)
        return column(np.where(inside, cut, 0).astype(limits.dtype), nulls(value) | ~inside, target)

    return apply


def _number_from_text(target: pa.DataType) -> Callable[[Datum], Datum]:
    form, blanks = (INTEGER_FORM, BLANKS) if target in INTEGERS else (FLOAT_FORM, FLOAT_BLANKS)
    slow = by_distinct_value(_integer_reader(target) if target in INTEGERS else float, target)

    def apply(value: Datum) -> Datum:
        trimmed = pc.utf8_trim(value, characters=blanks)
        readable = pc.match_substring_regex(trimmed, form)
        kept = pc.if_else(readable, trimmed, pa.scalar(None, STRING))
        try:
            return pc.cast(kept, target)
        except pa.ArrowInvalid:  # out of range, or a sign Arrow does not read
            return slow(kept)

    return apply


def _integer_reader(target: pa.DataType) -> Callable[[str], int | None]:
    limits = np.iinfo(target.to_pandas_dtype())

    def read(text: str) -> int | None:
        number = int(text)
        return number if limits.min <= number <= limits.max else None

    return read


def _boolean_from_text(value: Datum) -> Datum:
    word = pc.ascii_lower(pc.utf8_trim(value, characters=BLANKS))
    is_true = pc.is_in(word, value_set=pa.array(TRUE_WORDS))
    is_false = pc.is_in(word, value_set=pa.array(FALSE_WORDS))
    return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, BOOL))
