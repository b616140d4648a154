"""Punctuations on their way into a core, and those that leave as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.metadata.announcements import Announcements
from penstock.metadata.closed_set import ClosedSet
from penstock.model.batch import Int64s
from penstock.model.elements import NEVER
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.operators.joins.pwjoin.keys import BookCodes, OrdinalCodes
from penstock.operators.joins.pwjoin.rows import RowStore
from penstock.operators.joins.pwjoin.trace import Items, Kind

#: Keys nobody needs are looked for after a doubling and so many more.
_SPARE = 4096


class Announcer:
    """Turns punctuations into items of a core.

    Patterns over keys that have an order are ranges of numbers, which the core understands. Of other keys the core knows
    only single ones: a pattern is told for the keys it knows, kept for keys to come, and leaves as a whole when no stored
    row of its input matches it. So do punctuations that restrict other columns; these close no key.
    """

    def __init__(
        self, core: JoinCore, codes: OrdinalCodes | BookCodes, schemas: Sequence[pa.Schema], keys: Sequence[Sequence[str]]
    ) -> None:
        self._core = core
        self._codes = codes
        self._keys = tuple(map(tuple, keys))
        self._closed = [ClosedSet.over(Schema.from_arrow(schema), names) for schema, names in zip(schemas, self._keys, strict=True)]
        self._key_schema = Schema.from_arrow(pa.schema([schemas[0].field(name) for name in self._keys[0]]))
        self._finished = Announcements(self._key_schema)
        self._whole: list[list[Punctuation]] = [[] for _ in keys]
        self._looked_at = [NEVER for _ in keys]
        self._settled_keys = 0

    @property
    def num_keys(self) -> int:
        return len(self._codes) if isinstance(self._codes, BookCodes) else 0

    def numbers_of(self, columns: Sequence[pa.Array]) -> Int64s:
        """Numbers of keys that rows have; what earlier patterns say of new ones is told to the core first."""
        if isinstance(self._codes, OrdinalCodes):
            return self._codes.of(columns)
        start = self._codes.next_number
        numbers = self._codes.of(columns)
        self._inherit(*self._codes.since(start))
        return numbers

    def _inherit(self, numbers: Int64s, columns: Sequence[pa.Array]) -> None:
        if not len(numbers) or not any(len(known) or known.has_ended for known in self._closed):
            return
        masks = np.zeros(len(numbers), np.int64)
        for port, known in enumerate(self._closed):
            if len(known) or known.has_ended:
                masks |= known.contains_array(columns[0] if len(columns) == 1 else list(columns)).astype(np.int64) << port
        left = self._finished.mask(dict(zip(self._keys[0], columns, strict=True)), len(numbers))
        told = masks != 0
        statuses = np.where(left, lay.PROPAGATED, lay.OPEN).astype(np.int64)
        self._core.seed(numbers[told], masks[told], statuses[told])

    def items(self, port: int, mark: Punctuation) -> Items:
        """What a punctuation means to the core."""
        if not mark.is_exploitable_for(self._keys[port]):
            self._wait(port, mark)
            return Items.of([])
        patterns = [mark.pattern(name) for name in self._keys[port]]
        if isinstance(self._codes, OrdinalCodes):
            return _closing(port, *self._codes.bounds(patterns[0]))
        if all(pattern.is_constant for pattern in patterns) or (len(patterns) == 1 and patterns[0].values):
            numbers = self._listed(patterns[0].values) if len(patterns) == 1 else self._single(patterns)
            return _closing(port, numbers, numbers)
        if not self._closed[port].add(mark):
            return Items.of([])
        self._wait(port, mark)
        numbers = self._codes.matching(patterns)
        return _closing(port, numbers, numbers)

    def _listed(self, values: Sequence[Any]) -> Int64s:
        assert isinstance(self._codes, BookCodes)
        named = [value for value in values if value is not None]
        return self.numbers_of([pa.array(named, self._codes.kinds[0])]) if named else np.empty(0, np.int64)

    def _single(self, patterns: Sequence[Any]) -> Int64s:
        assert isinstance(self._codes, BookCodes)
        values = [pattern.value for pattern in patterns]
        if None in values:
            return np.empty(0, np.int64)
        return self.numbers_of([pa.array([value], kind) for value, kind in zip(values, self._codes.kinds, strict=True)])

    def _wait(self, port: int, mark: Punctuation) -> None:
        if not any(mark.issubset(other) for other in self._whole[port]):
            self._whole[port].append(mark)
            self._looked_at[port] = NEVER

    def released(self, stores: Sequence[RowStore]) -> list[tuple[int, Punctuation]]:
        """Punctuations that no stored row of their input holds back any more."""
        found: list[tuple[int, Punctuation]] = []
        for port, waiting in enumerate(self._whole):
            gone = int(self._core.memory.counts[[lay.N_PURGED, lay.N_INVALIDATED]].sum())
            if not waiting or self._looked_at[port] == gone:
                continue
            self._looked_at[port] = gone
            live = stores[port].take(np.sort(self._core.live_rows(port)))
            free = [mark for mark in waiting if not mark.matches_batch(live.rows).any()]
            self._whole[port] = [mark for mark in waiting if mark not in free]
            found += [(port, mark) for mark in free]
        for port, mark in found:
            own = mark.project(self._keys[port])
            if own is not None:
                self._finished.add(own.rename(dict(zip(self._keys[port], self._keys[0], strict=True))))
        return found

    def tidy(self) -> None:
        """Strike keys out of the book that the core has forgotten, when they are many."""
        if not isinstance(self._codes, BookCodes) or len(self._codes) <= 2 * self._settled_keys + _SPARE:
            return
        numbers, _ = self._codes.since(0)
        self._codes.keep(numbers[self._core.knows(numbers)])
        self._settled_keys = len(self._codes)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "closed": [known.to_json() for known in self._closed],
            "finished": self._finished.to_json(),
            "whole": [[mark.to_json() for mark in marks] for marks in self._whole],
            "settled": self._settled_keys,
        }

    def restore(self, meta: Mapping[str, Any]) -> None:
        pairs = zip(meta["closed"], self._closed, strict=True)
        self._closed = [ClosedSet.from_json(coded, known.fields) for coded, known in pairs]
        self._finished = Announcements.from_json(meta["finished"], self._key_schema)
        self._whole = [[Punctuation.from_json(coded) for coded in marks] for marks in meta["whole"]]
        self._settled_keys = meta["settled"]


def _closing(port: int, lows: Int64s, highs: Int64s) -> Items:
    """Punctuations as items; they move no clock."""
    kinds = np.full(len(lows), Kind.PUNCTUATION, np.int8)
    streams, ts = np.full(len(lows), port, np.int64), np.full(len(lows), NEVER, np.int64)
    return Items(kinds, streams, ts, lows.astype(np.int64), highs.astype(np.int64))
