"""Punctuations that follow from what a stream declares about its attributes.

A unique key closes each value after its row, clustered arrival closes a value when the next one begins. Both work on whole
batches in stream order. NULL says nothing here. A row that breaks the declaration is found by the `ClosedSet` these punctuations
are added to, not here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.masks import booleans, comparable
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import plain
from penstock.model.value_sets import Pattern, constant, one_of, one_of_array

Int64s = npt.NDArray[np.int64]


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


def _after(name: str, pattern: Pattern, pos: Int64s, ts: Int64s | None, row: int, is_global: bool = False) -> Punctuation:
    time = 0 if ts is None else int(ts[row])
    return Punctuation((name,), (pattern,), time, int(pos[row]), is_global)


def _union_of_lists(patterns: list[Pattern]) -> Pattern:
    return one_of(value for pattern in patterns for value in pattern.values)
