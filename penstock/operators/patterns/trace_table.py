"""The traces under watch as a table: keys, the reasoner's state, and the time of the last event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.codes import Bools, group_codes
from penstock.errors import Defect
from penstock.metadata.constraints.bank import TraceBank, TraceColumns
from penstock.metadata.constraints.tables import Words
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import FOREVER
from penstock.operators.patterns._watch import Traces
from penstock.operators.patterns.trace_index import TraceIndex, indexable

#: Columns of the stored form beside the key.
_PACKED, _LAST = "_packed", "_last"
#: Traces that are over stay in the table until they are half as many as the others, and more than this.
_FEW = 1_024


class TraceTable:
    """A row per trace; slot i of the bank is row i. Slots stay while a trace lasts, but for `compacted`.

    Parameters
    ----------
    bank
        State of the reasoner.
    fields
        Columns of the key.
    remembers_last
        Whether the time of the last event must outlive a restart.
    """

    def __init__(self, bank: TraceBank, fields: Sequence[pa.Field], remembers_last: bool) -> None:
        self.bank, self.fields, self.remembers_last = bank, list(fields), remembers_last
        self._words = _stored_words(bank)
        self._fill([pa.array([], item.type) for item in self.fields], np.zeros(0, np.int64))

    def _fill(self, keys: list[pa.Array], last: Int64s) -> None:
        self._pieces = [[key] for key in keys]
        self._last, self._is_over, self._over = last, np.zeros(len(last), np.bool_), 0
        self._index: TraceIndex | None = TraceIndex(int64s(keys[0])) if indexable(self.fields) else None

    def __len__(self) -> int:
        return self.size - self._over

    @property
    def size(self) -> int:
        """Slots, with those of traces that are over."""
        return len(self.bank)

    @property
    def last(self) -> Int64s:
        """Time of the last event in each slot; `FOREVER` for a trace that is over."""
        return self._last[: self.size]

    @property
    def is_over(self) -> Bools:
        return self._is_over[: self.size]

    @property
    def keys(self) -> list[pa.Array]:
        """Key columns by slot."""
        self._pieces = [[pa.concat_arrays(pieces)] if len(pieces) > 1 else pieces for pieces in self._pieces]
        return [pieces[0] for pieces in self._pieces]

    def living(self) -> tuple[Int64s, list[pa.Array]]:
        """Slots of the traces that last, and their keys."""
        if not self._over:
            return np.arange(self.size), self.keys
        slots = np.flatnonzero(~self.is_over)
        return slots, [key.take(pa.array(slots)) for key in self.keys]

    # -- traces of rows ---------------------------------------------------------------------------------------------------

    def find(self, rows: Batch) -> tuple[Int64s, Int64s]:
        """The slot of each row's key, the next ones for keys without trace, and the rows with which those start.

        `add` must follow.
        """
        if self._index is not None:
            return self._index.find(int64s(rows.column(self.fields[0].name)), self.is_over)
        slots, keys = self.living()
        parts = [[old, rows.column(item.name)] for old, item in zip(keys, self.fields, strict=True)]
        codes, _, number = group_codes([pa.concat_arrays(part) for part in parts])
        known = np.full(number, -1, np.int64)
        known[codes[: len(slots)]] = slots
        return self.numbered(codes[len(slots) :], known)

    def known(self, keys: Sequence[pa.Array]) -> Int64s:
        """The slot of the trace each key has; -1 for none."""
        slots, old = self.living()
        codes, _, number = group_codes([pa.concat_arrays(pair) for pair in zip(old, keys, strict=True)])
        found = np.full(number, -1, np.int64)
        found[codes[: len(slots)]] = slots
        return found[codes[len(slots) :]]

    def numbered(self, codes: Int64s, known: Int64s) -> tuple[Int64s, Int64s]:
        """The same where each key has a number, and each number the slot of its trace or -1."""
        self._index = None  # it is not kept up to date where keys come with numbers
        fresh = np.flatnonzero(known[codes] < 0)
        found, first = np.unique(codes[fresh], return_index=True)
        slots = known.copy()
        slots[found] = self.size + np.arange(len(found))
        return slots[codes], fresh[first]

    def add(self, rows: Batch, first: Int64s, extra: Int64s) -> None:
        """Begin traces in the slots that were found, and others that follow a trace of the same key."""
        chosen = np.concatenate([first, extra]) if len(extra) else first
        if not len(chosen):
            return
        size = self.size
        self._make_room(len(chosen))
        self.bank.add(len(chosen))
        self._is_over[size : self.size] = False
        self._name(rows, chosen)
        if self._index is not None and len(extra):
            self._index.move(int64s(self._pieces[0][-1])[len(first) :], size + len(first))

    def _make_room(self, count: int) -> None:
        size = self.size
        if size + count > len(self._last):
            spare = size + 2 * count
            self._last = np.concatenate([self._last[:size], np.zeros(spare, np.int64)])
            self._is_over = np.concatenate([self._is_over[:size], np.zeros(spare, np.bool_)])

    def _name(self, rows: Batch, chosen: Int64s) -> None:
        """Give keys to new slots: those of the chosen rows."""
        indices = pa.array(chosen)
        for pieces, item in zip(self._pieces, self.fields, strict=True):
            pieces.append(rows.column(item.name).take(indices))

    @property
    def is_indexed(self) -> bool:
        """Whether a compiled loop can find the trace of a key."""
        return self._index is not None

    def traces(self, rows: int) -> Traces:
        """Everything, with room for as many new traces as there are rows, for a compiled loop that starts and ends traces."""
        if self._index is None:
            raise Defect("traces are not indexed by key")
        self._make_room(rows)
        places, values = self._index.room(rows, self.is_over)
        return Traces(places, values, self._is_over, self._last, self.bank.room(rows), self.bank.start)

    def started(self, rows: Batch, first: Int64s) -> None:
        """Traces have begun with these rows, in the loop."""
        if len(first):
            self.bank.extend(len(first))
            self._name(rows, first)

    def end(self, slots: Int64s) -> None:
        """These traces are over."""
        self._is_over[slots], self._last[slots] = True, FOREVER
        self._over += len(slots)

    def compacted(self) -> Int64s | None:
        """Forget traces that are over, if they are many; returns the new slot of each old one, or -1."""
        if self._over <= max(len(self) // 2, _FEW):
            return None
        slots, keys = self.living()
        moved = np.full(self.size + 1, -1, np.int64)
        moved[slots] = np.arange(len(slots))
        last = self._last[slots]
        self.bank.keep(slots)
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
        columns = self.bank.columns
        parts: list[npt.NDArray[Any]] = [columns.status[slots] | columns.had_match[slots].astype(np.uint8) << 2]
        for name, kind, words in self._words:
            parts += [getattr(columns, name)[slots, word].astype(kind) for word in range(words)]
        packed = [pa.array(part) for part in parts] + ([pa.array(self._last[slots])] if self.remembers_last else [])
        names = [f"{_PACKED}{number}" for number in range(len(parts))] + ([_LAST] if self.remembers_last else [])
        fields = [*self.fields, *(pa.field(name, part.type) for name, part in zip(names, packed, strict=True))]
        return pa.RecordBatch.from_arrays([*keys, *packed], schema=pa.schema(fields))

    def restore(self, rows: pa.RecordBatch, types: Sequence[str]) -> None:
        """Inverse of `stored`; `types` are the names of the types at that time."""
        flags = rows.column(f"{_PACKED}0").to_numpy(zero_copy_only=False)
        at, found = 1, dict[str, Words]()
        for name, _, words in self._words:
            whole = [rows.column(f"{_PACKED}{at + word}").to_numpy(zero_copy_only=False) for word in range(words)]
            found[name] = np.stack(whole, axis=1).astype(np.uint64)
            at += words
        seen = _renumbered(found["seen"], types, self.bank.conditions.theory.names)
        dead = np.zeros_like(seen)
        for number in range(len(self.bank.conditions.theory.names)):
            dead |= np.where(_has(seen, number)[:, None], self.bank.tables.kill[number][None, :], np.uint64(0))
        matched, failed, alive = found["matched"], found["failed"], found["alive"]
        status, had_match = (flags & 3).astype(np.uint8), (flags >> 2 & 1).astype(np.bool_)
        self.bank.hold(TraceColumns(seen, matched, failed, alive, dead, status, had_match))
        last = np.array(int64s(rows.column(_LAST))) if self.remembers_last else np.zeros(rows.num_rows, np.int64)
        self._fill(rows.columns[: len(self.fields)], last)


def _stored_words(bank: TraceBank) -> list[tuple[str, npt.DTypeLike, int]]:
    """Name, narrowest type and number of words of each stored column; what is dead follows from what was seen."""
    conditions = bank.conditions
    sizes = {
        "seen": len(conditions.theory.names),
        "matched": len(conditions.graph.before),
        "failed": len(conditions.graph.partitions),
        "alive": len(conditions.terms),
    }
    return [(name, _narrowest(size), getattr(bank.columns, name).shape[1]) for name, size in sizes.items()]


def _narrowest(bits: int) -> npt.DTypeLike:
    for kind in (np.uint8, np.uint16, np.uint32):
        if bits <= np.dtype(kind).itemsize * 8:
            return kind
    return np.uint64


def _has(words: Words, number: int) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = words[:, number >> 6] >> np.uint64(number & 63) & np.uint64(1) != 0
    return found


def _renumbered(seen: Words, old: Sequence[str], new: Sequence[str]) -> Words:
    """Sets of types under the numbers they have now; constraints may have changed at a restart."""
    if tuple(old) == tuple(new):
        return seen
    place = {name: number for number, name in enumerate(new)}
    result = np.zeros((len(seen), max(1, -(-len(new) // 64))), np.uint64)
    for number, name in enumerate(old):
        if name in place:
            at = place[name]
            result[:, at >> 6] |= _has(seen, number).astype(np.uint64) << np.uint64(at & 63)
    return result
