"""What the punctuations of one stream have closed, seen through the attributes of a join or a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.metadata.announcements import Announcements
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Field, Schema


class ClosedSet:
    """Values of some attributes that will not appear again in a stream.

    Only punctuations that say nothing about other attributes count: ⟨180, bidder 5⟩ does not close item 180. Integers,
    dates, clock times and floats are kept as coalescing intervals, other constants in a hash set.

    Parameters
    ----------
    fields
        The attributes, with their types.

    Attributes
    ----------
    redundant
        Punctuations that announced nothing new, among them all after the end of the stream.
    useless
        Empty punctuations.
    not_exploitable
        Punctuations that restrict other attributes too.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 3 and 4.

    Examples
    --------
    >>> from penstock.model.value_sets import between, constant
    >>> closed = ClosedSet.over(Schema.of(item_id=pa.int64(), price=pa.float64()), ["item_id"])
    >>> closed.add(Punctuation.of(("item_id", "price"), item_id=between(1, 99)))
    True
    >>> closed.add(Punctuation.of(("item_id", "price"), item_id=constant(100))), len(closed)
    (True, 1)
    >>> closed.contains_array(pa.array([7, 100, 101])).tolist()
    [True, True, False]
    """

    __slots__ = ("_known", "_schema", "fields", "names", "not_exploitable", "redundant", "useless")

    def __init__(self, fields: Iterable[Field]) -> None:
        self.fields = tuple(fields)
        self.names = tuple(field.name for field in self.fields)
        self._schema = Schema(self.fields)
        self._known = Announcements(self._schema)
        self.redundant = self.useless = self.not_exploitable = 0

    @classmethod
    def over(cls, schema: Schema, names: Iterable[str]) -> ClosedSet:
        """The closed values of some attributes of a schema."""
        return cls(schema[name] for name in names)

    @property
    def has_ended(self) -> bool:
        """Whether the stream has ended: everything is closed."""
        return self._known.has_ended

    @property
    def memory_entries(self) -> int:
        """Number of values, intervals and combinations remembered."""
        return self._known.entries

    def __len__(self) -> int:
        return self.memory_entries

    def add(self, punctuation: Punctuation) -> bool:
        """Close what the punctuation announces; False when it closes nothing new, which is counted."""
        if punctuation.is_empty:
            self.useless += 1
            return False
        own = punctuation.project(self.names)
        if own is None:
            self.not_exploitable += 1
            return False
        if own.normalised(self._schema).is_empty:
            self.useless += 1
            return False
        is_new = self._known.add(own)
        self.redundant += not is_new
        return is_new

    def covers(self, punctuation: Punctuation) -> bool:
        """Whether everything the punctuation announces is closed already."""
        return self._known.covers(punctuation)

    def contains(self, value: Any) -> bool:
        """Whether a value, or a tuple of values for several attributes, is closed."""
        values = (value,) if len(self.names) == 1 else value
        return self._known.contains(dict(zip(self.names, values, strict=True)))

    def contains_array(self, columns: pa.Array | Sequence[pa.Array]) -> Mask:
        """Which rows are closed, given the column, or the columns in the order of the attributes."""
        arrays = [columns] if isinstance(columns, pa.Array | pa.ChunkedArray) else list(columns)
        return self._known.mask(dict(zip(self.names, arrays, strict=True)), len(arrays[0]))

    def punctuations(self) -> list[Punctuation]:
        """Everything closed, as few punctuations over the attributes."""
        return [punctuation.extend(self.names) for punctuation in self._known.punctuations()]

    def __and__(self, other: ClosedSet) -> ClosedSet:
        """What is closed in both, under the names of this one; attributes correspond by position."""
        both = ClosedSet(self.fields)
        both._known = self._known.meet(other._known, dict(zip(other.names, self.names, strict=True)))
        return both

    @property
    def announcements(self) -> Announcements:
        """What is closed, as announcements over the attributes."""
        return self._known

    def named(self, names: Sequence[str]) -> ClosedSet:
        """The same closed values under other attribute names; attributes correspond by position."""
        if tuple(names) == self.names:
            return self
        renamed = dict(zip(self.names, names, strict=True))
        other = ClosedSet(Field(renamed[field.name], field.type, field.nullable) for field in self.fields)
        other._known = self._known.renamed(renamed, other._schema)
        return other

    def forget(self, other: ClosedSet) -> None:
        """Forget what another set over the same attributes holds."""
        self._known.prune(other._known)

    @classmethod
    def of(cls, fields: Iterable[Field], known: Announcements, counts: Sequence[int] = (0, 0, 0)) -> ClosedSet:
        """The closed values that announcements over the same attributes name."""
        closed = cls(fields)
        closed._known = known
        closed.redundant, closed.useless, closed.not_exploitable = counts
        return closed

    @property
    def counts(self) -> list[int]:
        """Punctuations that closed nothing, by reason."""
        return [self.redundant, self.useless, self.not_exploitable]

    def to_json(self) -> dict[str, Any]:
        """State that `from_json` turns back; the attributes are not part of it."""
        return {"known": self._known.to_json(), "counts": self.counts}

    @classmethod
    def from_json(cls, coded: dict[str, Any], fields: Iterable[Field]) -> ClosedSet:
        """Inverse of `to_json` for the same attributes."""
        given = tuple(fields)
        return cls.of(given, Announcements.from_json(coded["known"], Schema(given)), coded["counts"])
