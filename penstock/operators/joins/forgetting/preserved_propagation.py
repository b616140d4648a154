"""Which punctuations may leave an outer, semi or anti join.

A punctuation of input i still waits until no stored row of input i matches it. What may then be said depends on the kind:

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
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.metadata.announcements import Announcements
from penstock.model.join_kinds import JoinKind
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import Pattern, one_of
from penstock.operators.joins.forgetting.announcement_log import AnnouncementLog
from penstock.operators.joins.forgetting.propagation import Propagation


class PreservedPropagation(Propagation):
    """Punctuations that wait in a join of two inputs that is not inner."""

    def __init__(self, kind: JoinKind, schemas: Sequence[pa.Schema], keys: Sequence[tuple[str, ...]], output: pa.Schema) -> None:
        super().__init__(schemas, keys, output)
        self.kind = kind
        #: What has been said on the key columns of each input, in the names of the first.
        self._said = [AnnouncementLog(f"said{port}", self.finished.schema) for port, _ in enumerate(keys)]

    @property
    def entries(self) -> int:
        return sum(said.known.entries for said in self._said)

    def prune(self, closed: Announcements) -> None:
        for said in self._said:
            said.prune(closed)

    def wait(self, port: int, mark: Punctuation) -> UInt64s | None:
        shown = self.kind.shows_pairs or port == 0
        if shown or (self.kind.stated_on(port) and mark.is_exploitable_for(self.keys[port])):
            return super().wait(port, mark)
        column = self._listed(port, mark)
        return None if column is None else hash_columns([column], len(column))

    def _announce_keys(self, port: int, mark: Punctuation) -> list[Punctuation]:
        stated: list[Punctuation] = []
        for target in self.kind.stated_on(port):
            said = mark.extend(self.keys[0])
            if target in self.kind.extended:
                said = _never_all_null(said)
            fresh = None if said.is_empty else self._said[target].add_beyond(said)
            if fresh is not None:
                stated.append(self._on_keys_of(target, fresh))
        return stated

    def _announce_rest(self, port: int, restricted: Mapping[str, Pattern]) -> list[Punctuation]:
        if not restricted:
            return [self._stated({})] if port in self.kind.needed else []
        if not self.kind.shows_pairs and port == 1:
            return []
        mark = self._stated(restricted)
        if port in self.kind.extended:
            mark = _never_all_null(mark)
        return [] if mark.is_empty else [mark]

    def snapshot(self) -> tuple[dict[str, Any], Mapping[str, pa.RecordBatch]]:
        meta, segments = super().snapshot()
        written = [said.snapshot() for said in self._said]
        return {**meta, "said": [record for record, _ in written]}, reduce(
            or_, (dict(parts) for _, parts in written), dict(segments)
        )

    def restore(self, state: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        super().restore(state, segments)
        for said, written in zip(self._said, state["said"], strict=True):
            said.restore(written, segments)


def _never_all_null(mark: Punctuation) -> Punctuation:
    """The largest part of a punctuation that no row of NULLs matches."""
    restricted = mark.restricted
    if any(not pattern.matches(None) for pattern in restricted.values()):
        return mark
    name, pattern = next(iter(restricted.items()))
    return mark.narrowed(name, one_of(value for value in pattern.values if value is not None))
