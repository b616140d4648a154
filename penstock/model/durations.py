"""Lengths of clock time for people."""

from __future__ import annotations

from penstock.errors import InvalidDeclaration

_UNITS = (
    ("week", 604_800_000_000),
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


def duration_text(micros: int) -> str:
    """A length of clock time in the largest unit that measures it in whole numbers.

    Examples
    --------
    >>> duration_text(5_400_000_000), duration_text(86_400_000_000), duration_text(0)
    ('90 minutes', '1 day', '0 seconds')
    """
    if micros == 0:
        return "0 seconds"
    name, size = next((name, size) for name, size in _UNITS if micros % size == 0)
    count = micros // size
    return f"{count} {name}{'' if count == 1 else 's'}"


def micros_of(text: str, place: str | None = None) -> int:
    """A length of clock time as people write it, in microseconds.

    Examples
    --------
    >>> micros_of("10 seconds"), micros_of("1 hour 30 minutes"), micros_of("0 seconds")
    (10000000, 5400000000, 0)
    """
    units = dict(_UNITS)
    words = text.lower().split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if not pairs or len(words) % 2 or not all(amount.isdecimal() and unit.removesuffix("s") in units for amount, unit in pairs):
        known = ", ".join(name for name, _ in _UNITS)
        raise InvalidDeclaration(f"'{text}' is no duration; write a whole number and a unit ({known}), such as 10 seconds", place)
    return sum(int(amount) * units[unit.removesuffix("s")] for amount, unit in pairs)
