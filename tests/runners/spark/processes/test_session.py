"""What sessions of Penstock set, seen in what Spark makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.runners.spark.processes.session import query_session

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("starts_queries", [False, True])
def test_what_a_repeated_micro_batch_writes_takes_the_place_of_what_was_there(
    spark: SparkSession, tmp_path: Path, starts_queries: bool
) -> None:
    """Otherwise a file of state is that of one attempt, and those that follow it are those of another."""
    session = query_session(spark, 2) if starts_queries else spark
    java = spark.sparkContext._jvm
    assert java is not None
    place = java.org.apache.hadoop.fs.Path
    settings = session._jsparkSession.sessionState().newHadoopConf()
    managers = java.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    manager = managers.create(place(tmp_path.as_uri()), settings)
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"
    for text in (b"first", b"second"):
        file = manager.createAtomic(place((tmp_path / "1.changelog").as_uri()), True)
        file.write(bytearray(text))
        file.close()
    assert (tmp_path / "1.changelog").read_bytes() == b"second"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".1.changelog.crc", "1.changelog"]
