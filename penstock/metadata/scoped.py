"""Scoped and probable punctuations: reading them from rows, and following them while rows come.

Embedded they look like ordinary ones with two reserved words:

=====================================================================  ==========================================
``{"$next": 5000, "A": {"range": [2001, null]}}``                      each of the next 5000 rows has A ≥ 2001
``{"$next": 5000, "$confidence": 0.85, "A": {"range": [2001, null]}}`` … with a probability of 85 %
``{"$confidence": 0.9, "item_id": 180}``                               item 180 probably does not come again
=====================================================================  ==========================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from penstock.errors import InvalidPattern
from penstock.metadata.embedded import read_json, read_punctuation
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation
from penstock.model.value_sets import Pattern

#: Reserved words of the embedded form; no attribute can be called so without quotes.
NEXT, CONFIDENCE = "$next", "$confidence"
#: Probable ends that wait for the word of other partitions.
_MOST_DOUBTS = 1000


def read_statement(text: str, schema: Schema, where: str, pos: int = 0) -> Punctuation | ScopedPunctuation:
    """The statement in a row's punctuation column, ordinary or scoped.

    A certain statement without scope is an ordinary punctuation, however it is written.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bid = Schema.of(A=pa.int64())
    >>> print(read_statement('{"$next": 5000, "$confidence": 0.85, "A": {"range": [2001, null]}}', bid, "bid"))
    ⟨next 5000: A=[2001,∞) (85%)⟩
    >>> print(read_statement('{"$confidence": 1, "A": 7}', bid, "bid"))
    ⟨A=7⟩
    """
    if "$" not in text:
        return read_punctuation(text, schema, where, pos)
    coded = read_json(text, where)
    if not isinstance(coded, Mapping) or not {NEXT, CONFIDENCE} & set(coded):
        return read_punctuation(text, schema, where, pos)
    plain = {name: pattern for name, pattern in coded.items() if name not in (NEXT, CONFIDENCE)}
    pattern = read_punctuation(json.dumps(plain), schema, where, pos)
    is_positive = NEXT in coded
    rows = _rows(coded[NEXT], where) if is_positive else None
    try:
        statement = ScopedPunctuation((pattern,), rows, _confidence(coded.get(CONFIDENCE, 1.0), where), is_positive)
    except InvalidPattern as found:
        raise InvalidPattern(found.message, where) from None
    ordinary = statement.as_ordinary()
    return statement if ordinary is None else ordinary


def _rows(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 63:
        raise InvalidPattern(f"{NEXT} is {str(value)[:99]}; write the number of rows to come, 1 or more", where)
    return value


def _confidence(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise InvalidPattern(f"{CONFIDENCE} is {str(value)[:99]}; write a number greater than 0 and at most 1", where)
    return float(value)


class ScopeBoard:
    """The scopes of all source partitions of a stream, put together to what holds for its next rows.

    A row may come from any partition, so a row is possible if it is possible in one of them: nothing is known until
    every partition has announced a scope, and nothing is known again when one of them has run out.

    Examples
    --------
    >>> from penstock.model.value_sets import between
    >>> board = ScopeBoard()
    >>> board.see_partition(0), board.see_partition(1)
    (None, None)
    >>> board.announce(0, ScopedPunctuation.next_rows(9, Punctuation.of(("A",), A=between(5))))
    >>> board.current() is None
    True
    >>> board.announce(1, ScopedPunctuation.next_rows(3, Punctuation.of(("A",), A=between(None, 2))))
    >>> print(board.current())
    ⟨next 12: A=[5,∞) or A=(-∞,2]⟩
    >>> board.pass_rows(1, 3)
    >>> board.current() is None
    True
    """

    __slots__ = ("_active", "_doubts", "_partitions")

    def __init__(self) -> None:
        self._partitions: set[int] = set()
        self._doubts: dict[tuple[Pattern, ...], dict[int, ScopedPunctuation]] = {}
        self._active: dict[int, ScopedPunctuation] = {}

    def see_partition(self, partition: int) -> None:
        """A partition becomes known: from now on its word is needed too."""
        self._partitions.add(partition)

    def announce(self, partition: int, scope: ScopedPunctuation) -> None:
        """The newest scope of a partition replaces what is left of an older one."""
        self._partitions.add(partition)
        self._active[partition] = scope

    def doubt(self, partition: int, statement: ScopedPunctuation) -> ScopedPunctuation | None:
        """A partition says that values probably do not come again; what holds for the stream once all have said so.

        Partitions are independent, so all of them are right with the product of their confidences.
        """
        self._partitions.add(partition)
        (pattern,) = statement.patterns
        if pattern.is_global:
            return statement
        said = self._doubts.setdefault(pattern.patterns, {})
        said[partition] = statement
        if set(said) != self._partitions:
            while len(self._doubts) > _MOST_DOUBTS:  # hints that wait for ever are not worth their memory
                del self._doubts[next(iter(self._doubts))]
            return None
        del self._doubts[pattern.patterns]
        return replace(statement, confidence=prod(part.confidence for part in said.values()))

    def pass_rows(self, partition: int, rows: int) -> None:
        """So many rows of a partition have come, whichever shards they went to."""
        scope = self._active.get(partition)
        if scope is not None and rows:
            left = scope.after(rows)
            if left.rows == 0:
                del self._active[partition]
            else:
                self._active[partition] = left

    def current(self) -> ScopedPunctuation | None:
        """What holds for the next rows of the stream; None: nothing is known."""
        positive = {part: scope for part, scope in self._active.items() if scope.is_positive}
        if not positive or set(positive) != self._partitions:
            return None
        # Equal patterns of several partitions are one alternative.
        patterns = tuple(dict.fromkeys(pattern for _, scope in sorted(positive.items()) for pattern in scope.patterns))
        rows = [scope.rows for scope in positive.values() if scope.rows is not None]
        total = sum(rows) if len(rows) == len(positive) else None
        return ScopedPunctuation(patterns, total, min(scope.confidence for scope in positive.values()))

    def to_json(self) -> dict[str, Any]:
        """State that `from_json` turns back."""
        active = [[part, coded(scope)] for part, scope in sorted(self._active.items())]
        doubts = [[part, coded(statement)] for said in self._doubts.values() for part, statement in said.items()]
        return {"partitions": sorted(self._partitions), "active": active, "doubts": doubts}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> ScopeBoard:
        """Inverse of `to_json`."""
        board = cls()
        board._partitions = set(saved["partitions"])
        board._active = {part: decoded(scope) for part, scope in saved["active"]}
        for part, statement in saved["doubts"]:
            restored = decoded(statement)
            board._doubts.setdefault(restored.patterns[0].patterns, {})[part] = restored
        return board


def coded(scope: ScopedPunctuation) -> dict[str, Any]:
    """A JSON value `decoded` turns back without loss."""
    return {
        "patterns": [pattern.to_json() for pattern in scope.patterns],
        "rows": scope.rows,
        "confidence": scope.confidence,
        "positive": scope.is_positive,
    }


def decoded(saved: Mapping[str, Any]) -> ScopedPunctuation:
    """Inverse of `coded`."""
    patterns = tuple(Punctuation.from_json(pattern) for pattern in saved["patterns"])
    return ScopedPunctuation(patterns, saved["rows"], saved["confidence"], saved["positive"])
