"""Lengths of clock time as people write and read them."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from penstock.errors import InvalidDeclaration

#: Units of fixed length; months and years have none.
UNIT_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "ns": Fraction(1, 1_000),
    "us": Fraction(1),
    "ms": Fraction(1_000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}
_UNITS = {**{name: Fraction(size) for name, size in UNIT_MICROS.items()}, "nanosecond": _SHORT["ns"], **_SHORT}
_PIECE = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]+)", re.IGNORECASE)


def duration_text(micros: int) -> str:
    """A length of clock time in the largest unit that measures it in whole numbers.

    Examples
    --------
    >>> duration_text(5_400_000_000), duration_text(86_400_000_000), duration_text(0)
    ('90 minutes', '1 day', '0 seconds')
    """
    if micros == 0:
        return "0 seconds"
    name, size = next((name, size) for name, size in reversed(UNIT_MICROS.items()) if micros % size == 0)
    count = micros // size
    return f"{count} {name}{'' if count == 1 else 's'}"


def duration(text: str, bare_unit: str = "", is_signed: bool = False) -> Fraction | None:
    """Microseconds of a length of clock time as people write it, exactly; None when it is none.

    Parameters
    ----------
    bare_unit
        What a number without a unit counts; empty: there must be one.
    is_signed
        Whether numbers may have signs, as in an INTERVAL of SQL.

    Examples
    --------
    >>> duration("1 hour 30 minutes") == duration("1.5h"), duration("250 ns"), duration("soon"), duration("0.5", "second")
    (True, Fraction(1, 4), None, Fraction(500000, 1))
    """
    whole = f"{text} {bare_unit}" if re.fullmatch(r"[\d.\s]+", text) else text
    pieces = [(amount, unit.lower()) for amount, unit in _PIECE.findall(whole)]
    if not pieces or _PIECE.sub("", whole).strip() or (not is_signed and {"+", "-"} & set(text)):
        return None
    sizes = [_UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")) for _, unit in pieces]
    # Fractions, because doubles would lose microseconds.
    found = [Fraction(Decimal(amount)) * size for (amount, _), size in zip(pieces, sizes, strict=True) if size is not None]
    return sum(found, Fraction()) if len(found) == len(pieces) else None


def no_duration(text: str) -> str:
    """The sentence for a text that is none."""
    known = ", ".join((*UNIT_MICROS, *_SHORT))
    return f"'{text}' is no duration; write a number and a unit ({known}), such as 800 ms or 10 seconds"


def micros_of(text: str, place: str | None = None) -> int:
    """A length of clock time as people write it, in microseconds.

    Examples
    --------
    >>> micros_of("10 seconds"), micros_of("1 hour 30 minutes"), micros_of("0 seconds")
    (10000000, 5400000000, 0)
    """
    found = duration(text)
    if found is None:
        raise InvalidDeclaration(no_duration(text), place)
    return round(found)
