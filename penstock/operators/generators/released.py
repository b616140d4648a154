"""How a full buffer is released: in which order, in which pieces, with which scopes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from penstock.columnar.hashing import hash_columns
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Element
from penstock.model.masks import booleans, comparable
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import plain
from penstock.model.scoped import ScopedPunctuation
from penstock.model.value_sets import Pattern, between, one_of_array


def released(buffer: Batch, column: str, pieces: int, is_sorted: bool) -> Iterator[Element]:
    """Rows of a buffer with the scopes that belong to them.

    Rows without value come first, because no scope speaks of them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from penstock.model.elements import Herald
    >>> from penstock.model.scoped import scoped_from_herald
    >>> rows = Batch(pa.RecordBatch.from_pydict({"k": [3, 1, 3, 2]}), np.zeros(4, np.int64), np.arange(4))
    >>> for part in released(rows, "k", 9, is_sorted=True):
    ...     print(scoped_from_herald(part) if isinstance(part, Herald) else part.column("k").to_pylist())
    ⟨next 4: k=[1,3]⟩
    [1]
    ⟨next 3: k=[2,∞)⟩
    [2]
    ⟨next 2: k=[3,∞)⟩
    [3, 3]
    """
    valued = booleans(buffer.column(column).is_valid())
    if not valued.all():
        yield buffer.filter(~valued)
        buffer = buffer.filter(valued)
    if buffer.num_rows:
        yield from _in_order(buffer, column, pieces) if is_sorted else _in_groups(buffer, column, pieces)


def _in_order(buffer: Batch, column: str, pieces: int) -> Iterator[Element]:
    """Ascending; each piece is preceded by what holds for the rest of the buffer."""
    order = pc.sort_indices(comparable(buffer.column(column))).to_numpy()
    buffer = buffer.take(order.astype(np.int64))
    values = comparable(buffer.column(column))
    bounds = _bounds(
        np.flatnonzero(booleans(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)))) + 1, len(values), pieces
    )
    for start, stop in zip([0, *bounds], [*bounds, len(values)], strict=True):
        least = plain(values[start])
        rest = between(least) if start else between(least, plain(values[len(values) - 1]))
        yield _scope(column, rest.normalised(buffer.column(column).type), buffer.num_rows - start)
        yield buffer.slice(start, stop - start)


def _in_groups(buffer: Batch, column: str, pieces: int) -> Iterator[Element]:
    """By hash; each group of values is preceded by the list of them."""
    numbers = (hash_columns([buffer.column(column)], buffer.num_rows) >> np.uint64(32)) % np.uint64(pieces)
    order = np.argsort(numbers, kind="stable")
    buffer, numbers = buffer.take(order), numbers[order]
    bounds = [*(np.flatnonzero(np.diff(numbers.astype(np.int64))) + 1).tolist()]
    for start, stop in zip([0, *bounds], [*bounds, buffer.num_rows], strict=True):
        piece = buffer.slice(start, stop - start)
        yield _scope(column, one_of_array(piece.column(column)), piece.num_rows)
        yield piece


def _bounds(changes: Int64s, rows: int, pieces: int) -> list[int]:
    """At most `pieces` - 1 places where the value changes, as even as the values allow."""
    if len(changes) < pieces:
        return [int(at) for at in changes]
    wanted = np.arange(1, pieces) * rows // pieces
    chosen = np.searchsorted(changes, wanted)
    return [int(at) for at in np.unique(changes[np.minimum(chosen, len(changes) - 1)])]


def _scope(column: str, pattern: Pattern, rows: int) -> Element:
    return ScopedPunctuation.next_rows(rows, Punctuation((column,), (pattern,))).to_herald()
