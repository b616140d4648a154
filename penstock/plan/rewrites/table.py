"""All rules, in the order they are tried."""

from __future__ import annotations

from collections.abc import Mapping

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

#: Rules that look at one plan.
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

#: `prune_columns` is last because it must see what the others leave; like `push_filter_below_pattern` it looks at all queries of
#: an application together.
#: Behind it only `adapt_order_of_filters`, once: selections have found their places.
RULES: tuple[Rule, ...] = (*LOCAL_RULES, push_filter_below_pattern, prune_columns, adapt_order_of_filters)

RULES_BY_NAME: Mapping[str, Rule] = {rule.__name__: rule for rule in RULES}
