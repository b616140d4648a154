"""What an application says about a stream or a query before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from penstock.errors import InvalidDeclaration
from penstock.model.schema import Schema, sql_type
from penstock.model.service import Validity


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
    """Knowledge about one attribute.

    `within` belongs to clustered attributes: at most so many other rows of the source partition stand between two rows of
    one value. 0: rows of a value stand together.
    """

    kind: ConstraintKind
    column: str
    within: int = 0


class GeneratorKind(StrEnum):
    """How Penstock makes punctuations for a stream whose source sends none."""

    #: A row that meets a condition is the last one of its value.
    WHEN = "when"
    #: A value ends at a time that a row of another stream tells.
    AFTER = "after"
    #: Rows are buffered and released in order of the attribute, with scopes.
    SORTING = "sorting"
    #: Rows are buffered and released value group by value group, with scopes.
    PARTITIONING = "partitioning"
    #: What the last rows had is announced for the next ones, with the probability observed so far.
    SAMPLING = "sampling"


@dataclass(frozen=True, slots=True)
class EndOfLife:
    """Where a value's end is told: `stream.time`, in the row whose `key` is the value."""

    stream: str
    time: str
    key: str


@dataclass(frozen=True, slots=True)
class Generator:
    """A declared way to make punctuations on one attribute.

    Parameters
    ----------
    condition
        Of WHEN: SQL text over the stream's columns.
    reference
        Of AFTER: the stream, its column with the time, its column with the value.
    rows
        Of SORTING, PARTITIONING and SAMPLING: rows of a buffer, per source partition.
    """

    kind: GeneratorKind
    column: str
    condition: str = ""
    reference: EndOfLife | None = None
    rows: int = 0

    @property
    def text(self) -> str:
        """The clause as a user writes it.

        Examples
        --------
        >>> Generator(GeneratorKind.SORTING, "item_id", rows=1000).text
        'PUNCTUATE item_id BY SORTING 1000 ROWS'
        """
        if self.kind is GeneratorKind.WHEN:
            return f"PUNCTUATE {self.column} WHEN {self.condition}"
        if self.reference is not None:
            end_of_life = self.reference
            return (
                f"PUNCTUATE {self.column} AFTER {end_of_life.stream}.{end_of_life.time} ON {end_of_life.stream}.{end_of_life.key}"
            )
        return f"PUNCTUATE {self.column} BY {self.kind.upper()} {self.rows} ROWS"


#: Source partitions are numbered below this, so that a position and its partition fit into 64 bits.
MOST_PARTITIONS = 1 << 16

#: Formats whose answers are written as files.
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro")


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

    @property
    def directory(self) -> str:
        """Where files are written, a directory per micro-batch; empty for other destinations."""
        return self.options.get("path", "") if self.format.lower() in FILE_FORMATS else ""


@dataclass(frozen=True, slots=True)
class EmbeddedPunctuations:
    """Punctuations that come as rows: where `column` is not null the row is no data but a punctuation.

    `column` holds JSON: an object from attribute to pattern; attributes not named are `*`. `columns` are the attributes
    whose values will be closed, each by punctuations of its own; empty: not declared, it may be any.
    """

    column: str
    is_global: bool = False
    on_bad: RowPolicy = RowPolicy.QUARANTINE
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
    partitions
        How many source partitions there are, numbered from 0; 0 where the declaration does not say.
    idle_us
        A source partition that has brought nothing for so long, by the clock, is waited for no longer. None: it always is.
    validity
        How long rows are of use; None: for ever. It decides what runs first, never what an answer is.
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
    generators: tuple[Generator, ...] = ()
    partitions: int = 0
    idle_us: int | None = None
    validity: Validity | None = field(default=None, repr=False)  # state does not depend on it

    def __post_init__(self) -> None:
        kind = self.schema[self.timestamp].type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            raise InvalidDeclaration(
                f"the timestamp column '{self.timestamp}' is {sql_type(kind)}; "
                "it must be a timestamp or an integer attribute that grows",
                f"stream '{self.name}'",
            )
        if self.disorder < 0:
            raise InvalidDeclaration(
                f"a disorder bound of {self.disorder} is negative; write 0 for streams in order", f"stream '{self.name}'"
            )
        for constraint in self.constraints:
            self.schema.index(constraint.column)
            self._refuse_negative(constraint.within)
        for generator in self.generators:
            self.schema.index(generator.column)
            self._refuse_negative(generator.rows)

    def _refuse_negative(self, rows: int) -> None:
        if rows < 0:
            raise InvalidDeclaration(f"{rows} rows cannot be counted; write 1 or more", f"stream '{self.name}'")

    @property
    def closes_values(self) -> bool:
        """Whether anything declared can tell that no row with some value follows; scopes of buffers and samples cannot."""
        return bool(self.constraints or self.punctuations or any(item.rows == 0 for item in self.generators))

    @property
    def has_clock_time(self) -> bool:
        """Whether durations (minutes, hours) make sense for this stream."""
        return bool(pa.types.is_timestamp(self.schema[self.timestamp].type))

    @property
    def known_partitions(self) -> int:
        """Source partitions that exist for certain, whether they have brought a row or not; 0 where rows have to show it."""
        if not self.partition_column:
            return 1
        # The feed numbers its partitions in this column and no other.
        is_fed = self.source.format.lower() == "feed" and self.partition_column.lower() == "part"
        fed = self._options.get("partitions", "1") if is_fed else ""
        return self.partitions or (int(fed) if fed.isdigit() else 0)

    @property
    def _options(self) -> dict[str, str]:
        return {name.lower(): text for name, text in self.source.options.items()}

    @property
    def has_order(self) -> bool:
        """Whether rows of one micro-batch come one after another, so that a row can come behind a punctuation among them.

        They do where they have positions, or where one reader hands all of them over. Files are dealt to tasks in any order,
        and a DataFrame has none: there all rows of a micro-batch count as concurrent.
        """
        if self.position_column or not self.source.format:
            return True
        return self.source.format.lower() == "feed" and self._options.get("partitions", "1") == "1"
