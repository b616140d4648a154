"""Leave events that no match can have where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.expressions.event_references import At, reference, references_of
from penstock.expressions.nodes import TRUE, Call, Column, Expr, Literal, conjoin, transform
from penstock.expressions.spark_sql import is_for_python
from penstock.model.event_patterns import Absent, Atom
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.relational import Project
from penstock.plan.rewrites.rebuild import bottom_up, filtered

Readers = Mapping[str, Sequence[Node]]


def push_filter_below_pattern(plans: Sequence[Node]) -> tuple[Node, ...]:
    """Filter a stream by the types a pattern names, and by what single events must satisfy, before rows cross into Python.

    It does not fire where any event may matter: under contiguity, where events of other types break a match. While silence
    ends traces, and under constraints, only types are filtered: an event that fails its condition still breaks the silence
    and still tells what cannot come any more. Patterns that share a stream get what any of them wants.
    """
    readers: dict[str, list[Node]] = {}
    for node in {repr(node): node for plan in plans for node in walk(plan)}.values():
        for part in node.inputs:
            readers.setdefault(repr(part), []).append(node)
    return tuple(bottom_up(plan, lambda node: _pushed(node, readers)) for plan in plans)


def _pushed(node: Node, readers: Readers) -> Node:
    if not isinstance(node, PatternMatch) or node.is_filtered or node.relevant_types is None:
        return node
    others = readers.get(repr(node.input), [node])
    if isinstance(node.input, Merged):
        parts = [_filtered_part(node, part) for part in node.input.parts] if len(others) == 1 else node.input.parts
        if all(new is old for new, old in zip(parts, node.input.parts, strict=True)):
            return node
        return replace(node, input=replace(node.input, parts=tuple(parts)), is_filtered=True)
    if not node.input.is_listed_stream or not all(
        isinstance(other, PatternMatch) and other.relevant_types is not None for other in others
    ):
        return node  # another reader would no longer share the stream
    if _type_of(node, node.input) is not None:
        below = _filtered_part(node, node.input) if len(others) == 1 else node.input
    else:
        below = filtered(node.input, [_wanted(node) if len(others) == 1 else _of_any(others, node.query.type_column)])
    return node if below is node.input else replace(node, input=below, is_filtered=True)


def _filtered_part(node: PatternMatch, part: Node) -> Node:
    """A stream of one type, reduced to events that meet the conditions of some place in the pattern."""
    kind = _type_of(node, part)
    if kind is None or not part.is_listed_stream or (condition := _allowed(node, kind)) == TRUE:
        return part
    return filtered(part, [condition])


def _type_of(node: PatternMatch, part: Node) -> str | None:
    """The type of all rows of a part, where it is one."""
    found = dict(part.items).get(node.query.type_column) if isinstance(part, Project) else None
    return str(found.value) if isinstance(found, Literal) else None


# -- conditions -------------------------------------------------------------------------------------------------------


def _wanted(node: PatternMatch) -> Expr:
    """What an event must satisfy to matter."""
    types = sorted(node.relevant_types or ())
    allowed = {kind: _allowed(node, kind) for kind in types}
    column = Column(node.query.type_column)
    free = [kind for kind in types if allowed[kind] == TRUE]
    parts = [_in(column, free)] if free else []
    parts += [Call("and", (_in(column, [kind]), allowed[kind])) for kind in types if allowed[kind] != TRUE]
    return _any(parts)


def _of_any(readers: Sequence[Node], type_column: str) -> Expr:
    types = {kind for reader in readers if isinstance(reader, PatternMatch) for kind in reader.relevant_types or ()}
    return _in(Column(type_column), sorted(types))


def _in(column: Column, kinds: Sequence[str]) -> Expr:
    values = tuple(Literal(kind, pa.string()) for kind in kinds)
    return Call("=", (column, *values)) if len(values) == 1 else Call("in", (column, *values))


def _any(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else Call("or", tuple(parts))


def _allowed(node: PatternMatch, kind: str) -> Expr:
    """What an event of a type must satisfy: the conditions of one of its places."""
    query = node.query
    if kind in query.terminal or query.trace_ttl is not None or node.constraints is not None:
        return TRUE
    places = [conjoin(_own(node, leaf)) for leaf in query.leaves.values() if kind in leaf.types]
    return TRUE if TRUE in places else _any(list(dict.fromkeys(places)))


def _own(node: PatternMatch, leaf: Atom | Absent) -> list[Expr]:
    """Conditions on the events of one place, over columns of a row; those that Catalyst can evaluate."""
    found = []
    for condition in node.query.conditions:
        refs = references_of(condition)
        about = {(ref.variable, ref.at, ref.function) for ref in refs}
        if about in ({(leaf.variable, At.ONLY, "")}, {(leaf.variable, At.CURRENT, "")}) and not is_for_python(condition):
            found.append(transform(condition, lambda column: replace(column, name=reference(column.name).attribute)))
    return found
