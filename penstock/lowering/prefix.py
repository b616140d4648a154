"""The stateless prefix of a stream: filters and select lists that are evaluated before rows cross into shards.

Catalyst evaluates them, or the packing task does. Conditions that only Python can evaluate are part of it where packing tasks
know the decisions about their order, which is in applications.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.expressions.nodes import Column, Expr, Literal, columns_of, conjoin, conjuncts, substitute
from penstock.expressions.spark_sql import is_for_python
from penstock.kernel.row_filters import RowFilter
from penstock.lowering.filters import FilterRecipe, SelectRecipe, filter_recipe, filter_settings
from penstock.model.declarations import StreamDeclaration
from penstock.model.schema import Field, Schema
from penstock.plan.analysis.knowledge import promised_columns
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.relational import Project, Scan, Select, reads_weight

#: The weight of a row until packing leaves rows out.
_NOTHING_SHED = Literal(1.0, pa.float64())
#: Before the names of columns that are looked at where a stream enters, and that the query does not have.
UNREAD = "_unread_"


@dataclass(frozen=True)
class PrefixFilter:
    """Conditions over the columns of a stream that only Python can evaluate.

    Parameters
    ----------
    name
        What reports and decisions call it; unique in the job.
    columns
        Columns of the stream that it reads.
    """

    name: str
    make: Callable[[], RowFilter]
    columns: tuple[str, ...]

    @property
    def content(self) -> str:
        """What it does, whatever it is called."""
        return repr(self.make.named("") if isinstance(self.make, FilterRecipe) else self.make)


@dataclass(frozen=True)
class Prefix:
    """A stream, a condition over its columns, and named expressions over its columns.

    `filters` see the rows that meet the condition, one after the other. By `ranked`, columns of the stream, contracts choose rows
    to be left out; the operators need not have them, so they do not cross.
    """

    stream: StreamDeclaration
    items: tuple[tuple[str, Expr], ...]
    conditions: tuple[Expr, ...]
    schema: Schema
    filters: tuple[PrefixFilter, ...] = ()
    #: The column with the weight of each row, which is known when rows are packed; empty for none.
    weight: str = ""
    ranked: tuple[str, ...] = ()

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
        return replace(self, items=(*self.items, *items), schema=Schema((*self.schema, *fields), self.schema.owner))


def prefix_of(node: Node) -> Prefix | None:
    """The prefix that `node` is, or None if something lies below that only Python can evaluate."""
    if isinstance(node, Scan):
        items: list[tuple[str, Expr]] = [(name, Column(source)) for source, name in node.stream_columns]
        items += [(node.weight, _NOTHING_SHED)] if node.is_weighed else []
        return Prefix(node.stream, tuple(items), (), node.schema, weight=node.weight)
    if not isinstance(node, Select | Project):
        return None
    below = prefix_of(node.input)
    return None if below is None else grown(below, node)


def grown(below: Prefix, node: Select | Project) -> Prefix | None:
    """The prefix with one more node, or None if only Python can evaluate that, or it needs the weights of rows."""
    if _is_for_python(node):
        return None
    known = dict(below.items)
    if isinstance(node, Select):
        more = tuple(substitute(part, known) for part in conjuncts(node.condition))
        if any(map(is_for_python, more)):
            return None
        return replace(below, conditions=(*below.conditions, *more))
    items = tuple((name, substitute(expr, known)) for name, expr in node.items)
    if any(is_for_python(expr) for _, expr in items):  # what is computed from each other has become too much
        return None
    shown = [name for name, expr in node.items if isinstance(expr, Column) and expr.name == below.weight]
    return replace(below, items=items, schema=node.schema, weight=shown[0] if shown else "")


def with_filter(below: Prefix, node: Select, name: str) -> Prefix:
    """The prefix with conditions that only Python can evaluate; `name` is what reports and decisions call them."""
    known, stream = dict(below.items), below.stream.schema
    conditions = [item.condition for item in node.conjuncts] if isinstance(node, AdaptiveFilter) else [node.condition]
    over_stream = [substitute(condition, known) for condition in conditions]
    read = {column.lower() for condition in over_stream for column in columns_of(condition)} or {below.stream.timestamp.lower()}
    columns = stream.select([item.name for item in stream if item.name.lower() in read])
    if isinstance(node, AdaptiveFilter):
        own = [replace(item, condition=condition) for item, condition in zip(node.conjuncts, over_stream, strict=True)]
        made = filter_recipe(columns.arrow, tuple(own), node.hint).named(name)
        return replace(below, filters=(*below.filters, PrefixFilter(name, made, columns.names)))
    return replace(below, filters=(*below.filters, PrefixFilter(name, SelectRecipe(columns.arrow, over_stream[0]), columns.names)))


def can_filter_early(node: Select | Project) -> bool:
    """Whether packing tasks can run the node: it keeps rows, and nothing from one micro-batch to the next."""
    if not isinstance(node, Select) or reads_weight(node.condition, node.input):
        return False
    return not isinstance(node, AdaptiveFilter) or filter_settings(node.hint).has_driver


def _is_for_python(node: Select | Project) -> bool:
    return isinstance(node, AdaptiveFilter) or node.needs_python
