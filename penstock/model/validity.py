"""How long a row or an answer is of use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Since(StrEnum):
    """From when a validity is counted."""

    EVENT = "event"
    ARRIVAL = "arrival"


@dataclass(frozen=True, slots=True)
class Validity:
    """So many microseconds after the time the row carries, or after its arrival."""

    us: int
    since: Since = Since.EVENT
