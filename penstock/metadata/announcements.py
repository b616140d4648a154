"""Everything announced about the rows of a stream, over any attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.metadata.attribute_set import AttributeSet, Widen
from penstock.metadata.combinations import combinations_in
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import plain
from penstock.model.schema import Schema
from penstock.model.value_sets import constant

#: Listed values of several attributes are looked up one by one up to this many combinations.
EXPAND_LIMIT = 1000


class Announcements:
    """The union of punctuations: which rows are known not to come again.

    A punctuation that restricts one attribute goes to that attribute's `AttributeSet`, constants of several attributes
    go to a hash set, anything else is kept as it is unless a wider one makes it redundant.

    Parameters
    ----------
    schema
        Types of the attributes; without them ranges of integers do not merge where they are adjacent.

    Examples
    --------
    >>> known = Announcements()
    >>> known.add(Punctuation.of(("item", "bidder"), item=constant(180), bidder=constant(5)))
    True
    >>> known.contains({"item": 180, "bidder": 5}), known.contains({"item": 180, "bidder": 6})
    (True, False)
    >>> known.add(Punctuation.of(("item",), item=constant(180))), known.contains({"item": 180, "bidder": 6})
    (True, True)
    """

    __slots__ = ("_columns", "_constants", "_others", "_schema", "_settled_entries", "_widen", "has_ended")

    def __init__(self, schema: Schema | None = None, widen: Mapping[str, Widen] | None = None) -> None:
        self._schema = schema
        self._widen = widen or {}
        self.has_ended = False
        self._clear()

    def _clear(self) -> None:
        self._columns: dict[str, AttributeSet] = {}
        self._constants: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
        self._others: list[Punctuation] = []
        self._settled_entries = 0

    @property
    def entries(self) -> int:
        """Number of values, intervals and punctuations remembered."""
        columns = sum(column.entries for column in self._columns.values())
        return columns + sum(map(len, self._constants.values())) + len(self._others) + self.has_ended

    def _reduced(self, punctuation: Punctuation) -> Punctuation:
        """Only what it restricts, attributes in one order, so that equal statements look equal."""
        known = punctuation if self._schema is None else punctuation.normalised(self._schema)
        restricted = sorted(known.restricted.items())
        return Punctuation(tuple(name for name, _ in restricted), tuple(pattern for _, pattern in restricted))

    def add(self, punctuation: Punctuation) -> bool:
        """Remember a punctuation; False when it announces nothing new."""
        reduced = self._reduced(punctuation)
        if self._is_for_one_column(reduced):
            return self._add_to_column(reduced)
        if self.covers(reduced):
            return False
        if reduced.is_end_of_stream:
            self._end()
        elif len(reduced.names) == 1:
            self._add_to_column(reduced)
        elif all(pattern.is_constant for pattern in reduced.patterns):
            self._constants.setdefault(reduced.names, set()).add(_constants_of(reduced))
        else:
            self._others = [other for other in self._others if not other.issubset(reduced)]
            self._others.append(reduced)
        self._compact_when_grown()
        return True

    def _end(self) -> None:
        self._clear()
        self.has_ended = True

    def _is_for_one_column(self, reduced: Punctuation) -> bool:
        """Whether nothing but the announcements about one attribute says if it is new, as for most punctuations."""
        is_alone = len(reduced.names) == 1 and not (self.has_ended or self._others or reduced.is_empty)
        return is_alone and not (reduced.patterns[0].is_range and reduced.names[0] in self._widen)

    def _add_to_column(self, reduced: Punctuation) -> bool:
        (name,), (pattern,) = reduced.names, reduced.patterns
        column = self._column(name)
        is_new = column.add(pattern)
        if column.is_complete:
            self._end()
        return is_new

    def _column(self, name: str) -> AttributeSet:
        if name not in self._columns:
            field = None if self._schema is None else self._schema[name]
            widen = self._widen.get(name)
            self._columns[name] = AttributeSet() if field is None else AttributeSet(field.type, field.nullable, widen)
        return self._columns[name]

    def _compact_when_grown(self) -> None:
        """Drop what single attributes cover by now; only after a doubling, so that it costs little per punctuation."""
        combined = sum(map(len, self._constants.values())) + len(self._others)
        if combined > 2 * self._settled_entries + 64:
            combinations, self._constants = self._constants, {}
            others, self._others = self._others, []
            self._others = [other for other in others if not self.covers(other)]
            for names, values in combinations.items():
                self._constants[names] = {row for row in values if not self._covers_constants(names, row)}
            self._settled_entries = sum(map(len, self._constants.values())) + len(self._others)

    def _covers_constants(self, names: tuple[str, ...], row: tuple[Any, ...]) -> bool:
        return self.contains(dict(zip(names, row, strict=True)))

    def covers(self, punctuation: Punctuation) -> bool:
        """Whether all it announces is known; may overlook it when only several entries together cover it."""
        if self.has_ended or punctuation.is_empty:
            return True
        restricted = punctuation.restricted
        columns = self._columns
        # A range may look covered only because values that cannot occur here count as announced; others must still hear it.
        judged = {name: pattern for name, pattern in restricted.items() if not (pattern.is_range and name in self._widen)}
        if any(columns[name].covers(pattern) for name, pattern in judged.items() if name in columns):
            return True
        if any(punctuation.issubset(other) for other in self._others):
            return True
        listed = [pattern.values for pattern in restricted.values()]
        if len(listed) < 2 or not 0 < prod(map(len, listed)) <= EXPAND_LIMIT:
            return False
        return all(self.contains(dict(zip(restricted, row, strict=True))) for row in product(*listed))

    def contains(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with these values is announced."""
        if self.has_ended or any(name in row and known.contains(row[name]) for name, known in self._columns.items()):
            return True
        for names, values in self._constants.items():
            if all(name in row for name in names) and tuple(plain(row[name]) for name in names) in values:
                return True
        return any(all(name in row for name in other.names) and other.matches(row) for other in self._others)

    def mask(self, columns: Mapping[str, pa.Array], num_rows: int) -> Mask:
        """Which rows are announced; `columns` holds every attribute that was ever restricted."""
        found: Mask = np.full(num_rows, self.has_ended, np.bool_)
        for name, known in self._columns.items():
            found |= known.mask(columns[name])
        for names, values in self._constants.items():
            if values:
                found |= combinations_in([columns[name] for name in names], values)
        for other in self._others:
            matched: Mask = np.ones(num_rows, np.bool_)
            for name, pattern in other.restricted.items():
                matched &= pattern.matches_array(columns[name])
            found |= matched
        return found

    def restrict(self, punctuation: Punctuation) -> list[Punctuation]:
        """The known part of what a punctuation announces, with its time and position."""
        if punctuation.is_empty:
            return []
        if self.covers(punctuation):
            return [punctuation]
        return [part for part in self._parts(punctuation) if not part.is_empty]

    def _parts(self, punctuation: Punctuation) -> Iterator[Punctuation]:
        for name, known in self._columns.items():
            for pattern in known.restrict(punctuation.pattern(name)):
                yield _narrowed(punctuation, Punctuation((name,), (pattern,)))
        for names, values in self._constants.items():
            wanted = [punctuation.pattern(name) for name in names]
            if all(pattern.is_constant for pattern in wanted):
                rows = values.intersection([tuple(pattern.value for pattern in wanted)])
            else:
                rows = {row for row in values if all(p.matches(v) for p, v in zip(wanted, row, strict=True))}
            for row in rows:
                yield _narrowed(punctuation, Punctuation(names, tuple(map(constant, row))))
        for other in self._others:
            yield _narrowed(punctuation, other)

    def punctuations(self) -> list[Punctuation]:
        """Everything known, as few punctuations."""
        return self.restrict(Punctuation((), ()))

    def meet(self, other: Announcements, names: Mapping[str, str] | None = None) -> Announcements:
        """What both have announced, as announcements of its own.

        Parameters
        ----------
        names
            From an attribute of the other one to the same attribute here, where they are called differently.
        """
        renamed = names or {}
        both = Announcements(self._schema, self._widen)
        if len(self._columns) == 1 and len(other._columns) == 1 and self._has_columns_only and other._has_columns_only:
            ((name, mine),), ((their_name, theirs),) = self._columns.items(), other._columns.items()
            met = mine.meet(theirs) if renamed.get(their_name, their_name) == name else None
            if met is not None:
                both._columns[name] = met
                return both
        for punctuation in other.punctuations():
            for shared in self.restrict(punctuation.rename(renamed)):
                both.add(shared)
        return both

    def renamed(self, names: Mapping[str, str], schema: Schema | None = None) -> Announcements:
        """The same under other attribute names, as announcements of its own."""
        other = Announcements(schema)
        copies = {names.get(name, name): column.meet(column) for name, column in self._columns.items()}
        if self._has_columns_only and None not in copies.values():
            other._columns = {name: copy for name, copy in copies.items() if copy is not None}
            return other
        for punctuation in self.punctuations():
            other.add(punctuation.rename(names))
        return other

    @property
    def _has_columns_only(self) -> bool:
        return not (self._constants or self._others or self.has_ended)

    def beyond(self, punctuation: Punctuation) -> Punctuation | None:
        """The punctuation without listed values already known; None when nothing is left."""
        restricted = punctuation.restricted
        names = [name for name, pattern in restricted.items() if pattern.has_values and name in self._columns]
        if len(restricted) != 1 or not names or self.has_ended:
            return None if self.covers(punctuation) else punctuation
        fresh = self._columns[names[0]].beyond(restricted[names[0]])
        left = punctuation if fresh is restricted[names[0]] else punctuation.narrowed(names[0], fresh)
        is_known = left.is_empty or (bool(self._others) and self.covers(left))
        return None if is_known else left

    def prune(self, known: Announcements) -> None:
        """Forget what another set of announcements covers."""
        if known.has_ended:
            self._clear()
        for name, column in self._columns.items():
            if name in known._columns:
                column.prune(known._columns[name])
        for names, values in self._constants.items():
            self._constants[names] = {row for row in values if not known._covers_constants(names, row)}
        self._others = [other for other in self._others if not known.covers(other)]

    def to_json(self) -> list[Any]:
        """State that `from_json` turns back: punctuations, and the intervals of an attribute in one piece."""
        spans = {name: found for name, column in self._columns.items() if (found := column.spans()) is not None}
        coded: list[Any] = [
            {"spans": name, "lows": lows.tolist(), "highs": highs.tolist()} for name, (lows, highs) in spans.items() if len(lows)
        ]
        rest = Announcements(self._schema, self._widen)
        rest.has_ended, rest._constants, rest._others = self.has_ended, self._constants, self._others
        rest._columns = {name: column for name, column in self._columns.items() if name not in spans}
        return [*coded, *(punctuation.to_json() for punctuation in rest.punctuations())]

    @classmethod
    def from_json(cls, coded: list[Any], schema: Schema | None = None, widen: Mapping[str, Widen] | None = None) -> Announcements:
        """Inverse of `to_json`."""
        known = cls(schema, widen)
        known.add_json(coded)
        return known

    def add_json(self, coded: list[Any]) -> None:
        """Add what `to_json` has written of others."""
        for item in coded:
            if "spans" in item:
                self._column(item["spans"]).add_spans(np.array(item["lows"], np.int64), np.array(item["highs"], np.int64))
            else:
                self.add(Punctuation.from_json(item))


def _constants_of(punctuation: Punctuation) -> tuple[Any, ...]:
    return tuple(pattern.value for pattern in punctuation.patterns)


def _narrowed(punctuation: Punctuation, by: Punctuation) -> Punctuation:
    met = punctuation & by
    return replace(met, ts=punctuation.ts, pos=punctuation.pos, is_global=punctuation.is_global)
