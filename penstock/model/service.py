"""What people ask of the service: how long rows and answers are of use, and who chooses what runs next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import Place

#: Columns by which answers show when they were made, until when they are of use, and whether that is over.
TIMING_COLUMNS = ("produced_at", "deadline", "late")


class Since(StrEnum):
    """From when a validity is counted."""

    EVENT = "event"
    ARRIVAL = "arrival"


@dataclass(frozen=True, slots=True)
class Validity:
    """So many microseconds after the time the row carries, or after its arrival."""

    us: int
    since: Since = Since.EVENT


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """The strategy that an application names, and its parameters."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = field(default=None, compare=False)
