"""Walks through an application: what every operator keeps, what is known of its output, how old times in it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.analysis.delays import Delays
from penstock.plan.analysis.holdings import Holding
from penstock.plan.analysis.knowledge import Knowledge
from penstock.plan.analysis.table import analysis_of
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.base import Node


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
    rules = analysis_of(node)
    inputs = [answers[node.query_read.lower()]] if node.query_read else [_judge(part, answers, judged) for part in node.inputs]
    holdings = tuple(rules.judge(node, inputs))
    known = rules.through(node, inputs, holdings)
    judged.append(Judged(node, holdings, known))
    return known


def delays(node: Node, queries: Mapping[str, ContinuousQuery]) -> Delays:
    """What is known of the times in the answers of `node`; `queries` are those it may refer to, by lower-case name.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> catalog = parse_application('''
    ...   CREATE STREAM a (k BIGINT, t BIGINT, WATERMARK t DELAY OF 0);
    ...   CREATE STREAM b (k BIGINT, u BIGINT, WATERMARK u DELAY OF 0);
    ...   CREATE CQ pairs AS SELECT a.k, t, u FROM a [RANGE 5], b [RANGE 7] WHERE a.k = b.k;
    ... ''')
    >>> found = delays(catalog.queries["pairs"].plan, catalog.queries)
    >>> found.rows, {name: delay.below_frontier for name, delay in found.columns.items()}, found.row_time
    (0, {'t': 5, 'u': 7}, ('t', 'u'))
    """
    below = (queries[node.query_read.lower()].plan,) if node.query_read else node.inputs
    return analysis_of(node).ages(node, [delays(part, queries) for part in below])
