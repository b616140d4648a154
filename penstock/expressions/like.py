"""Patterns of LIKE: `%` for any text, `_` for one character, a backslash before either or before itself for the character."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import pyarrow.compute as pc

from penstock.expressions.java_regex import PatternMistake
from penstock.expressions.regex_readings import braced_character

_TOKEN = re.compile(r"\\.|.|\\", re.DOTALL)


class Wildcard(Enum):
    """What a pattern leaves open; the value is how RE2 writes it."""

    ANY = "(?s:.*)"
    ONE = "(?s:.)"


def like_tokens(pattern: str) -> list[str | Wildcard]:
    """Characters and wildcards of a pattern.

    Raises
    ------
    PatternMistake
        For a backslash before anything else, as in Spark.

    Examples
    --------
    >>> like_tokens("a%\\\\_")
    ['a', <Wildcard.ANY: '(?s:.*)'>, '_']
    """
    return [_token(found) for found in _TOKEN.findall(pattern)]


def _token(found: str) -> str | Wildcard:
    if found[0] == "\\" and found[1:] not in ("%", "_", "\\"):
        raise PatternMistake("a backslash must stand before %, _ or a backslash")
    return {"%": Wildcard.ANY, "_": Wildcard.ONE}.get(found, found[-1])


def like_test(pattern: str) -> Callable[[Any], Any]:
    """The test of an Arrow column: a comparison where wildcards stand at the ends only, else a search by RE2.

    Examples
    --------
    >>> import pyarrow as pa
    >>> like_test("%\\\\\\\\")(pa.array(["a\\\\", "a"])).to_pylist()
    [True, False]
    """
    tokens = like_tokens(pattern)
    first, last = 0, len(tokens)
    while first < last and tokens[first] is Wildcard.ANY:
        first += 1
    while last > first and tokens[last - 1] is Wildcard.ANY:
        last -= 1
    middle = tokens[first:last]
    if any(isinstance(token, Wildcard) for token in middle):
        return _search(tokens)
    text = "".join(token for token in middle if isinstance(token, str))
    if len(middle) == len(tokens):
        return lambda value: pc.equal(value, text)
    if (first and last < len(tokens)) or not middle:
        return lambda value: pc.match_substring(value, text)
    kernel = pc.ends_with if first else pc.starts_with
    return lambda value: kernel(value, pattern=text)


def _search(tokens: list[str | Wildcard]) -> Callable[[Any], Any]:
    parts = [token.value if isinstance(token, Wildcard) else braced_character(ord(token)) for token in tokens]
    regex = f"\\A{''.join(parts)}\\z"
    return lambda value: pc.match_substring_regex(value, regex)
