"""Punctuations that Penstock makes itself: the reasoning behind clusters with gaps and behind rules on rows.

All functions look at rows of one source partition in its order, and count rows of it. How rows are cut into batches
changes nothing: what a batch cannot decide alone is handed on as an *edge* and decided where edges meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.batch import Int64s
from penstock.model.masks import Mask, booleans, comparable
from penstock.model.scalars import decode, encode, plain
from penstock.model.value_sets import Pattern, one_of, one_of_array


@dataclass(frozen=True, slots=True)
class ClusterEdge:
    """What a piece of a partition says about values that may go on before or behind it.

    Parameters
    ----------
    within
        Rows that may stand between two rows of one value.
    rows
        Rows of the piece.
    head
        Value and row number of its first row, for values that come early enough to go on from an earlier piece.
    tail
        Value and rows behind its last row, for values that may still go on.
    """

    within: int
    rows: int
    head: tuple[tuple[Any, int], ...] = ()
    tail: tuple[tuple[Any, int], ...] = ()

    def to_json(self) -> list[Any]:
        """A JSON value `from_json` turns back."""
        return [self.within, self.rows, *([[encode(value), at] for value, at in part] for part in (self.head, self.tail))]

    @classmethod
    def from_json(cls, coded: list[Any]) -> ClusterEdge:
        """Inverse of `to_json`."""
        head, tail = (tuple((decode(value), at) for value, at in part) for part in coded[2:])
        return cls(coded[0], coded[1], head, tail)


def cluster_edge(column: pa.Array, within: int) -> tuple[Pattern, Mask, ClusterEdge]:
    """What a piece of a partition closes by itself, which of its rows come too late, and what it hands on.

    A value is closed when more than `within` rows have come behind its last row. NULL is no value, but a row.

    Examples
    --------
    >>> closed, late, edge = cluster_edge(pa.array([5, 7, 5, 7, 9, 5]), within=1)
    >>> print(closed, late.tolist(), edge.tail)
    {5,7} [False, False, False, False, False, True] ((9, 1),)
    """
    values = comparable(column)
    at = np.flatnonzero(booleans(values.is_valid()))
    late: Mask = np.zeros(len(column), np.bool_)
    if not len(at):
        return one_of(()), late, ClusterEdge(within, len(column))
    encoded = values.take(pa.array(at)).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    order = np.lexsort((at, codes))
    starts = np.flatnonzero(np.concatenate(([True], codes[order][1:] != codes[order][:-1])))
    gaps = np.diff(at[order], prepend=0) - 1
    gaps[starts] = 0
    late_in_order = _from_first(gaps > within, starts)
    late[at[order][late_in_order]] = True
    in_time = np.where(late_in_order, -1, at[order])
    first, last = at[order][starts], np.maximum.reduceat(in_time, starts)
    behind = len(column) - 1 - last
    broken = np.logical_or.reduceat(late_in_order, starts)
    names = encoded.dictionary.take(pa.array(codes[order][starts]))
    closed = one_of_array(names.filter(pa.array((behind > within) | broken)))
    head, tail = np.flatnonzero(first <= within), np.flatnonzero((behind <= within) & ~broken)
    edge = ClusterEdge(within, len(column), _named(names, head, first), _named(names, tail, behind))
    return closed, late, edge


def _from_first(flags: Mask, starts: Int64s) -> Mask:
    """Within each group, True from the first True on."""
    counts = np.cumsum(flags)
    before: Int64s = np.repeat(counts[starts] - flags[starts], np.diff(np.append(starts, len(flags))))
    result: Mask = counts > before
    return result


def _named(names: pa.Array, chosen: Int64s, numbers: Int64s) -> tuple[tuple[Any, int], ...]:
    return tuple((plain(names[int(at)]), int(numbers[at])) for at in chosen)  # at most `within` + 1 of them


@dataclass(slots=True)
class OpenClusters:
    """Values of one source partition that may still go on, with the rows that came behind each.

    Examples
    --------
    >>> known = OpenClusters()
    >>> known.follow(ClusterEdge(1, rows=2, tail=((5, 1), (7, 0))))
    []
    >>> known.follow(ClusterEdge(1, rows=1, head=((7, 0),), tail=((7, 0),)))
    [5]
    """

    ages: dict[Any, int] = field(default_factory=dict)

    def follow(self, edge: ClusterEdge) -> list[Any]:
        """Take in the next piece of the partition; the values that turn out to be closed before it or by it.

        Values that the piece closes by itself are not among them: it has said so.
        """
        head, tail = dict(edge.head), dict(edge.tail)
        closed, ages = [], {}
        for value, age in self.ages.items():
            came = head.get(value)
            if came is not None and age + came <= edge.within:
                continue  # it goes on, and the tail tells whether it still may
            if came is not None or value in tail or age + edge.rows > edge.within:
                closed.append(value)
                tail.pop(value, None)  # rows that come too late do not open it again
            else:
                ages[value] = age + edge.rows
        self.ages = {**ages, **tail}
        return closed

    def follow_together(self, within: int, rows: int, seen: Set[Any]) -> list[Any]:
        """Take in rows that have no order: any of them may be the last one of its value, so a value goes on wherever it is seen.

        Examples
        --------
        >>> known = OpenClusters()
        >>> known.follow_together(0, 3, {5, 7}), known.follow_together(0, 2, {7, 9})
        ([], [5])
        """
        ages = dict.fromkeys(seen, 0)
        absent = {value: age + rows for value, age in self.ages.items() if value not in seen}
        self.ages = {**ages, **{value: age for value, age in absent.items() if age <= within}}
        return [value for value, age in absent.items() if age > within]

    def to_json(self) -> list[Any]:
        """State that `from_json` turns back."""
        return [[encode(value), age] for value, age in self.ages.items()]

    @classmethod
    def from_json(cls, coded: list[Any]) -> OpenClusters:
        """Inverse of `to_json`."""
        return cls({decode(value): age for value, age in coded})


def closed_by_rule(column: pa.Array, closes: Mask) -> tuple[Pattern, Mask]:
    """Values that rows meeting a rule close, and rows that come behind the close of their value.

    Examples
    --------
    >>> closed, late = closed_by_rule(pa.array([1, 2, 1, 1]), np.array([False, False, True, False]))
    >>> print(closed, late.tolist())
    1 [False, False, False, True]
    """
    late: Mask = np.zeros(len(column), np.bool_)
    values = comparable(column)
    closing = np.flatnonzero(closes & booleans(values.is_valid()))
    if not len(closing):
        return one_of(()), late
    ended = values.take(pa.array(closing))
    distinct = pc.unique(ended)
    first = np.full(len(distinct) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, pc.index_in(ended, value_set=distinct).to_numpy(), closing)
    which = pc.fill_null(pc.index_in(values, value_set=distinct, skip_nulls=True), len(distinct)).to_numpy(zero_copy_only=False)
    late = np.arange(len(column)) > first[which]
    return one_of_array(ended), late


def coded_clusters(known: Mapping[str, Mapping[int, OpenClusters]]) -> dict[str, Any]:
    """Open clusters by attribute and partition as a JSON value."""
    return {name: [[part, clusters.to_json()] for part, clusters in found.items()] for name, found in known.items()}


def decoded_clusters(coded: Mapping[str, Any]) -> dict[str, dict[int, OpenClusters]]:
    """Inverse of `coded_clusters`."""
    return {name: {part: OpenClusters.from_json(clusters) for part, clusters in found} for name, found in coded.items()}
