"""Which operator runs which node: the single place that knows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from penstock.errors import Defect
from penstock.kernel.contracts import Operator
from penstock.lowering.filters import SelectRecipe, filter_recipe
from penstock.lowering.joins import join_recipe
from penstock.lowering.multiway import multiway_recipe
from penstock.lowering.patterns import pattern_recipe
from penstock.lowering.prefix import Prefix
from penstock.lowering.row_patterns import row_pattern_recipe
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
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.multiway import MJoin
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.row_patterns import RowPatternMatch

Recipe = Callable[[], Operator]


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


LOWERINGS: Mapping[type, Callable[[Any], Recipe]] = {
    nodes.Select: _select,
    AdaptiveFilter: _adaptive_filter,
    nodes.GroupFilter: _group_filter,
    nodes.Project: _project,
    nodes.Union: _union,
    Merged: _merged,
    nodes.Split: _split,
    nodes.Distinct: _distinct,
    nodes.WindowJoin: join_recipe,
    MJoin: multiway_recipe,
    nodes.GroupBy: _group_by,
    nodes.Lifetime: _lifetime,
    nodes.Hushed: _hushed,
    nodes.Announced: _announced,
    PatternMatch: pattern_recipe,
    RowPatternMatch: row_pattern_recipe,
}


def recipe_of(node: Node, is_trusting: bool = False) -> Recipe:
    """How to make the operator that runs `node`.

    Parameters
    ----------
    is_trusting
        Rows that contradict a punctuation get past an entry below, as its stream trusts them. Others are judged there, and
        need not be again.
    """
    if type(node) is nodes.WindowJoin:
        return join_recipe(node, is_trusting)
    try:
        return LOWERINGS[type(node)](node)
    except KeyError:
        raise Defect(f"no operator is listed for the node {type(node).__name__}") from None


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
