"""All rules, in the order they are tried; `apply.py` runs what is listed here and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.plan.nodes.base import Node
from penstock.plan.rewrites.adapt_order_of_filters import adapt_order_of_filters
from penstock.plan.rewrites.merge_projects import merge_projects
from penstock.plan.rewrites.merge_selects import merge_selects
from penstock.plan.rewrites.narrow_outer_join import narrow_outer_join
from penstock.plan.rewrites.prune_columns import prune_columns
from penstock.plan.rewrites.push_filter_below_join import push_filter_below_join
from penstock.plan.rewrites.push_filter_below_pattern import push_filter_below_pattern
from penstock.plan.rewrites.push_filter_below_project import push_filter_below_project
from penstock.plan.rewrites.push_filter_below_union import push_filter_below_union
from penstock.plan.rewrites.rebuild import Rule
from penstock.plan.rewrites.split_off_comparisons import split_off_comparisons

#: A rule that must see all queries of an application together, to keep shared what they share.
JointRule = Callable[[Sequence[Node]], tuple[Node, ...]]

#: Rules that look at one plan, tried until none of them changes it.
LOCAL_RULES: tuple[Rule, ...] = (
    # First: comparisons go further down than what calls functions.
    split_off_comparisons,
    push_filter_below_project,
    push_filter_below_union,
    # Before filters go below joins: they go further below an inner one.
    narrow_outer_join,
    push_filter_below_join,
    # Behind the rules that move selections: they leave several on one another.
    merge_selects,
    merge_projects,
)

#: Then these; while they change a plan, all of it is tried again. Pruning must see what the others leave.
JOINT_RULES: tuple[JointRule, ...] = (push_filter_below_pattern, prune_columns)

#: At the end, once: selections have found their places.
FINAL_RULES: tuple[Rule, ...] = (adapt_order_of_filters,)


def _alone(rule: JointRule) -> Rule:
    """What a rule makes of a query that is the only one."""
    return lambda plan: rule((plan,))[0]


#: All of them, each as it treats a single plan.
RULES_BY_NAME: Mapping[str, Rule] = {
    **{rule.__name__: rule for rule in LOCAL_RULES},
    **{rule.__name__: _alone(rule) for rule in JOINT_RULES},
    **{rule.__name__: rule for rule in FINAL_RULES},
}
