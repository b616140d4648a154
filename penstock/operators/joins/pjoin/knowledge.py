"""What the inputs have closed and the output has announced, as sets and as marks on the keys in use.

The sets are the truth; the marks make a constant cost one look-up. Constants are entered into the sets many at a time, when
somebody asks a set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from penstock.metadata.announcements import Announcements
from penstock.metadata.closed_set import ClosedSet
from penstock.model.batch import Int64s
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import constant, one_of_array
from penstock.operators.joins.pjoin.core import Core

#: Place of the output in the list of those who know; the sides are 0 and 1.
_OUTPUT = 2


class Knowledge:
    """Closed keys of both sides and of the output.

    Parameters
    ----------
    core
        Owner of the keys, whose records are marked.
    schemas, keys
        Attributes of both sides, and the names of the key columns.
    """

    def __init__(self, core: Core, schemas: Sequence[Schema], keys: Sequence[tuple[str, ...]]) -> None:
        self._core = core
        self.keys = tuple(keys)
        self._closed = [ClosedSet.over(schema, names) for schema, names in zip(schemas, keys, strict=True)]
        self._key_schema = schemas[0].select(keys[0])
        self._finished = Announcements(self._key_schema)
        self._waiting: list[list[Int64s | Punctuation]] = [[], [], []]
        #: Entries when something was last forgotten, and keys or punctuations closed since.
        self._settled_entries = self._closings = 0
        #: Punctuations whose keys were closed already.
        self.redundant = 0

    # -- sets ---------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> list[ClosedSet]:
        """What each side has closed."""
        self.settle()
        return self._closed

    @property
    def finished(self) -> Announcements:
        """What the output has closed, in the names of the first side."""
        self.settle()
        return self._finished

    @property
    def entries(self) -> int:
        """Values, intervals and combinations remembered."""
        return sum(map(len, self.closed)) + self.finished.entries

    def settle(self) -> None:
        """Enter constants that were only marked."""
        for place, waiting in enumerate(self._waiting):
            if waiting:
                self._waiting[place] = []
                names = self.keys[0 if place == _OUTPUT else place]
                kids = [found for found in waiting if not isinstance(found, Punctuation)]
                marks = [found for found in waiting if isinstance(found, Punctuation)]
                target = self._finished if place == _OUTPUT else self._closed[place]
                for mark in [*marks, *(self.marks_of(np.concatenate(kids), names) if kids else ())]:
                    target.add(mark)

    def marks_of(self, kids: Int64s, names: Sequence[str]) -> list[Punctuation]:
        """Punctuations on some keys: one list for a single column, one for each key otherwise."""
        columns = self._core.keys.take(kids)
        if len(columns) == 1:
            return [Punctuation(tuple(names), (one_of_array(columns[0]),))]
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return [Punctuation(tuple(names), tuple(map(constant, row))) for row in rows]

    def renamed(self, mark: Punctuation, side: int, other: int) -> Punctuation:
        """A punctuation on the keys in the names of another side."""
        return mark if side == other else mark.rename(dict(zip(self.keys[side], self.keys[other], strict=True)))

    def _matching(self, mark: Punctuation, side: int) -> Int64s:
        return np.flatnonzero(self._core.keys.matching([mark.pattern(name) for name in self.keys[side]]))

    # -- sides --------------------------------------------------------------------------------------------------------

    def learn(self, start: int) -> None:
        """Mark new keys as what the sets know of them."""
        fresh = self._core.keys.slice(start)
        for side, known in enumerate(self.closed):
            if len(known) or known.has_ended:
                mask = known.contains_array(fresh[0] if len(fresh) == 1 else fresh)
                self._core.close(side, start + np.flatnonzero(mask))
        if self.finished.entries:
            mask = self.finished.mask(dict(zip(self.keys[0], fresh, strict=True)), len(fresh[0]))
            self._core.keys.records.out[start : self._core.keys.number] = mask

    def close_keys(self, side: int, kids: Int64s, mark: Punctuation | None) -> Int64s:
        """Constants arrive, as a punctuation if there is one; returns the keys that were open."""
        fresh = self._core.close(side, kids)
        self.redundant += len(kids) - len(fresh)
        self._closings += len(fresh)
        if len(fresh):
            self._waiting[side].append(fresh if mark is None else mark)
        return fresh

    def close(self, side: int, mark: Punctuation) -> Int64s | None:
        """Any punctuation on the keys arrives; returns known keys that were open, None if it says nothing new."""
        known = self.closed[side]
        if not known.add(mark):
            return None
        self._closings += 1
        return self._core.close(side, self._matching(mark, side))

    def note_rest(self, side: int, mark: Punctuation) -> bool:
        """One on other columns too, or an empty one: whether it says anything new."""
        known = self.closed[side]
        known.add(mark)
        if mark.is_empty:
            return False
        is_new = not known.covers(mark)
        self.redundant += not is_new
        return is_new

    def covers(self, side: int, mark: Punctuation) -> bool:
        """Whether a side has closed all that a punctuation in its names announces."""
        return self.closed[side].covers(mark)

    # -- output -------------------------------------------------------------------------------------------------------

    def is_announced(self, kids: Int64s) -> Mask:
        """Which keys the output has closed."""
        found: Mask = self._core.keys.records.out[kids] > 0
        return found

    def announce_keys(self, kids: Int64s, marks: Sequence[Punctuation]) -> None:
        """Constants leave, as these punctuations if there are any."""
        self._core.keys.records.out[kids] = 1
        self._waiting[_OUTPUT] += list(marks) or [kids]

    def announce(self, key_part: Punctuation, is_whole: bool) -> bool:
        """Any punctuation leaves, given what it says of the keys; False when the output has closed all of it.

        Only one that speaks of nothing else (`is_whole`) closes keys.
        """
        if self.finished.covers(key_part):
            return False
        if is_whole:
            self._finished.add(key_part)
            self._core.keys.records.out[self._matching(key_part, 0)] = 1
        return True

    # -- memory -------------------------------------------------------------------------------------------------------

    def forget_when_grown(self) -> None:
        """Forget keys both sides have closed, for they cannot come again; after a doubling, when no such tuple is stored."""
        if self._closings <= self._settled_entries + 64:
            return
        self.settle()
        keys = self._core.keys
        if (keys.records.closed[:, : keys.number].all(axis=0) & keys.is_stored()).any():
            return
        by_both = reduce(and_, self._closed)
        for known in self._closed:
            known.forget(by_both.named(known.names))
        self._finished.prune(by_both.announcements)
        self._settled_entries, self._closings = self.entries, 0

    def snapshot(self) -> dict[str, Any]:
        return {
            "closed": [known.to_json() for known in self.closed],
            "finished": self.finished.to_json(),
            "redundant": self.redundant,
            "settled": [self._settled_entries, self._closings],
        }

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Take the sets over; keys are marked as they come into use."""
        pairs = zip(meta["closed"], self._closed, strict=True)
        self._closed = [ClosedSet.from_json(coded, known.fields) for coded, known in pairs]
        self._finished = Announcements.from_json(meta["finished"], self._key_schema)
        self.redundant = meta["redundant"]
        self._settled_entries, self._closings = meta["settled"]
