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
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidPattern, suggestion
from penstock.model.patterns import ANY, EMPTY, Pattern, between, constant, one_of
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema


def read_punctuation(text: str, schema: Schema, where: str, pos: int = 0, is_global: bool = False) -> Punctuation:
    """The punctuation that `text` states about a stream of this schema, validated and normalised.

    Examples
    --------
    >>> str(read_punctuation('{"item_id": [180, 180]}', Schema.of(item_id=pa.int64(), price=pa.float64()), "bid"))
    '⟨item_id=180, price=*⟩'
    """
    try:
        coded = json.loads(text)
    except json.JSONDecodeError as found:
        raise InvalidPattern(
            f"{text!r} is not JSON ({found.msg} at character {found.pos}); write an object from attribute to pattern",
            where,
        ) from None
    if not isinstance(coded, Mapping):
        raise InvalidPattern(f"{text!r} is not an object; write {{attribute: pattern, …}}", where)
    patterns = dict.fromkeys(schema.names, ANY)
    for name, value in coded.items():
        if name not in schema:
            raise InvalidPattern(f"no attribute '{name}'; {suggestion(name, schema.names)}", where)
        patterns[schema[name].name] = _pattern(value, schema[name].type, where)
    mark = Punctuation(tuple(patterns), tuple(patterns.values()), 0, pos, is_global)
    return mark.validated(schema, where).normalised(schema)


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
    bounds = value.get("bounds", "[]")
    if set(value) - {"range", "bounds"} or len(value.get("range", ())) != 2 or bounds not in ("[]", "[)", "(]", "()"):
        raise InvalidPattern(
            f'the pattern {json.dumps(value)} is unknown; write a value, a list, or {{"range": [low, high], "bounds": "[)"}}',
            where,
        )
    low, high = (None if end is None else _value(end, kind, where) for end in value["range"])
    return between(low, high, bounds[0] == "[", bounds[1] == "]")


def _value(value: Any, kind: pa.DataType, where: str) -> Any:
    if pa.types.is_timestamp(kind) and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidPattern(
                f"{value!r} is no timestamp; write ISO text such as 2026-01-31T12:00:00Z, or microseconds", where
            ) from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1_000_000)
    if pa.types.is_floating(kind) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
