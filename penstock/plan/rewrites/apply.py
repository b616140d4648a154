"""Apply the rules until nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node
from penstock.plan.rewrites.table import FINAL_RULES, JOINT_RULES, LOCAL_RULES


def rewritten(catalog: Catalog) -> Catalog:
    """The application with all its plans rewritten; the same object when no rule applies.

    Plans are rewritten together, so that sub-plans which several queries share stay shared.
    """
    before = [query.plan for query in catalog.queries.values()]
    after = _rewritten(before)
    if all(new is old for new, old in zip(after, before, strict=True)):
        return catalog
    changed = zip(catalog.queries.items(), after, strict=True)
    queries = {name: query if plan is query.plan else replace(query, plan=plan) for (name, query), plan in changed}
    return replace(catalog, streams=dict(catalog.streams), queries=queries, warnings=list(catalog.warnings))


def _rewritten(plans: Sequence[Node]) -> tuple[Node, ...]:
    after = tuple(map(_locally, plans))
    for joint in JOINT_RULES:
        after = joint(after)
    # Every rule moves a filter down or removes something, so this ends.
    if all(new is old for new, old in zip(after, plans, strict=True)):
        return tuple(reduce(lambda plan, rule: rule(plan), FINAL_RULES, plan) for plan in after)
    return _rewritten(after)


def _locally(plan: Node) -> Node:
    before = plan
    for rule in LOCAL_RULES:
        plan = rule(plan)
    return plan if plan is before else _locally(plan)
