"""SQL put together from the arguments of a call, which knows from which argument every piece of it came.

Operators on DataFrames are written down as queries, because the language has their meaning and finds their mistakes. Whoever
called `ps.join` has never seen that query: a mistake is shown in the argument it stands in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import Place, UserError
from penstock.language.application import parse_query
from penstock.language.syntax import Text
from penstock.plan.catalog import Catalog, ContinuousQuery


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one argument (`condition`, `aggregates['bids']`), or what the call itself adds: then `argument` is empty."""

    text: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A query in pieces.

    Examples
    --------
    >>> where = Written("ps.join", (Piece("SELECT l.a FROM l WHERE "), Piece("l.b = 1 AND\\nl.c > 2", "condition")))
    >>> print(where.in_argument(Place("query", 2, 1, "l.c > 2", 3)))
    ps.join, condition, line 2, column 1
        l.c > 2
        ^^^
    >>> print(where.in_argument(Place("query", 1, 8, "SELECT l.a FROM l WHERE l.b = 1 AND", 3)))
    ps.join
    """

    function: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def parsed(self, name: str, catalog: Catalog) -> ContinuousQuery:
        """The query of that name over what the catalog holds."""
        whole = Written(self.function, (Piece(f"CREATE CQ `{name}` AS "), *self.pieces))
        try:
            return parse_query(whole.text, catalog)
        except UserError as error:
            raise error.at(whole.in_argument(error.place)) from None

    def in_argument(self, place: Place | None) -> Place:
        """Where the user wrote what stands at a place of the query."""
        if place is None or not place.line:
            return Place(self.function)
        at = sum(len(line) + 1 for line in self.text.split("\n")[: place.line - 1]) + place.column - 1
        before = Piece("")
        for piece in self.pieces:
            if at < len(piece.text):
                break
            before, at = piece if piece.text.strip() else before, at - len(piece.text)
        else:
            return Place(self.function)
        if not piece.argument and at == 0 and before.argument:
            # What comes right behind an argument is found wrong because the argument is not complete.
            piece, at = before, max(len(before.text) - 1, 0)
        if not piece.argument:
            return Place(self.function)
        return Text(piece.text, f"{self.function}, {piece.argument}").place(at, at + place.width - 1)


def joined_pieces(separator: str, groups: Iterable[Iterable[Piece]]) -> tuple[Piece, ...]:
    """Groups of pieces with something between them."""
    found: list[Piece] = []
    for group in groups:
        found += [Piece(separator), *group] if found else group
    return tuple(found)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
