"""Streams as Spark reads them: files, Kafka, rate, feed, with malformed rows kept apart instead of lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import InvalidDeclaration, PenstockError
from penstock.kernel.damage import BAD
from penstock.model.declarations import StreamDeclaration
from penstock.runners.spark.data_path import feed
from penstock.runners.spark.data_path.control import ENDING
from penstock.runners.spark.data_path.failures import QueryFailed, translated
from penstock.runners.spark.data_path.files import ParquetFiles, can_read, listed
from penstock.runners.spark.data_path.kafka_messages import kafka_rows
from penstock.runners.spark.processes.session import named_reader

_FILES = ("json", "csv", "parquet", "orc", "text")
_PARSED = ("json", "csv")
#: Fields that a record of CSV may have before Spark's parser stops the query instead of calling the record malformed: 20,480 of
#: its own are soon reached by a damaged line. Every task has two arrays of this size.
_MOST_FIELDS = 1 << 18
#: How Spark says that it does not know Kafka.
_NO_CONNECTOR = "KAFKA_DATA_SOURCE_NOT_ENABLED"
#: What decoders put in the place of bytes that are no text.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


#: Option of a stream of Parquet files: who reads them, "penstock" (as nothing, where it can) or "spark".
_READER = "reader"


def read_stream(spark: SparkSession, stream: StreamDeclaration, control: Path | None = None) -> DataFrame | ParquetFiles:
    """A streaming DataFrame with the declared columns, and a column of malformed records where the format can have them.

    Of Parquet files within reach only their paths: tasks read them.

    Parameters
    ----------
    control
        Where decisions are: a feed looks there whether it shall end.
    """
    try:
        if control is not None and stream.source.format.lower() == "feed":
            told = replace(stream.source, options={**stream.source.options, feed.ENDS_WITH: str(control / ENDING)})
            stream = replace(stream, source=told)
        return _timed(spark, stream)
    except PenstockError:
        raise
    except Exception as failure:
        raise _unreadable(spark, stream, failure) from failure


def source_name(stream: str) -> str:
    """What Spark calls the source of a stream, so that it finds its offsets when other streams come and go.

    Examples
    --------
    >>> source_name("Bid"), source_name("näher.an")
    ('stream_bid', 'stream_n_e4_her_2e_an')
    """
    plain = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", stream.lower())
    return f"stream_{plain}"


def _unreadable(spark: SparkSession, stream: StreamDeclaration, failure: Exception) -> PenstockError:
    """Spark's refusal of a source, with the stream's name and what helps."""
    found = translated(failure)
    if not isinstance(found, QueryFailed):
        return found
    if _NO_CONNECTOR in found.message:
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        return InvalidDeclaration(
            f"this Spark has no Kafka connector; start it with spark.jars.packages={package}, or with the newest version before it "
            f"if there is none ({found.message})",
            f"stream '{stream.name}'",
        )
    return InvalidDeclaration(f"the source '{stream.source.format}' cannot be read: {found.message}", f"stream '{stream.name}'")


def _timed(spark: SparkSession, stream: StreamDeclaration) -> DataFrame | ParquetFiles:
    if stream.arrival_time:
        # Fixed per micro-batch by Spark's offset log, so a repeated batch has the same times.
        return _read(spark, stream, _without(stream, stream.timestamp)).withColumn(stream.timestamp, f.current_timestamp())
    options = {name: value for name, value in stream.source.options.items() if name.lower() != _READER}
    if _is_ours(spark, stream, options):
        return listed(spark, _without(stream, ""), options, source_name(stream.name))
    return _read(spark, stream, _without(stream, ""))


def _is_ours(spark: SparkSession, stream: StreamDeclaration, options: Mapping[str, str]) -> bool:
    """Whether tasks read the files of the stream themselves."""
    reader = next((value for name, value in stream.source.options.items() if name.lower() == _READER), "")
    if stream.source.format.lower() != "parquet" or "path" not in options or reader == "spark":
        return False
    if reader not in ("", "penstock"):
        raise InvalidDeclaration(f"there is no reader '{reader}'; choose penstock or spark", f"stream '{stream.name}'")
    is_possible = can_read(spark, options)
    if reader and not is_possible:
        raise InvalidDeclaration(
            "reader 'penstock' takes files that every worker mounts and options about which of them are read; "
            "leave the reader to Penstock, or choose spark",
            f"stream '{stream.name}'",
        )
    return is_possible


def _without(stream: StreamDeclaration, column: str) -> StructType:
    """The declared columns but one; nullable, because Spark would rely on NOT NULL, which rows that punctuate do not obey."""
    fields = from_arrow_schema(stream.schema.arrow).fields
    return StructType([StructField(item.name, item.dataType) for item in fields if item.name != column])


def _read(spark: SparkSession, stream: StreamDeclaration, declared: StructType) -> DataFrame:
    kind = stream.source.format.lower()
    reader = named_reader(spark, source_name(stream.name)).format(kind)
    for name, value in stream.source.options.items():
        if name.lower() != _READER:
            reader = reader.option(name, value)
    if kind == "kafka":
        return kafka_rows(reader.load(), stream, declared)
    if kind == "feed":
        feed.register(spark)
        feed.check(stream.source.options, declared)
        return reader.schema(declared).load()  # the feed makes the columns that are asked for
    if kind in _FILES:
        return _files(reader, kind, stream, declared)
    return _declared(reader.load(), stream, declared)


def _files(reader: object, kind: str, stream: StreamDeclaration, declared: StructType) -> DataFrame:
    if "path" not in stream.source.options:
        raise InvalidDeclaration(f"a {kind} source needs a directory; add OPTIONS (path '…')", f"stream '{stream.name}'")
    if kind in _PARSED:
        # The whole record is kept in its own column when it does not fit the schema.
        wanted = StructType([*declared.fields, StructField(BAD, StringType())])
        if kind == "csv":
            # Otherwise Spark would not see that a record has too many or too few fields.
            reader = reader.option("columnPruning", "false")  # type: ignore[attr-defined]
            if "maxcolumns" not in {name.lower() for name in stream.source.options}:
                reader = reader.option("maxColumns", _MOST_FIELDS)  # type: ignore[attr-defined]
        found = reader.schema(wanted).option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", BAD).load()  # type: ignore[attr-defined]
        is_said = {"encoding", "charset"} & {name.lower() for name in stream.source.options}
        return found if kind == "json" or is_said else _with_damaged_texts(found, declared)
    return reader.schema(declared).load()  # type: ignore[attr-defined]


def _with_damaged_texts(frame: DataFrame, declared: StructType) -> DataFrame:
    """Records of CSV with what is wrong about their texts.

    Where bytes are not UTF-8 Spark's reader of CSV, unlike that of JSON, puts the character that stands for them. It is taken
    for what it means, as nothing tells whether the file has the character itself; who has such files says their `encoding`.
    """
    texts = [f.col(_quoted(item.name)) for item in declared.fields if isinstance(item.dataType, StringType)]
    if not texts:
        return frame
    told = [f.when(f.contains(text, f.lit(_REPLACEMENT)), text) for text in texts]
    damage = f.nullif(f.concat_ws("; ", *told), f.lit(""))
    return frame.withColumn(BAD, f.coalesce(BAD, f.concat(f.lit("not UTF-8: "), damage)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _declared(frame: DataFrame, stream: StreamDeclaration, declared: StructType) -> DataFrame:
    """The declared columns in their declared types; a column the source lacks is the author's mistake."""
    present = {name.lower(): name for name in frame.columns}
    missing = [item.name for item in declared if item.name.lower() not in present]
    if missing:
        raise InvalidDeclaration(
            f"the source '{stream.source.format}' has no column '{missing[0]}'; it has {', '.join(frame.columns)}",
            f"stream '{stream.name}'",
        )
    return frame.selectExpr(
        *[f"CAST(`{present[item.name.lower()]}` AS {item.dataType.simpleString()}) AS `{item.name}`" for item in declared]
    )
