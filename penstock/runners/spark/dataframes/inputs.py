"""What operators take as a stream: a DataFrame, files, the answers of another operator, and what is known about their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import TimestampType

from penstock.errors import InvalidDeclaration, UnknownColumn
from penstock.model.declarations import Constraint, ConstraintKind, EmbeddedPunctuations, RowPolicy, Source, StreamDeclaration
from penstock.model.durations import micros_of
from penstock.model.elements import FOREVER
from penstock.model.schema import Field, Schema
from penstock.runners.spark.data_path.files import ParquetFiles
from penstock.runners.spark.dataframes.composing import Answers, Call, Leaf
from penstock.runners.spark.dataframes.event_time import declared_delay_us, is_stateful, row_time, watermarked, without_watermark

Names: TypeAlias = str | Sequence[str]

#: Column that `punctuations=True` looks for.
MARK_COLUMN = "mark"
#: Column added where the time of a row is the greatest of several columns; no operator shows it.
ROW_TIME = "_penstock_time"


@dataclass(frozen=True)
class Described:
    """A streaming DataFrame and what is known about its rows; made by `stream`."""

    frame: DataFrame | ParquetFiles
    time: str = ""
    disorder_us: int = -1
    unique: tuple[str, ...] = ()
    clustered: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    punctuations: str = ""
    partition: str = ""
    position: str = ""

    @property
    def is_plain(self) -> bool:
        return self == Described(self.frame)


#: What operators take as a stream.
Stream: TypeAlias = DataFrame | ParquetFiles | Described


def stream(
    frame: DataFrame | ParquetFiles,
    time: str = "",
    disorder: str = "",
    unique: Names = (),
    clustered: Names = (),
    ordered: Names = (),
    punctuations: str = "",
    partition: str = "",
    position: str = "",
) -> Described:
    """Say what is known about a streaming DataFrame (or `ps.parquet`), so that operators can forget early.

    Parameters
    ----------
    time, disorder
        Event-time column and how late a row may be ("10 seconds"). Not needed after `withWatermark`, which says both, nor for
        the answers of another operator.
    unique, clustered, ordered
        Columns whose values never repeat, come in one run each, or never decrease.
    punctuations
        Column with embedded punctuations: where it is not null the row is no data but says what will not come again.
    partition, position
        Columns that name the source partition and the offset in it (for Kafka: partition, offset).
    """
    if not isinstance(frame, DataFrame | ParquetFiles):
        raise InvalidDeclaration(f"expected a streaming DataFrame or ps.parquet(…), found {type(frame).__name__}", "ps.stream")
    delay = micros_of(disorder, "ps.stream, disorder") if disorder else -1
    described = Described(
        frame, time, delay, as_tuple(unique), as_tuple(clustered), as_tuple(ordered), punctuations, partition, position
    )
    columns = Schema(_fields(frame), "the DataFrame")
    for argument, names in _named(described):
        for name in names:
            if name not in columns:
                raise UnknownColumn("the DataFrame", name, columns.names, f"ps.stream, {argument}")
    return described


def _named(described: Described) -> list[tuple[str, tuple[str, ...]]]:
    """Arguments that name columns, and the columns."""
    lists = [("unique", described.unique), ("clustered", described.clustered), ("ordered", described.ordered)]
    singles = ("time", "punctuations", "partition", "position")
    return [*lists, *((name, (getattr(described, name),)) for name in singles if getattr(described, name))]


def input_of(place: str, name: str, given: Stream, punctuations: bool = False, fuses: bool = True) -> Leaf | Call:
    """What an operator reads: the call behind answers that are handed on as they are, else a stream of Spark's.

    Parameters
    ----------
    place
        The function that was called, for messages.
    name
        What it calls this input.
    fuses
        Whether it can take in the call behind answers at all.
    """
    described = given if isinstance(given, Described) else Described(given)
    frame = described.frame
    if not isinstance(frame, DataFrame | ParquetFiles):
        raise InvalidDeclaration(f"expected a streaming DataFrame, found {type(frame).__name__}", f"{place}, {name}")
    if fuses and isinstance(frame, Answers) and frame.is_fusable and described.is_plain and not punctuations:
        return frame.call
    if isinstance(frame, DataFrame) and not frame.isStreaming:
        raise InvalidDeclaration("the DataFrame is not a stream; read it with spark.readStream", f"{place}, {name}")
    return _leaf(f"{place}, {name}", name, described, punctuations)


def _leaf(place: str, name: str, described: Described, punctuations: bool) -> Leaf:
    frame = described.frame
    columns, delay = _event_time(place, described)
    is_told_by_spark = delay == FOREVER
    keeps_watermark = isinstance(frame, DataFrame) and is_stateful(frame)
    if len(columns) > 1:
        assert isinstance(frame, DataFrame)
        frame = frame.withColumn(ROW_TIME, f.greatest(*columns))
    if isinstance(frame, DataFrame) and not keeps_watermark:
        frame = without_watermark(frame)
    mark = described.punctuations or (MARK_COLUMN if punctuations and MARK_COLUMN in frame.columns else "")
    constraints = [Constraint(ConstraintKind.UNIQUE, column) for column in described.unique]
    constraints += [Constraint(ConstraintKind.CLUSTERED, column) for column in described.clustered]
    constraints += [Constraint(ConstraintKind.ORDERED, column) for column in described.ordered]
    declaration = StreamDeclaration(
        name, Schema(_fields(frame), f"input '{name}'"), Source("dataframe"), columns[0] if len(columns) == 1 else ROW_TIME, delay,
        tuple(constraints), EmbeddedPunctuations(mark, on_bad=RowPolicy.QUARANTINE) if mark else None,
        RowPolicy.QUARANTINE, RowPolicy.QUARANTINE, RowPolicy.QUARANTINE, described.partition, described.position,
    )  # fmt: skip
    return Leaf(declaration, frame, is_told_by_spark, keeps_watermark)


def _fields(frame: DataFrame | ParquetFiles) -> tuple[Field, ...]:
    found = to_arrow_schema(frame.schema, timezone="UTC")
    return tuple(Field(item.name, item.type, item.nullable) for item in found)


# -- event time ----------------------------------------------------------------------------------------------------------


def _event_time(place: str, described: Described) -> tuple[list[str], int]:
    """Columns the greatest of which is event time, and how late rows may be: as told, or as Spark knows it.

    `FOREVER` if no delay bounds it: an operator of Spark's made the rows, and only its watermark tells how far they have come.
    """
    frame = described.frame
    known = [] if isinstance(frame, ParquetFiles) else watermarked(frame.schema)
    if not known:
        return [_given_or_only_time(place, described)], max(described.disorder_us, 0)
    assert isinstance(frame, DataFrame)
    keeps_state = is_stateful(frame) and described.disorder_us < 0
    if described.time:
        columns = [_known_time(place, described.time, known, keeps_state)]
    else:
        columns = known if len(known) == 1 else row_time(frame.schema) or _ask_for_time(place, known)
    if keeps_state:
        if described.partition or described.position:
            text = "behind an operator of Spark's rows have lost the order of their partitions; leave partition and position out"
            raise InvalidDeclaration(text, place)
        return columns, FOREVER
    said = [declared_delay_us(frame.schema, name) for name in columns if name in known]
    return columns, described.disorder_us if described.disorder_us >= 0 else max(said, default=0)


def _ask_for_time(place: str, known: list[str]) -> list[str]:
    raise InvalidDeclaration(
        f"Spark's watermark speaks of {' and '.join(known)}; say which one is event time: ps.stream(df, time='{known[0]}')",
        place,
    )


def _known_time(place: str, told: str, known: list[str], is_stateful: bool) -> str:
    name = next((column for column in known if column.lower() == told.lower()), "")
    if name or not is_stateful:
        return name or told
    raise InvalidDeclaration(
        f"how late '{told}' can be is not known behind an operator of Spark's, whose watermark speaks of {', '.join(known)}; "
        f"take such a column, or say it: ps.stream(df, time='{told}', disorder='…')",
        place,
    )


def _given_or_only_time(place: str, described: Described) -> str:
    if described.time:
        return described.time
    found = [item.name for item in described.frame.schema if isinstance(item.dataType, TimestampType)]
    if len(found) == 1:
        return str(found[0])
    text = f"it has {len(found)} timestamp columns ({', '.join(found)})" if found else "it has no timestamp column"
    raise InvalidDeclaration(f"{text}; say which one is event time with withWatermark or ps.stream(df, time=…)", place)


def as_tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
