"""Penstock's operators on ordinary streaming DataFrames: adopt one line at a time in an existing PySpark job."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import TimestampType

from penstock.errors import InvalidDeclaration
from penstock.language.application import parse_query
from penstock.lowering.stages import build_job
from penstock.model.declarations import Constraint, ConstraintKind, EmbeddedPunctuations, RowPolicy, Source, StreamDeclaration
from penstock.model.join_kinds import JoinKind
from penstock.model.schema import Field, Schema
from penstock.plan.catalog import Catalog
from penstock.runners.spark.files import ParquetFiles
from penstock.runners.spark.pipeline import answers, build_pipeline
from penstock.runners.spark.session import require

Names: TypeAlias = str | Sequence[str]

#: Column that `punctuations=True` looks for.
MARK_COLUMN = "mark"
_WATERMARK_DELAY = "spark.watermarkDelayMs"
#: The inputs of a join; their aliases are the first letters.
_SIDES = ("left", "right")


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


#: What operators take as a stream.
Stream: TypeAlias = DataFrame | ParquetFiles | Described

#: A stream as the plan knows it, and where its rows come from.
Input: TypeAlias = tuple[StreamDeclaration, DataFrame | ParquetFiles]


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
        Event-time column and how late a row may be ("10 seconds"). Not needed after `withWatermark`, which says both.
    unique, clustered, ordered
        Columns whose values never repeat, come in one run each, or never decrease.
    punctuations
        Column with embedded punctuations: where it is not null the row is no data but says what will not come again.
    partition, position
        Columns that name the source partition and the offset in it (for Kafka: partition, offset).
    """
    delay = _micros(disorder) if disorder else -1
    return Described(frame, time, delay, several(unique), several(clustered), several(ordered), punctuations, partition, position)


def join(
    left: Stream,
    right: Stream,
    on: Names,
    within: str | tuple[str, str] = "",
    punctuations: bool = False,
    condition: str = "",
    suffix: str = "_right",
    quarantine: str | Path = "",
    how: str = "inner",
) -> DataFrame:
    """Equi-join of two streams whose state forgets what windows and punctuations rule out.

    Parameters
    ----------
    on
        Key columns, equally named on both sides.
    within
        Rows join if they are at most this far apart ("24 hours"); a pair gives one bound per side. Empty: no window, state
        is then bounded only by punctuations.
    punctuations
        Use embedded punctuations: each side's string column `mark` (or the column `stream` names).
    condition
        Further condition in SQL; columns are `l.name` and `r.name`. Rows for which it does not hold are no partners.
    suffix
        Added to columns of the right side whose name the left side has too.
    quarantine
        Directory for late and bad rows. Without one they fail the query: nothing is lost silently.
    how
        "inner", "left", "right", "full", "left_semi", "left_anti", or another of Spark's names for them. A row without
        partner comes once it is proven that none can come: its window has passed, or punctuations close its key.

    Returns
    -------
    DataFrame
        Key columns once, then the other columns of both sides (of the left one for semi and anti joins); write it with
        `writeStream` in append mode.

    Notes
    -----
    The session needs the RocksDB state store; `spark.sql.shuffle.partitions` is the number of shards and fixed by the
    first start from a checkpoint.

    Examples
    --------
    ``ps.join(auctions, bids, on="item_id", within="24 hours", punctuations=True)``

    ``ps.join(auctions, bids, on="item_id", punctuations=True, how="left_anti")`` gives auctions without bid.
    """
    kind = _kind(how)
    keys = several(on)
    sides = [declared("left", left, punctuations), declared("right", right, punctuations)]
    bounds = (within, within) if isinstance(within, str) else within
    items = _join_items(kind, sides[0][0].schema, sides[1][0].schema, keys, suffix, sides)
    equal = " AND ".join(f"l.{quoted(key)} = r.{quoted(key)}" for key in keys)
    on_text = f"{equal} AND ({condition})" if condition else equal
    left_source, right_source = (f"{quoted(side)} {side[0]} {_window(bound)}" for side, bound in zip(_SIDES, bounds, strict=True))
    text = f"SELECT {', '.join(items)} FROM {left_source} {kind.words} JOIN {right_source} ON {on_text}"
    return run_query(text, sides, str(quarantine))


def aggregate(
    frame: Stream,
    by: Names,
    window: str,
    aggregates: Mapping[str, str],
    advance: str = "",
    having: str = "",
    quarantine: str | Path = "",
) -> DataFrame:
    """Aggregates per group and time window.

    Parameters
    ----------
    by
        Group columns; none: one group.
    window, advance
        Length of a window and distance of window starts; without `advance` windows tumble.
    aggregates
        Output column to SQL: ``{"bids": "count(*)", "top": "max(price)"}``.
    having
        Condition over groups in SQL.

    Returns
    -------
    DataFrame
        Group columns, aggregates, `window_start`, `window_end`; a window's rows come once, when its time has passed.

    Examples
    --------
    ``ps.aggregate(bids, by="item_id", window="1 minute", aggregates={"bids": "count(*)"})``
    """
    source = declared("input", frame, False)
    keys = several(by)
    items = [*map(quoted, keys), *(f"{text} AS {quoted(name)}" for name, text in aggregates.items())]
    text = f"SELECT {', '.join([*items, 'window_start()', 'window_end()'])} FROM input {_window(window, advance)}"
    text += f" GROUP BY {', '.join(map(quoted, keys))}" if keys else ""
    text += f" HAVING {having}" if having else ""
    return run_query(text, [source], str(quarantine))


# -- how -------------------------------------------------------------------------------------------------------------


def run_query(
    text: str,
    inputs: Sequence[Input],
    quarantine: str,
    declare: Callable[[Catalog], None] | None = None,
) -> DataFrame:
    """Answers of one query over DataFrames.

    Parameters
    ----------
    declare
        Adds what else the query may rely on.
    """
    catalog = Catalog("penstock")
    for declaration, _ in inputs:
        catalog.add_stream(declaration)
    if declare is not None:
        declare(catalog)
    catalog.add_query(parse_query(f"CREATE CQ answer AS {text}", catalog))
    shards = require(inputs[0][1].sparkSession)
    frames = {declaration.name: frame for declaration, frame in inputs}
    job = build_job(catalog, shards)
    pipeline = build_pipeline(job, lambda source: frames[source.name], None, uuid.uuid4().hex, quarantine=quarantine)
    return answers(pipeline, pipeline.frame, "answer")


def declared(name: str, given: Stream, punctuations: bool) -> Input:
    """The stream that a DataFrame is to the plan."""
    described = given if isinstance(given, Described) else Described(given)
    frame = described.frame
    if isinstance(frame, DataFrame) and not frame.isStreaming:
        raise InvalidDeclaration("the DataFrame is not a stream; read it with spark.readStream", f"input '{name}'")
    time, delay = _event_time(name, described)
    mark = described.punctuations or (MARK_COLUMN if punctuations and MARK_COLUMN in frame.columns else "")
    fields = [Field(item.name, item.type, item.nullable) for item in to_arrow_schema(frame.schema, timezone="UTC")]
    constraints = [Constraint(ConstraintKind.UNIQUE, column) for column in described.unique]
    constraints += [Constraint(ConstraintKind.CLUSTERED, column) for column in described.clustered]
    constraints += [Constraint(ConstraintKind.ORDERED, column) for column in described.ordered]
    declaration = StreamDeclaration(
        name, Schema(tuple(fields), f"input '{name}'"), Source("dataframe"), time, delay, tuple(constraints),
        EmbeddedPunctuations(mark) if mark else None, RowPolicy.QUARANTINE, RowPolicy.QUARANTINE, RowPolicy.QUARANTINE,
        described.partition, described.position,
    )  # fmt: skip
    return declaration, frame


def _event_time(name: str, described: Described) -> tuple[str, int]:
    """Event-time column and disorder bound: as told, or as `withWatermark` told Spark."""
    for item in described.frame.schema:
        if _WATERMARK_DELAY in item.metadata and described.time in ("", item.name):
            told = int(item.metadata[_WATERMARK_DELAY]) * 1000
            return item.name, described.disorder_us if described.disorder_us >= 0 else told
    if described.time:
        return described.time, max(described.disorder_us, 0)
    clocks = [item.name for item in described.frame.schema if isinstance(item.dataType, TimestampType)]
    if len(clocks) == 1:
        return clocks[0], max(described.disorder_us, 0)
    found = f"it has {len(clocks)} timestamp columns ({', '.join(clocks)})" if clocks else "it has no timestamp column"
    raise InvalidDeclaration(f"{found}; say which one is event time with withWatermark or ps.stream(df, time=…)", f"input '{name}'")


def _kind(how: str) -> JoinKind:
    kind = JoinKind.called(how)
    if kind is None:
        raise InvalidDeclaration(f"there is no join '{how}'; how is one of {', '.join(JoinKind)}", "ps.join")
    return kind


def _key_text(kind: JoinKind, name: str) -> str:
    """The key, from a side that has it."""
    if kind is JoinKind.FULL:
        return f"coalesce(l.{quoted(name)}, r.{quoted(name)})"
    return f"{'r' if kind is JoinKind.RIGHT else 'l'}.{quoted(name)}"


def _join_items(
    kind: JoinKind,
    left: Schema,
    right: Schema,
    keys: tuple[str, ...],
    suffix: str,
    sides: Sequence[Input],
) -> list[str]:
    marks = [declaration.punctuations.column if declaration.punctuations else "" for declaration, _ in sides]
    items = [f"{_key_text(kind, left[key].name)} AS {quoted(left[key].name)}" for key in keys]
    taken = {key.lower() for key in keys}
    both = (("l", left, marks[0]), ("r", right, marks[1]))
    for alias, schema, mark in both if kind.shows_pairs else both[:1]:
        for item in schema:
            if item.name.lower() in {key.lower() for key in keys} or item.name == mark:
                continue
            shown = item.name + suffix if item.name.lower() in taken else item.name
            taken.add(shown.lower())
            items.append(f"{alias}.{quoted(item.name)} AS {quoted(shown)}")
    return items


def _window(size: str, advance: str = "") -> str:
    if not size:
        return ""
    return f"[RANGE {size.upper()}{f', ADVANCE {advance.upper()}' if advance else ''}]"


_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}


def _micros(text: str) -> int:
    amount, _, unit = text.strip().lower().partition(" ")
    if unit.rstrip("s") not in _UNITS_US or not amount.isdigit():
        raise InvalidDeclaration(
            f"'{text}' is no duration; write a whole number and a unit ({', '.join(_UNITS_US)}), such as 10 seconds"
        )
    return int(amount) * _UNITS_US[unit.rstrip("s")]


def several(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
