"""Plans whose rows have weights: how many rows each one stands for where LOSS leaves some out.

A row of a stream that is kept with the chance p has the weight 1/p, and a pair of a join the product of the weights of its rows.
The sum of the weights estimates the number of all rows without bias, and that of weighted values their sum [horvitz1952].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
        found = next((_WEIGHING[kind] for kind in type(node).__mro__ if kind in _WEIGHING), None)
        if found is None:
            raise self.refusal(*_REASONS.get(type(node), (type(node).__name__, "the chance of its rows is not known")))
        return found(self, node)

    def refusal(self, what: str, why: str) -> InvalidPlan:
        return InvalidPlan(f"{self.asking} cannot be used over {what}: {why}", self.place)


def _of_stream(weighing: _Weighing, node: Scan) -> Weighed:
    found = replace(node, is_weighed=True)
    return Weighed(found, (found.weight,))


def _of_query(weighing: _Weighing, node: Reference) -> Weighed:
    why = "rows do not take their weights from one query to the next. Write its select in FROM, (SELECT …), instead of its name"
    raise weighing.refusal(f"query '{node.query}'", why)


def _through_condition(weighing: _Weighing, node: Select) -> Weighed:
    below = weighing.of(node.input)
    return Weighed(node.with_inputs([below.node]), below.columns)


def _through_list(weighing: _Weighing, node: Project) -> Weighed:
    """The select list with the weights, unless it shows them already."""
    below = weighing.of(node.input)
    shown = {expr.name: name for name, expr in node.items if isinstance(expr, Column)}
    more = tuple((name, Column(name)) for name in below.columns if name not in shown)
    return Weighed(Project(below.node, (*node.items, *more)), tuple(shown.get(name, name) for name in below.columns))


def _through_union(weighing: _Weighing, node: Union) -> Weighed:
    return Weighed(Union(tuple(_as_one(part, weighing.of(part)) for part in node.parts)), (WEIGHT,))


def _through_join(weighing: _Weighing, node: WindowJoin) -> Weighed:
    if node.kind is not JoinKind.INNER:
        raise weighing.refusal(f"{node.kind.words} JOIN", "one partner suffices, or none: the chance of an answer depends on all")
    if node.counts_rows:
        raise weighing.refusal("a window that counts rows", "which rows it has depends on those left out before them")
    if node.hint is not None and node.hint.variant is JoinVariant.APPROXIMATE:
        raise weighing.refusal("an approximate join", "it loses pairs of its own")
    twice = [name for name, times in Counter(scan.stream.name for scan in scans_of(node)).items() if times > 1]
    if twice:
        raise weighing.refusal(f"a join that reads '{twice[0]}' twice", "its rows stay or go on both sides together")
    parts = _apart([weighing.of(part) for part in node.parts])
    return Weighed(node.with_inputs([part.node for part in parts]), tuple(name for part in parts for name in part.columns))


#: Nodes whose rows have weights if those of their inputs do; a node that is not there is refused.
_WEIGHING: dict[type, Callable[[_Weighing, Any], Weighed]] = {
    Scan: _of_stream,
    Reference: _of_query,
    Select: _through_condition,
    Project: _through_list,
    Union: _through_union,
    WindowJoin: _through_join,
}
_GROUPS = ("another grouping", "how many of its groups are missing is not known")
#: Other nodes by the words of the language, and why the chances of their rows are not known.
_REASONS: dict[type, tuple[str, str]] = {
    GroupBy: _GROUPS,
    GroupFilter: _GROUPS,
    Distinct: ("DISTINCT or UNION", "how many different rows are missing is not known; use UNION ALL, or leave DISTINCT out"),
    RowPatternMatch: ("MATCH_RECOGNIZE", "a row that is left out may end a match or make one"),
}


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
