"""The traces under watch as a table: keys, the reasoner's state, and the time of the last event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.codes import Bools, group_codes, shared
from penstock.metadata.constraints.tables import set_sizes
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER
from penstock.operators.patterns._traces import KeyedTraces, Placed, TraceEnds, by_moment, index_slots, place_events
from penstock.operators.patterns.trace_states import Sets, StateColumns, TraceStates, with_room

#: Columns of the stored form beside the key.
_PACKED, _LAST = "_packed", "_last"
#: Traces that are over stay in the table until they are a quarter of the others, and more than this.
_FEW = 256


class KnownKeys(NamedTuple):
    """Number of the key of each row, and for each number the slot of its trace or -1."""

    codes: Int64s
    slots: Int64s


class TraceTable:
    """A row per trace; slot i of the states is row i. Slots stay while a trace lasts, but for `compacted`.

    Parameters
    ----------
    states
        What constraints tell of the traces.
    fields
        Columns of the key.
    remembers_last
        Whether the time of the last event is kept: silence may end a trace.

    Notes
    -----
    A key that is one signed integer is looked up in an index that stays; of other keys the codes are, which are given anew with
    each batch.
    """

    def __init__(self, states: TraceStates, fields: Sequence[pa.Field], remembers_last: bool) -> None:
        self.states, self.fields, self.remembers_last = states, list(fields), remembers_last
        self._is_integer = len(self.fields) == 1 and bool(pa.types.is_signed_integer(self.fields[0].type))
        self._stored_sets = _stored_sets(states)
        self._fill([pa.array([], item.type) for item in self.fields], np.zeros(0, np.int64))

    def _fill(self, keys: list[pa.Array], last: Int64s) -> None:
        size = len(keys[0])
        self._columns = [] if self._is_integer else [[key] for key in keys]
        self._keys = np.array(int64s(keys[0])) if self._is_integer else np.zeros(size, np.int64)
        self._is_over, self._last, self._over = np.zeros(size, np.bool_), last, 0
        self._enter(size)

    def __len__(self) -> int:
        return self.size - self._over

    @property
    def size(self) -> int:
        """Slots, with those of traces that are over."""
        return len(self.states)

    @property
    def nbytes(self) -> int:
        """Memory of what is derived from the stored form, with what is spare."""
        arrays = (self._keys, self._is_over, self._last, self._places)
        names: int = sum(piece.nbytes for pieces in self._columns for piece in pieces)
        return self.states.nbytes + sum(each.nbytes for each in arrays) + names

    @property
    def last(self) -> Int64s:
        """Time of the last event in each slot; `FOREVER` for a trace that is over. Nothing where no silence ends a trace."""
        return self._last[: self.size]

    @property
    def is_over(self) -> Bools:
        return self._is_over[: self.size]

    @property
    def keys(self) -> list[pa.Array]:
        """Key columns by slot."""
        if self._is_integer:
            return [pa.array(self._keys[: self.size]).cast(self.fields[0].type)]
        self._columns = [[pa.concat_arrays(pieces)] if len(pieces) > 1 else pieces for pieces in self._columns]
        return [pieces[0] for pieces in self._columns]

    def living(self) -> tuple[Int64s, list[pa.Array]]:
        """Slots of the traces that last, and their keys."""
        if not self._over:
            return np.arange(self.size), self.keys
        slots = np.flatnonzero(~self.is_over)
        return slots, [key.take(pa.array(slots)) for key in self.keys]

    # -- traces of rows ---------------------------------------------------------------------------------------------------

    def place(
        self, rows: Batch, chosen: Int64s, classes: Int64s, ends: TraceEnds, known: KnownKeys | None
    ) -> tuple[Int64s, Placed]:
        """The trace of each chosen row, begun if need be; in an order that has simultaneous rows of a trace side by side.

        Parameters
        ----------
        classes
            Of all rows: they tell which events end a trace.
        known
            The keys of the rows, where they have been numbered already.
        """
        names, ts = shared(self._names(rows, known)), shared(rows.ts)
        order = by_moment(chosen, ts, names) if not ends.is_total and _has_equal(ts) else chosen
        size, progress = self.size, np.zeros(3, np.int64)
        placed = Placed(*(np.empty(len(order), np.int64) for _ in range(4)))
        while True:
            traces = KeyedTraces(self._places, self._keys, self._is_over, self._last)
            place_events(order, ts, names, classes, traces, ends, placed, size, progress)
            if progress[0] == len(order):
                break
            self._make_room(size + int(progress[1]), int(progress[1]))
        first = placed.first[: progress[1]]
        if len(first):
            self.states.add(len(first))
            for pieces, item in zip(self._columns, self.fields, strict=False):
                pieces.append(rows.column(item.name).take(pa.array(first)))
        return order, placed._replace(first=first, silent=placed.silent[: progress[2]])

    def _names(self, rows: Batch, known: KnownKeys | None) -> Int64s:
        """An integer for the key of each row, by which the index finds its trace."""
        if self._is_integer:
            return int64s(rows.column(self.fields[0].name))
        if known is None:
            slots, keys = self.living()
            parts = [[old, rows.column(item.name)] for old, item in zip(keys, self.fields, strict=True)]
            codes, _, number = group_codes([pa.concat_arrays(part) for part in parts])
            by_code = np.full(number, -1, np.int64)
            by_code[codes[: len(slots)]] = slots
            known = KnownKeys(codes[len(slots) :], by_code)
        living = np.flatnonzero(known.slots >= 0)
        self._keys[known.slots[living]] = living
        self._enter(self.size)
        return known.codes

    def known(self, keys: Sequence[pa.Array]) -> Int64s:
        """The slot of the trace each key has; -1 for none."""
        slots, old = self.living()
        codes, _, number = group_codes([pa.concat_arrays(pair) for pair in zip(old, keys, strict=True)])
        found = np.full(number, -1, np.int64)
        found[codes[: len(slots)]] = slots
        return found[codes[len(slots) :]]

    def _make_room(self, number: int, spare: int) -> None:
        """Room for traces behind so many slots; the more of them are new, the more may follow."""
        self._keys, self._is_over = with_room(self._keys[:number], number, spare), with_room(self._is_over[:number], number, spare)
        if self.remembers_last:
            self._last = with_room(self._last[:number], number, spare)
        if 4 * len(self._keys) > 3 * len(self._places):
            self._enter(number)

    def _enter(self, number: int) -> None:
        """Index so many slots by their keys."""
        # Narrow numbers: the table is met at random, and the less of it the better.
        self._places = np.full(1 << (4 * len(self._keys) // 3 + 1).bit_length(), -1, np.int32)
        index_slots(self._places, self._keys, self._is_over[:number])

    def end(self, slots: Int64s) -> None:
        """These traces are over."""
        self._is_over[slots] = True
        if self.remembers_last:
            self._last[slots] = FOREVER
        self._over += len(slots)

    def compacted(self) -> Int64s | None:
        """Forget traces that are over, if they are many; returns the new slot of each old one, or -1."""
        if self._over <= max(len(self) // 4, _FEW):
            return None
        slots, keys = self.living()
        moved = np.full(self.size + 1, -1, np.int64)
        moved[slots] = np.arange(len(slots))
        last = self._last[slots] if self.remembers_last else self._last
        self.states.keep(slots)
        self._fill(keys, last)
        return moved

    def key_rows(self, slots: Int64s) -> pa.RecordBatch:
        """Keys of some traces."""
        indices = pa.array(slots)
        return pa.RecordBatch.from_arrays([key.take(indices) for key in self.keys], schema=pa.schema(self.fields))

    # -- storage ----------------------------------------------------------------------------------------------------------

    def stored(self) -> pa.RecordBatch:
        """Everything that cannot be derived, in few bytes."""
        slots, keys = self.living()
        columns = self.states.columns
        parts: list[npt.NDArray[Any]] = [columns.status[slots] | columns.had_match[slots].astype(np.uint8) << 2]
        for name, kind, words in self._stored_sets:
            parts += [getattr(columns, name)[slots, word].astype(kind) for word in range(words)]
        packed = [pa.array(part) for part in parts] + ([pa.array(self._last[slots])] if self.remembers_last else [])
        names = [f"{_PACKED}{number}" for number in range(len(parts))] + ([_LAST] if self.remembers_last else [])
        fields = [*self.fields, *(pa.field(name, part.type) for name, part in zip(names, packed, strict=True))]
        return pa.RecordBatch.from_arrays([*keys, *packed], schema=pa.schema(fields))

    def restore(self, rows: pa.RecordBatch, types: Sequence[str]) -> None:
        """Inverse of `stored`; `types` are the names of the types at that time."""
        flags = rows.column(f"{_PACKED}0").to_numpy(zero_copy_only=False)
        at, found = 1, dict[str, Sets]()
        for name, _, words in self._stored_sets:
            found[name] = np.zeros((rows.num_rows, self.states.words), self.states.kind)
            for word in range(words):
                found[name][:, word] = rows.column(f"{_PACKED}{at + word}").to_numpy(zero_copy_only=False)
            at += words
        found["seen"] = _renumbered(found["seen"], types, self.states.conditions.theory.names)
        status, had_match = (flags & 3).astype(np.uint8), (flags >> 2 & 1).astype(np.bool_)
        self.states.hold(StateColumns(**found, status=status, had_match=had_match))
        last = np.array(int64s(rows.column(_LAST))) if self.remembers_last else np.zeros(0, np.int64)
        self._fill(rows.columns[: len(self.fields)], last)


def _has_equal(ts: Int64s) -> bool:
    return bool((ts[1:] == ts[:-1]).any())


def _stored_sets(states: TraceStates) -> list[tuple[str, npt.DTypeLike, int]]:
    """Name, narrowest type and number of words of each stored column."""
    sizes = zip(("seen", "matched", "failed", "alive"), set_sizes(states.conditions), strict=True)
    return [(name, _narrowest(size), max(1, -(-size // 64))) for name, size in sizes]


def _narrowest(bits: int) -> npt.DTypeLike:
    for kind in (np.uint8, np.uint16, np.uint32):
        if bits <= np.dtype(kind).itemsize * 8:
            return kind
    return np.uint64


def _renumbered(seen: Sets, old: Sequence[str], new: Sequence[str]) -> Sets:
    """Sets of types under the numbers they have now; constraints may have changed at a restart."""
    if tuple(old) == tuple(new):
        return seen
    place = {name: number for number, name in enumerate(new)}
    result = np.zeros_like(seen)
    for number, name in enumerate(old):
        if name in place:
            at = place[name]
            is_member = (seen[:, number >> 6].astype(np.uint64) >> np.uint64(number & 63)) & np.uint64(1)
            result[:, at >> 6] |= (is_member << np.uint64(at & 63)).astype(seen.dtype)
    return result
