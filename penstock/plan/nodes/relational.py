"""Logical operators of continuous queries: frozen values that know their schema.

A node and the operator that runs it share one name. Column names in expressions are those of the node's input schema;
for joins, of the concatenated schema that `WindowJoin.schema` shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from penstock.errors import InvalidPlan
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.nodes import Expr
from penstock.expressions.typing import type_of
from penstock.model.declarations import StreamDeclaration
from penstock.model.elements import FOREVER
from penstock.model.join_kinds import JoinKind
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.order_hints import OrderHint
from penstock.model.schema import TIMESTAMP, Field, Schema, sql_type
from penstock.model.windows import MOST_WINDOWS, Framed, Lifespan, Rows, Sliding, Unbounded, Window

if TYPE_CHECKING:
    from penstock.plan.nodes.patterns import PatternMatch
    from penstock.plan.nodes.row_patterns import RowPatternMatch


#: The option of a hint that asks for rows to be counted first and joined in all shards.
SPREAD = "spread"


@dataclass(frozen=True)
class Scan:
    """A declared stream; `alias` prefixes its columns (`b.price`) when the query names it."""

    stream: StreamDeclaration
    alias: str = ""

    @cached_property
    def schema(self) -> Schema:
        return qualified(self.stream.schema, self.alias).named(f"stream '{self.stream.name}'")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Reference:
    """The output of another continuous query, by name; `clock_time` says whether its event time is clock time."""

    query: str
    output: Schema
    alias: str = ""
    clock_time: bool = False

    @cached_property
    def schema(self) -> Schema:
        return qualified(self.output, self.alias).named(f"query '{self.query}'")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class OverOne:
    """What nodes over one input have in common."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class SameColumns(OverOne):
    """A node whose rows have the columns of its input."""

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Select(SameColumns):
    """Rows for which the condition is true; NULL is not true."""

    condition: Expr
    #: How the user wants its conditions ordered; None: as the plan finds best.
    hint: OrderHint | None = None


@dataclass(frozen=True)
class Project(OverOne):
    """Named expressions of each row."""

    items: tuple[tuple[str, Expr], ...]

    @cached_property
    def schema(self) -> Schema:
        source = self.input.schema
        return Schema(tuple(Field(name, type_of(expr, source)) for name, expr in self.items), "the select list")


@dataclass(frozen=True)
class Union:
    """All rows of several inputs of one schema (UNION ALL)."""

    parts: tuple[Node, ...]

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


@dataclass(frozen=True)
class Split(SameColumns):
    """One of several conditional outputs of a stream; a row goes to every output whose condition holds.

    `branch` chooses the output this node stands for; nodes with equal `input` and `branches` share one operator.
    """

    branches: tuple[tuple[str, Expr], ...]
    branch: str
    default: str = ""


@dataclass(frozen=True)
class Distinct(SameColumns):
    """The first of equal rows in each window, by time and position."""

    window: Framed | Unbounded
    life: Lifespan = field(default_factory=Lifespan)


@dataclass(frozen=True)
class WindowJoin:
    """Equi-join of two or more inputs, each with its window, and residual conditions.

    `keys[i]` are the key columns of input i; all inputs have equally many. Output columns are the inputs' columns in order
    (of semi and anti joins only the first input's); names must differ (aliases see to that). The residual condition reads
    `pair_schema` and decides whether two rows are partners. Every kind but inner takes two inputs.
    """

    parts: tuple[Node, ...]
    keys: tuple[tuple[str, ...], ...]
    windows: tuple[Window, ...]
    residual: Expr | None = None
    life: Lifespan = field(default_factory=Lifespan)
    kind: JoinKind = JoinKind.INNER
    #: How the user wants it run; None: as the plan finds best.
    hint: JoinHint | None = None
    #: Whether windows with ADVANCE that end after the query count too, with the rows they have.
    emit_partial: bool = False
    #: The kind that was written, where a rewrite has found a cheaper one; it means nothing for the answer.
    written_as: JoinKind | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_hint(self)
        if len({len(key) for key in self.keys}) != 1 or len(self.keys) != len(self.parts):
            raise InvalidPlan(f"every input of a join needs the same number of key columns; found {self.keys}")
        for part, key in zip(self.parts[1:], self.keys[1:], strict=True):
            for mine, other in zip(self.keys[0], key, strict=True):
                left, right = self.parts[0].schema[mine].type, part.schema[other].type
                if left != right:
                    raise InvalidPlan(
                        f"join keys {mine} ({sql_type(left)}) and {other} ({sql_type(right)}) differ in type; CAST one of them"
                    )
        framed = [isinstance(window, Framed) for window in self.windows]
        if any(framed) and not all(framed):
            raise InvalidPlan("a join mixes windows with and without ADVANCE; give every input the same form")
        if self.kind is not JoinKind.INNER and len(self.parts) != 2:
            raise InvalidPlan(f"{self.kind.words} JOIN takes two inputs; found {len(self.parts)}")
        if self.kind is not JoinKind.INNER and self.counts_rows:
            raise InvalidPlan(f"{self.kind.words} JOIN takes windows of time; windows that count rows are for inner joins")
        self._refuse_endless_landmarks()

    def _refuse_endless_landmarks(self) -> None:
        """A row of a landmark window is in all later ones: they must be counted."""
        landmarks = [isinstance(window, Framed) and window.is_landmark for window in self.windows]
        if all(landmarks):
            text = "every pair of a join of landmark windows is in all later windows"
        elif any(landmarks[port] for port in self.kind.watched):
            text = "a row of a landmark window may be without partner in all later windows"
        else:
            return
        if not self.life.has_begin or self.life.end == FOREVER:
            raise InvalidPlan(f"{text}, without end; give the query BEGIN and END")
        steps = [window.move_end for window in self.windows if isinstance(window, Framed) and window.is_landmark]
        most = max((self.life.end - self.life.begin) // step for step in steps)
        if most > MOST_WINDOWS:
            raise InvalidPlan(f"{text}: {most:,} of them, and {MOST_WINDOWS:,} are allowed; move it in larger steps")

    @cached_property
    def schema(self) -> Schema:
        """Columns of an input that rows of the other do without may be NULL, whatever was declared of them."""
        parts = self.parts if self.kind.shows_pairs else self.parts[:1]
        fields = [
            Field(item.name, item.type, True) if port in self.kind.extended else item
            for port, part in enumerate(parts)
            for item in part.schema
        ]
        return Schema(tuple(fields), "the join")

    @cached_property
    def pair_schema(self) -> Schema:
        """Columns of all inputs, which the residual condition reads."""
        return Schema(tuple(item for part in self.parts for item in part.schema), "the join")

    @property
    def counts_rows(self) -> bool:
        """Whether some window is a number of rows: then all rows are put into one order, in one place."""
        return any(isinstance(window, Rows) for window in self.windows)

    @property
    def spreads_counted(self) -> bool:
        """Whether rows that were counted in one place are to be joined in all shards, as the option `spread` asks."""
        return self.counts_rows and self.hint is not None and bool(self.hint.value(SPREAD))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


def _check_hint(node: WindowJoin) -> None:
    """Whether the variant that a hint asks for can run the join at all."""
    if node.hint is None:
        return
    variant, count = node.hint.variant, len(node.parts)
    windows = [window for window in node.windows if not isinstance(window, Unbounded)]
    text = ""
    if node.kind is not JoinKind.INNER:
        text = f"{variant.value} runs inner joins; leave the hint out for {node.kind.words} JOIN"
    elif variant in (JoinVariant.PJOIN, JoinVariant.XJOIN) and (windows or count != 2):
        text = f"{variant.value} joins two inputs without windows; found {count} inputs, {len(windows)} with a window"
    elif variant in (JoinVariant.WJOIN, JoinVariant.PWJOIN) and count != 2:
        text = f"{variant.value} joins two inputs; found {count}: ask for M{variant.value}"
    elif variant is JoinVariant.MJOIN and count < 3:
        text = f"{variant.value} joins three inputs or more; found {count}: leave the hint out"
    elif variant is JoinVariant.APPROXIMATE and count != 2:
        text = f"{variant.value} joins two inputs; found {count}: write the join of the others as a query of its own"
    elif any(isinstance(window, Framed) for window in windows):
        text = f"{variant.value} takes sliding windows; leave ADVANCE or the hint out"
    elif variant in (JoinVariant.APPROXIMATE, JoinVariant.MJOIN) and node.counts_rows:
        text = f"{variant.value} takes windows of time; leave ROWS or the hint out"
    elif node.hint.value(SPREAD) and not node.counts_rows:
        text = "spread is for windows that count rows, [ROWS n]; other joins are spread over the shards anyway"
    if text:
        raise InvalidPlan(text, node.hint.place)


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
        return TIMESTAMP if has_clock_time(self) and not in_rows else pa.int64()


@dataclass(frozen=True)
class GroupFilter(SameColumns):
    """HAVING: a condition over the output of a grouping."""

    condition: Expr


@dataclass(frozen=True)
class Lifetime(SameColumns):
    """Rows between BEGIN and END, where no operator with a window sees to that."""

    life: Lifespan


@dataclass(frozen=True)
class Hushed(SameColumns):
    """The punctuations of the input without its rows."""


@dataclass(frozen=True)
class Announced(OverOne):
    """Each punctuation of the input as a row: what it closes, and the event time by then."""

    @cached_property
    def schema(self) -> Schema:
        time = TIMESTAMP if has_clock_time(self.input) else pa.int64()
        return Schema((Field("punctuation", pa.string()), Field("known_at", time)), "the punctuations")


#: A text, because nodes of other modules build on those here.
Node: TypeAlias = (
    "Scan | Reference | Select | Project | Union | Split | Distinct | WindowJoin | GroupBy | GroupFilter"
    " | Lifetime | Hushed | Announced | PatternMatch | RowPatternMatch"
)


def qualified(schema: Schema, alias: str) -> Schema:
    """Column names with the alias in front, as they are known inside a query with several inputs."""
    if not alias:
        return schema
    return Schema(tuple(Field(f"{alias}.{item.name}", item.type, item.nullable) for item in schema), schema.owner)


def walk(node: Node) -> list[Node]:
    """The node and everything below it, inputs first."""
    below = [found for part in node.inputs for found in walk(part)]
    return [*below, node]


def has_clock_time(node: Node) -> bool:
    """Whether event time below the node is clock time (microseconds) rather than an integer attribute that grows."""
    kinds = [leaf.stream.has_clock_time for leaf in walk(node) if isinstance(leaf, Scan)]
    kinds += [leaf.clock_time for leaf in walk(node) if isinstance(leaf, Reference)]
    return bool(kinds) and all(kinds)


__all__ = [
    "Distinct",
    "Framed",
    "GroupBy",
    "GroupFilter",
    "Lifetime",
    "Node",
    "Project",
    "Reference",
    "Scan",
    "Select",
    "Sliding",
    "Split",
    "Union",
    "WindowJoin",
    "has_clock_time",
    "qualified",
    "walk",
]
