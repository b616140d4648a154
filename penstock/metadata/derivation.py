"""Punctuations that follow from what a stream declares about its attributes.

A unique key closes each value after its row, clustered arrival closes a value when the next one begins, an ordered
attribute closes everything below its newest value. All work on whole batches in stream order. NULL says nothing here. A
row that breaks the declaration is found by the `ClosedSet` these punctuations are added to, not here.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.masks import booleans, comparable
from penstock.model.patterns import Pattern, between, constant, one_of, one_of_array
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import decode, encode, plain

Int64s = npt.NDArray[np.int64]


class Derivation(Protocol):
    """State machine from rows to punctuations; the state is a small JSON value."""

    name: str

    def derive(self, rows: pa.RecordBatch, pos: Int64s, ts: Int64s | None = None) -> list[Punctuation]:
        """Punctuations that hold after these rows; each follows the row at its position."""
        ...

    def to_json(self) -> dict[str, Any]:
        """State that `derivation_from_json` turns back."""
        ...


class UniqueAttribute:
    """Each value appears once in the whole stream: the values of a batch are closed after it, in one list.

    The statement is about the stream, so the punctuation is global: no other partition has to repeat it.

    Examples
    --------
    >>> rows = pa.RecordBatch.from_pydict({"item_id": [180, 181]})
    >>> (closed,) = UniqueAttribute("item_id").derive(rows, np.array([7, 8]))
    >>> print(closed, closed.pos)
    ⟨item_id={180,181}⟩ 8
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def derive(self, rows: pa.RecordBatch, pos: Int64s, ts: Int64s | None = None) -> list[Punctuation]:
        pattern = one_of_array(rows.column(self.name))
        return [] if pattern.is_empty else [_after(self.name, pattern, pos, ts, len(pos) - 1, is_global=True)]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "unique", "name": self.name}


class ClusteredAttribute:
    """Rows with one value come together: a value is closed when another one begins.

    Parameters
    ----------
    name
        The attribute.
    last
        Value of the newest row, still open; None before the first row.

    Examples
    --------
    >>> clustered = ClusteredAttribute("flight")
    >>> rows = pa.RecordBatch.from_pydict({"flight": ["A", "A", "B", "C", "C"]})
    >>> (closed,) = clustered.derive(rows, np.arange(5))
    >>> print(closed, closed.pos, clustered.last)
    ⟨flight={'A','B'}⟩ 3 C
    """

    __slots__ = ("last", "name")

    def __init__(self, name: str, last: Any = None) -> None:
        self.name, self.last = name, plain(last)

    def derive(self, rows: pa.RecordBatch, pos: Int64s, ts: Int64s | None = None) -> list[Punctuation]:
        column = comparable(rows.column(self.name))
        present = np.flatnonzero(booleans(column.is_valid()))
        if not len(present):
            return []
        encoded = column.take(pa.array(present)).dictionary_encode()
        codes = encoded.indices.to_numpy()
        changes = np.flatnonzero(np.diff(codes))
        ended = [one_of_array(encoded.dictionary.take(pa.array(np.unique(codes[changes]))))]
        if self.last is not None and not constant(self.last).matches(encoded.dictionary[int(codes[0])]):
            ended.append(constant(self.last))
        self.last = plain(encoded.dictionary[int(codes[-1])])
        closed = _union_of_lists(ended)
        # Every listed value had ended when the last run began.
        reveals = present[changes[-1] + 1] if len(changes) else present[0]
        return [] if closed.is_empty else [_after(self.name, closed, pos, ts, int(reveals))]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "clustered", "name": self.name, "last": encode(self.last)}


class OrderedAttribute:
    """Values never decrease: everything below the newest one is closed.

    Parameters
    ----------
    name
        The attribute.
    strict
        Values always increase, so the newest one is closed too.
    last
        Newest value; None before the first row.

    Examples
    --------
    >>> rows = pa.RecordBatch.from_pydict({"seq": [3, 4, 4]})
    >>> print(*OrderedAttribute("seq").derive(rows, np.arange(3)))
    ⟨seq=(-∞,3]⟩
    >>> print(*OrderedAttribute("seq", strict=True).derive(rows, np.arange(3)))
    ⟨seq=(-∞,4]⟩
    """

    __slots__ = ("last", "name", "strict")

    def __init__(self, name: str, strict: bool = False, last: Any = None) -> None:
        self.name, self.strict, self.last = name, strict, plain(last)

    def derive(self, rows: pa.RecordBatch, pos: Int64s, ts: Int64s | None = None) -> list[Punctuation]:
        column = comparable(rows.column(self.name))
        present = np.flatnonzero(booleans(column.is_valid()))
        if not len(present):
            return []
        newest = plain(column[int(present[-1])])
        if self.last is not None and between(None, self.last).matches(newest):
            return []  # nothing new is closed: the value stands still, or breaks the order, which shows elsewhere
        self.last = newest
        pattern = between(None, newest, hi_inclusive=self.strict).normalised(column.type)
        return [_after(self.name, pattern, pos, ts, int(present[-1]))]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "ordered", "name": self.name, "strict": self.strict, "last": encode(self.last)}


def derivation_from_json(coded: dict[str, Any]) -> Derivation:
    """Inverse of the three `to_json`."""
    if coded["kind"] == "unique":
        return UniqueAttribute(coded["name"])
    if coded["kind"] == "clustered":
        return ClusteredAttribute(coded["name"], decode(coded["last"]))
    return OrderedAttribute(coded["name"], coded["strict"], decode(coded["last"]))


def _after(name: str, pattern: Pattern, pos: Int64s, ts: Int64s | None, row: int, is_global: bool = False) -> Punctuation:
    time = 0 if ts is None else int(ts[row])
    return Punctuation((name,), (pattern,), time, int(pos[row]), is_global)


def _union_of_lists(patterns: list[Pattern]) -> Pattern:
    return one_of(value for pattern in patterns for value in pattern.values)
