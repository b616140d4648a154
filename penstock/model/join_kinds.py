"""Kinds of join: which combinations and which single rows are answers."""

from __future__ import annotations

from enum import StrEnum


class JoinKind(StrEnum):
    """What a join of two inputs answers; more inputs are always joined inner.

    Examples
    --------
    >>> JoinKind.called("leftouter"), JoinKind.called("anti"), JoinKind.called("upper")
    (<JoinKind.LEFT: 'left'>, <JoinKind.LEFT_ANTI: 'left_anti'>, None)
    >>> JoinKind.FULL.preserved, JoinKind.LEFT_SEMI.watched
    ((0, 1), (0,))
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    LEFT_SEMI = "left_semi"
    LEFT_ANTI = "left_anti"

    @classmethod
    def called(cls, name: str) -> JoinKind | None:
        """The kind Spark knows by this name; None for other names."""
        return _NAMES.get(name.lower().replace("_", ""))

    @property
    def words(self) -> str:
        """The kind in SQL; empty for an inner join."""
        return "" if self is JoinKind.INNER else self.value.replace("_", " ").upper()

    @property
    def shows_pairs(self) -> bool:
        """Whether answers have the columns of both inputs; semi and anti joins answer with rows of the first."""
        return self not in (JoinKind.LEFT_SEMI, JoinKind.LEFT_ANTI)

    @property
    def preserved(self) -> tuple[int, ...]:
        """Inputs whose rows are answers also without a partner."""
        return _PRESERVED.get(self, ())

    @property
    def watched(self) -> tuple[int, ...]:
        """Inputs of which must be known whether a row has found a partner."""
        return (0,) if self is JoinKind.LEFT_SEMI else self.preserved

    def stated_on(self, port: int) -> tuple[int, ...]:
        """Inputs on whose key columns a punctuation of one input on its key may be stated in the output.

        That an input sends no more rows with some key says nothing about rows of the other that are answers without partner.
        """
        if self is JoinKind.LEFT_ANTI:
            return (0,) if port == 0 else ()
        if self is JoinKind.LEFT_SEMI:
            return (0,)
        return (port,) if port in self.extended else (0, 1)

    @property
    def needed(self) -> tuple[int, ...]:
        """Inputs without which there is no answer: their end is the end of the output."""
        return tuple(port for port in (0, 1) if 1 - port not in self.preserved)

    @property
    def extended(self) -> tuple[int, ...]:
        """Inputs whose columns are NULL where a row of the other input has no partner."""
        return tuple(1 - port for port in self.preserved) if self.shows_pairs else ()


_PRESERVED = {JoinKind.LEFT: (0,), JoinKind.RIGHT: (1,), JoinKind.FULL: (0, 1), JoinKind.LEFT_ANTI: (0,)}

_NAMES = {
    **dict.fromkeys(("inner", "cross"), JoinKind.INNER),
    **dict.fromkeys(("left", "leftouter"), JoinKind.LEFT),
    **dict.fromkeys(("right", "rightouter"), JoinKind.RIGHT),
    **dict.fromkeys(("outer", "full", "fullouter"), JoinKind.FULL),
    **dict.fromkeys(("semi", "leftsemi"), JoinKind.LEFT_SEMI),
    **dict.fromkeys(("anti", "leftanti"), JoinKind.LEFT_ANTI),
}
