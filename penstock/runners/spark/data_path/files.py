"""Parquet files that tasks read themselves: Spark finds them and remembers which were read, and never makes rows of them.

Spark's way from a Parquet file to Python makes a row of every record and columns of all rows again. Here Spark's file source
lists the files as ever (offsets, order, limits per micro-batch, recovery), a task is handed paths, and columns stay columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.runners.destinations import local_path
from penstock.runners.spark.processes.session import named_reader

#: What Spark's source of whole files has to declare; the content is not asked for, so it is not read.
_LISTED = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
#: Options about which files are read when. Others say how: those are for Spark's reader.
_LISTING_OPTIONS = frozenset({
    "path", "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly", "pathglobfilter",
    "recursivefilelookup", "cleansource", "sourcearchivedir", "maxcachedfiles", "discardcachedinputratio",
})  # fmt: skip
_GLOB = frozenset("*?[{")


@dataclass(frozen=True)
class ParquetFiles:
    """Files as they come into a directory; made by `parquet`.

    Parameters
    ----------
    listing
        Streaming DataFrame with the path of each file and when it was written.
    schema
        Columns they have.
    options
        Spark's about which files are read when; `path` among them.
    """

    listing: DataFrame
    schema: StructType
    options: Mapping[str, str]

    @property
    def columns(self) -> list[str]:
        return list(self.schema.fieldNames())

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802 - as a DataFrame calls it
        return self.listing.sparkSession

    @property
    def base(self) -> str:
        """The directory: what lies below may be called `column=value`. Empty if the path is a pattern."""
        path = _option(self.options, "path")
        return "" if _GLOB & set(path) else str(local_path(path).absolute())

    def read_by_spark(self) -> DataFrame:
        """The rows as Spark reads them, for whoever needs them in the JVM."""
        return _read_by_spark(self.sparkSession, self.schema, self.options)


def listed(spark: SparkSession, schema: StructType, options: Mapping[str, str], name: str = "") -> ParquetFiles:
    """The files of a path that tasks can read."""
    # Else Spark would take directories called column=value for columns of the listing.
    wanted = {**options, "recursiveFileLookup": "true"}
    files = named_reader(spark, name).format("binaryFile").schema(_LISTED).options(**wanted).load()
    return ParquetFiles(files.select("path", "modificationTime"), schema, options)


def _read_by_spark(spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    return spark.readStream.format("parquet").schema(schema).options(**options).load()


def parquet(spark: SparkSession, path: str | Path, schema: str | StructType, **options: object) -> ParquetFiles | DataFrame:
    """Parquet files that come into a directory, read by Penstock's tasks: their columns never become rows of Spark.

    Use it in place of `spark.readStream.schema(schema).parquet(path)`: no time goes into making rows of columns and columns of
    these rows again.

    Parameters
    ----------
    path
        Directory or pattern of files. Files in directories below are read too; those called `column=value` give that column.
    schema
        Columns, as a list in SQL ("id BIGINT, ts TIMESTAMP") or a StructType. A column that a file does not have is NULL.
    options
        Spark's about which files are read when: `maxFilesPerTrigger`, `latestFirst`, `pathGlobFilter`, `cleanSource`, ….

    Returns
    -------
    ParquetFiles or DataFrame
        What `ps.stream` and all operators take. Where tasks cannot open the files (they are not on a file system that every
        worker mounts) or an option is for Spark's own reader it is Spark's DataFrame.

    Notes
    -----
    Each file is read by one task. In Spark's progress `numInputRows` counts files.

    Examples
    --------
    ``ps.match(ps.stream(ps.parquet(spark, "events", "id BIGINT, kind STRING, ts TIMESTAMP"), time="ts"), "SEQ(A a, B b)")``
    """
    columns = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    texts = {"path": str(path), **{name: _text(value) for name, value in options.items()}}
    return listed(spark, columns, texts) if can_read(spark, texts) else _read_by_spark(spark, columns, texts)


def can_read(spark: SparkSession, options: Mapping[str, str]) -> bool:
    """Whether tasks reach the files and nothing is asked for that only Spark's reader does."""
    if not {name.lower() for name in options} <= _LISTING_OPTIONS:
        return False
    scheme = urlsplit(_option(options, "path")).scheme
    return scheme == "file" if scheme else is_local_by_default(spark)


def is_local_by_default(spark: SparkSession) -> bool:
    """Whether paths without scheme are on the file system of the machine."""
    return str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")).startswith("file:")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option(options: Mapping[str, str], name: str) -> str:
    return next((value for key, value in options.items() if key.lower() == name), "")
