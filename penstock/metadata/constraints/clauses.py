"""Event constraints as values: what holds in every complete trace of a process.

A trace is the sequence of events with one key, say one order. Two classes of statement are understood, both about a whole
trace: the *order* of two event types, and *occurrence* as a Horn clause over "an event of this type exists". The forms
below are names for frequent cases of the two.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, Table 25.1. The sugar (`AtMostOnce`,
`Terminal`, `Never`) and general clauses are additions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from penstock.errors import InvalidConstraint


@dataclass(frozen=True, slots=True)
class Prior:
    """Every `first` comes before, or together with, every `second`: once a `second` was seen, no `first` follows.

    It says nothing about occurrence, and it is not transitive: with `prior(A, B)` and `prior(B, C)` the trace `C, A` is legal.

    Examples
    --------
    >>> print(prior("GenerateQuote", "SendQuote"))
    prior(GenerateQuote, SendQuote)
    """

    first: str
    second: str

    def __post_init__(self) -> None:
        _check_names(self, (self.first, self.second))

    @property
    def event_types(self) -> tuple[str, ...]:
        return (self.first, self.second)

    def __str__(self) -> str:
        return f"prior({self.first}, {self.second})"


@dataclass(frozen=True, slots=True)
class Exclusive:
    """No two of these types occur in one trace."""

    members: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_names(self, self.members)
        if len(self.members) < 2 or len(set(self.members)) < len(self.members):
            raise InvalidConstraint(f"{self}: give two or more different event types; for one that never occurs, say never(...)")

    @property
    def event_types(self) -> tuple[str, ...]:
        return self.members

    def __str__(self) -> str:
        return f"exclusive({', '.join(self.members)})"


@dataclass(frozen=True, slots=True)
class Require:
    """A trace with an event of type `given` also has one of type `needed`, before or after."""

    given: str
    needed: str

    def __post_init__(self) -> None:
        _check_names(self, (self.given, self.needed))

    @property
    def event_types(self) -> tuple[str, ...]:
        return (self.given, self.needed)

    def __str__(self) -> str:
        return f"require({self.given}, {self.needed})"


@dataclass(frozen=True, slots=True)
class _OfOneType:
    """A statement about one type of events."""

    member: str
    word: ClassVar[str]

    def __post_init__(self) -> None:
        _check_names(self, (self.member,))

    @property
    def event_types(self) -> tuple[str, ...]:
        return (self.member,)

    def __str__(self) -> str:
        return f"{self.word}({self.member})"


@dataclass(frozen=True, slots=True)
class AtMostOnce(_OfOneType):
    """No two events of this type at different times; under total order, no two at all. The same as `prior(A, A)`."""

    word = "at_most_once"


@dataclass(frozen=True, slots=True)
class Terminal(_OfOneType):
    """An event of this type ends the trace: no event of any declared type comes later."""

    word = "terminal"


@dataclass(frozen=True, slots=True)
class Never(_OfOneType):
    """Events of this type do not occur."""

    word = "never"


@dataclass(frozen=True, slots=True)
class Horn:
    """A trace with events of all types in `body` also has one of type `head`; without a head there is no such trace.

    Examples
    --------
    >>> print(horn("A", "B", then="C"), horn("A", "B", "C"))
    horn(A, B -> C) horn(A, B, C -> false)
    """

    body: tuple[str, ...]
    head: str | None = None

    def __post_init__(self) -> None:
        _check_names(self, self.event_types)
        if not self.body:
            raise InvalidConstraint(f"{self}: a clause needs at least one event type before the arrow")

    @property
    def event_types(self) -> tuple[str, ...]:
        return self.body if self.head is None else (*self.body, self.head)

    def __str__(self) -> str:
        return f"horn({', '.join(self.body)} -> {self.head or 'false'})"


Constraint: TypeAlias = Prior | Exclusive | Require | AtMostOnce | Terminal | Never | Horn


def prior(first: str, second: str) -> Prior:
    """Every `first` comes before, or with, every `second`."""
    return Prior(first, second)


def exclusive(*members: str) -> Exclusive:
    """No two of these types occur in one trace."""
    return Exclusive(members)


def require(given: str, needed: str) -> Require:
    """A trace with a `given` also has a `needed`, before or after."""
    return Require(given, needed)


def at_most_once(member: str) -> AtMostOnce:
    """No second event of this type at another time."""
    return AtMostOnce(member)


def terminal(member: str) -> Terminal:
    """An event of this type ends the trace."""
    return Terminal(member)


def never(member: str) -> Never:
    """Events of this type do not occur."""
    return Never(member)


def horn(*body: str, then: str | None = None) -> Horn:
    """All of `body` together need `then`, or contradict each other when `then` is None."""
    return Horn(body, then)


def _check_names(constraint: object, names: Iterable[str]) -> None:
    if not all(names):
        raise InvalidConstraint(f"{constraint}: an event type has an empty name")
