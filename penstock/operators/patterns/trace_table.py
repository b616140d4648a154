"""The traces under watch as a table: keys, the reasoner's state, and the time of the last event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.metadata.constraints.bank import TraceBank, TraceColumns
from penstock.metadata.constraints.tables import Words
from penstock.model.batch import Batch, Int64s, int64s

#: Columns of the stored form beside the key.
_PACKED, _LAST = "_packed", "_last"


class TraceTable:
    """One row per trace; slot i of the bank is row i.

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
        self.keys = [pa.array([], item.type) for item in self.fields]
        self.last: Int64s = np.zeros(0, np.int64)
        self._words = _stored_words(bank)

    def __len__(self) -> int:
        return len(self.last)

    def add(self, rows: Batch, chosen: Int64s, last: Int64s) -> None:
        """Give keys to the slots that the bank added: those of the chosen rows."""
        if len(chosen):
            indices = pa.array(chosen)
            found = [rows.column(item.name).take(indices) for item in self.fields]
            self.keys = [_joined(old, new) for old, new in zip(self.keys, found, strict=True)]
        self.last = last

    def keep(self, slots: Int64s) -> None:
        """Keep these traces only."""
        if len(slots) == len(self):
            return
        self.bank.keep(slots)
        indices = pa.array(slots)
        self.keys = [key.take(indices) for key in self.keys]
        self.last = self.last[slots]

    def key_rows(self, slots: Int64s) -> pa.RecordBatch:
        """Keys of some traces."""
        indices = pa.array(slots)
        return pa.RecordBatch.from_arrays([key.take(indices) for key in self.keys], schema=pa.schema(self.fields))

    # -- storage ----------------------------------------------------------------------------------------------------------

    def stored(self) -> pa.RecordBatch:
        """Everything that cannot be derived, in few bytes."""
        columns = self.bank.columns
        parts: list[npt.NDArray[Any]] = [columns.status | columns.had_match.astype(np.uint8) << 2]
        for name, kind, words in self._words:
            parts += [getattr(columns, name)[:, word].astype(kind) for word in range(words)]
        packed = [pa.array(part) for part in parts] + ([pa.array(self.last)] if self.remembers_last else [])
        names = [f"{_PACKED}{number}" for number in range(len(parts))] + ([_LAST] if self.remembers_last else [])
        fields = [*self.fields, *(pa.field(name, part.type) for name, part in zip(names, packed, strict=True))]
        return pa.RecordBatch.from_arrays([*self.keys, *packed], schema=pa.schema(fields))

    def restore(self, rows: pa.RecordBatch, types: Sequence[str]) -> None:
        """Inverse of `stored`; `types` are the names of the types at that time."""
        width = len(self.fields)
        self.keys = rows.columns[:width]
        self.last = int64s(rows.column(_LAST)) if self.remembers_last else np.zeros(rows.num_rows, np.int64)
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
        self.bank.columns = TraceColumns(
            seen,
            found["matched"],
            found["failed"],
            found["alive"],
            dead,
            (flags & 3).astype(np.uint8),
            (flags >> 2 & 1).astype(np.bool_),
        )


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


def _joined(old: pa.Array, new: pa.Array) -> pa.Array:
    return pa.concat_arrays([old, new]) if len(old) else new
