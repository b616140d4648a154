"""What all searches for patterns do with marks."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.model.elements import FOREVER, NEVER, Control, Elements, End, Heartbeat, Metadata
from penstock.model.punctuation import Punctuation


class SearchByTime(ABC):
    """An operator that goes on when event time does. Punctuations end here: they say nothing about matches."""

    _frontier = NEVER

    @abstractmethod
    def _advance(self, frontier: int) -> Elements:
        """Report what is decided before a time."""

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat):
            return [*self._advance(mark.ts), mark] if mark.ts > self._frontier else ()
        if isinstance(mark, End):
            return self._advance(FOREVER) if self._frontier < FOREVER else ()
        return () if isinstance(mark, Punctuation) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        return ()
