"""Plans whose rows have weights: how many rows each one stands for where LOSS leaves some out.

A row of a stream that is kept with the chance p has the weight 1/p, and a pair of a join the product of the weights of its rows.
The sum of the weights estimates the number of all rows without bias, and that of weighted values their sum [horvitz1952].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import InvalidPlan, Place
from penstock.expressions.nodes import Call, Column, Expr
from penstock.model.join_kinds import JoinKind
from penstock.model.join_variants import JoinVariant
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import (
    WEIGHT,
    Distinct,
    GroupBy,
    GroupFilter,
    Project,
    Reference,
    Scan,
    Select,
    Union,
    scans_of,
)
from penstock.plan.nodes.row_patterns import RowPatternMatch


@dataclass(frozen=True)
class Weighed:
    """A plan with further columns; the weight of a row is their product."""

    node: Node
    columns: tuple[str, ...]

    @property
    def weight(self) -> Expr:
        product: Expr = Column(self.columns[0])
        for name in self.columns[1:]:
            product = Call("*", (product, Column(name)))
        return product


def weighed(node: Node, asking: str, place: Place | None) -> Weighed:
    """The plan with the weights of its rows.

    Parameters
    ----------
    asking
        Who wants to know, for messages.

    Raises
    ------
    InvalidPlan
        The chance of a row to be there is not known, because it depends on what became of others.
    """
    return _Weighing(asking, place).of(node)


@dataclass(frozen=True)
class _Weighing:
    asking: str
    place: Place | None

    def of(self, node: Node) -> Weighed:
        if isinstance(node, Scan):
            known = replace(node, is_weighed=True)
            return Weighed(known, (known.weight,))
        if isinstance(node, Select):
            below = self.of(node.input)
            return Weighed(node.with_inputs([below.node]), below.columns)
        if isinstance(node, Project):
            return _listed(node, self.of(node.input))
        if isinstance(node, Union):
            return Weighed(Union(tuple(_as_one(part, self.of(part)) for part in node.parts)), (WEIGHT,))
        if isinstance(node, WindowJoin):
            return self._join(node)
        raise self._refusal(*_reason(node))

    def _join(self, node: WindowJoin) -> Weighed:
        if node.kind is not JoinKind.INNER:
            raise self._refusal(f"{node.kind.words} JOIN", "one partner suffices, or none: the chance of an answer depends on all")
        if node.counts_rows:
            raise self._refusal("a window that counts rows", "which rows it has depends on those left out before them")
        if node.hint is not None and node.hint.variant is JoinVariant.APPROXIMATE:
            raise self._refusal("an approximate join", "it loses pairs of its own")
        twice = [name for name, times in Counter(scan.stream.name for scan in scans_of(node)).items() if times > 1]
        if twice:
            raise self._refusal(f"a join that reads '{twice[0]}' twice", "its rows stay or go on both sides together")
        parts = _apart([self.of(part) for part in node.parts])
        columns = tuple(name for part in parts for name in part.columns)
        return Weighed(node.with_inputs([part.node for part in parts]), columns)

    def _refusal(self, what: str, why: str) -> InvalidPlan:
        return InvalidPlan(f"{self.asking} cannot be used over {what}: {why}", self.place)


def _reason(node: Node) -> tuple[str, str]:
    """What rows come from, and why their chances are not known."""
    if isinstance(node, Reference):
        why = "rows do not take their weights from one query to the next. Write its select in FROM, (SELECT …), instead of its name"
        return f"query '{node.query}'", why
    if isinstance(node, GroupBy | GroupFilter):
        return "another grouping", "how many of its groups are missing is not known"
    if isinstance(node, Distinct):
        return "DISTINCT or UNION", "how many different rows are missing is not known; use UNION ALL, or leave DISTINCT out"
    if isinstance(node, RowPatternMatch):
        return "MATCH_RECOGNIZE", "a row that is left out may end a match or make one"
    return type(node).__name__, "the chance of its rows is not known"


def _listed(node: Project, below: Weighed) -> Weighed:
    """The select list with the weights, unless it shows them already."""
    shown = {expr.name: name for name, expr in node.items if isinstance(expr, Column)}
    more = tuple((name, Column(name)) for name in below.columns if name not in shown)
    return Weighed(Project(below.node, (*node.items, *more)), tuple(shown.get(name, name) for name in below.columns))


def _as_one(part: Node, found: Weighed) -> Node:
    """A side of a union with one weight, behind its other columns."""
    names = [name for name in part.schema.names if name not in found.columns]
    if found.node.schema.names == (*names, WEIGHT):
        return found.node
    return Project(found.node, (*((name, Column(name)) for name in names), (WEIGHT, found.weight)))


def _apart(parts: Sequence[Weighed]) -> list[Weighed]:
    """Sides of a join whose weights have different names."""
    taken: set[str] = set()
    found = []
    for part in parts:
        new = {name: name if name not in taken else f"{name}#{len(taken)}" for name in part.columns}
        if any(name != other for name, other in new.items()):
            items = tuple((new.get(name, name), Column(name)) for name in part.node.schema.names)
            part = Weighed(Project(part.node, items), tuple(new.values()))
        taken.update(part.columns)
        found.append(part)
    return found
