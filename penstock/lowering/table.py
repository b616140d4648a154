"""Which operator runs which node: the single place that knows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.errors import Defect
from penstock.kernel.contracts import Operator
from penstock.kernel.work import UNKNOWN_PRICE, Price
from penstock.lowering.filters import SelectRecipe, explained_order, filter_recipe
from penstock.lowering.joins import join_recipe
from penstock.lowering.multiway import explained_probes, multiway_recipe, wanted_spread
from penstock.lowering.patterns import explained_patterns, pattern_recipe
from penstock.lowering.prefix import Prefix
from penstock.lowering.row_patterns import explained_search, row_pattern_recipe
from penstock.model.declarations import Generator, GeneratorKind
from penstock.operators.announce import Announce, Hush
from penstock.operators.distinct import Distinct
from penstock.operators.generators.buffered import Buffered
from penstock.operators.generators.closing_times import ClosingTimes
from penstock.operators.generators.sampled import Sampled
from penstock.operators.group_by.operator import GroupBy
from penstock.operators.lifetime import Lifetime
from penstock.operators.project import Project
from penstock.operators.select import GroupFilter
from penstock.operators.split import Split
from penstock.operators.union import Union
from penstock.plan.analysis.generation import PIECES
from penstock.plan.nodes import relational as nodes
from penstock.plan.nodes.base import Keys, Node, Spread
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.multiway import MJoin
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.row_patterns import RowPatternMatch

Recipe = Callable[[], Operator]


def _as_node_says(node: Node, known: Sequence[Spread]) -> list[Keys]:
    return node.wanted_keys(known)


def _nothing(node: Node) -> list[str]:
    return []


def _select(node: nodes.Select) -> Recipe:
    return SelectRecipe(node.input.schema.arrow, node.condition)


def _adaptive_filter(node: AdaptiveFilter) -> Recipe:
    return filter_recipe(node.input.schema.arrow, node.conjuncts, node.hint)


def _group_filter(node: nodes.GroupFilter) -> Recipe:
    return partial(GroupFilter, node.input.schema.arrow, node.condition)


def _project(node: nodes.Project) -> Recipe:
    return partial(Project, node.input.schema.arrow, node.items, node.schema.arrow)


def _union(node: nodes.Union) -> Recipe:
    return partial(Union, len(node.parts), node.schema.arrow)


def _merged(node: Merged) -> Recipe:
    return partial(Union, len(node.parts), node.schema.arrow, renumber=True)


def _split(node: nodes.Split) -> Recipe:
    return partial(Split, node.input.schema.arrow, node.branches, node.default)


def _distinct(node: nodes.Distinct) -> Recipe:
    return partial(Distinct, node.input.schema.arrow, node.window, node.life)


def _group_by(node: nodes.GroupBy) -> Recipe:
    return partial(
        GroupBy, node.input.schema.arrow, node.keys, node.aggregates, node.window, node.life,
        emit_partial=node.emit_partial, window_columns=node.window_columns, time_type=node.time_type,
    )  # fmt: skip


def _lifetime(node: nodes.Lifetime) -> Recipe:
    return partial(Lifetime, node.life)


def _hushed(node: nodes.Hushed) -> Recipe:
    return Hush


def _announced(node: nodes.Announced) -> Recipe:
    return partial(Announce, node.schema.arrow)


@dataclass(frozen=True, slots=True)
class Lowering:
    """How nodes of one kind run.

    Parameters
    ----------
    recipe
        How to make the operator.
    wanted_keys
        How the inputs must be spread, from how they are; the node says it, unless it depends on more than the node.
    explained
        Lines for `explain` about the operator rather than the node.
    takes_trust
        Whether the recipe depends on rows that contradict a punctuation coming that far.
    price
        What the operator is thought to cost until it has been measured.
    """

    recipe: Callable[..., Recipe]
    wanted_keys: Callable[[Any, Sequence[Spread]], list[Keys]] = _as_node_says
    explained: Callable[[Any], list[str]] = _nothing
    takes_trust: bool = False
    price: Price = UNKNOWN_PRICE


#: Of operators that look at each row by itself, and of those that only pass rows on.
_LIGHT, _PASSING = Price(20_000, 20, 0.5), Price(5_000, 2)
#: Of operators with state: those that gather rows, those that look for partners, those that follow events.
_GATHERING, _JOINING, _FOLLOWING = Price(100_000, 100, 0.1), Price(200_000, 400), Price(200_000, 500, 0.1)

#: Of operators that no node stands for.
BESIDE = _LIGHT

LOWERINGS: Mapping[type[Node], Lowering] = {
    nodes.Select: Lowering(_select, price=_LIGHT),
    AdaptiveFilter: Lowering(_adaptive_filter, explained=explained_order, price=Price(20_000, 200, 0.3)),
    nodes.GroupFilter: Lowering(_group_filter, price=_LIGHT),
    nodes.Project: Lowering(_project, price=Price(20_000, 20)),
    nodes.Union: Lowering(_union, price=_PASSING),
    Merged: Lowering(_merged, price=_PASSING),
    nodes.Split: Lowering(_split, price=_LIGHT),
    nodes.Distinct: Lowering(_distinct, price=_GATHERING),
    WindowJoin: Lowering(join_recipe, takes_trust=True, price=_JOINING),
    MJoin: Lowering(multiway_recipe, wanted_spread, explained_probes, price=_JOINING),
    nodes.GroupBy: Lowering(_group_by, price=_GATHERING),
    nodes.Lifetime: Lowering(_lifetime, price=_PASSING),
    nodes.Hushed: Lowering(_hushed, price=_PASSING),
    nodes.Announced: Lowering(_announced, price=_PASSING),
    PatternMatch: Lowering(pattern_recipe, explained=explained_patterns, price=_FOLLOWING),
    RowPatternMatch: Lowering(row_pattern_recipe, explained=explained_search, price=_FOLLOWING),
}


def lowering_of(node: Node) -> Lowering:
    """The row of a node."""
    try:
        return LOWERINGS[type(node)]
    except KeyError:
        raise Defect(f"no operator is listed for the node {type(node).__name__}") from None


def recipe_of(node: Node, is_trusting: bool = False) -> Recipe:
    """How to make the operator that runs `node`.

    Parameters
    ----------
    is_trusting
        Rows that contradict a punctuation get past an entry below, as its stream trusts them. Others are judged there, and
        need not be again.
    """
    row = lowering_of(node)
    return row.recipe(node, is_trusting) if row.takes_trust else row.recipe(node)


def recipe_of_generator(generator: Generator, prefix: Prefix, column: str) -> Callable[[], Operator] | None:
    """How to make the operator, or None for rules on rows, which are obeyed before rows cross."""
    schema, stream = prefix.schema.arrow, prefix.stream
    if generator.reference is not None:
        reference = generator.reference
        return partial(ClosingTimes, schema, column, reference.key, reference.time, stream.name, stream.on_violation)
    if generator.kind is GeneratorKind.SAMPLING:
        return partial(Sampled, schema, column, generator.rows)
    if generator.kind is GeneratorKind.WHEN:
        return None
    is_partitioned = bool(stream.partition_column and stream.position_column)
    return partial(Buffered, schema, column, generator.rows, PIECES, generator.kind is GeneratorKind.SORTING, is_partitioned)
