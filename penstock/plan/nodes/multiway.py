"""The logical operator behind a join of several inputs whose probes change places while a query runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import InvalidPlan
from penstock.model.equal_columns import Attribute, classes_of
from penstock.model.join_kinds import JoinKind
from penstock.model.schema import sql_type
from penstock.model.windows import Sliding, Unbounded
from penstock.plan.nodes.joins import WindowJoin


@dataclass(frozen=True, slots=True)
class Link:
    """Two columns of two inputs, by their places in FROM, that must be equal."""

    left: int
    left_column: str
    right: int
    right_column: str

    def __str__(self) -> str:
        return f"{self.left_column} = {self.right_column}"


@dataclass(frozen=True)
class MJoin(WindowJoin):
    """Equi-join of three or more inputs on any connected graph of equalities: a star, a tree, a circle.

    It has no key of all inputs, so `keys` are empty; `links` are the equalities. Windows slide with each row, or there is none.
    """

    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not JoinKind.INNER or len(self.parts) < 3:
            raise InvalidPlan(f"a multiway join is an inner join of three inputs or more; found {len(self.parts)}")
        if any(self.keys) or not all(isinstance(window, Sliding | Unbounded) for window in self.windows):
            raise InvalidPlan("a multiway join takes equalities instead of keys, and windows that slide with each row or none")
        for link in self.links:
            left = self.parts[link.left].schema[link.left_column].type
            right = self.parts[link.right].schema[link.right_column].type
            if left != right:
                columns = f"{link.left_column} ({sql_type(left)}) and {link.right_column} ({sql_type(right)})"
                raise InvalidPlan(f"join keys {columns} differ in type; CAST one of them")

    @property
    def has_common_key(self) -> bool:
        return False

    @property
    def equalities(self) -> str:
        return " and ".join(map(str, self.links))

    def columns_of(self, port: int) -> tuple[str, ...]:
        """Columns of one input that must equal columns of others, each once."""
        mine = [link.left_column for link in self.links if link.left == port]
        mine += [link.right_column for link in self.links if link.right == port]
        return tuple(dict.fromkeys(mine))

    @property
    def shape(self) -> str:
        """What the graph of the equalities looks like.

        Equalities of one value are one meeting point of all inputs that have it: three inputs joined on one column are a star.
        """
        classes = self.classes()
        if any({port for port, _ in members} == set(range(len(self.parts))) for members in classes):
            return "one key"
        neighbours = _neighbours(classes, len(self.parts))
        pairs = sum(len(found) for found in neighbours) // 2
        if pairs > len(self.parts) - 1:
            return "cyclic"
        return "star" if any(len(found) == len(self.parts) - 1 for found in neighbours) else "tree"

    def classes(self) -> list[list[Attribute]]:
        """Columns that must all be equal, as (input, column), class by class in the order they were written."""
        return classes_of(((link.left, link.left_column), (link.right, link.right_column)) for link in self.links)


def _neighbours(classes: Iterable[Iterable[tuple[int, str]]], ports: int) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(ports)]
    for members in classes:
        together = {port for port, _ in members}
        for port in together:
            found[port] |= together - {port}
    return found
