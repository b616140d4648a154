"""Punctuations: the statement inside a stream that certain rows will not come again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import Defect, InvalidPattern, suggestion
from penstock.model.masks import Mask
from penstock.model.scalars import fits, readable
from penstock.model.schema import Field, Schema, sql_type
from penstock.model.value_sets import ANY, EMPTY, Pattern


@dataclass(frozen=True, slots=True)
class Punctuation:
    """No row after this one matches all patterns; attributes it does not name may have any value.

    The constructor accepts anything, because punctuations arrive as data: `validated` says what is wrong with one.

    Parameters
    ----------
    names
        Attributes it speaks about.
    patterns
        One pattern for each of them.
    ts
        Event time of the announcement.
    pos
        Position of the last row it follows. Position, not time, says which rows it speaks about.
    is_global
        Whether it holds for the whole stream although only one source partition announced it.

    References
    ----------
    [tucker2003] Tucker, Maier, Sheard, Fegaras. Exploiting Punctuation Semantics in Continuous Data Streams. TKDE 2003.

    Examples
    --------
    >>> from penstock.model.value_sets import one_of
    >>> closed = Punctuation.of(("item_id", "bidder_id"), item_id=one_of([1001, 2004]))
    >>> print(closed, closed.matches({"item_id": 1001, "bidder_id": 7}))
    ⟨item_id={1001,2004}, bidder_id=*⟩ True
    """

    names: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    ts: int = 0
    pos: int = 0
    is_global: bool = False

    @classmethod
    def of(cls, schema_names: Iterable[str], ts: int = 0, pos: int = 0, /, **patterns: Pattern) -> Punctuation:
        """A punctuation over `schema_names` with `*` where no pattern is given."""
        names = tuple(schema_names)
        unknown = [name for name in patterns if name not in names]
        if unknown:
            raise Defect(f"pattern for '{unknown[0]}', but the attributes are {', '.join(names)}", "punctuation")
        return cls(names, tuple(patterns.get(name, ANY) for name in names), ts, pos)

    @property
    def is_empty(self) -> bool:
        """Whether it announces nothing."""
        return any(pattern.is_empty for pattern in self.patterns)

    @property
    def is_end_of_stream(self) -> bool:
        """Whether no row at all comes after it."""
        return all(pattern.is_wildcard for pattern in self.patterns)

    @property
    def restricted(self) -> dict[str, Pattern]:
        """The patterns that are not `*`, by attribute."""
        return {name: pattern for name, pattern in self._pairs() if not pattern.is_wildcard}

    def _pairs(self) -> Iterable[tuple[str, Pattern]]:
        return zip(self.names, self.patterns, strict=True)

    def pattern(self, name: str) -> Pattern:
        """Pattern of an attribute, `*` when the punctuation does not name it."""
        return self.patterns[self.names.index(name)] if name in self.names else ANY

    def is_exploitable_for(self, names: Iterable[str]) -> bool:
        """Whether it may purge rows of other streams that are joined on `names`.

        Any restriction on another attribute leaves rows with the same join value free to come.
        """
        return not self.is_empty and set(self.restricted) <= set(names)

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether every named attribute of the row is in its pattern."""
        return all(pattern.matches(row[name]) for name, pattern in self.restricted.items())

    def matches_batch(self, rows: pa.RecordBatch) -> Mask:
        """Which rows of a batch it matches."""
        mask: Mask = np.ones(rows.num_rows, np.bool_)
        for name, pattern in self.restricted.items():
            mask &= pattern.matches_array(rows.column(name))
        return mask

    def __and__(self, other: Punctuation) -> Punctuation:
        """What both announce. It holds once both were made: the later time and position count."""
        names = self.names + tuple(name for name in other.names if name not in self.names)
        patterns = tuple(self.pattern(name) & other.pattern(name) for name in names)
        joined_global = self.is_global and other.is_global
        return Punctuation(names, patterns, max(self.ts, other.ts), max(self.pos, other.pos), joined_global)._settled()

    def _settled(self) -> Punctuation:
        """One empty component empties all, so that there is one empty punctuation per list of names."""
        return self.with_patterns((EMPTY,) * len(self.names)) if self.is_empty else self

    def with_patterns(self, patterns: Iterable[Pattern]) -> Punctuation:
        """The same announcement with other patterns."""
        return replace(self, patterns=tuple(patterns))

    def narrowed(self, name: str, pattern: Pattern) -> Punctuation:
        """The same announcement with another pattern for one attribute."""
        return self.with_patterns(pattern if name == own else kept for own, kept in self._pairs())

    def issubset(self, other: Punctuation) -> bool:
        """Whether `other` announces at least what this one does."""
        if self.is_empty:
            return True
        return all(self.pattern(name).issubset(pattern) for name, pattern in other.restricted.items())

    def extend(self, names: Iterable[str]) -> Punctuation:
        """The same statement over more attributes, in the order given.

        Examples
        --------
        >>> from penstock.model.value_sets import constant
        >>> print(Punctuation(("B", "C"), (constant(5), ANY)).extend(["A", "B", "C"]))
        ⟨A=*, B=5, C=*⟩
        """
        wanted = tuple(names)
        missing = [name for name in self.names if name not in wanted]
        if missing:
            raise Defect(f"extending to {', '.join(wanted)} would lose '{missing[0]}'", f"punctuation {self}")
        return replace(self, names=wanted, patterns=tuple(map(self.pattern, wanted)))

    def project(self, names: Iterable[str]) -> Punctuation | None:
        """The statement about fewer attributes, or None when it says something about a removed one."""
        wanted = tuple(names)
        if not set(self.restricted) <= set(wanted):
            return None
        return replace(self, names=wanted, patterns=tuple(map(self.pattern, wanted)))

    def rename(self, mapping: Mapping[str, str]) -> Punctuation:
        """The same statement with other attribute names; names not in `mapping` stay."""
        return replace(self, names=tuple(mapping.get(name, name) for name in self.names))

    def normalised(self, schema: Schema) -> Punctuation:
        """The simplest punctuation that announces the same rows of this schema."""
        patterns = (pattern.normalised(schema[name].type, schema[name].nullable) for name, pattern in self._pairs())
        return self.with_patterns(patterns)._settled()

    def validated(self, schema: Schema, where: str) -> Punctuation:
        """The punctuation with the schema's spelling of names and simplest patterns.

        Parameters
        ----------
        schema
            Attributes of the stream it arrived in.
        where
            Name of the stream, for the message.

        Raises
        ------
        InvalidPattern
            When the number of patterns, an attribute or the type of a value is wrong.
        """
        place = f"{where}, punctuation at position {self.pos}"
        if len(self.names) != len(self.patterns):
            about = ", ".join(self.names) or "no attribute"
            found = f"{len(self.patterns)} patterns for {len(self.names)} attributes ({about})"
            raise InvalidPattern(f"found {found}; give one pattern for each attribute", place)
        unknown = [name for name in self.names if name not in schema]
        if unknown:
            raise InvalidPattern(f"no attribute '{unknown[0]}'; {suggestion(unknown[0], schema.names)}", place)
        fields = [schema[name] for name in self.names]
        if len(set(fields)) < len(fields):
            raise InvalidPattern(f"an attribute is named twice among {', '.join(self.names)}; name each once", place)
        for field, pattern in zip(fields, self.patterns, strict=True):
            _check_type(field, pattern, place)
        return replace(self, names=tuple(field.name for field in fields)).normalised(schema)

    def to_json(self) -> dict[str, Any]:
        """A JSON value `from_json` turns back without loss."""
        patterns = [pattern.to_json() for pattern in self.patterns]
        return {
            "names": list(self.names),
            "patterns": patterns,
            "ts": self.ts,
            "pos": self.pos,
            "global": self.is_global,
        }

    @classmethod
    def from_json(cls, coded: Mapping[str, Any]) -> Punctuation:
        """Inverse of `to_json`."""
        patterns = tuple(map(Pattern.from_json, coded["patterns"]))
        return cls(tuple(coded["names"]), patterns, coded["ts"], coded["pos"], coded["global"])

    def __str__(self) -> str:
        return "⟨" + ", ".join(f"{name}={pattern}" for name, pattern in self._pairs()) + "⟩"


def _check_type(field: Field, pattern: Pattern, place: str) -> None:
    bounds = [bound for bound in (pattern.lo, pattern.hi) if bound is not None]
    for value in (*pattern.values, *bounds):
        if not fits(value, field.type):
            found = f"attribute '{field.name}' has type {sql_type(field.type)}, but the pattern {pattern} holds {readable(value)}"
            raise InvalidPattern(f"{found}; give values of the attribute's type", place)
