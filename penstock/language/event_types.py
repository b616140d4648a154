"""Names of event types: texts in a column, so that a misspelled one matches nothing and nobody notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.errors import Place, UnknownEventType, is_near
from penstock.expressions.nodes import Column
from penstock.metadata.constraints.declared import DeclaredConstraints
from penstock.plan.nodes.base import Node, SameColumns
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.nodes.relational import Project, Reference, Scan


def check_types(
    written: Mapping[str, Place | None],
    stream: str,
    constraints: Iterable[DeclaredConstraints],
    plans: Mapping[str, Node],
    warn: Callable[[str], None],
) -> None:
    """Refuse a type that a stream with a known process does not have; tell the author of one that resembles another.

    Parameters
    ----------
    written
        Types that a query names, and where.
    stream
        Whose events they are; "" if nobody knows.
    constraints, plans
        What is declared, and the queries before this one, by name in lower case: types that these name exist.
    """
    about = [each for each in constraints if stream and each.is_about(stream)]
    declared = dict.fromkeys(name for each in about for name in each.rules.event_types)
    named = {name for plan in plans.values() for name in _types_named(plan, stream, plans)} if stream else set()
    for name, place in written.items():
        if name in declared:
            continue
        if any(each.lists_all_types for each in about):
            raise UnknownEventType(f"the process behind stream '{stream}'", "event type", name, declared, place)
        for other in sorted({*declared, *named} - set(written)):
            if name not in named and is_near(name, other):
                warn(f"no other query or constraint names events of type '{name}'; did you mean '{other}'?")


def origin_of(node: Node, column: str, plans: Mapping[str, Node]) -> str:
    """The stream whose column a plan shows as it is; "" for none."""
    if isinstance(node, Reference):
        plan = plans.get(node.query.lower())
        return "" if plan is None else origin_of(plan, node.output.names[node.schema.index(column)], plans)
    if isinstance(node, SameColumns):
        return origin_of(node.input, column, plans)
    if isinstance(node, Project):
        shown = dict(node.items)[column]
        return origin_of(node.input, shown.name, plans) if isinstance(shown, Column) else ""
    return stream_of(node)


def stream_of(node: Node) -> str:
    """The stream whose rows a node has, "" where it is not one stream."""
    return node.stream.name if isinstance(node, Scan) else ""


def _types_named(plan: Node, stream: str, plans: Mapping[str, Node]) -> frozenset[str]:
    """Types of a stream that the pattern of a plan names."""
    if not isinstance(plan, PatternMatch) or origin_of(plan.input, plan.query.type_column, plans) != stream:
        return frozenset()
    return plan.query.types
