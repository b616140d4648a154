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

    A partition that nobody knew of, or that is idle, is not waited for. What is released without its word binds the stream,
    but is no promise of that partition: `missed_by` tells it apart.

    Parameters
    ----------
    partitions
        Partitions known from the start; others become known by `see_partition` or by their first announcement.
    schema
        Types of the attributes; with them adjacent integers merge, so that memory stays small.
    is_open
        Whether partitions may appear later: of these it is remembered what was released before.

    Examples
    --------
    >>> from penstock.model.value_sets import between, constant
    >>> alignment = Alignment(partitions=[0, 1])
    >>> alignment.announce(0, Punctuation(("item",), (between(1, 9),)))
    []
    >>> [str(p) for p in alignment.announce(1, Punctuation(("item",), (constant(5),)))]
    ['⟨item=5⟩']
    >>> [str(p) for p in alignment.announce(1, Punctuation(("item",), (between(1, 9),)))]
    ['⟨item=[1,9]⟩']
    """

    __slots__ = ("_expected", "_idle", "_imposed", "_is_open", "_missed", "_released", "_said", "_schema", "_settled_entries")

    def __init__(
        self,
        partitions: Iterable[int] = (),
        schema: Schema | None = None,
        widen: Mapping[str, Widen] | None = None,
        is_open: bool = False,
    ) -> None:
        self._schema = schema
        self._released = Announcements(schema, widen)
        self._said = {partition: Announcements(schema) for partition in partitions}
        self._expected: frozenset[int] = frozenset()
        self._idle: frozenset[int] = frozenset()
        self._is_open = is_open
        #: What one partition has announced for all, also for those to come.
        self._imposed = Announcements(schema, widen)
        #: What was released without the word of a partition.
        self._missed: dict[int, Announcements] = {}
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
            if self._is_open and self._released.entries and partition not in self._missed:
                self._missed[partition] = self._released.renamed({}, self._schema)
                self._missed[partition].prune(self._imposed)

    def expect(self, partitions: Iterable[int]) -> None:
        """These partitions exist, whether they have said anything or not."""
        self._expected |= frozenset(partitions)
        for partition in sorted(self._expected):
            self.see_partition(partition)

    def set_idle(self, idle: frozenset[int]) -> list[Punctuation]:
        """Wait for the word of all partitions but these; returns what therefore holds for the whole stream."""
        is_less = not idle <= self._idle
        self._idle = idle
        if not is_less:
            return []
        said = [(partition, mark) for partition, known in self._said.items() for mark in known.punctuations()]
        return [fresh for partition, mark in said for fresh in self._release(self._shared(partition, mark), is_agreed=True)]

    def missed_by(self, partition: int) -> Announcements | None:
        """What was released without the word of this partition: rows of it that match break no promise of its own."""
        return self._missed.get(partition)

    def announced_by(self, partition: int) -> Announcements:
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
        self.confirm(partition, known)
        agreed = [known] if known.is_global else self._agreed(partition, known)
        fresh = self._release(agreed, is_agreed=not known.is_global)
        self._forget_when_grown()
        return fresh

    def confirm(self, partition: int, punctuation: Punctuation) -> None:
        """What was released without a partition is its own promise once it says so too."""
        if partition in self._missed:
            announced = Announcements(self._schema)
            announced.add(punctuation)
            self._missed[partition].prune(announced)

    def _release(self, parts: list[Punctuation], is_agreed: bool) -> list[Punctuation]:
        fresh = []
        for part in _widest(parts):
            rest = self._released.beyond(part)
            if rest is None or not self._released.add(rest):
                continue
            fresh.append(rest)
            if is_agreed:
                self._remember_for_idle(rest)
            elif self._is_open:
                self._imposed.add(rest)
        return fresh

    def _remember_for_idle(self, punctuation: Punctuation) -> None:
        for partition in self._idle:
            missed = self._missed.setdefault(partition, Announcements(self._schema))
            missed.add(punctuation)
            missed.prune(self._said[partition])

    def _agreed(self, partition: int, punctuation: Punctuation) -> list[Punctuation]:
        """What all partitions have announced of a punctuation that one of them announces now."""
        return self._shared(partition, punctuation) if self._said[partition].add(punctuation) else []

    def _shared(self, partition: int, punctuation: Punctuation) -> list[Punctuation]:
        """The part of what a partition has announced that all others have, as far as they are waited for."""
        parts = [punctuation]
        for other, said in self._said.items():
            if other != partition and other not in self._idle:
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
        # A partition that is only expected is no state: another declaration may expect others.
        announced = ((partition, known) for partition, known in sorted(self._said.items()))
        said = [[partition, known.to_json()] for partition, known in announced if known.entries or partition not in self._expected]
        return {
            "released": self._released.to_json(),
            "said": said,
            "imposed": self._imposed.to_json(),
            "missed": [[partition, known.to_json()] for partition, known in sorted(self._missed.items())],
            "idle": sorted(self._idle),
        }

    @classmethod
    def from_json(
        cls,
        coded: Mapping[str, Any],
        schema: Schema | None = None,
        widen: Mapping[str, Widen] | None = None,
        is_open: bool = False,
    ) -> Alignment:
        """Inverse of `to_json`, but for the partitions that are only expected."""
        alignment = cls((), schema, widen, is_open)
        alignment._released = Announcements.from_json(coded["released"], schema, widen)
        for partition, known in coded["said"]:
            alignment._said[partition] = Announcements.from_json(known, schema)
        # Shards saved before partitions could come later have none of these.
        alignment._idle = frozenset(coded.get("idle", ()))
        alignment._missed = {partition: Announcements.from_json(known, schema) for partition, known in coded.get("missed", ())}
        alignment._imposed = Announcements.from_json(coded.get("imposed", []), schema, widen)
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
