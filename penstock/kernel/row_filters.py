"""Operators that only keep rows, where they run before the exchange: packing asks them about rows that are sound and wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Control, Elements
from penstock.model.masks import Mask


@dataclass(frozen=True, slots=True)
class FilterResult:
    """What became of the rows of a batch; the others are rejected.

    Parameters
    ----------
    kept
        Rows that pass, ascending.
    failed
        Rows that could not be judged, ascending, each with what is wrong.
    """

    kept: Int64s
    failed: Sequence[tuple[int, str]] = ()


def failed_alike(failed: Sequence[tuple[int, str]]) -> list[tuple[Int64s, str]]:
    """Rows that could not be judged, together with those that failed alike.

    Examples
    --------
    >>> [(rows.tolist(), text) for rows, text in failed_alike([(1, "x"), (2, "y"), (4, "x")])]
    [([1, 4], 'x'), ([2], 'y')]
    """
    by_text: dict[str, list[int]] = {}
    for at, text in failed:
        by_text.setdefault(text, []).append(at)
    return [(np.array(rows, np.int64), text) for text, rows in by_text.items()]


class RowFilter(Protocol):
    """An operator that keeps rows as they are or does not, and whose answers depend on the row alone."""

    #: Reason code of rows that cannot be judged.
    failure: str

    def filter_rows(self, batch: Batch) -> FilterResult:
        """Which rows pass."""
        ...

    def on_control(self, decision: Control) -> Elements: ...

    def counters(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Rows that a filter could not judge: which, the reason code, and what is wrong."""

    rows: Int64s
    reason: str
    text: str


class EntryFilter(Protocol):
    """The filters of one entry in one packing task."""

    def __call__(self, rows: pa.RecordBatch, ts: Int64s, positions: Int64s, asked: Int64s) -> tuple[Int64s, list[Unjudged]]:
        """Which of the rows that are asked about pass, ascending, and which could not be judged."""
        ...


class EntryShedder(Protocol):
    """Leaves rows out of one entry in one packing task, because there is more to do than can be done."""

    @property
    def weight(self) -> float:
        """How many rows each one that stays stands for: one through the chance that it had to stay."""
        ...

    def __call__(self, batch: Batch, partition: int) -> Mask:
        """Which rows of a source partition stay; it depends on the rows alone, so that a repeated micro-batch loses the same."""
        ...
