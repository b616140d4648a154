"""Every source hands over its declared columns; what is missing is said before a query starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import answers, bag, write_files
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.errors import InvalidDeclaration, PenstockError, UnknownName
from penstock.kernel.packing import BAD
from penstock.language.application import parse_application
from penstock.model.schema import TIMESTAMP
from penstock.runners.spark.app import App
from penstock.runners.spark.sources import read_stream

pytestmark = pytest.mark.spark

TEXT = """
CREATE STREAM c (id BIGINT, name STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING csv OPTIONS (path '{folder}/c', header 'true', sep ';');
CREATE STREAM p (id BIGINT, name STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING parquet OPTIONS (path '{folder}/p');
CREATE STREAM beat (value BIGINT, timestamp TIMESTAMP, WATERMARK timestamp DELAY OF INTERVAL 0 SECONDS)
  USING rate OPTIONS (rowsPerSecond '10', numPartitions '1');
CREATE STREAM arrived (id BIGINT, name STRING) USING parquet OPTIONS (path '{folder}/p');
CREATE CQ from_csv AS SELECT * FROM c;
CREATE CQ from_parquet AS SELECT * FROM p;
CREATE CQ from_rate AS SELECT value FROM beat;
CREATE CQ from_arrivals AS SELECT * FROM arrived;
"""
ROWS = [{"id": 1, "name": "one; two", "ts": 1_000_000}, {"id": 2, "name": None, "ts": 2_500_000}]


def start(spark: SparkSession, folder: Path, stream: str) -> None:
    App.from_text(f"{stream}; CREATE CQ q AS SELECT * FROM s;").start(folder / "checkpoint", spark=spark)


class Topic(DataSource):
    """What Kafka's format hands over, and the options it was given, as the value of each message."""

    @classmethod
    def name(cls) -> str:
        return "kafka"

    def schema(self) -> str:
        return "value BINARY, partition INT, offset BIGINT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return TopicReader(dict(self.options))


class TopicReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        given = json.dumps({"id": 1, "it's": ",".join(f"{name}={options[name]}" for name in sorted(options)), "ts": at(1)})
        self.messages = [given, '{"id": 2, "ts": null}', "no JSON"]

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": len(self.messages)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["next"], end["next"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes, int, int]]:
        for offset in range(*partition.value):
            yield self.messages[offset].encode(), 7, offset


def test_kafka_gets_its_options_and_gives_values_partitions_and_offsets(spark: SparkSession, tmp_path: Path) -> None:
    """The connector is no part of Spark; a format of the same name and columns takes its place."""
    session = spark.newSession()
    session.dataSource.register(Topic)
    text = (
        "CREATE STREAM s (id BIGINT, `it's` STRING, ts TIMESTAMP, p INT, o BIGINT, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) "
        "USING kafka OPTIONS (kafka.bootstrap.servers 'here:1', subscribe 'topic') PARTITIONED BY p POSITION o;"
    )
    frame = read_stream(session, parse_application(text).streams["s"])
    query = frame.writeStream.format("memory").queryName("topic").option("checkpointLocation", str(tmp_path)).start()
    query.processAllAvailable()
    query.stop()
    rows = session.sql("SELECT * FROM topic ORDER BY o").toArrow().to_pylist()
    assert [(row["id"], row["p"], row["o"]) for row in rows] == [(1, 7, 0), (2, 7, 1), (None, 7, 2)]
    assert rows[0]["it's"] == "kafka.bootstrap.servers=here:1,subscribe=topic"
    assert [row[BAD] for row in rows] == [None, None, "no JSON"]


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}Z"


def test_csv_parquet_rate_and_arrival_times_are_read_as_declared(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "c", "csv", ['id;name;ts\n1;"one; two";1970-01-01T00:00:01Z\n2;;1970-01-01T00:00:02.5Z\n'])
    (tmp_path / "p").mkdir()
    table = pa.Table.from_pylist(ROWS, pa.schema({"id": pa.int64(), "name": pa.string(), "ts": TIMESTAMP}))
    pq.write_table(table, tmp_path / "p" / "0.parquet")
    run = App.from_text(TEXT.format(folder=tmp_path)).start(tmp_path / "checkpoint", spark=spark)
    deadline = time.monotonic() + 300
    while not answers(run, "from_rate") or not answers(run, "from_csv"):
        assert run.is_active, run.wait()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run.end()
    assert bag(answers(run, "from_csv")) == bag(table.to_pylist())
    assert bag(answers(run, "from_parquet")) == bag(table.to_pylist())
    assert [(row["id"], row["name"]) for row in answers(run, "from_arrivals")] == [(1, "one; two"), (2, None)]
    assert len({row["ts"] for row in answers(run, "from_arrivals")}) == 1
    values = [row["value"] for row in answers(run, "from_rate")]
    assert sorted(values) == list(range(len(values)))


def test_mistakes_in_sources_are_found_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    columns = "(id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)"
    with pytest.raises(InvalidDeclaration, match="needs a directory"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING json")
    with pytest.raises(InvalidDeclaration, match=r"has no column 'id'; it has timestamp, value"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING rate")
    with pytest.raises(UnknownName, match="Did you mean 'pairs'"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING feed OPTIONS (workload 'pears.left')")
    with pytest.raises(PenstockError, match=r"(?s)stream 's'.*no_such_format"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING no_such_format")


def test_without_the_connector_a_kafka_stream_says_how_to_get_it(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match=r"(?s)stream 's'.*spark\.jars\.packages.*spark-sql-kafka"):
        start(
            spark, tmp_path,
            "CREATE STREAM s (id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) "
            "USING kafka OPTIONS (kafka.bootstrap.servers 'localhost:1', subscribe 'topic')",
        )  # fmt: skip
