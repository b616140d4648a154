"""Option values as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from penstock.errors import InvalidOption
from penstock.model.durations import duration, no_duration
from penstock.workloads.arrivals import MICROS


def read_whole(name: str, text: str) -> int:
    """An integer; underscores may group digits."""
    try:
        return int(text.strip())
    except ValueError:
        raise InvalidOption(f"'{text}' is not a whole number", name) from None


def read_number(name: str, text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise InvalidOption(f"'{text}' is not a number", name) from None


def read_flag(name: str, text: str) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise InvalidOption(f"'{text}' is neither true nor false", name) from None


def read_choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    choice = text.strip().lower()
    if choice not in choices:
        raise InvalidOption(f"'{text}' is not one of {', '.join(choices)}", name)
    return choice


def read_duration_us(name: str, text: str) -> int:
    """A number with a unit, or of seconds without one.

    Examples
    --------
    >>> [read_duration_us("disorder", text) for text in ("250 ms", "2 seconds", "0.5")]
    [250000, 2000000, 500000]
    """
    found = duration(text, "second")
    if found is None:
        raise InvalidOption(no_duration(text), name)
    return round(found)


def read_instant_us(name: str, text: str) -> int:
    """Microseconds since 1970: a number, or a date and time (UTC unless it names an offset).

    Examples
    --------
    >>> read_instant_us("start", "1970-01-02"), read_instant_us("start", "86400000000")
    (86400000000, 86400000000)
    """
    if re.fullmatch(r"\s*-?\d+\s*", text) and len(text.strip()) != 8:
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOption(f"'{text}' is no time; write '2026-01-01 00:00:00' or microseconds since 1970", name) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds


def read_as(kind: Any, name: str, text: str) -> Any:
    """Read a value for a dataclass field of this type."""
    readers: dict[Any, Callable[[str, str], Any]] = {int: read_whole, float: read_number, bool: read_flag}
    return readers[kind](name, text) if kind in readers else text.strip()
