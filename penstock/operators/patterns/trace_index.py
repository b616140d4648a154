"""Where the trace of a key is, remembered from batch to batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.codes import Bools, shared
from penstock.model.batch import Int64s
from penstock.operators.patterns._traces import find_slots, index_slots, move_keys

_LEAST = 1_024


def indexable(fields: Sequence[pa.Field]) -> bool:
    """Whether the key is one signed integer; other keys are compared anew with those of all traces."""
    return len(fields) == 1 and bool(pa.types.is_signed_integer(fields[0].type))


class TraceIndex:
    """Slots by integer key, in a table with open addresses. Each key has one trace that lasts, at most.

    Parameters
    ----------
    keys
        Keys of the slots there are.

    Examples
    --------
    >>> index = TraceIndex(np.array([70, 80]))
    >>> index.find(np.array([80, 90, 90]), is_over=np.array([False, False]))
    (array([1, 2, 2]), array([1]))
    """

    def __init__(self, keys: Int64s) -> None:
        self._values = np.array(keys, np.int64)
        self._places = np.zeros(0, np.int32)

    def room(self, rows: int, is_over: Bools) -> tuple[npt.NDArray[np.int32], Int64s]:
        """Places by key, and keys by slot, with room for as many new traces as there are rows."""
        size = len(is_over)
        if size + rows > len(self._values):
            self._values = np.concatenate([self._values[:size], np.zeros(size + 2 * rows, np.int64)])
        if 2 * (size + rows) > len(self._places):
            # Narrow numbers: the table is met at random, and the less of it the better.
            self._places = np.full(1 << max(_LEAST, 2 * (size + rows)).bit_length(), -1, np.int32)
            index_slots(self._places, self._values, is_over)
        return self._places, self._values

    def find(self, keys: Int64s, is_over: Bools) -> tuple[Int64s, Int64s]:
        """The slot of each key, the next ones for keys without trace that lasts, and the rows with which those start."""
        places, values = self.room(len(keys), is_over)
        slots, first = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        fresh = find_slots(shared(keys), places, values, is_over, slots, first)
        return slots, first[:fresh]

    def move(self, keys: Int64s, first_slot: int) -> None:
        """Put the trace of each key into the slots from the one given."""
        move_keys(shared(keys), self._places, self._values, first_slot)
