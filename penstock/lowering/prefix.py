"""The stateless prefix of a stream: filters and select lists that Catalyst evaluates before rows cross into Python."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expressions.nodes import Column, Expr, conjoin, conjuncts, substitute
from penstock.expressions.spark_sql import is_for_python
from penstock.model.declarations import StreamDeclaration
from penstock.model.schema import Field, Schema
from penstock.plan.analysis.filtering import runs_in_kernel
from penstock.plan.analysis.knowledge import promised_columns
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.relational import Node, Project, Scan, Select

#: Before the names of columns that are looked at where a stream enters, and that the query does not have.
UNREAD = "_unread_"


@dataclass(frozen=True)
class Prefix:
    """A stream, a condition over its columns, and named expressions over its columns."""

    stream: StreamDeclaration
    items: tuple[tuple[str, Expr], ...]
    conditions: tuple[Expr, ...]
    schema: Schema

    @property
    def condition(self) -> Expr | None:
        return conjoin(self.conditions) if self.conditions else None

    @property
    def kept(self) -> tuple[tuple[str, str], ...]:
        """(stream column, output column) of columns handed on unchanged; the first of several names counts."""
        found: dict[str, str] = {}
        for name, expr in self.items:
            if isinstance(expr, Column):
                found.setdefault(self.stream.schema[expr.name].name, name)
        return tuple(found.items())

    @property
    def unread_required(self) -> tuple[str, ...]:
        """Stream columns declared NOT NULL that are not handed on: a row without a value there is refused all the same."""
        kept = dict(self.kept)
        return tuple(item.name for item in self.stream.schema if not item.nullable and item.name not in kept)

    def watched(self) -> Prefix:
        """With every column about which the declaration promises something: broken promises are found whatever a query reads."""
        kept = dict(self.kept)
        missing = [name for name in promised_columns(self.stream) if name not in kept]
        items = tuple((f"{UNREAD}{name}", Column(name)) for name in missing)
        fields = tuple(Field(f"{UNREAD}{name}", self.stream.schema[name].type) for name in missing)
        if not missing:
            return self
        return Prefix(self.stream, (*self.items, *items), self.conditions, Schema((*self.schema, *fields), self.schema.owner))

    def pruned(self, needed: set[str]) -> Prefix:
        """Only the columns somebody reads: what is not needed does not cross."""
        items = tuple((name, expr) for name, expr in self.items if name in needed)
        return Prefix(self.stream, items, self.conditions, self.schema.select([name for name, _ in items]))


def prefix_of(node: Node) -> Prefix | None:
    """The prefix that `node` is, or None if something lies below that only the kernel can run."""
    if isinstance(node, Scan):
        names = zip(node.schema.names, node.stream.schema.names, strict=True)
        return Prefix(node.stream, tuple((name, Column(source)) for name, source in names), (), node.schema)
    if not isinstance(node, Select | Project) or _is_for_kernel(node):
        return None
    below = prefix_of(node.input)
    if below is None:
        return None
    known = dict(below.items)
    if isinstance(node, Select):
        more = tuple(substitute(part, known) for part in conjuncts(node.condition))
        if any(map(is_for_python, more)):
            return None
        return Prefix(below.stream, below.items, (*below.conditions, *more), below.schema)
    items = tuple((name, substitute(expr, known)) for name, expr in node.items)
    if any(is_for_python(expr) for _, expr in items):  # what is computed from each other has become too much
        return None
    return Prefix(below.stream, items, below.conditions, node.schema)


def _is_for_kernel(node: Select | Project) -> bool:
    """Whether only Python can evaluate the node."""
    if isinstance(node, Project):
        return any(is_for_python(expr) for _, expr in node.items)
    return isinstance(node, AdaptiveFilter) or runs_in_kernel(node)
