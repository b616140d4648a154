"""Logical operators of continuous queries: frozen values that know their schema.

A node and the operator that runs it share one name. Column names in expressions are those of the node's input schema;
for joins, of the concatenated schema that `WindowJoin.schema` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from penstock.errors import InvalidPlan
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.nodes import Column, Expr, columns_of
from penstock.expressions.spark_sql import is_for_python
from penstock.expressions.typing import type_of
from penstock.model.declarations import StreamDeclaration
from penstock.model.order_hints import OrderHint
from penstock.model.schema import TIMESTAMP, Field, Schema
from penstock.model.windows import Framed, Lifespan, Unbounded, Window
from penstock.plan.nodes.base import (
    Keys,
    Node,
    OverOne,
    RowTimes,
    SameColumns,
    Spread,
    as_wanted,
    columns_read,
    enough,
    partition_columns,
    walk,
)
from penstock.plan.nodes.wording import alias_text, item_text, life_lines, life_text, window_text

#: The column with the weight of a row: how many rows it stands for where LOSS leaves some out. No declaration writes such a name.
WEIGHT = "row_weight()"


@dataclass(frozen=True)
class Scan(Node):
    """A declared stream; `alias` prefixes its columns (`b.price`) when the query names it."""

    stream: StreamDeclaration
    alias: str = ""
    #: Whether rows have their weight as a last column.
    is_weighed: bool = False
    is_prompt: ClassVar[bool] = True
    row_times: ClassVar[RowTimes] = RowTimes.SOURCE

    @cached_property
    def schema(self) -> Schema:
        own = self.stream.schema
        fields = (*own, Field(WEIGHT, pa.float64())) if self.is_weighed else own.fields
        return qualified(Schema(fields, own.owner), self.alias).named(f"stream '{self.stream.name}'")

    @property
    def stream_columns(self) -> tuple[tuple[str, str], ...]:
        """(name in the stream, name here) of every declared column."""
        return tuple(zip(self.stream.schema.names, self.schema.names, strict=False))

    @property
    def weight(self) -> str:
        """The column with the weights; empty for none."""
        return self.schema.names[-1] if self.is_weighed else ""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def describe(self) -> list[str]:
        weighed = ["each row with its weight: 1 / (1 - the share left out)"] if self.is_weighed else []
        return [f"Scan {self.stream.name}{alias_text(self.alias, self.stream.name)}", *weighed]

    @property
    def has_clock_time(self) -> bool:
        return self.stream.has_clock_time

    @property
    def source_name(self) -> str:
        return self.stream.name

    @property
    def label(self) -> str:
        return self.alias or self.stream.name

    @property
    def is_filtered_stream(self) -> bool:
        return True

    @property
    def from_text(self) -> str:
        return _from_text(self.stream.name, self.alias)


@dataclass(frozen=True)
class Reference(Node):
    """The output of another continuous query, by name; `clock_time` says whether its event time is clock time."""

    query: str
    output: Schema
    alias: str = ""
    clock_time: bool = False
    is_prompt: ClassVar[bool] = True
    row_times: ClassVar[RowTimes] = RowTimes.SOURCE

    @cached_property
    def schema(self) -> Schema:
        return qualified(self.output, self.alias).named(f"query '{self.query}'")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def describe(self) -> list[str]:
        return [f"Reference {self.query}{alias_text(self.alias, self.query)}"]

    @property
    def has_clock_time(self) -> bool:
        return self.clock_time

    @property
    def source_name(self) -> str:
        return self.query

    @property
    def label(self) -> str:
        return self.alias or self.query

    @property
    def from_text(self) -> str:
        return _from_text(self.query, self.alias)

    @property
    def query_read(self) -> str:
        return self.query


@dataclass(frozen=True)
class Select(SameColumns):
    """Rows for which the condition is true; NULL is not true."""

    condition: Expr
    #: How the user wants its conditions ordered; None: as the plan finds best.
    hint: OrderHint | None = None
    is_prompt: ClassVar[bool] = True

    def describe(self) -> list[str]:
        return [f"{type(self).__name__} {self.condition}"]

    @property
    def needs_python(self) -> bool:
        """Whether Catalyst cannot have it.

        It calls functions of Python, is too deep, reads weights of rows, or somebody wants its conditions ordered.
        """
        return self.hint is not None or is_for_python(self.condition) or reads_weight(self.condition, self.input)

    @property
    def is_filtered_stream(self) -> bool:
        return not self.needs_python and self.input.is_filtered_stream

    @property
    def rows_from(self) -> Node:
        return self.input.rows_from

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return above | columns_read(self.condition, self.schema)


@dataclass(frozen=True)
class Project(OverOne):
    """Named expressions of each row."""

    items: tuple[tuple[str, Expr], ...]
    is_prompt: ClassVar[bool] = True

    @cached_property
    def schema(self) -> Schema:
        source = self.input.schema
        return Schema(tuple(Field(name, type_of(expr, source)) for name, expr in self.items), "the select list")

    def describe(self) -> list[str]:
        return [f"Project {', '.join(item_text(name, expr) for name, expr in self.items)}"]

    @property
    def needs_python(self) -> bool:
        """Whether Catalyst cannot have it: it calls functions of Python, is too deep, or computes with weights of rows."""
        computed = [expr for _, expr in self.items if not isinstance(expr, Column)]
        return any(is_for_python(expr) or reads_weight(expr, self.input) for expr in computed)

    @property
    def is_listed_stream(self) -> bool:
        return not self.needs_python and self.input.is_filtered_stream

    @property
    def rows_from(self) -> Node:
        return self.input.rows_from

    def origins_of(self, name: str) -> tuple[tuple[int, str], ...]:
        expr = self.items[self.schema.index(name)][1]
        return ((0, expr.name),) if isinstance(expr, Column) else ()

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return set().union(*(columns_read(expr, self.input.schema) for name, expr in self.items if name in above))

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        kept = {expr.name: name for name, expr in reversed(self.items) if isinstance(expr, Column)}
        return tuple(tuple(kept[name] for name in keys) for keys in known[0] if all(name in kept for name in keys))


@dataclass(frozen=True)
class Union(Node):
    """All rows of several inputs of one schema (UNION ALL)."""

    parts: tuple[Node, ...]
    is_prompt: ClassVar[bool] = True
    row_times: ClassVar[RowTimes] = RowTimes.OF_INPUTS

    def __post_init__(self) -> None:
        first = [item.type for item in self.parts[0].schema]
        for part in self.parts[1:]:
            if [item.type for item in part.schema] != first:
                raise InvalidPlan(f"UNION of different columns: {self.parts[0].schema.arrow} and {part.schema.arrow}")

    @property
    def schema(self) -> Schema:
        return self.parts[0].schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def _over(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, parts=inputs)

    def describe(self) -> list[str]:
        return [f"Union of {len(self.parts)}"]

    def origins_of(self, name: str) -> tuple[tuple[int, str], ...]:
        at = self.schema.index(name)
        return tuple((port, part.schema.names[at]) for port, part in enumerate(self.parts))


@dataclass(frozen=True)
class Split(SameColumns):
    """One of several conditional outputs of a stream; a row goes to every output whose condition holds.

    `branch` chooses the output this node stands for; nodes with equal `input` and `branches` share one operator.
    """

    branches: tuple[tuple[str, Expr], ...]
    branch: str
    default: str = ""
    is_prompt: ClassVar[bool] = True

    def describe(self) -> list[str]:
        outputs = ", ".join(f"{name}: {condition}" for name, condition in self.branches)
        return [f"Split {self.branch} of ({outputs})"]

    @property
    def output_port(self) -> str:
        return self.branch


@dataclass(frozen=True)
class Distinct(SameColumns):
    """The first of equal rows in each window, by time and position."""

    window: Framed | Unbounded
    life: Lifespan = field(default_factory=Lifespan)
    row_times: ClassVar[RowTimes] = RowTimes.WITHIN_LIFE

    @property
    def keys(self) -> tuple[str, ...]:
        return self.schema.names

    def describe(self) -> list[str]:
        return [f"Distinct [{window_text(self.window, self.has_clock_time)}]", *life_lines(self.life)]

    @property
    def state_columns(self) -> tuple[tuple[int, str], ...]:
        return tuple((0, name) for name in self.keys)

    @property
    def frames(self) -> tuple[Window, ...]:
        return (self.window,)

    def with_frames(self, frames: Sequence[Window]) -> Node:
        return replace(self, window=_of_groups(frames))

    @property
    def needs_every_row(self) -> str:
        # Without the first of equal rows another one is the answer, with another time.
        return super().needs_every_row or "DISTINCT"

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        return [enough(_spread_of_groups(self.window, self.keys), known[0])]

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return as_wanted(wanted)


@dataclass(frozen=True)
class GroupBy(OverOne):
    """Aggregates per group and window; the output has the keys, then the aggregates, then what `window_columns` names."""

    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    window: Framed | Unbounded
    life: Lifespan = field(default_factory=Lifespan)
    emit_partial: bool = False
    #: Names for the window's start and end in the output; empty names are left out.
    window_columns: tuple[str, str] = ("", "")
    #: Aggregates that the query turns into estimates of their values over all rows; for those who read a plan.
    estimated: tuple[str, ...] = field(default=(), compare=False, repr=False)
    row_times: ClassVar[RowTimes] = RowTimes.WITHIN_LIFE

    @cached_property
    def schema(self) -> Schema:
        source = self.input.schema
        fields = [source[key] for key in self.keys]
        fields += [Field(call.name, result_type(call, source)) for call in self.aggregates]
        fields += [Field(name, self.time_type) for name in self.window_columns if name]
        return Schema(tuple(fields), "the grouping")

    @property
    def time_type(self) -> pa.DataType:
        """Type of the window columns."""
        in_rows = isinstance(self.window, Framed) and self.window.in_rows
        return TIMESTAMP if self.has_clock_time and not in_rows else pa.int64()

    def describe(self) -> list[str]:
        keys = ", ".join(self.keys) or "()"
        aggregates = ", ".join(call.name for call in self.aggregates) or "nothing"
        more = [f"window bounds {', '.join(name for name in self.window_columns if name)}"] if any(self.window_columns) else []
        partial = ["emit partial"] if self.emit_partial else []
        window = window_text(self.window, self.has_clock_time)
        told = [f"estimated for all rows, with those that LOSS leaves out: {', '.join(self.estimated)}"] if self.estimated else []
        return [f"GroupBy {keys}: {aggregates} [{window}]", *more, *told, *partial, *life_lines(self.life)]

    def origins_of(self, name: str) -> tuple[tuple[int, str], ...]:
        return ((0, name),) if name in self.keys else ()

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        schema = self.input.schema
        arguments = [columns_read(item, schema) for call in self.aggregates for item in call.inputs]
        return {schema[name].name for name in (*self.keys, *partition_columns(self.window))}.union(*arguments)

    @property
    def state_columns(self) -> tuple[tuple[int, str], ...]:
        return tuple((0, name) for name in self.keys)

    @property
    def frames(self) -> tuple[Window, ...]:
        return (self.window,)

    def with_frames(self, frames: Sequence[Window]) -> Node:
        return replace(self, window=_of_groups(frames))

    def keys_of(self, port: int) -> Keys:
        return self.keys

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        return [enough(_spread_of_groups(self.window, self.keys), known[0])]

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return as_wanted(wanted)


@dataclass(frozen=True)
class GroupFilter(SameColumns):
    """HAVING: a condition over the output of a grouping."""

    condition: Expr

    def describe(self) -> list[str]:
        return [f"GroupFilter {self.condition}"]

    @property
    def rows_from(self) -> Node:
        return self.input.rows_from

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return above | columns_read(self.condition, self.schema)


@dataclass(frozen=True)
class Lifetime(SameColumns):
    """Rows between BEGIN and END, where no operator with a window sees to that."""

    life: Lifespan

    def describe(self) -> list[str]:
        return [f"Lifetime {life_text(self.life)}"]

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return above


@dataclass(frozen=True)
class Hushed(SameColumns):
    """The punctuations of the input without its rows."""

    is_prompt: ClassVar[bool] = True

    def describe(self) -> list[str]:
        return ["Hushed: punctuations without rows"]


@dataclass(frozen=True)
class Announced(OverOne):
    """Each punctuation of the input as a row: what it closes, and the event time by then."""

    row_times: ClassVar[RowTimes] = RowTimes.SOURCE

    @cached_property
    def schema(self) -> Schema:
        time = TIMESTAMP if self.has_clock_time else pa.int64()
        return Schema((Field("punctuation", pa.string()), Field("known_at", time)), "the punctuations")

    def describe(self) -> list[str]:
        return ["Announced: a row for each punctuation"]

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        return [()]  # one place hears what all shards have to say

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return as_wanted(wanted)


def qualified(schema: Schema, alias: str) -> Schema:
    """Column names with the alias in front, as they are known inside a query with several inputs."""
    if not alias:
        return schema
    return Schema(tuple(Field(f"{alias}.{item.name}", item.type, item.nullable) for item in schema), schema.owner)


def reads_weight(expr: Expr, node: Node) -> bool:
    """Whether an expression over rows of a stream reads their weights, which are known only when they have left Catalyst."""
    scan = node.rows_from
    return isinstance(scan, Scan) and scan.is_weighed and scan.weight in columns_of(expr)


def scans_of(plan: Node) -> list[Scan]:
    """The declared streams that a plan reads."""
    return [leaf for leaf in walk(plan) if isinstance(leaf, Scan)]


def _from_text(name: str, alias: str) -> str:
    return f"{name} {alias}" if alias and alias != name else name


def _of_groups(frames: Sequence[Window]) -> Framed | Unbounded:
    (window,) = frames
    assert isinstance(window, Framed | Unbounded)  # others are for joins
    return window


def _spread_of_groups(window: Window, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Columns whose every value may live in its own shard: none if rows must be numbered in one place."""
    if isinstance(window, Framed) and (window.in_rows or window.partition_by):
        return window.partition_by if set(window.partition_by) <= set(columns) else ()
    return columns
