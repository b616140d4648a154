"""Buffer rows and release them in order of an attribute, with scopes that tell what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.hashing import hash_columns
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER, Control, Element, Elements, End, Heartbeat, Metadata
from penstock.model.masks import booleans, comparable
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import plain
from penstock.model.scoped import ScopedPunctuation
from penstock.model.value_sets import Pattern, between, one_of_array
from penstock.operators.segments import SegmentLog

#: Low bits of a position that name the source partition, where partitions count their own offsets.
_PARTITION_BITS = 16


class Buffered:
    """Hold a number of rows of each source partition, then release them sorted or grouped by an attribute.

    Rows are reordered only inside a buffer, so each scope is exact: it speaks about rows that are already there. A larger
    buffer gives longer scopes and fewer of them, and more latency. Buffers are cut by counting the rows of a source
    partition that come to this shard; micro-batches play no part.

    Choose it in front of a join whose state does not fit into memory; joins that hold everything gain nothing.

    Parameters
    ----------
    column
        The attribute scopes speak about: a key of the join behind it.
    rows
        Rows of a buffer.
    pieces
        Most scopes for each buffer.
    is_sorted
        Whether rows are sorted (scopes are ranges) or grouped by hash (scopes are lists).
    is_partitioned
        Whether positions name the source partition in their lowest bits.

    Notes
    -----
    An ordinary punctuation waits until no buffered row matches it, and event time waits for the oldest buffered row: what
    was promised upstream still holds behind the buffer. A buffer that is not full waits for more rows, or for the end.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 32.4.
    """

    def __init__(
        self, schema: pa.Schema, column: str, rows: int, pieces: int = 16, is_sorted: bool = True, is_partitioned: bool = False
    ) -> None:
        self.schema = schema
        self.column = column
        self.rows, self.pieces = rows, pieces
        self.is_sorted, self.is_partitioned = is_sorted, is_partitioned
        self._log = SegmentLog("buffered")
        #: Segments of each source partition, oldest rows first.
        self._parts: dict[int, list[int]] = {}
        self._held: list[Punctuation] = []
        self._frontier = self._sent = NEVER
        self._released = 0

    # -- rows ---------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        found: list[Element] = []
        for partition, mine in self._by_partition(batch):
            found += self._add(partition, mine)
        return [*found, *self._let_go()] if found else ()

    def _by_partition(self, batch: Batch) -> list[tuple[int, Batch]]:
        """Rows of each source partition in its order."""
        ids: Int64s = batch.pos & ((1 << _PARTITION_BITS) - 1) if self.is_partitioned else np.zeros(batch.num_rows, np.int64)
        parts = [(int(number), batch.filter(ids == number)) for number in np.unique(ids).tolist()]
        return [(number, part.take(np.argsort(part.pos, kind="stable"))) for number, part in parts]

    def _add(self, partition: int, batch: Batch) -> list[Element]:
        held = sum(self._log[number].num_rows for number in self._parts.get(partition, ()))
        if held + batch.num_rows < self.rows:
            self._keep(partition, batch)
            return []
        waiting = Batch.concat([*self._taken(partition), batch])
        found: list[Element] = []
        full = waiting.num_rows // self.rows * self.rows
        for start in range(0, full, self.rows):
            found += self._release(waiting.slice(start, self.rows))
        rest = waiting.slice(full, waiting.num_rows - full)
        if rest.num_rows:
            # A copy, so that the released rows are not kept alive with it.
            self._keep(partition, rest.take(np.arange(rest.num_rows)))
        return found

    def _keep(self, partition: int, rows: Batch) -> None:
        self._parts.setdefault(partition, []).append(self._log.add(rows.stored()))

    def _taken(self, partition: int) -> list[Batch]:
        numbers = self._parts.pop(partition, [])
        parts = [Batch.restored(self._log[number]) for number in numbers]
        for number in numbers:
            self._log.drop(number)
        return parts

    def _release(self, buffer: Batch) -> list[Element]:
        self._released += 1
        return list(released(buffer, self.column, self.pieces, self.is_sorted))

    def _flush(self) -> list[Element]:
        rest = [Batch.concat(self._taken(partition)) for partition in sorted(self._parts)]
        return [part for buffer in rest for part in self._release(buffer)]

    # -- metadata -----------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            self._frontier = max(self._frontier, mark.ts)
            return [*(self._flush() if mark.ts == FOREVER else ()), *self._let_go()]
        if isinstance(mark, Punctuation):
            self._held.append(mark)
            return self._let_go()
        return [*self._flush(), *self._let_go()] if isinstance(mark, End) else (mark,)

    def _let_go(self) -> list[Element]:
        """Promises that no buffered row would break any more."""
        waiting = [Batch.restored(self._log[number]) for numbers in self._parts.values() for number in numbers]
        kept = [mark for mark in self._held if any(mark.matches_batch(batch.rows).any() for batch in waiting)]
        free: list[Element] = [mark for mark in self._held if mark not in kept]
        self._held = kept
        oldest = min([self._frontier, *(int(batch.ts.min()) for batch in waiting)])
        if oldest > self._sent:
            self._sent = oldest
            free.append(Heartbeat(oldest))
        return free

    def on_control(self, decision: Control) -> Elements:
        return ()

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        meta: dict[str, Any] = {
            "next": self._log.next,
            "parts": [[partition, numbers] for partition, numbers in self._parts.items()],
            "held": [mark.to_json() for mark in self._held],
            "times": [self._frontier, self._sent],
            "released": self._released,
        }
        return State(meta, self._log.stored())

    def restore(self, state: State) -> None:
        self._log.reload(state.meta["next"], state.segments)
        self._parts = {partition: list(numbers) for partition, numbers in state.meta["parts"]}
        self._held = [Punctuation.from_json(coded) for coded in state.meta["held"]]
        self._frontier, self._sent = state.meta["times"]
        self._released = state.meta["released"]

    def counters(self) -> Mapping[str, int]:
        return {
            "state_rows": self._log.num_rows,
            "state_bytes": self._log.num_bytes,
            "buffers": self._released,
            "held_punctuations": len(self._held),
        }


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
