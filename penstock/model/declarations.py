"""What an application says about a stream or a query before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from penstock.errors import InvalidDeclaration
from penstock.model.schema import Schema


class RowPolicy(StrEnum):
    """What happens to a row that is late, malformed or violates a punctuation."""

    QUARANTINE = "quarantine"
    ERROR = "error"
    #: Punctuation violations only: the row is used, and counted.
    TRUST = "trust"


class ConstraintKind(StrEnum):
    """Knowledge about an attribute that yields punctuations."""

    UNIQUE = "unique"
    CLUSTERED = "clustered"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class Constraint:
    kind: ConstraintKind
    column: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: `format` as Spark names it, or `feed`; options are handed on."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where answers go: console, memory, callable, noop, or a Spark sink format with its options."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddedPunctuations:
    """Punctuations that come as rows: where `column` is not null the row is no data but a punctuation.

    `column` holds JSON: an object from attribute to pattern; attributes not named are `*`. `columns` are the attributes
    whose values will be closed, each by punctuations of its own; empty: not declared, it may be any.
    """

    column: str
    is_global: bool = False
    on_bad: RowPolicy = RowPolicy.ERROR
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamDeclaration:
    """A stream: schema, source, time, order and what is known of rows to come.

    Parameters
    ----------
    timestamp
        Column that holds event time (timestamp, or any integer attribute that grows).
    arrival_time
        The source has no timestamp column: the runner fills it with the time of arrival.
    disorder
        How much older than the newest row of its source partition a row may be, in the unit of the timestamp.
    partition_column, position_column
        Columns that name the source partition and the offset in it, where the source has them (Kafka, feed).
    """

    name: str
    schema: Schema
    source: Source
    timestamp: str
    disorder: int = 0
    constraints: tuple[Constraint, ...] = ()
    punctuations: EmbeddedPunctuations | None = None
    on_late: RowPolicy = RowPolicy.QUARANTINE
    on_bad: RowPolicy = RowPolicy.QUARANTINE
    on_violation: RowPolicy = RowPolicy.ERROR
    partition_column: str = ""
    position_column: str = ""
    arrival_time: bool = False

    def __post_init__(self) -> None:
        kind = self.schema[self.timestamp].type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            raise InvalidDeclaration(
                f"the timestamp column '{self.timestamp}' is {kind}; it must be a timestamp or an integer attribute that grows",
                f"stream '{self.name}'",
            )
        if self.disorder < 0:
            raise InvalidDeclaration(
                f"a disorder bound of {self.disorder} is negative; write 0 for streams in order", f"stream '{self.name}'"
            )
        for constraint in self.constraints:
            self.schema.index(constraint.column)

    @property
    def has_clock_time(self) -> bool:
        """Whether durations (minutes, hours) make sense for this stream."""
        return bool(pa.types.is_timestamp(self.schema[self.timestamp].type))
