"""Punctuations written by people and producers: a JSON object from attribute to pattern, inside a row.

======================================  =============================
``{"item_id": 180}``                    constant
``{"item_id": [180, 185]}``             list
``{"item_id": {"range": [1, 9]}}``      range, both ends included
``{"ts": {"range": [null, "2026-01-01T00:00:00Z"], "bounds": "()"}}``  open ends, infinite start
``{}``                                  all `*`: end of stream
======================================  =============================

Attributes not named are `*`. Timestamps are ISO texts or microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidPattern, suggestion
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import plain
from penstock.model.schema import Schema, sql_type
from penstock.model.value_sets import ANY, EMPTY, Pattern, between, constant, one_of

#: Characters of a text that a message repeats.
_MOST_SHOWN = 200


def read_punctuation(text: str, schema: Schema, where: str, pos: int = 0, is_global: bool = False) -> Punctuation:
    """The punctuation that `text` states about a stream of this schema, validated and normalised.

    Examples
    --------
    >>> str(read_punctuation('{"item_id": [180, 180]}', Schema.of(item_id=pa.int64(), price=pa.float64()), "bid"))
    '⟨item_id=180, price=*⟩'
    """
    coded = read_json(text, where)
    if not isinstance(coded, Mapping):
        raise InvalidPattern(f"{_short(text)} is not an object; write {{attribute: pattern, …}}", where)
    patterns = dict.fromkeys(schema.names, ANY)
    for name, value in coded.items():
        if name not in schema:
            raise InvalidPattern(f"no attribute '{name}'; {suggestion(name, schema.names)}", where)
        patterns[schema[name].name] = _pattern(value, schema[name].type, where)
    mark = Punctuation(tuple(patterns), tuple(patterns.values()), 0, pos, is_global)
    return mark.validated(schema, where).normalised(schema)


def read_json(text: str, where: str) -> Any:
    """The JSON value, whatever it is."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as found:
        problem = f"{found.msg} at character {found.pos}"
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets thousands deep
        problem = "a number is too long, or brackets are too deep"
    raise InvalidPattern(f"{_short(text)} is not JSON ({problem}); write an object from attribute to pattern", where)


def _short(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def write_punctuation(mark: Punctuation) -> str:
    """The text of which `read_punctuation` makes the punctuation again.

    Examples
    --------
    >>> write_punctuation(Punctuation.of(("item_id", "price"), item_id=one_of([180, 185])))
    '{"item_id": [180, 185]}'
    """
    return json.dumps({name: _written(pattern) for name, pattern in mark.restricted.items()}, default=str)


def _written(pattern: Pattern) -> Any:
    if pattern.is_range:
        bounds = ("[" if pattern.lo_inclusive else "(") + ("]" if pattern.hi_inclusive else ")")
        return {"range": [pattern.lo, pattern.hi], "bounds": bounds}
    return pattern.value if pattern.is_constant else list(pattern.values)


def _pattern(value: Any, kind: pa.DataType, where: str) -> Pattern:
    if value == "*" and not pa.types.is_string(kind):
        return ANY
    if isinstance(value, list):
        return one_of([_value(item, kind, where) for item in value]) if value else EMPTY
    if not isinstance(value, Mapping):
        return constant(_value(value, kind, where))
    if "in" in value:
        return _pattern(value["in"], kind, where)
    ends, bounds = value.get("range"), value.get("bounds", "[]")
    is_complete = not set(value) - {"range", "bounds"} and bounds in ("[]", "[)", "(]", "()")
    if not isinstance(ends, list) or len(ends) != 2 or not is_complete:
        example = 'a value, a list, or {"range": [low, high], "bounds": "[)"}'
        raise InvalidPattern(f"the pattern {_short(json.dumps(value))} is unknown; write {example}", where)
    low, high = (None if end is None else _value(end, kind, where) for end in ends)
    return between(low, high, bounds[0] == "[", bounds[1] == "]")


def _value(value: Any, kind: pa.DataType, where: str) -> Any:
    """The value in its attribute's type; texts of times become times."""
    if isinstance(value, list | Mapping):
        raise InvalidPattern(f"{_short(json.dumps(value))} is no value; lists and ranges cannot be nested", where)
    if pa.types.is_timestamp(kind) and isinstance(value, str):
        value = _moment(value, where)
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(value, kind, where)
    if isinstance(value, str) and not _is_unicode(value):
        raise InvalidPattern(f"{_short(value)} holds half of a pair of surrogates, which is no character", where)
    return value


def _moment(text: str, where: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        return int(plain(moment))
    except (ValueError, OverflowError):
        raise InvalidPattern(
            f"{_short(text)} is no timestamp; write ISO text such as 2026-01-31T12:00:00Z, or microseconds", where
        ) from None


def _number(value: int, kind: pa.DataType, where: str) -> int | float:
    if pa.types.is_floating(kind):
        try:
            return float(value)
        except OverflowError:
            raise InvalidPattern(f"{_short(str(value))} is too large for {sql_type(kind)}", where) from None
    if (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)) and not -(1 << 63) <= value < 1 << 63:
        raise InvalidPattern(f"{_short(str(value))} does not fit 64 bits", where)
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
