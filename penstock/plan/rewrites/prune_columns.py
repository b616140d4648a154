"""Let only columns cross that somebody reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.expressions.nodes import Column, Expr
from penstock.plan.analysis.knowledge import promised_columns
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Project, Scan, Union

#: Names needed of a sub-plan, by its text: equal sub-plans run once, so they must stay equal.
Needs = dict[str, set[str]]


def prune_columns(plans: Sequence[Node]) -> tuple[Node, ...]:
    """Put a select list over every stream whose columns are not all read, and shorten lists that are longer than needed.

    Keys, partition columns, conditions and arguments of aggregates count as read. Columns with a declared constraint
    stay as well: a row that breaks it must be found whatever the query reads. A sub-plan that several queries share keeps what
    any of them reads.
    """
    needs = _needs(plans)
    return tuple(_rebuilt(plan, needs) for plan in plans)


# -- what is needed ----------------------------------------------------------------------------------------------------


def _needs(plans: Sequence[Node]) -> Needs:
    needs: Needs = {}
    for plan in plans:
        needs.setdefault(_key(plan), set()).update(plan.schema.names)
    # A node is higher than its inputs, so all its readers have spoken before it passes their needs on.
    found = {repr(node): node for plan in plans for node in _visible(plan)}
    for text, node in sorted(found.items(), key=lambda item: -_height(item[1])):
        for port, (part, names) in enumerate(_needed_below(node, needs.setdefault(text, set()))):
            needs.setdefault(_key(part, node, port), set()).update(names)
    return needs


def _key(node: Node, reader: Node | None = None, port: int = 0) -> str:
    """Name of a sub-plan in `Needs`. A stream that is spread by different keys crosses once for each, with its own columns."""
    if not node.is_filtered_stream:
        return repr(node)
    keys = None if reader is None else reader.keys_of(port)
    return f"{node!r} by {'anything' if keys is None else keys}"


def _visible(node: Node) -> Iterable[Node]:
    yield node
    for part in _parts(node):
        yield from _visible(part)


def _parts(node: Node) -> tuple[Node, ...]:
    """Inputs that can be pruned apart from the node: a filtered stream is one thing, and so is a list over it."""
    return () if node.is_listed_stream else node.inputs


def _height(node: Node) -> int:
    return 1 + max((_height(part) for part in node.inputs), default=0)


def _needed_below(node: Node, needed: set[str]) -> list[tuple[Node, set[str]]]:
    parts = _parts(node)
    if not parts:
        return []
    if isinstance(node, Project):
        above = {name for name, _ in _kept(node, needed)}
    elif isinstance(node, Union) and _can_narrow(node):
        return [(part, {part.schema.names[at] for at in _places(node, needed)}) for part in parts]
    else:
        above = needed
    return [(part, node.columns_needed(port, above)) for port, part in enumerate(parts)]


def _can_narrow(node: Union) -> bool:
    """Whether every input is a list or a stream, whose columns can be chosen one by one."""
    return all(isinstance(part, Project) or part.is_filtered_stream for part in node.parts)


def _places(node: Union, needed: set[str]) -> list[int]:
    """Which columns of a union stay; at least one, or rows could not be counted."""
    promised: set[int] = set()
    for part in node.parts:
        source = part.input if isinstance(part, Project) else part
        guarded = _guarded(source) if source.is_filtered_stream else set()
        shown = part.items if isinstance(part, Project) else [(name, Column(name)) for name in part.schema.names]
        promised |= {at for at, (_, expr) in enumerate(shown) if _shows(expr, guarded)}
    wanted = {node.schema.index(name) for name in needed}
    return sorted(promised | wanted) or [0]


# -- the smaller plan --------------------------------------------------------------------------------------------------


def _rebuilt(node: Node, needs: Needs, reader: Node | None = None, port: int = 0) -> Node:
    needed = needs.get(_key(node, reader, port), set())
    if node.is_filtered_stream:
        return node if isinstance(reader, Project) and not _parts(reader) else _listed(node, needed)
    inputs = [_rebuilt(part, needs, node, at) for at, part in enumerate(node.inputs)]
    if isinstance(node, Project):
        items = _kept(node, needed)
        return node.with_inputs(inputs) if items == node.items else Project(inputs[0], items)
    if isinstance(node, Union):
        inputs = _same_columns(node, inputs, needed)
    return node.with_inputs(inputs)


def _listed(node: Node, needed: set[str]) -> Node:
    """A stream with the columns somebody reads, in their order; at least one, or rows could not be counted."""
    stream = _scan_of(node).stream
    wanted = needed | _guarded(node)
    kept = [name for name in node.schema.names if name in wanted]
    if not kept:
        kept = [node.schema.names[stream.schema.index(stream.timestamp)]]
    if len(kept) == len(node.schema):
        return node
    return Project(node, tuple((name, Column(name)) for name in kept))


def _kept(node: Project, needed: set[str]) -> tuple[tuple[str, Expr], ...]:
    guarded = _guarded(node.input) if node.input.is_filtered_stream else set()
    items = tuple(item for item in node.items if item[0] in needed or _shows(item[1], guarded))
    return items or node.items[:1]


def _shows(expr: Expr, names: set[str]) -> bool:
    return isinstance(expr, Column) and expr.name in names


def _guarded(node: Node) -> set[str]:
    """Columns of a filtered stream about which its declaration promises something."""
    scan = _scan_of(node)
    return {scan.schema.names[scan.stream.schema.index(name)] for name in promised_columns(scan.stream)}


def _scan_of(node: Node) -> Scan:
    scan = node.rows_from
    assert isinstance(scan, Scan)
    return scan


def _same_columns(node: Union, inputs: Sequence[Node], needed: set[str]) -> list[Node]:
    """Inputs reduced to the same places: one of them may be shared with a reader who needs more."""
    if not _can_narrow(node):
        return list(inputs)
    same: list[Node] = []
    for old, new in zip(node.parts, inputs, strict=True):
        names = tuple(old.schema.names[at] for at in _places(node, needed))
        fits = new.schema.names == names
        same.append(new if fits else Project(new, tuple((name, Column(name)) for name in names)))
    return same
