"""Regular expressions as values: sets of characters, positions, and what is put together from them.

Nothing here depends on an engine: sets are spelled out, flags are applied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

LAST_CHARACTER = 0x10FFFF

Ranges: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set: ranges of code points, ascending, not touching each other."""

    ranges: Ranges

    def __contains__(self, character: str) -> bool:
        at = bisect_right(self.ranges, (ord(character), LAST_CHARACTER + 1)) - 1
        return at >= 0 and ord(character) <= self.ranges[at][1]

    def __or__(self, other: Chars) -> Chars:
        return chars_of((*self.ranges, *other.ranges))

    def __and__(self, other: Chars) -> Chars:
        return (self.complement() | other.complement()).complement()

    def complement(self) -> Chars:
        edges = [-1, *(edge for low, high in self.ranges for edge in (low, high)), LAST_CHARACTER + 1]
        gaps = [(low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True)]
        return Chars(tuple((low, high) for low, high in gaps if low <= high))


def chars_of(ranges: Iterable[tuple[int, int]]) -> Chars:
    """The set of all characters in some ranges, however these overlap.

    Examples
    --------
    >>> chars_of([(98, 100), (97, 98)]).ranges
    ((97, 100),)
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return Chars(tuple(merged))


class Anchor(StrEnum):
    """Positions between characters that a pattern can ask for."""

    START = "start of the text"
    END = "end of the text"
    #: End of the text, or before the line terminator it ends with.
    LAST_LINE_END = "end of the last line"
    LINE_START = "start of a line"
    LINE_END = "end of a line"
    WORD_EDGE = "edge of a word"
    NO_WORD_EDGE = "not at the edge of a word"


@dataclass(frozen=True, slots=True)
class Chain:
    parts: tuple[Regex, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Regex, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`part` at least `least` times, at most `most` times where that is given; greedy or not finds the same texts."""

    part: Regex
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """What must, or must not, stand ahead of or behind a place."""

    part: Regex
    ahead: bool
    negated: bool


Regex: TypeAlias = Chars | Anchor | Chain | Choice | Repeat | Look
