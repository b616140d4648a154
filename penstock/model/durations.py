"""Lengths of clock time for people."""

from __future__ import annotations

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
