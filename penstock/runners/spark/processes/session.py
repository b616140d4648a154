"""Spark sessions as Penstock needs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.errors import PenstockError, UserError
from penstock.runners.spark.processes.class_archive import using_archive
from penstock.runners.spark.processes.java import use_java
from penstock.runners.spark.processes.java_process import begin_java, keeping_handler, start_java
from penstock.runners.spark.processes.packages import require_packages
from penstock.runners.spark.processes.prepared_python import begin_python, prepared_python
from penstock.runners.spark.processes.spark_home import home_without_archive

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: What a stateful stage needs; a session that has other values is corrected for the queries Penstock starts.
REQUIRED: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows in RocksDB reads every key before it is written; shards count their rows themselves.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Few, large record batches: the pipe between the JVM and Python costs most. Their rows are bounded, not their bytes,
    # because Spark asks Arrow for the size of the batch after every row, a fifth of the JVM's time in a join.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
}

#: What checkpoints on a local disk want beside. Hadoop's other way to write a file there starts a process `readlink` for every
#: path it renames: forty a micro-batch, an eighth of a micro-batch of a second. This way a file takes the place of another only
#: with Hadoop's own file system; Hive's, which Spark finds otherwise, leaves the old one there without a word: then state that
#: a repeated micro-batch has written is not what the next ones go on from.
ON_ONE_MACHINE: Mapping[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",  # another session of the process may have asked for Hive's first
}

#: How sources are read. A value that Java cannot hold stops the reader of ORC; the one of columns then does not say in which file.
_READING: Mapping[str, str] = {"spark.sql.orc.enableVectorizedReader": "false"}

#: How plans of applications run. They are a row of Python evaluations with hardly anything between them that generated code would
#: speed up, and Spark would generate it in every micro-batch to see whether it has compiled it before: a tenth of a small one.
_WITHOUT_CODE: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

#: Workers talk to Java through sockets of the file system: over TCP a message that is sent in two pieces waits 40 ms for the
#: other side to acknowledge the first, twice in every task.
_WORKERS_ON_ONE_MACHINE: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "penstock.runners.spark.processes.daemon",
    # Some kinds of tasks have it off whatever is said here. Workers that differ in it have a daemon of their own, which takes
    # a second to load.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

#: Offsets by name: streams of an application may come and go with its queries.
NAMED_SOURCES: Mapping[str, str] = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}

_QUIET: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

#: Spark reads the answers of a stage from Arrow memory, value by value and never outside of it; Arrow checks each access.
_ARROW_WITHOUT_CHECKS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
#: For a process that lives for a minute: what only pays later is left out.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


class SessionMismatch(UserError):
    code = "spark.session"


class SparkNotStarted(UserError):
    code = "spark.not-started"


def create_session(
    name: str = "penstock", master: str | None = None, shards: int = 2, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with everything set; an existing one is used as it is, with Penstock's settings on top.

    Parameters
    ----------
    master
        As for `spark-submit`; None leaves the choice to the environment, or `local[*]`.
    """
    given, is_alone = _settings(name, master, shards, conf)
    try:
        with _local_home() if is_alone else nullcontext():
            spark = _created(given)
    except PenstockError:
        raise
    except Exception as failure:
        raise _not_started(failure, given) from failure
    if is_alone:
        _begin_workers(spark.sparkContext)
    return spark


def begin_session(name: str, master: str, shards: int, conf: Mapping[str, str], log: Path) -> None:
    """Let Java start while this process imports what it needs; `create_session` with the same arguments goes on from there."""
    given, is_alone = _settings(name, master, shards, conf)
    if is_alone:
        begin_python()
    begin_java(given, log, _local_home() if is_alone else nullcontext(), partial(_context, given))


@contextmanager
def _local_home() -> Iterator[None]:
    """What makes Spark's Python processes start quickly on this machine."""
    with home_without_archive(), prepared_python():
        yield


def _settings(name: str, master: str | None, shards: int, conf: Mapping[str, str] | None) -> tuple[dict[str, str], bool]:
    """What Spark is told, and whether all of it runs on this machine."""
    use_java()
    # Workers must run the interpreter that has Penstock, not whichever `python3` comes first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if (master or "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    is_alone = _is_one_machine(master)
    given = {
        "spark.app.name": name, **({"spark.master": master} if master else {}), **_QUIET, **REQUIRED,
        **(ON_ONE_MACHINE if is_alone else {}), "spark.sql.shuffle.partitions": str(shards), **(conf or {}),
    }  # fmt: skip
    given |= {key: f"{_ARROW_WITHOUT_CHECKS} {given.get(key, '')}".strip() for key in _JAVA_OPTIONS}
    if is_alone:
        driver = _JAVA_OPTIONS[0]
        given = {**_WORKERS_ON_ONE_MACHINE, **given, driver: using_archive(given[driver])}
    return given, is_alone


def _created(given: Mapping[str, str]) -> SparkSession:
    start_java(given)
    keeping_handler(partial(_context, given))
    builder = SparkSession.builder
    for key, value in given.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _context(given: Mapping[str, str]) -> SparkContext:
    return SparkContext.getOrCreate(SparkConf().setAll(list(given.items())))


def _begin_workers(context: SparkContext) -> None:
    """Let the daemon that Python workers come from start while a query is prepared; nobody waits for it."""

    def run() -> None:
        with suppress(Exception):  # the session may be stopped meanwhile; whoever needs workers hears what is wrong
            context.parallelize([0], 1).mapPartitions(iter).count()

    Thread(target=run, name="penstock-workers", daemon=True).start()


def _not_started(failure: Exception, given: Mapping[str, str]) -> SparkNotStarted:
    """What Spark is asked to fetch is the usual reason; otherwise its own first words."""
    packages = given.get("spark.jars.packages", "")
    if packages:
        return SparkNotStarted(
            f"Spark did not start, and it was to fetch spark.jars.packages={packages}; check the names (group:artifact:version) "
            "and that a repository is within reach, or give files with spark.jars. Spark's own messages say which one is missing"
        )
    said = str(failure).strip().splitlines()
    return SparkNotStarted(f"Spark did not start: {said[0] if said else type(failure).__name__}")


def _is_one_machine(master: str | None) -> bool:
    """Whether workers certainly have this Penstock; executors may get it only with their first task, after their daemon."""
    return (master or os.environ.get("MASTER", "local")).split("[")[0] == "local"


def clone_session(spark: SparkSession) -> SparkSession:
    """A session that has the other's settings, views, functions and data sources, and keeps changes to itself.

    `newSession` will not do: it can neither use nor register a Python data source that the first session has registered.
    """
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def query_session(spark: SparkSession, shards: int) -> SparkSession:
    """A session of the same Spark application with its own settings, so that a user's stay untouched."""
    require_packages(str(spark.sparkContext.master), str(spark.sparkContext.pythonExec))
    own = clone_session(spark)
    for key, value in settings_of_queries(shards, _is_one_machine(spark.sparkContext.master)).items():
        own.conf.set(key, value)
    return own


def settings_of_queries(shards: int, is_alone: bool) -> dict[str, str]:
    """What is set for queries that Penstock starts; `is_alone` if all of Spark runs on this machine."""
    on_disk = ON_ONE_MACHINE if is_alone else {}
    return {**REQUIRED, **_READING, **_WITHOUT_CODE, **on_disk, **NAMED_SOURCES, "spark.sql.shuffle.partitions": str(shards)}


def named_reader(spark: SparkSession, name: str) -> Any:
    """A reader of a stream; in sessions of queries that Penstock starts Spark knows the stream by its name."""
    is_named = all(spark.conf.get(key) == value for key, value in NAMED_SOURCES.items())
    return spark.readStream.name(name) if is_named else spark.readStream


def require(spark: SparkSession) -> int:
    """Check a user's session for operators on DataFrames; returns the number of shards."""
    require_packages(str(spark.sparkContext.master), str(spark.sparkContext.pythonExec))
    provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if provider != ROCKSDB:
        raise SessionMismatch(
            f"transformWithState needs the RocksDB state store, this session has '{provider}'; "
            f"call spark.conf.set('spark.sql.streaming.stateStore.providerClass', '{ROCKSDB}') before the query starts"
        )
    return int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
