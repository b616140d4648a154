"""What people ask of the service: how long rows and answers are of use, and who chooses what runs next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import Place

#: Columns by which answers show when they were made, until when they are of use, and whether that is over.
TIMING_COLUMNS = ("produced_at", "deadline", "late")

#: The longest validity, 100 years: a time and a validity together are a number of nanoseconds that 64 bits hold.
LONGEST_US = 100 * 366 * 86_400_000_000


class Since(StrEnum):
    """From when a validity is counted."""

    EVENT = "event"
    ARRIVAL = "arrival"


@dataclass(frozen=True, slots=True)
class Validity:
    """So many microseconds after the time the row carries, or after its arrival."""

    us: int
    since: Since = Since.EVENT


class LateAnswers(StrEnum):
    """What becomes of answers that nobody can use any more."""

    KEEP = "keep"
    QUARANTINE = "quarantine"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """The strategy that an application names, and its parameters."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = field(default=None, compare=False)
