"""A regular expression written for RE2, for Python and for Java, with one meaning: whether it is found in a text.

RE2, which Arrow runs over whole columns, has no look-around; most patterns need none. Those that do are judged by Python for each
distinct text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.distinct_values import by_distinct_value
from penstock.expressions.java_regex import WORD, PatternMistake, parse_regex
from penstock.expressions.regex_tree import LAST_CHARACTER, Anchor, Chain, Chars, Choice, Look, Regex, Repeat

_EVERYTHING = Chars(((0, LAST_CHARACTER),))
#: RE2 takes a set of just these for a letter without case, and among alternatives also for the sign of Kelvin, and a long s.
_BOTH_CASES = tuple(Chars(((ord(letter), ord(letter)), (ord(letter) + 32, ord(letter) + 32))) for letter in "KS")
_HALVES, _BEYOND_16_BITS = Chars(((0xD800, 0xDFFF),)), Chars(((0x10000, LAST_CHARACTER),))
#: Never found; with a character beyond 16 bits in a pattern Java steps from character to character and not to the halves of one.
_BY_CHARACTER = "|(?!)\U0001f600"
#: The terminator a text may end with; a line feed behind a carriage return is no end of a line of its own.
_TERMINATOR = "(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])"


@dataclass(frozen=True)
class SearchPlan:
    """How a pattern is looked for.

    Parameters
    ----------
    java
        The pattern for Catalyst: the author's own unless what it means hangs on the version of Java or on how that stores texts.
    re2
        The pattern for Arrow; None when RE2 cannot express it.
    crlf
        Whether RE2 says yes too often to texts that end with a carriage return and a line feed.
    """

    java: str
    re2: str | None
    crlf: bool
    python: re.Pattern[str] = field(repr=False)

    def found(self, text: str) -> bool:
        return self.python.search(text) is not None

    def __call__(self, texts: Any) -> Any:
        """Whether the pattern is found, for an Arrow column or scalar of texts."""
        if self.re2 is None or isinstance(texts, pa.Scalar):
            return by_distinct_value(self.found, pa.bool_())(texts)
        found = pc.match_substring_regex(texts, self.re2)
        if not self.crlf:
            return found
        doubtful = pc.and_(found, pc.ends_with(texts, pattern="\r\n"))
        if not pc.any(doubtful).as_py():
            return found
        judged = by_distinct_value(self.found, pa.bool_())(pc.if_else(doubtful, texts, pa.scalar(None, pa.string())))
        return pc.if_else(pc.fill_null(doubtful, False), judged, found)


@lru_cache(maxsize=512)
def search_plan(pattern: str) -> SearchPlan:
    """How to look for a pattern of Java's.

    Raises
    ------
    PatternMistake
        When it is no pattern, or one that is not supported.

    Examples
    --------
    >>> plan = search_plan("b$")
    >>> plan.re2, plan(pa.array(["ab\\n", "b\\n\\n"])).to_pylist()
    ('b(?:\\\\r\\\\n|[\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}])?\\\\z', [True, False])
    """
    tree = parse_regex(pattern)
    try:
        python = re.compile(_Backtracking(_python_character).write(tree))
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternMistake(f"it is not supported ({error})") from None
    java = f"{_Backtracking(braced_character).write(tree)}{_BY_CHARACTER}" if _is_fragile(tree) else pattern
    re2, crlf = _re2(tree)
    return SearchPlan(java, re2, crlf, python)


def _re2(tree: Regex) -> tuple[str | None, bool]:
    writer = _Linear()
    try:
        text = writer.write(tree, is_last=True, after_return=False)
        pc.match_substring_regex(pa.array([""]), text)
    except (_NotLinear, pa.ArrowInvalid):  # the second: too large, or repeated too often
        return None, False
    return text, writer.crlf


def _is_fragile(tree: Regex) -> bool:
    """Whether Java could read the pattern in two ways.

    Words have letters of all languages up to Java 18 and those of ASCII since. A search also begins within a character that Java
    stores as two, where a place can be found, or a set that has such halves and not the whole.
    """
    match tree:
        case Anchor():
            return tree in (Anchor.WORD_EDGE, Anchor.NO_WORD_EDGE)
        case Look():
            return True
        case Chars():
            beyond = tree & _BEYOND_16_BITS
            return beyond != _BEYOND_16_BITS and (bool((tree & _HALVES).ranges) or bool(beyond.ranges))
    return any(_is_fragile(part) for part in _parts(tree))


def _parts(tree: Regex) -> tuple[Regex, ...]:
    match tree:
        case Chain(parts) | Choice(parts):
            return parts
        case Repeat(part) | Look(part):
            return (part,)
    return ()


# -- characters -------------------------------------------------------------------------------------------------------


def braced_character(code: int) -> str:
    """A character as RE2 and Java read it."""
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"


def _python_character(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\U{code:08x}"


def _set_text(found: Chars, character: Callable[[int], str]) -> str:
    ranges, sign = found.ranges, ""
    if ranges and ranges[0][0] == 0 and ranges[-1][1] == LAST_CHARACTER and found != _EVERYTHING:
        ranges, sign = found.complement().ranges, "^"
    if not sign and len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return character(ranges[0][0])
    items = [character(low) if low == high else f"{character(low)}-{character(high)}" for low, high in ranges]
    return f"[{sign}{''.join(items)}]"


def _counted(part: str, repeat: Repeat) -> str:
    counts = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((repeat.least, repeat.most))
    if counts is None:
        counts = f"{{{repeat.least},{'' if repeat.most is None else repeat.most}}}"
    return f"(?:{part}){counts}"


# -- Python and Java --------------------------------------------------------------------------------------------------


class _Backtracking:
    """Text for engines that look around; the two differ in how they write a character and the end of a text."""

    def __init__(self, character: Callable[[int], str]) -> None:
        self.character = character
        end = "\\Z" if character is _python_character else "\\z"
        feed, back, word = character(10), character(13), _set_text(WORD, character)
        lone = f"[{back}{character(0x85)}{character(0x2028)}{character(0x2029)}]"
        edge = f"(?<={word})(?!{word})|(?<!{word})(?={word})"
        self.anchors = {
            Anchor.START: "\\A",
            Anchor.END: end,
            Anchor.LAST_LINE_END: f"(?:(?=(?:{back}{feed}|{lone})?{end})|(?<!{back})(?={feed}{end}))",
            Anchor.LINE_START: f"(?:\\A|(?<={feed})|(?<={lone})(?!(?<={back}){feed}))(?!{end})",
            Anchor.LINE_END: f"(?:(?={end}|{lone})|(?<!{back})(?={feed}))",
            Anchor.WORD_EDGE: f"(?:{edge})",
            Anchor.NO_WORD_EDGE: f"(?!{edge})",
        }

    def write(self, tree: Regex) -> str:
        match tree:
            case Chars(()):
                return "(?!)"
            case Chars():
                return _set_text(tree, self.character)
            case Anchor():
                return self.anchors[tree]
            case Chain(parts):
                return "".join(self.write(part) for part in parts)
            case Choice(options):
                return f"(?:{'|'.join(self.write(option) for option in options)})"
            case Repeat(part):
                return _counted(self.write(part), tree)
            case Look(part, ahead, negated):
                return f"(?{'' if ahead else '<'}{'!' if negated else '='}{self.write(part)})"


# -- RE2 --------------------------------------------------------------------------------------------------------------


class _NotLinear(Exception):
    """RE2 cannot express it."""


class _Linear:
    """Text for RE2. The end of the last line has no place of its own there, but at the end of a pattern it can be spelled out.

    `\\B` is left to Python: RE2 finds it also between the bytes of one character.
    """

    def __init__(self) -> None:
        self.crlf = False

    def write(self, tree: Regex, is_last: bool, after_return: bool) -> str:
        """The text of a part; whether nothing follows it, and whether what it follows may end with a carriage return."""
        match tree:
            case Chars():
                return _linear_set(tree)
            case Anchor.START:
                return "\\A"
            case Anchor.END:
                return "\\z"
            case Anchor.WORD_EDGE:
                return "\\b"
            case Anchor.LAST_LINE_END if is_last:
                self.crlf |= after_return
                return f"{_TERMINATOR}?\\z"
            case Chain(parts):
                return self._sequence(parts, is_last, after_return)
            case Choice(options):
                return f"(?:{'|'.join(self.write(option, is_last, after_return) for option in options)})"
            case Repeat(part):
                return _counted(self.write(part, False, True), tree)
        raise _NotLinear

    def _sequence(self, parts: tuple[Regex, ...], is_last: bool, after_return: bool) -> str:
        written = []
        for number, part in enumerate(parts):
            written.append(self.write(part, is_last and number == len(parts) - 1, after_return))
            may_end, may_be_empty = _may_end_with_return(part)
            after_return = may_end or (after_return and may_be_empty)
        return "".join(written)


def _linear_set(found: Chars) -> str:
    if not found.ranges:
        return "[^\\x{0}-\\x{10ffff}]"
    if found in _BOTH_CASES:
        return f"(?:{'|'.join(braced_character(low) for low, _ in found.ranges)})"
    return _set_text(found, braced_character)


def _may_end_with_return(tree: Regex) -> tuple[bool, bool]:
    """Whether what a part finds may end with a carriage return, and whether it may be empty."""
    match tree:
        case Chars():
            return "\r" in tree, False
        case Chain(parts):
            return reduce(lambda before, part: _joined(before, _may_end_with_return(part)), parts, (False, True))
        case Choice(options):
            ends, empty = zip(*(_may_end_with_return(option) for option in options), strict=True)
            return any(ends), any(empty)
        case Repeat(part, least):
            may_end, may_be_empty = _may_end_with_return(part)
            return may_end, may_be_empty or least == 0
    return False, True


def _joined(before: tuple[bool, bool], part: tuple[bool, bool]) -> tuple[bool, bool]:
    return part[0] or (before[0] and part[1]), before[1] and part[1]
