"""What the analyses need of each kind of node beyond what the node says: one row for each, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import Defect
from penstock.plan.analysis import delays
from penstock.plan.analysis.delays import Delays
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
from penstock.plan.analysis.shown_times import (
    ShownTimes,
    times_of_groups,
    times_of_join,
    times_of_project,
    times_of_reference,
    times_of_stream,
    times_of_union,
)
from penstock.plan.nodes import relational as nodes
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.multiway import MJoin
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.row_patterns import RowPatternMatch

Found = TypeVar("Found")

#: What is known of the output, from what is known of the inputs and what the node keeps.
Through = Callable[[Any, Sequence[Knowledge], Sequence[Holding]], Knowledge]
#: What a node keeps, from what is known of its inputs.
Judge = Callable[[Any, Sequence[Knowledge]], list[Holding]]
#: Which columns of the output show event time, from the same of the inputs.
Times = Callable[[Any, Sequence[ShownTimes]], ShownTimes]
#: How old times in the output can be, from the same of the inputs.
Ages = Callable[[Any, Sequence[Delays]], Delays]


def keeps_nothing(node: Node, inputs: Sequence[Knowledge]) -> list[Holding]:
    return []


def not_known(node: Node, inputs: Sequence[Delays]) -> Delays:
    return Delays()


def shows_none(node: Node, inputs: Sequence[ShownTimes]) -> ShownTimes:
    return ShownTimes()


def as_input(node: Node, inputs: Sequence[Found], *_: object) -> Found:
    """What holds of the input holds of the output."""
    return inputs[0]


def of_source(rule: Callable[[Any], Any]) -> Callable[..., Any]:
    """A rule of a node without inputs."""
    return lambda node, *_: rule(node)


def of_one(rule: Callable[[Any, Found], Any]) -> Callable[..., Any]:
    """A rule of a node with one input."""
    return lambda node, inputs, *_: rule(node, inputs[0])


@dataclass(frozen=True, slots=True)
class Analysis:
    """The rules of one kind of node.

    Parameters
    ----------
    through
        Which punctuations and which event time leave it.
    judge
        What it keeps, and what makes it forget.
    ages
        How far times in its answers can be behind the frontier. Unless it is known, nobody may wait for it.
    times
        Which of its columns show event time as it is, and which only have its name.
    """

    through: Through
    judge: Judge = keeps_nothing
    ages: Ages = not_known
    times: Times = shows_none


#: A node that reads another query has what is known of that as its input.
ANALYSES: Mapping[type[Node], Analysis] = {
    nodes.Scan: Analysis(of_source(of_stream), ages=of_source(delays.of_stream), times=of_source(times_of_stream)),
    nodes.Reference: Analysis(of_one(of_reference), ages=of_one(delays.of_reference), times=of_one(times_of_reference)),
    nodes.Select: Analysis(of_one(through_select), ages=as_input, times=as_input),
    AdaptiveFilter: Analysis(of_one(through_select), ages=as_input, times=as_input),
    nodes.GroupFilter: Analysis(as_input, ages=as_input, times=as_input),
    nodes.Project: Analysis(of_one(through_project), ages=of_one(delays.of_project), times=of_one(times_of_project)),
    nodes.Union: Analysis(lambda node, inputs, _: through_union(node, inputs), ages=delays.of_union, times=times_of_union),
    Merged: Analysis(lambda node, inputs, _: through_union(node, inputs), ages=delays.of_union, times=times_of_union),
    nodes.Split: Analysis(as_input, ages=as_input, times=as_input),
    nodes.Distinct: Analysis(of_one(through_distinct), of_one(judge_distinct), as_input, as_input),
    WindowJoin: Analysis(through_join, judge_join, delays.of_join, times_of_join),
    MJoin: Analysis(through_join, judge_join, delays.of_join, times_of_join),
    nodes.GroupBy: Analysis(through_grouping, of_one(judge_grouping), of_one(delays.of_groups), of_one(times_of_groups)),
    nodes.Lifetime: Analysis(as_input, times=as_input),
    nodes.Hushed: Analysis(as_input, times=as_input),
    nodes.Announced: Analysis(lambda node, inputs, _: slowest(inputs)),
    PatternMatch: Analysis(of_one(through_pattern), of_one(judge_pattern), of_one(delays.of_matches)),
    RowPatternMatch: Analysis(of_one(through_row_pattern), of_one(judge_row_pattern)),
}


def analysis_of(node: Node) -> Analysis:
    """The row of a node."""
    try:
        return ANALYSES[type(node)]
    except KeyError:
        raise Defect(f"no analysis is listed for the node {type(node).__name__}") from None
