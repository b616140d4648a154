"""Where answers go. A micro-batch may be repeated after a crash, so every sink gets the batch's number and uses it.

There are three kinds. What the driver serves gets rows that were collected once for all of them. Files are written by the
shards, in their task. What only Spark can write gets a frame, for which the micro-batch is kept.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from penstock.errors import InvalidDeclaration, suggestion
from penstock.model.declarations import FILE_FORMATS, Destination
from penstock.runners.spark.data_path.answer_files import AnswerFiles, Targets, can_write

#: Options by which Delta knows a transaction that it has seen: an application, and a number that only grows.
_TRANSACTION = ("txnappid", "txnversion")
#: What a message of Kafka has; of a frame with other columns Spark would write these alone, without a word.
_OF_MESSAGES = {"key", "value", "topic", "partition", "headers"}


class DriverSink(Protocol):
    """Consumes the answers of one micro-batch; called again with the same number only if the batch is repeated."""

    def write(self, epoch: int, rows: pa.Table) -> None: ...


class SparkSink(ABC):
    """The same for what only Spark can write."""

    @abstractmethod
    def write_frame(self, epoch: int, frame: DataFrame) -> None: ...


@dataclass(frozen=True, slots=True)
class ShardSink:
    """Files that shards write."""

    files: AnswerFiles


Sink: TypeAlias = DriverSink | SparkSink | ShardSink
Sinks: TypeAlias = Mapping[str, Sequence[Sink]]


def shard_targets(sinks: Sinks) -> Targets:
    """Where shards write themselves."""
    found = {query: tuple(sink.files for sink in mine if isinstance(sink, ShardSink)) for query, mine in sinks.items()}
    return {query: files for query, files in found.items() if files}


def leaving(sinks: Sinks) -> frozenset[str]:
    """Queries whose answers leave the tasks."""
    return frozenset(query for query, mine in sinks.items() if not all(isinstance(sink, ShardSink) for sink in mine))


class FileSink(SparkSink):
    """Files written by Spark, exactly once: each micro-batch is one directory `epoch=N`, put in place by a rename.

    A repeated micro-batch finds its directory and leaves it alone, so readers never see rows twice, nor half a batch.

    Parameters
    ----------
    mark
        What directories are called besides, where another checkpoint has directories called `epoch=N`.
    """

    def __init__(self, kind: str, path: str, options: Mapping[str, str], mark: str = "") -> None:
        self.kind = kind
        self.path = path.rstrip("/") or "/"
        self.options = {name: value for name, value in options.items() if name != "path"}
        self.mark = f"-{mark}" if mark else ""

    def write_frame(self, epoch: int, frame: DataFrame) -> None:
        name = f"epoch={epoch:010d}{self.mark}"
        staging = f"{self.path}/_staging/{name}"
        counted = Observation()
        observed = frame.observe(counted, f.count(f.lit(1)).alias("rows"))
        observed.write.format(self.kind).options(**self.options).mode("overwrite").save(staging)
        self._put_in_place(frame.sparkSession, staging, f"{self.path}/{name}", int(counted.get["rows"]))

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

    def write(self, epoch: int, rows: pa.Table) -> None:
        with self._lock:
            if rows.num_rows or not self._batches:  # without rows only the first tells something: the columns
                self._batches[epoch] = rows

    def table(self) -> pa.Table | None:
        with self._lock:
            tables = [self._batches[epoch] for epoch in sorted(self._batches)]
        return pa.concat_tables(tables) if tables else None

    def newest(self, most: int) -> list[dict[str, Any]]:
        """The last answers, at most as many as asked for."""
        found: list[dict[str, Any]] = []
        with self._lock:
            for epoch in sorted(self._batches, reverse=True):
                rows = self._batches[epoch]
                found = [*rows.slice(max(rows.num_rows - most + len(found), 0)).to_pylist(), *found]
                if len(found) >= most:
                    break
        return found


class ConsoleSink:
    """The first rows of each micro-batch as a table on the terminal."""

    def __init__(self, query: str, rows: int = 20) -> None:
        self.query = query
        self.rows = rows

    def write(self, epoch: int, rows: pa.Table) -> None:
        from rich.console import Console
        from rich.table import Table

        if not rows.num_rows:
            return
        table = Table()
        for name in rows.column_names:
            table.add_column(name)
        for row in rows.slice(0, self.rows).to_pylist():
            table.add_row(*[str(value) for value in row.values()])
        console = Console()
        console.print(f"{self.query}, batch {epoch}: {rows.num_rows} rows", highlight=False)
        console.print(table)


class CallableSink:
    """A Python function `(epoch, table)`, or `(epoch, table, checkpoint)`.

    The epoch is the idempotence key as long as the checkpoint is the same: then the same number means the same rows. A
    function that remembers epochs beyond a run has to remember them by checkpoint, whose identity it gets if it asks for it.
    """

    def __init__(self, function: Callable[..., None], writer: str = "") -> None:
        self.function = function
        self.known = {"checkpoint": writer} if _has_parameter(function, "checkpoint") else {}

    def write(self, epoch: int, rows: pa.Table) -> None:
        self.function(epoch, rows, **self.known)


def _has_parameter(function: Callable[..., None], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions may have none to show
        return False


class FormatSink(SparkSink):
    """Any other Spark format (Kafka, Delta, JDBC, noop): handed on; at least once unless the format knows better.

    Parameters
    ----------
    transactions
        Name under which Delta remembers which micro-batches it has: by checkpoint, because each counts them from 0.
    """

    def __init__(self, kind: str, options: Mapping[str, str], transactions: str = "") -> None:
        self.kind = kind
        self.options = dict(options)
        self.transactions = transactions

    def options_of(self, epoch: int) -> dict[str, str]:
        if self.kind != "delta" or not self.transactions:
            return self.options
        return {**self.options, "txnAppId": self.transactions, "txnVersion": str(epoch)}

    def write_frame(self, epoch: int, frame: DataFrame) -> None:
        if self.kind == "kafka":
            frame = messages(frame)
        mode = "overwrite" if self.kind == "noop" else "append"
        frame.write.format(self.kind).options(**self.options_of(epoch)).mode(mode).save()


def messages(rows: DataFrame) -> DataFrame:
    """Answers as messages of Kafka: as they are if their columns are those of messages, else each as a JSON object."""
    kinds = dict(rows.dtypes)
    is_message = kinds.get("value") in ("string", "binary") and kinds.keys() <= _OF_MESSAGES
    return rows if is_message else rows.select(f.to_json(f.struct("*")).alias("value"))


@dataclass(frozen=True, slots=True)
class Binding:
    """What ties a sink to the checkpoint that writes to it.

    Parameters
    ----------
    checkpoint
        Its identity.
    mark
        As in `FileSink`.
    number
        Which of the query's destinations it is.
    shards_write
        Whether paths without scheme are on a file system that driver and workers mount.
    """

    checkpoint: str = ""
    mark: str = ""
    number: int = 0
    shards_write: bool = False


UNBOUND = Binding()


def make_sink(
    query: str, destination: Destination, functions: Mapping[str, Callable[..., None]], binding: Binding = UNBOUND
) -> Sink:
    """The sink a destination names; `functions` are those given to the application in Python."""
    kind, options = destination.format.lower(), destination.options
    if kind == "memory":
        return MemorySink()
    if kind == "console":
        return ConsoleSink(query, int(options.get("rows", "20")))
    if kind == "callable":
        return CallableSink(_function(query, options, functions), binding.checkpoint)
    if kind in FILE_FORMATS:
        if "path" not in options:
            raise InvalidDeclaration(f"a {kind} destination needs a directory; add OPTIONS (path '…')", f"query '{query}'")
        if can_write(destination, binding.shards_write):
            return ShardSink(AnswerFiles(options["path"], binding.mark, options.get("compression", "snappy").lower()))
        return FileSink(kind, options["path"], options, binding.mark)
    if kind == "delta" and (own := [name for name in options if name.lower() in _TRANSACTION]):
        raise InvalidDeclaration(
            f"{' and '.join(own)} of a Delta destination are given by Penstock, for each checkpoint others: with yours, Delta "
            "would skip what a new checkpoint writes; leave them out",
            f"query '{query}'",
        )
    return FormatSink(kind, options, f"penstock {binding.checkpoint} {query} {binding.number}" if binding.checkpoint else "")


def _function(query: str, options: Mapping[str, str], functions: Mapping[str, Callable[..., None]]) -> Callable[..., None]:
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
    result: Callable[..., None] = found
    return result
