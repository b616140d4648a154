"""What every logical operator says of itself: the contract of a node, with what holds unless it says otherwise.

Rules, analyses and the lowering ask these questions instead of looking at the kind of a node, so that a new node answers them
in its own file. What needs more than the node is a row of a table: `analysis/table.py` for what follows from knowledge of its
inputs, `lowering/table.py` for how it runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import ClassVar, TypeAlias

from penstock.errors import Defect
from penstock.expressions.nodes import Expr, columns_of
from penstock.model.schema import Schema
from penstock.model.windows import Framed, Rows, Window

#: Columns whose hash decides the shard. Empty: one shard has it all. None: anywhere.
Keys: TypeAlias = tuple[str, ...] | None
#: All lists of columns whose hash has decided the shard.
Spread: TypeAlias = tuple[tuple[str, ...], ...]


class RowTimes(Enum):
    """Which rows a node has and what times they carry, as far as BEGIN and END of a query are concerned."""

    #: They come from outside the query.
    SOURCE = auto()
    #: Rows of the input, chosen and reshaped one by one.
    OF_INPUT = auto()
    #: Rows of several inputs.
    OF_INPUTS = auto()
    #: The node itself leaves out rows that are not in the life of the query.
    WITHIN_LIFE = auto()
    #: The node knows nothing of the life, and its answers have other times than the rows they are made of.
    OF_ANSWERS = auto()


class Node(ABC):
    """A logical operator: a frozen value that knows its schema. Every concrete one is a frozen dataclass."""

    #: Whether each row is answered at once, so that time alone never brings an answer.
    is_prompt: ClassVar[bool] = False
    row_times: ClassVar[RowTimes] = RowTimes.OF_INPUT

    @property
    @abstractmethod
    def schema(self) -> Schema: ...

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]: ...

    @abstractmethod
    def describe(self) -> list[str]:
        """The node in one line, and further lines for what not every such node has."""

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The node over other inputs; the very same object when they are the same."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        return self._over(tuple(inputs))

    def _over(self, inputs: tuple[Node, ...]) -> Node:
        raise Defect(f"the node {type(self).__name__} does not say how it gets other inputs")

    @property
    def has_clock_time(self) -> bool:
        """Whether event time below is clock time (microseconds) rather than an integer attribute that grows."""
        return all(part.has_clock_time for part in self.inputs)

    # -- where rows come from -----------------------------------------------------------------------------------------

    @property
    def source_name(self) -> str:
        """The stream or query that FROM names for these rows; empty where it names none."""
        return ""

    @property
    def label(self) -> str:
        """What a query calls these rows, where FROM names them."""
        return ""

    @property
    def from_text(self) -> str:
        """The rows as FROM names them, with an alias; empty where it does not."""
        return ""

    @property
    def query_read(self) -> str:
        """The other query whose answers these are; empty for none."""
        return ""

    @property
    def rows_from(self) -> Node:
        """The node whose rows these are, below filters and select lists."""
        return self

    @property
    def is_filtered_stream(self) -> bool:
        """Whether the node is a stream with nothing but conditions of Catalyst above it."""
        return False

    @property
    def is_listed_stream(self) -> bool:
        """Whether it is such a stream, or a select list of Catalyst over one."""
        return self.is_filtered_stream

    # -- columns ------------------------------------------------------------------------------------------------------

    def origins_of(self, name: str) -> tuple[tuple[int, str], ...]:
        """Columns of inputs whose values a column holds unchanged, as (input, column); none where it is computed."""
        return ()

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        """Columns of an input that are needed where those of the output in `above` are."""
        return set(self.inputs[port].schema.names)

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def state_columns(self) -> tuple[tuple[int, str], ...]:
        """Columns by whose values state is kept, as (input, column): punctuations on them let it go."""
        return ()

    @property
    def frames(self) -> tuple[Window, ...]:
        """Windows, of joins one for each input."""
        return ()

    def with_frames(self, frames: Sequence[Window]) -> Node:
        """The node with other windows, as many as it has."""
        raise Defect(f"the node {type(self).__name__} does not say how it gets other windows")

    @property
    def needs_every_row(self) -> str:
        """What would make answers wrong, and not only missing, if rows were left out of the input; empty if nothing would."""
        counting = any(
            window.in_rows if isinstance(window, Framed) else isinstance(window, Rows) and window.size is not None
            for window in self.frames
        )
        return "a window that counts rows" if counting else ""

    # -- shards -------------------------------------------------------------------------------------------------------

    @property
    def output_port(self) -> str:
        """Which of several outputs of its operator the node stands for."""
        return ""

    def keys_of(self, port: int) -> Keys:
        """Columns that an input is spread by, where nothing is known of how it is; None: by anything."""
        return None

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        """How each input must be spread, if they are spread as `known` says: what suffices is kept."""
        return [None for _ in known]

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        """How the output is spread, in its own names, if the inputs are spread as `wanted` over what was `known`."""
        return ()

    def senders(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        """Columns of the output whose values, where they are not NULL, tell the shard."""
        return self.partitionings(known, wanted)


@dataclass(frozen=True)
class OverOne(Node):
    """What nodes over one input have in common."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def _over(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class SameColumns(OverOne):
    """A node whose rows have the columns of its input, and stay where they are."""

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def origins_of(self, name: str) -> tuple[tuple[int, str], ...]:
        return ((0, name),)

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return known[0]


def walk(node: Node) -> list[Node]:
    """The node and everything below it, inputs first."""
    below = [found for part in node.inputs for found in walk(part)]
    return [*below, node]


def columns_read(expr: Expr, schema: Schema) -> set[str]:
    """Columns of `schema` the expression reads, by the names the schema uses."""
    return {schema[name].name for name in columns_of(expr)}


def enough(columns: tuple[str, ...], known: Spread) -> tuple[str, ...]:
    """Columns that rows with equal `columns` meet by: a list they are spread by already, if one suffices."""
    return next((keys for keys in known if set(keys) <= set(columns)), columns)


def as_wanted(wanted: Sequence[Keys]) -> Spread:
    """What rows are spread by once they are where they are wanted."""
    return tuple(keys for keys in wanted if keys is not None)


def partition_columns(window: Window) -> tuple[str, ...]:
    return window.partition_by if isinstance(window, Framed) else ()
