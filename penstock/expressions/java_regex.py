"""Regular expressions as Spark reads them: the part of Java's syntax whose meaning is the same wherever it is evaluated.

A pattern becomes a tree in which nothing depends on an engine any more: sets of characters are spelled out, flags are applied.
`regex_readings` writes the tree for each engine. Whatever Java understands and this module does not is refused by name.

What is left out, and why: references to groups, atomic groups and possessive quantifiers (their meaning hangs on the order in which
an engine tries), Unicode properties and Unicode case (their tables differ between versions of Java), `\\R` (versions differ too),
`\\G`, `\\X`, octal and control escapes (hardly used).
"""

from __future__ import annotations

from penstock.expressions.regex_tree import LAST_CHARACTER, Anchor, Chain, Chars, Choice, Look, Regex, Repeat, chars_of

#: Groups inside groups; each takes a few frames of Python's stack.
MAX_DEPTH = 60


class PatternMistake(ValueError):
    """A pattern that Java refuses, or that Penstock cannot evaluate alike everywhere."""


def _set(text: str) -> Chars:
    """Pairs of characters as ranges: `_set("azAZ")` are the letters."""
    return chars_of((ord(low), ord(high)) for low, high in zip(text[::2], text[1::2], strict=True))


WORD = _set("azAZ09__")
LINE_TERMINATORS = _set("\n\n\r\r\x85\x85\u2028\u2029")
_DIGIT, _SPACE = _set("09"), _set("\t\r  ")
_HORIZONTAL = _set("\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000")
_VERTICAL = _set("\n\r\x85\x85\u2028\u2029")
_CLASSES = {"d": _DIGIT, "w": WORD, "s": _SPACE, "h": _HORIZONTAL, "v": _VERTICAL}
_PUNCTUATION = _set("!/:@[`{~")
_PROPERTIES = {
    "Lower": _set("az"),
    "Upper": _set("AZ"),
    "ASCII": _set("\0\x7f"),
    "Alpha": _set("azAZ"),
    "Digit": _DIGIT,
    "Alnum": _set("azAZ09"),
    "Punct": _PUNCTUATION,
    "Graph": _set("azAZ09") | _PUNCTUATION,
    "Print": _set(" ~"),
    "Blank": _set("  \t\t"),
    "Cntrl": _set("\0\x1f\x7f\x7f"),
    "XDigit": _set("09afAF"),
    "Space": _SPACE,
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"A": Anchor.START, "z": Anchor.END, "Z": Anchor.LAST_LINE_END, "b": Anchor.WORD_EDGE, "B": Anchor.NO_WORD_EDGE}
_HEX = frozenset("0123456789abcdefABCDEF")


def parse_regex(pattern: str) -> Regex:
    """The tree of a pattern.

    Raises
    ------
    PatternMistake
        Where Java refuses the pattern too, or what it says is not supported.

    Examples
    --------
    >>> parse_regex("(?i)a")
    Chain(parts=(Chars(ranges=((65, 65), (97, 97))),))
    """
    return _Parser(pattern).whole()


class _Parser:
    """Recursive descent, as Java's own."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = self.depth = 0
        self.flags: frozenset[str] = frozenset()
        self.names: set[str] = set()

    def whole(self) -> Regex:
        found = self._choice()
        if self.at < len(self.pattern):
            raise self._mistake("')' closes no group")
        return found

    # -- reading ------------------------------------------------------------------------------------------------------

    def _mistake(self, text: str) -> PatternMistake:
        return PatternMistake(f"{text}, at character {self.at + 1}")

    def _next(self, length: int = 1) -> str:
        return self.pattern[self.at : self.at + length]

    def _take(self, expected: str) -> bool:
        if not self.pattern.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def _until(self, end: str, what: str) -> str:
        stop = self.pattern.find(end, self.at)
        if stop < 0:
            raise self._mistake(f"{what} does not end")
        found = self.pattern[self.at : stop]
        self.at = stop + len(end)
        return found

    # -- structure ----------------------------------------------------------------------------------------------------

    def _choice(self) -> Regex:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Regex:
        parts: list[Regex] = []
        while self._next() not in ("", "|", ")"):
            if self._take("\\Q"):
                parts += self._quoted()
                continue
            atom = self._atom()
            if atom is not None:
                parts.append(self._repeated(atom))
        return Chain(tuple(parts))

    def _quoted(self) -> list[Regex]:
        stop = self.pattern.find("\\E", self.at)
        found = self.pattern[self.at :] if stop < 0 else self.pattern[self.at : stop]
        self.at = len(self.pattern) if stop < 0 else stop + 2
        parts: list[Regex] = [self._literal(ord(character)) for character in found]
        if parts:
            parts[-1] = self._repeated(parts[-1])
        return parts

    def _atom(self) -> Regex | None:
        """The next item; None for flags, which are none."""
        match self._next():
            case "(":
                return self._group()
            case "[":
                self.at += 1
                return self._class()
            case "\\":
                self.at += 1
                return self._escape()
            case ".":
                self.at += 1
                return Chars(((0, LAST_CHARACTER),)) if "s" in self.flags else LINE_TERMINATORS.complement()
            case "^":
                self.at += 1
                return Anchor.LINE_START if "m" in self.flags else Anchor.START
            case "$":
                self.at += 1
                return Anchor.LINE_END if "m" in self.flags else Anchor.LAST_LINE_END
            case "*" | "+" | "?" | "{" as found:
                raise self._mistake(f"'{found}' repeats nothing; write \\{found} for the character")
        self.at += 1
        return self._literal(ord(self.pattern[self.at - 1]))

    def _repeated(self, part: Regex) -> Regex:
        least, most = 0, None
        match self._next():
            case "*":
                pass
            case "+":
                least = 1
            case "?":
                most = 1
            case "{":
                least, most = self._counts()
            case _:
                return part
        if isinstance(part, Anchor | Look):
            raise self._mistake("a place cannot be repeated")
        self.at += 1
        if self._take("+"):
            raise self._mistake("possessive quantifiers are not supported")
        self._take("?")
        if self._next() in ("*", "+", "?", "{") and self._next():
            raise self._mistake("a quantifier behind a quantifier is not supported; put the first into (?: )")
        return Repeat(part, least, most)

    def _counts(self) -> tuple[int, int | None]:
        """Of `{2,3}`, read up to the bracket that closes it."""
        stop = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at + 1 : stop].partition(",")
        if stop < 0 or not _is_count(low) or (high and not _is_count(high)):
            raise self._mistake("a count is written {2}, {2,} or {2,3}; write \\{ for the character")
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and most < least:
            raise self._mistake("a count ends before it begins")
        self.at = stop
        return least, most

    def _group(self) -> Regex | None:
        before = self.flags
        self.at += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._mistake(f"more than {MAX_DEPTH} groups stand inside each other")
        look = self._group_kind()
        if look is _FLAGS:
            self.depth -= 1
            return None
        inner = self._choice()
        if not self._take(")"):
            raise self._mistake("a group does not end; write \\( for the character")
        self.flags = before
        self.depth -= 1
        return Look(inner, *look) if isinstance(look, tuple) else inner

    def _group_kind(self) -> tuple[bool, bool] | str | None:
        """What kind of group begins: where it looks, `_FLAGS` if none begins, None for a plain one."""
        if not self._take("?"):
            return None
        for opening, look in _LOOKS.items():
            if self._take(opening):
                return look
        if self._take(":"):
            return None
        if self._take("<"):
            name = self._until(">", "the name of a group")
            if not (name.isascii() and name.isalnum() and name[:1].isalpha()) or name in self.names:
                raise self._mistake(f"'{name}' is no name for a group, or another has it")
            self.names.add(name)
            return None
        return self._flags()

    def _flags(self) -> str | None:
        start, removes = self.at, False
        while self._next() not in ("", ":", ")"):
            flag = self._next()
            if flag == "-" and not removes:
                removes = True
            elif flag in ("i", "s", "m"):
                self.flags = self.flags - {flag} if removes else self.flags | {flag}
            else:
                raise self._mistake(f"(?{flag} is not supported; flags are i, s and m")
            self.at += 1
        if self._next() == ")" and self.at > start:
            self.at += 1
            return _FLAGS
        if not self._take(":"):
            raise self._mistake("a group does not end; write \\( for the character")
        return None

    # -- characters ---------------------------------------------------------------------------------------------------

    def _literal(self, low: int, high: int | None = None) -> Chars:
        """One character, or a range of them, with the other case of ASCII letters where the flag says so."""
        found = Chars(((low, low if high is None else high),))
        if "i" not in self.flags:
            return found
        upper, lower = found & _set("AZ"), found & _set("az")
        return found | chars_of([(a + 32, b + 32) for a, b in upper.ranges] + [(a - 32, b - 32) for a, b in lower.ranges])

    def _escape(self) -> Regex:
        """Behind a backslash, outside of brackets."""
        letter = self._next()
        if letter in _ANCHORS and letter:
            self.at += 1
            if letter in ("b", "B") and self._next() == "{":
                raise self._mistake("\\b{ is not supported")
            return _ANCHORS[letter]
        found = self._named_class()
        return found if found is not None else self._literal(self._escaped_character())

    def _named_class(self) -> Chars | None:
        letter = self._next()
        if letter.lower() in _CLASSES and letter:
            self.at += 1
            found = _CLASSES[letter.lower()]
            return found if letter.islower() else found.complement()
        if letter not in ("p", "P"):
            return None
        self.at += 1
        name = self._until("}", "\\p{") if self._take("{") else self._next()
        if name not in _PROPERTIES:
            raise self._mistake(f"\\p{{{name}}} is not supported; known are {', '.join(_PROPERTIES)}")
        if "i" in self.flags and name in ("Lower", "Upper"):
            raise self._mistake(f"\\p{{{name}}} under (?i) is not supported")
        return _PROPERTIES[name] if letter == "p" else _PROPERTIES[name].complement()

    def _escaped_character(self) -> int:
        letter = self._next()
        self.at += 1
        if not letter:
            raise self._mistake("a backslash ends the pattern")
        if letter in _CONTROLS:
            return ord(_CONTROLS[letter])
        if letter == "u":
            return self._unicode()
        if letter == "x":
            digits = self._until("}", "\\x{") if self._take("{") else self._digits(2)
            return self._code_point(digits)
        if letter.isascii() and letter.isalnum():
            raise self._mistake(f"\\{letter} is not supported")
        return ord(letter)

    def _digits(self, count: int) -> str:
        self.at += count
        return self.pattern[self.at - count : self.at].ljust(count)

    def _code_point(self, digits: str) -> int:
        if not digits or not set(digits) <= _HEX or int(digits, 16) > LAST_CHARACTER:
            raise self._mistake(f"'{digits.strip()}' is no character in hexadecimal digits")
        return int(digits, 16)

    def _unicode(self) -> int:
        found = self._code_point(self._digits(4))
        # Java writes characters beyond 16 bits as two.
        if 0xD800 <= found < 0xDC00 and self._take("\\u"):
            low = self._code_point(self._digits(4))
            return 0x10000 + ((found - 0xD800) << 10) + low - 0xDC00
        return found

    def _class(self) -> Chars:
        """A set, behind the bracket that opens it."""
        negated = self._take("^")
        found, is_empty = Chars(()), True
        while True:
            if not self._next():
                raise self._mistake("a set of characters does not end; write \\[ for the character")
            if self._next() == "]" and not is_empty:
                self.at += 1
                return found.complement() if negated else found
            if self._take("&&"):
                found = self._intersected(found, is_empty)
                continue
            found |= self._class_item()
            is_empty = False

    def _intersected(self, left: Chars, is_empty: bool) -> Chars:
        if is_empty or not self._take("["):
            raise self._mistake("&& is supported between characters and a set in brackets: [a-z&&[^b]]")
        self._deeper()
        right = self._class()
        self.depth -= 1
        if self._next() != "]":
            raise self._mistake("&& and what follows it must end the set")
        return left & right

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._mistake(f"more than {MAX_DEPTH} sets stand inside each other")

    def _class_item(self) -> Chars:
        if self._take("["):
            self._deeper()
            found = self._class()
            self.depth -= 1
            return found
        if self._take("\\"):
            if self._next() in ("Q", "E"):
                raise self._mistake("\\Q inside a set is not supported")
            named = self._named_class()
            if named is not None:
                return named
            low = self._escaped_character()
        else:
            low = ord(self._next())
            self.at += 1
        if self._next() != "-" or self._next(2) in ("-]", "-[", "-"):
            return self._literal(low)
        self.at += 1
        high = self._range_end()
        if high < low:
            raise self._mistake("a range of characters ends before it begins")
        return self._literal(low, high)

    def _range_end(self) -> int:
        if self._take("\\"):
            return self._escaped_character()
        self.at += 1
        return ord(self.pattern[self.at - 1])


_FLAGS = "flags"
_LOOKS = {"=": (True, False), "!": (True, True), "<=": (False, False), "<!": (False, True)}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7
