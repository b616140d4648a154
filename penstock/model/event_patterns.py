"""Event patterns as values: which events, in which order, how often, and which must be absent.

A pattern is a tree of `Seq`, `And` and `Or` over `Atom` (one event, or a run of events) and `Absent` (no such event). What
the events must satisfy beyond their type stands beside the pattern, in the query. `penstock.model.pattern_terms` reads a
pattern as alternatives without `Or`.

Examples
--------
>>> theft = seq(atom("ShelfRead", "s"), absent("CheckoutRead", "c"), atom("ExitRead", "x"))
>>> str(theft)
'SEQ(ShelfRead s, !(CheckoutRead c), ExitRead x)'
>>> str(seq("A", any_of("B", "C"), atom("D", "d", "+")))
'SEQ(A, ANY(B, C), D+ d[])'
>>> str(normalised(seq("A", seq("B", both("C")))))
'SEQ(A, B, C)'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from penstock.errors import InvalidEventPattern


class Repeat(StrEnum):
    """How many events an atom takes."""

    ONCE = ""
    PLUS = "+"
    STAR = "*"


class Strategy(StrEnum):
    """Which events a partial match may pass over."""

    #: All of them: every combination that fits is a match.
    ANY = "skip-till-any-match"
    #: Those that do not fit: what fits is taken.
    NEXT = "skip-till-next-match"
    #: None of the same partition.
    PARTITION = "partition-contiguity"
    #: None of the whole stream.
    STRICT = "strict-contiguity"


class EventOrder(StrEnum):
    """When an event is before another: by time alone, simultaneous ones being unordered, or by time and position."""

    TIMESTAMP = "timestamp"
    TOTAL = "total"


class LastRun(StrEnum):
    """What a repeated atom at the end of a pattern reports: each extension, or the longest run once it is over."""

    EVERY = "every"
    MAXIMAL = "maximal"


class Lists(StrEnum):
    """What is reported of a repeated atom under skip-till-any-match: each list that fits, or one with all its candidates."""

    ENUMERATE = "enumerate"
    COLLAPSE = "collapse"


@dataclass(frozen=True, slots=True)
class Atom:
    """An event of one of some types, or with `repeat` a list of them in strictly increasing time."""

    types: tuple[str, ...]
    variable: str = ""
    repeat: Repeat = Repeat.ONCE

    @property
    def is_repeated(self) -> bool:
        return self.repeat is not Repeat.ONCE

    def __str__(self) -> str:
        name = _types_text(self.types)
        variable = "" if self.variable in ("", name) else f" {self.variable}" + ("[]" if self.is_repeated else "")
        return name + self.repeat + variable


@dataclass(frozen=True, slots=True)
class Absent:
    """No event of these types, between the parts of a `Seq` it stands between."""

    types: tuple[str, ...]
    variable: str = ""

    def __str__(self) -> str:
        name = _types_text(self.types)
        return f"!({name})" if self.variable in ("", name) else f"!({name} {self.variable})"


@dataclass(frozen=True, slots=True)
class Seq:
    """Its parts one strictly after the other."""

    parts: tuple[EventPattern, ...]

    def __str__(self) -> str:
        return f"SEQ({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class And:
    """All its parts, in any order."""

    parts: tuple[EventPattern, ...]

    def __str__(self) -> str:
        return f"AND({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Or:
    """One of its parts; each is a match of its own."""

    parts: tuple[EventPattern, ...]

    def __str__(self) -> str:
        return f"OR({', '.join(map(str, self.parts))})"


EventPattern: TypeAlias = Atom | Absent | Seq | And | Or
Part: TypeAlias = EventPattern | str


def atom(kind: str, variable: str = "", repeat: str = "") -> Atom:
    """One event of a type; `repeat` is `+` or `*` for a list of them."""
    return Atom((kind,), variable, Repeat(repeat))


def any_of(*types: str, variable: str = "", repeat: str = "") -> Atom:
    """One event of any of the types."""
    return Atom(types, variable, Repeat(repeat))


def absent(kind: str, variable: str = "") -> Absent:
    return Absent((kind,), variable)


def seq(*parts: Part) -> Seq:
    return Seq(_parts(parts))


def both(*parts: Part) -> And:
    return And(_parts(parts))


def either(*parts: Part) -> Or:
    return Or(_parts(parts))


def atoms_of(pattern: EventPattern) -> tuple[Atom, ...]:
    """The positive leaves, left to right: a leaf's number is its place here."""
    return tuple(leaf for leaf in leaves_of(pattern) if isinstance(leaf, Atom))


def absences_of(pattern: EventPattern) -> tuple[Absent, ...]:
    """The negated leaves, left to right."""
    return tuple(leaf for leaf in leaves_of(pattern) if isinstance(leaf, Absent))


def leaves_of(pattern: EventPattern) -> Iterator[Atom | Absent]:
    if isinstance(pattern, Atom | Absent):
        yield pattern
        return
    for part in pattern.parts:
        yield from leaves_of(part)


def types_of(pattern: EventPattern) -> frozenset[str]:
    """Every type the pattern names, negated ones included."""
    return frozenset(kind for leaf in leaves_of(pattern) for kind in leaf.types)


def normalised(pattern: EventPattern) -> EventPattern:
    """The same pattern with names for all leaves and without needless nesting; raises when it means nothing.

    Raises
    ------
    InvalidEventPattern
        A part without events, a name given twice, or an absence where no interval says where.
    """
    flat = _named(_flattened(pattern))
    _check(flat, inside_seq=False)
    counts = Counter(leaf.variable.lower() for leaf in leaves_of(flat))
    for name, times in counts.items():
        if times > 1:
            raise InvalidEventPattern(f"the variable '{name}' is given {times} times; each event needs its own name")
    return flat


def can_be_empty(pattern: EventPattern) -> bool:
    """Whether the pattern may match without any event, as `E*` does."""
    if isinstance(pattern, Atom):
        return pattern.repeat is Repeat.STAR
    if isinstance(pattern, Absent):
        return True
    test = any if isinstance(pattern, Or) else all
    return test(can_be_empty(part) for part in pattern.parts)


def _parts(parts: tuple[Part, ...]) -> tuple[EventPattern, ...]:
    return tuple(atom(part) if isinstance(part, str) else part for part in parts)


def _types_text(types: tuple[str, ...]) -> str:
    return types[0] if len(types) == 1 else f"ANY({', '.join(types)})"


def _flattened(pattern: EventPattern) -> EventPattern:
    if isinstance(pattern, Atom | Absent):
        return pattern
    if not pattern.parts:
        raise InvalidEventPattern(f"{pattern} has no events; name at least one type")
    parts: list[EventPattern] = []
    for part in map(_flattened, pattern.parts):
        if type(part) is type(pattern):
            assert isinstance(part, Seq | And | Or)
            parts += part.parts
        else:
            parts.append(part)
    if len(parts) == 1 and not isinstance(parts[0], Absent):
        return parts[0]
    return type(pattern)(tuple(parts))


def _named(pattern: EventPattern) -> EventPattern:
    """Leaves without a name are called by their type, numbered when the type occurs more than once."""
    unnamed = [leaf for leaf in leaves_of(pattern) if not leaf.variable]
    given = {leaf.variable.lower() for leaf in leaves_of(pattern) if leaf.variable}
    times = Counter("_or_".join(leaf.types) for leaf in unnamed)
    used: Counter[str] = Counter()

    def name(leaf: Atom | Absent) -> str:
        base = "_or_".join(leaf.types)
        while True:
            used[base] += 1
            found = base if times[base] == 1 and used[base] == 1 else f"{base}_{used[base]}"
            if found.lower() not in given:
                return found

    def visit(part: EventPattern) -> EventPattern:
        if isinstance(part, Atom | Absent):
            return part if part.variable else replace(part, variable=name(part))
        return type(part)(tuple(map(visit, part.parts)))

    return visit(pattern)


def _check(pattern: EventPattern, inside_seq: bool) -> None:
    if isinstance(pattern, Atom):
        if not pattern.types:
            raise InvalidEventPattern("ANY() names no type")
        return
    if isinstance(pattern, Absent):
        if not inside_seq:
            raise InvalidEventPattern(f"{pattern} stands outside SEQ; an absence needs events before or after it in a SEQ")
        return
    is_seq = isinstance(pattern, Seq)
    if is_seq and any(isinstance(part, Absent) for part in pattern.parts) and can_be_empty(pattern):
        raise InvalidEventPattern(f"{pattern} may match without any event; an absence needs an event that must occur beside it")
    for part in pattern.parts:
        _check(part, is_seq)
