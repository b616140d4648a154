"""Where answers go. A micro-batch may be repeated after a crash, so every sink gets the batch's number and uses it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from penstock.errors import InvalidDeclaration, suggestion
from penstock.model.declarations import Destination

_FILES = ("parquet", "json", "csv", "orc", "text", "avro")


class Sink(Protocol):
    """Consumes one micro-batch; called again with the same number only if the batch is repeated."""

    def write(self, epoch: int, frame: DataFrame) -> None: ...


class FileSink:
    """Files, exactly once: each micro-batch is one directory `epoch=N`, put in place by a rename.

    A repeated micro-batch finds its directory and leaves it alone, so readers never see rows twice, nor half a batch.
    """

    def __init__(self, kind: str, path: str, options: Mapping[str, str]) -> None:
        self.kind = kind
        self.path = path.rstrip("/")
        self.options = {name: value for name, value in options.items() if name != "path"}

    def write(self, epoch: int, frame: DataFrame) -> None:
        staging = f"{self.path}/_staging/epoch={epoch:010d}"
        counted = Observation()
        observed = frame.observe(counted, f.count(f.lit(1)).alias("rows"))
        observed.write.format(self.kind).options(**self.options).mode("overwrite").save(staging)
        self._put_in_place(frame.sparkSession, staging, f"{self.path}/epoch={epoch:010d}", int(counted.get["rows"]))

    def _put_in_place(self, spark: Any, staging: str, final: str, rows: int) -> None:
        """Through Hadoop's file system, so that it works wherever Spark can write."""
        paths = spark._jvm.org.apache.hadoop.fs
        source, target = paths.Path(staging), paths.Path(final)
        system = source.getFileSystem(spark._jsc.hadoopConfiguration())
        if system.exists(target) or not rows:
            system.delete(source, True)
        elif not system.rename(source, target):
            raise OSError(f"{staging} could not be renamed to {final}")


class MemorySink:
    """Answers kept in the driver, by micro-batch; for tests and small results."""

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}
        self._lock = threading.Lock()

    def write(self, epoch: int, frame: DataFrame) -> None:
        table = frame.toArrow()
        with self._lock:
            self._batches[epoch] = table

    def table(self) -> pa.Table | None:
        with self._lock:
            tables = [self._batches[epoch] for epoch in sorted(self._batches)]
        return pa.concat_tables(tables) if tables else None


class ConsoleSink:
    """The first rows of each micro-batch as a table on the terminal."""

    def __init__(self, query: str, rows: int = 20) -> None:
        self.query = query
        self.rows = rows

    def write(self, epoch: int, frame: DataFrame) -> None:
        from rich.console import Console
        from rich.table import Table

        # All partitions must be consumed, or the state of those left out would not be saved; so count, then show.
        found = frame.toArrow()
        if not found.num_rows:
            return
        table = Table()
        for name in found.column_names:
            table.add_column(name)
        for row in found.slice(0, self.rows).to_pylist():
            table.add_row(*[str(value) for value in row.values()])
        console = Console()
        console.print(f"{self.query}, batch {epoch}: {found.num_rows} rows", highlight=False)
        console.print(table)


class CallableSink:
    """A Python function `(epoch, table)`; the epoch is the idempotence key: the same number means the same rows."""

    def __init__(self, function: Callable[[int, pa.Table], None]) -> None:
        self.function = function

    def write(self, epoch: int, frame: DataFrame) -> None:
        self.function(epoch, frame.toArrow())


class FormatSink:
    """Any other Spark format (Kafka, Delta, JDBC, noop): handed on; at least once unless the format knows better."""

    def __init__(self, kind: str, options: Mapping[str, str]) -> None:
        self.kind = kind
        self.options = dict(options)

    def write(self, epoch: int, frame: DataFrame) -> None:
        if self.kind == "kafka" and "value" not in frame.columns:
            frame = frame.selectExpr("to_json(struct(*)) AS value")
        mode = "overwrite" if self.kind == "noop" else "append"
        frame.write.format(self.kind).options(**self.options).mode(mode).save()


def make_sink(query: str, destination: Destination, functions: Mapping[str, Callable[[int, pa.Table], None]]) -> Sink:
    """The sink a destination names; `functions` are those given to the application in Python."""
    kind, options = destination.format.lower(), destination.options
    if kind == "memory":
        return MemorySink()
    if kind == "console":
        return ConsoleSink(query, int(options.get("rows", "20")))
    if kind == "callable":
        return CallableSink(_function(query, options, functions))
    if kind in _FILES:
        if "path" not in options:
            raise InvalidDeclaration(f"a {kind} destination needs a directory; add OPTIONS (path '…')", f"query '{query}'")
        return FileSink(kind, options["path"], options)
    return FormatSink(kind, options)


def _function(
    query: str, options: Mapping[str, str], functions: Mapping[str, Callable[[int, pa.Table], None]]
) -> Callable[[int, pa.Table], None]:
    name = options.get("function", query)
    if name in functions:
        return functions[name]
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        known = f"the application {suggestion(name, functions)}"
        raise InvalidDeclaration(
            f"there is no function '{name}' for the callable destination; give module:name, or pass it to App: {known}",
            f"query '{query}'",
        ) from None
    result: Callable[[int, pa.Table], None] = found
    return result
