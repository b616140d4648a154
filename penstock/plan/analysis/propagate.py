"""Walk through an application: what every operator keeps, and what is known of its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.analysis.event_patterns import judge_pattern, through_pattern
from penstock.plan.analysis.groups import judge_distinct, judge_grouping, through_distinct, through_grouping
from penstock.plan.analysis.holdings import Holding
from penstock.plan.analysis.joins import judge_join, through_join
from penstock.plan.analysis.knowledge import (
    Knowledge,
    of_reference,
    of_stream,
    slowest,
    through_project,
    through_select,
    through_union,
)
from penstock.plan.analysis.row_patterns import judge_row_pattern, through_row_pattern
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.nodes.relational import Announced, Distinct, GroupBy, Project, Reference, Scan, Select, Union, WindowJoin
from penstock.plan.nodes.row_patterns import RowPatternMatch


@dataclass(frozen=True)
class Judged:
    """A node, what it keeps and what holds behind it."""

    node: Node
    holdings: tuple[Holding, ...]
    known: Knowledge

    @property
    def is_bounded(self) -> bool:
        return all(holding.is_bounded for holding in self.holdings)


def propagate(catalog: Catalog) -> dict[str, list[Judged]]:
    """All nodes of all queries, inputs first, by the query's name; the order is that of `walk`."""
    found: dict[str, list[Judged]] = {}
    answers: dict[str, Knowledge] = {}
    for query in catalog.in_order():
        judged: list[Judged] = []
        answers[query.name.lower()] = _judge(query.plan, answers, judged)
        found[query.name] = judged
    return found


def _judge(node: Node, answers: Mapping[str, Knowledge], judged: list[Judged]) -> Knowledge:
    inputs = [_judge(part, answers, judged) for part in node.inputs]
    holdings: list[Holding] = []
    match node:
        case Scan():
            known = of_stream(node)
        case Reference():
            known = of_reference(node, answers[node.query.lower()])
        case Select():
            known = through_select(node, inputs[0])
        case Project():
            known = through_project(node, inputs[0])
        case Union():
            known = through_union(node, inputs)
        case Distinct():
            holdings = judge_distinct(node, inputs[0])
            known = through_distinct(inputs[0])
        case WindowJoin():
            holdings = judge_join(node, inputs)
            known = through_join(node, inputs, holdings)
        case GroupBy():
            holdings = judge_grouping(node, inputs[0])
            groups = next(holding for holding in holdings if holding.what == "groups")
            known = through_grouping(node, inputs[0], groups)
        case PatternMatch():
            holdings = judge_pattern(node, inputs[0])
            known = through_pattern(node, inputs[0])
        case RowPatternMatch():
            holdings = judge_row_pattern(node, inputs[0])
            known = through_row_pattern(node, inputs[0])
        case Announced():
            known = slowest(inputs)
        case _:
            known = inputs[0]
    judged.append(Judged(node, tuple(holdings), known))
    return known
