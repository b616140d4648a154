"""Which punctuations may leave a join, and when.

A punctuation of input i may leave when no stored row of input i matches it: every later result needs a row of input i, and
none that matches is stored or will come. In the output of an inner join all key columns are equal, so a punctuation on the
key is stated once for each of them; a value leaves once, whichever input announced it first. In joins of other kinds, which
have two inputs, what may be said depends on the kind:

=========== ================================= ======================================
kind        from the first input              from the second input
=========== ================================= ======================================
left        its columns, both keys            its columns
right       its columns                       its columns, both keys
full        its columns                       its columns
left semi   its columns                       the first input's key, if it names keys
left anti   its columns                       nothing
=========== ================================= ======================================

That input i sends no more rows with key v says nothing about rows of a preserved input that find no partner, so the key of
the preserved input stays open: ⟨b.k = 5⟩ is true, ⟨a.k = 5⟩ is not. A statement about columns that may be NULL-extended must
not match a row in which all of them are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.metadata.announcements import Announcements
from penstock.model.join_kinds import JoinKind
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import ANY, EMPTY, Pattern, one_of, one_of_array
from penstock.operators.joins.forgetting.announcement_log import AnnouncementLog
from penstock.operators.joins.storing.row_store import RowStore


class Propagation:
    """Punctuations that wait in one join, per input.

    Lists of single key values are kept value by value, because each may leave alone; all else waits as a whole.
    """

    def __init__(self, kind: JoinKind, schemas: Sequence[pa.Schema], keys: Sequence[tuple[str, ...]], output: pa.Schema) -> None:
        self.kind = kind
        self.schemas = tuple(schemas)
        self.keys = tuple(keys)
        self.output = output
        self._values: list[list[pa.Array]] = [[] for _ in keys]
        self._hashes: list[UInt64s] = [np.empty(0, np.uint64) for _ in keys]
        #: The list as it came, where nothing else waits: all of it may leave at once.
        self._own: list[Pattern | None] = [None for _ in keys]
        self._whole: list[list[Punctuation]] = [[] for _ in keys]
        self._just_listed: list[UInt64s] = []
        self._just_whole = False
        # With two inputs a finished key has no stored rows left to purge.
        self._notes_finished = len(keys) > 2
        #: Keys no result will ever have again, in the names of the first input.
        self.finished = AnnouncementLog("finished", key_schema(schemas[0], keys[0]))
        #: Where not all key columns are equal, what has been said on those of each input, in the same names.
        self._said = [
            AnnouncementLog(f"said{port}", self.finished.schema) for port in range(len(keys)) if kind is not JoinKind.INNER
        ]

    @property
    def entries(self) -> int:
        """Number of announced values, intervals and combinations remembered."""
        return sum(log.known.entries for log in (self.finished, *self._said))

    def prune(self, closed: Announcements) -> None:
        """Forget keys that cannot come again."""
        for log in self._said or [self.finished]:
            log.prune(closed)

    def wait(self, port: int, mark: Punctuation) -> UInt64s | None:
        """Keep a punctuation until it may leave; hashes of the keys it names one by one, None if it speaks in another way."""
        column = self._listed(port, mark)
        is_shown = self.kind.shows_pairs or port == 0 or (self.kind.stated_on(port) and mark.is_exploitable_for(self.keys[port]))
        if column is None:
            self._whole[port] += [mark] if is_shown else []
            return None
        hashes = hash_columns([column], len(column))
        if not is_shown:
            return hashes
        order = np.argsort(hashes)  # values that ascend are found faster among the stored ones
        pattern = mark.pattern(self.keys[port][0])
        self._own[port] = None if len(self._hashes[port]) or pattern.whole is None else pattern
        self._values[port].append(column.take(pa.array(order)))
        self._hashes[port] = np.concatenate([self._hashes[port], hashes[order]])
        return hashes[order]

    @property
    def is_waiting(self) -> bool:
        return any(map(len, self._hashes)) or any(self._whole)

    def _listed(self, port: int, mark: Punctuation) -> pa.Array | None:
        name = self.keys[port][0]
        pattern = mark.pattern(name)
        if len(self.keys[port]) > 1 or list(mark.restricted) != [name] or not pattern.has_values or pattern.has_null:
            return None
        return self._column(port, pattern)

    def _column(self, port: int, pattern: Pattern) -> pa.Array:
        """Listed values in the type of the key."""
        kind = self.schemas[port].field(self.keys[port][0]).type
        kind = pa.int64() if pa.types.is_timestamp(kind) else kind
        numbers = pattern.numbers if pa.types.is_integer(kind) else None
        return pa.array(pattern.values if numbers is None else numbers, kind)

    def release(self, port: int, rows: RowStore) -> list[Punctuation]:
        """Punctuations of this input that no stored row holds back any more, in output names."""
        released: list[Punctuation] = []
        if len(self._hashes[port]):
            free = ~rows.has(self._hashes[port])
            if free.any():
                released += self._values_out(port, free)
        if self._whole[port]:
            free_marks = [mark for mark in self._whole[port] if not rows.holds(mark)]
            self._whole[port] = [mark for mark in self._whole[port] if mark not in free_marks]
            released += [out for mark in free_marks for out in self._extended(port, mark)]
            self._just_whole |= self._notes_finished and bool(free_marks)
        return released

    def just_finished(self) -> UInt64s | None:
        """Hashes of the keys released since the last call; None if punctuations that do not list them were."""
        hashes, whole = self._just_listed, self._just_whole
        self._just_listed, self._just_whole = [], False
        return None if whole else np.concatenate([np.empty(0, np.uint64), *hashes])

    def _values_out(self, port: int, free: Mask) -> list[Punctuation]:
        own = self._own[port] if free.all() else None
        waiting = pa.concat_arrays(self._values[port])
        self._values[port] = [waiting.slice(0, 0) if free.all() else waiting.filter(pa.array(~free))]
        self._own[port] = None
        if self._notes_finished:
            self._just_listed.append(self._hashes[port][free])
        self._hashes[port] = self._hashes[port][~free]
        leaving = own or one_of_array(waiting.filter(pa.array(free)))
        return self._announce_keys(port, Punctuation((self.keys[0][0],), (leaving,)))

    def _extended(self, port: int, mark: Punctuation) -> list[Punctuation]:
        restricted = mark.restricted
        if restricted and set(restricted) <= set(self.keys[port]):
            names = dict(zip(self.keys[port], self.keys[0], strict=True))
            patterns = {names[name]: pattern for name, pattern in restricted.items()}
            return self._announce_keys(port, Punctuation(self.keys[0], tuple(patterns.get(name, ANY) for name in self.keys[0])))
        return self._announce_rest(port, restricted)

    def _announce_keys(self, port: int, mark: Punctuation) -> list[Punctuation]:
        """Say that keys, in the names of the first input, are finished."""
        said = mark.extend(self.keys[0])
        if self.kind is JoinKind.INNER:
            fresh = self.finished.add_beyond(said)
            return [] if fresh is None else [self._on_keys_of(target, fresh) for target in range(len(self.keys))]
        stated: list[Punctuation] = []
        for target in self.kind.stated_on(port):
            part = _never_all_null(said) if target in self.kind.extended else said
            fresh = None if part.is_empty else self._said[target].add_beyond(part)
            stated += [] if fresh is None else [self._on_keys_of(target, fresh)]
        return stated

    def _announce_rest(self, port: int, restricted: Mapping[str, Pattern]) -> list[Punctuation]:
        """Say what restricts other columns too, or nothing at all: the end of an input."""
        if self.kind is JoinKind.INNER:
            return [self._stated(restricted)]
        if not restricted:
            return [self._stated({})] if port in self.kind.needed else []
        if not self.kind.shows_pairs and port == 1:
            return []
        mark = self._stated(restricted)
        if port in self.kind.extended:
            mark = _never_all_null(mark)
        return [] if mark.is_empty else [mark]

    def _on_keys_of(self, port: int, mark: Punctuation) -> Punctuation:
        names = dict(zip(self.keys[0], self.keys[port], strict=True))
        return self._stated({names[name]: pattern for name, pattern in mark.restricted.items()})

    def _stated(self, patterns: Mapping[str, Any]) -> Punctuation:
        names = tuple(self.output.names)
        return Punctuation(names, tuple(patterns.get(name, ANY) for name in names))

    def finished_mask(self, columns: Sequence[pa.Array]) -> Mask:
        """Which rows have a key that no result will have again."""
        return self.finished.known.mask(dict(zip(self.keys[0], columns, strict=True)), len(columns[0]))

    def snapshot(self) -> tuple[dict[str, Any], Mapping[str, pa.RecordBatch]]:
        (finished, *said), parts = zip(*(log.snapshot() for log in (self.finished, *self._said)), strict=True)
        values = [self._packed(port) for port in range(len(self.keys))]
        whole = [[mark.to_json() for mark in marks] for marks in self._whole]
        meta = {"values": values, "whole": whole, "finished": finished, **({"said": said} if said else {})}
        return meta, {name: rows for part in parts for name, rows in part.items()}

    def _packed(self, port: int) -> Any:
        if not len(self._hashes[port]):
            return None
        return Punctuation((self.keys[port][0],), (one_of_array(pa.concat_arrays(self._values[port])),)).to_json()

    def restore(self, state: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        patterns = [Punctuation.from_json(coded).patterns[0] if coded else EMPTY for coded in state["values"]]
        self._values = [[self._column(port, pattern)] for port, pattern in enumerate(patterns)]
        self._hashes = [hash_columns(columns, len(columns[0])) for columns in self._values]
        self._whole = [[Punctuation.from_json(coded) for coded in marks] for marks in state["whole"]]
        for log, written in zip((self.finished, *self._said), (state["finished"], *state.get("said", ())), strict=True):
            log.restore(written, segments)


def _never_all_null(mark: Punctuation) -> Punctuation:
    """The largest part of a punctuation that no row of NULLs matches."""
    restricted = mark.restricted
    if any(not pattern.matches(None) for pattern in restricted.values()):
        return mark
    name, pattern = next(iter(restricted.items()))
    return mark.narrowed(name, one_of(value for value in pattern.values if value is not None))


def key_schema(schema: pa.Schema, key: Sequence[str]) -> Schema:
    return Schema.from_arrow(pa.schema([schema.field(name) for name in key]))
