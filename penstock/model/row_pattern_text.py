"""The text of a row pattern: `A B+ (C | D)*? E{2,3}`, as it stands in the brackets of PATTERN."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import InvalidEventPattern, Place
from penstock.model.row_patterns import (
    Alternation,
    Excluded,
    PartitionStart,
    Repeated,
    RowPattern,
    Sequence,
    Variable,
    permuted,
)

#: From the first and last character of a word, counted from 0, to where it stands in what the user wrote.
PlaceOf = Callable[[int, int], Place]

_SPACE = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_WORD = re.compile(r"\{-|-\}|[(){}|?*+,^$]|\d+|[^\W\d]\w*|\"[^\"]*\"|`[^`]*`|.", re.DOTALL)
_LAST_ROW = "$ asks for the last row of a partition, and a stream has none; let a row that tells the end be the last, or use WITHIN"


#: Of the bounds of a quantifier.
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int


def parse_row_pattern(text: str, place_of: PlaceOf | None = None) -> RowPattern:
    """Read a row pattern.

    Parameters
    ----------
    text
        What stands between the brackets of PATTERN.
    place_of
        Where a part of the text stands, for messages.

    Raises
    ------
    InvalidEventPattern
        The text is no pattern, or a pattern that streams cannot have.

    Examples
    --------
    >>> str(parse_row_pattern("start down{2,} (up|flat)+?"))
    'start down{2,} (up | flat)+?'
    >>> str(parse_row_pattern("PERMUTE(a, b) c?"))
    '(a b | b a) c?'
    >>> str(parse_row_pattern("^ a {- b+ -} c"))
    '^ a {- b+ -} c'
    """
    reading = _Reading(text, place_of or (lambda start, end: Place("the pattern", 1, start + 1, text, end - start + 1)))
    if not reading.words:
        raise reading.mistake("the pattern is empty; name at least one variable")
    pattern = reading.alternation()
    if reading.now:
        raise reading.mistake(f"'{reading.now}' is not expected here")
    return pattern


class _Reading:
    def __init__(self, text: str, place_of: PlaceOf) -> None:
        self.text, self._place_of = text, place_of
        self.words = _words(text)
        self._at = 0
        #: Names are compared without case; the first spelling is kept.
        self._spelled: dict[str, str] = {}

    @property
    def now(self) -> str:
        return self.words[self._at].text if self._at < len(self.words) else ""

    def mistake(self, message: str, since: int | None = None) -> InvalidEventPattern:
        last = min(self._at, len(self.words) - 1)
        first = last if since is None else since
        if not self.words:
            return InvalidEventPattern(message, self._place_of(0, 0))
        return InvalidEventPattern(message, self._place_of(self.words[first].start, self.words[last].end - 1))

    def alternation(self) -> RowPattern:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _sequence(self) -> RowPattern:
        parts: list[RowPattern] = []
        while self.now and self.now not in ("|", ")", ",", "-}"):
            parts.append(self._factor())
        if not parts:
            found = f"'{self.now}'" if self.now else "the end of the pattern"
            raise self.mistake(f"found {found}; expected a variable or '('")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _factor(self) -> RowPattern:
        since = self._at
        try:
            part = self._primary()
            bounds = self._bounds()
            return part if bounds is None else Repeated(part, *bounds, self._take("?"))
        except InvalidEventPattern as error:
            if error.place is not None:
                raise
            self._at -= 1  # the whole part is meant, to its last word
            raise self.mistake(error.message, since) from None

    def _primary(self) -> RowPattern:
        word = self.now
        if word == "$":
            raise self.mistake(_LAST_ROW)
        if self._take("^"):
            return PartitionStart()
        if self._take("(") or self._take("{-"):
            if word == "(" and self._take(")"):
                return Sequence(())
            inner = self.alternation()
            self._close(")" if word == "(" else "-}")
            return inner if word == "(" else Excluded(inner)
        if not (word[:1].isalpha() or word[:1] in ("_", '"', "`")):
            raise self.mistake(f"found '{word}'; expected a variable or '('")
        self._at += 1
        if word.upper() == "PERMUTE" and self._take("("):
            parts = [self.alternation()]
            while self._take(","):
                parts.append(self.alternation())
            self._close(")")
            return permuted(tuple(parts))
        name = word.strip('"`')
        return Variable(self._spelled.setdefault(name.lower(), name))

    def _bounds(self) -> tuple[int, int | None] | None:
        short: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.now in short:
            self._at += 1
            return short[self.words[self._at - 1].text]
        if not self._take("{"):
            return None
        least = self._number()
        most = least
        if self._take(","):
            most = self._number()
        elif least is None:
            raise self.mistake("expected a number of rows, as in {2}, {2,} or {2,5}")
        if not self._take("}"):
            raise self.mistake(f"found '{self.now}'; expected '}}', as in {{2}}, {{2,}} or {{2,5}}")
        return least or 0, most

    def _number(self) -> int | None:
        if not self.now.isdecimal():
            return None
        if len(self.now) > _MOST_DIGITS:
            raise self.mistake(f"a quantifier has at most {_MOST_DIGITS} digits")
        self._at += 1
        return int(self.words[self._at - 1].text)

    def _take(self, word: str) -> bool:
        found = self.now == word
        self._at += found
        return found

    def _close(self, bracket: str) -> None:
        if not self._take(bracket):
            found = f"'{self.now}'" if self.now else "the end of the pattern"
            raise self.mistake(f"found {found}; expected '{bracket}'")


def _words(text: str) -> list[_Word]:
    words, at = [], 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        found = _WORD.match(text, at)
        assert found
        words.append(_Word(found.group(), at, found.end()))
        at = found.end()
    return words
