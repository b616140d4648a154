"""From what single source partitions announce to what holds for the whole stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.metadata.announcements import Announcements
from penstock.metadata.attribute_set import Widen
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema


class Alignment:
    """Release a punctuation once every source partition has announced it, as a minimum watermark does for time.

    Partitions may announce in different portions: what one says in a range and another value by value is released value
    by value. A global punctuation is released at once; a partition whose end of stream was announced agrees to all.

    Parameters
    ----------
    partitions
        Partitions known from the start; others become known by `see_partition` or by their first announcement.
    schema
        Types of the attributes; with them adjacent integers merge, so that memory stays small.

    Examples
    --------
    >>> from penstock.model.patterns import between, constant
    >>> alignment = Alignment(partitions=[0, 1])
    >>> alignment.announce(0, Punctuation(("item",), (between(1, 9),)))
    []
    >>> [str(p) for p in alignment.announce(1, Punctuation(("item",), (constant(5),)))]
    ['⟨item=5⟩']
    >>> [str(p) for p in alignment.announce(1, Punctuation(("item",), (between(1, 9),)))]
    ['⟨item=[1,9]⟩']
    """

    __slots__ = ("_released", "_said", "_schema", "_settled_entries")

    def __init__(
        self, partitions: Iterable[int] = (), schema: Schema | None = None, widen: Mapping[str, Widen] | None = None
    ) -> None:
        self._schema = schema
        self._released = Announcements(schema, widen)
        self._said = {partition: Announcements(schema) for partition in partitions}
        self._settled_entries = 0

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions whose word is needed."""
        return tuple(sorted(self._said))

    @property
    def memory_entries(self) -> int:
        """Number of values, intervals and punctuations remembered."""
        return self._released.entries + self._pending_entries()

    def _pending_entries(self) -> int:
        return sum(said.entries for said in self._said.values())

    def see_partition(self, partition: int) -> None:
        """A partition becomes known: what is not released yet needs its word too."""
        if partition not in self._said:
            self._said[partition] = Announcements(self._schema)

    def said_by(self, partition: int) -> Announcements:
        """What a partition has announced and not every other one yet; its own later rows may not match it."""
        return self._said.get(partition, Announcements(self._schema))

    def announce(self, partition: int, punctuation: Punctuation) -> list[Punctuation]:
        """Take a partition's announcement; return what now holds for the whole stream and did not before.

        Results carry the time and position of the announcement that completed them.
        """
        self.see_partition(partition)
        known = punctuation if self._schema is None else punctuation.normalised(self._schema)
        if known.is_empty:
            return []
        agreed = [known] if known.is_global else self._agreed(partition, known)
        fresh = []
        for part in _widest(agreed):
            rest = self._released.beyond(part)
            if rest is not None and self._released.add(rest):
                fresh.append(rest)
        self._forget_when_grown()
        return fresh

    def _agreed(self, partition: int, punctuation: Punctuation) -> list[Punctuation]:
        """What all partitions have announced of a punctuation that one of them announces now."""
        if not self._said[partition].add(punctuation):
            return []
        parts = [punctuation]
        for other, said in self._said.items():
            if other != partition:
                parts = [shared for part in parts for shared in said.restrict(part)]
        return parts

    def _forget_when_grown(self) -> None:
        """Drop what is released from what partitions said; after a doubling only, so that it costs little each time."""
        if self._pending_entries() > 2 * self._settled_entries + 64:
            for said in self._said.values():
                said.prune(self._released)
            self._settled_entries = self._pending_entries()

    def to_json(self) -> dict[str, Any]:
        """State that `from_json` turns back."""
        said = [[partition, known.to_json()] for partition, known in sorted(self._said.items())]
        return {"released": self._released.to_json(), "said": said}

    @classmethod
    def from_json(cls, coded: dict[str, Any], schema: Schema | None = None, widen: Mapping[str, Widen] | None = None) -> Alignment:
        """Inverse of `to_json`."""
        alignment = cls((), schema)
        alignment._released = Announcements.from_json(coded["released"], schema, widen)
        for partition, known in coded["said"]:
            alignment._said[partition] = Announcements.from_json(known, schema)
        return alignment


def _widest(parts: list[Punctuation]) -> list[Punctuation]:
    """The parts that no other part makes redundant."""
    # Constants cover nothing but themselves, so only the few wider parts are compared with all.
    wide = [part for part in parts if not all(pattern.is_constant for pattern in part.restricted.values())]
    kept: list[Punctuation] = []
    for position, part in enumerate(parts):
        covering = (other for other in wide if other is not part and part.issubset(other))
        if not any(not other.issubset(part) or parts.index(other) < position for other in covering):
            kept.append(part)
    return kept
