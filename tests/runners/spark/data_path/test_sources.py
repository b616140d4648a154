"""Every source hands over its declared columns; what is missing is said before a query starts."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hosts import answers, bag, write_files
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import penstock as ps
from penstock.errors import InvalidDeclaration, PenstockError, UnknownName, UnreadableFile
from penstock.kernel.damage import BAD
from penstock.language.application import parse_application
from penstock.model.schema import TIMESTAMP
from penstock.runners.spark.data_path.files import ParquetFiles
from penstock.runners.spark.data_path.kafka_messages import kafka_rows
from penstock.runners.spark.driver.app import App

pytestmark = pytest.mark.spark

TEXT = """
CREATE STREAM c (id BIGINT, name STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING csv OPTIONS (path '{folder}/c', header 'true', sep ';');
CREATE STREAM p (id BIGINT, name STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING parquet OPTIONS (path '{folder}/p');
CREATE STREAM beat (value BIGINT, timestamp TIMESTAMP, WATERMARK timestamp DELAY OF INTERVAL 0 SECONDS)
  USING rate OPTIONS (rowsPerSecond '10', numPartitions '1');
CREATE STREAM arrived (id BIGINT, name STRING) USING parquet OPTIONS (path '{folder}/p', reader 'spark');
CREATE CQ from_csv AS SELECT * FROM c;
CREATE CQ from_parquet AS SELECT * FROM p;
CREATE CQ from_rate AS SELECT value FROM beat;
CREATE CQ from_arrivals AS SELECT * FROM arrived;
"""
ROWS = [{"id": 1, "name": "one; two", "ts": 1_000_000}, {"id": 2, "name": None, "ts": 2_500_000}]


def start(spark: SparkSession, folder: Path, stream: str) -> None:
    App.from_text(f"{stream}; CREATE CQ q AS SELECT * FROM s;").start(folder / "checkpoint", spark=spark)


def test_values_of_kafka_become_columns_and_what_is_no_json_is_kept(spark: SparkSession) -> None:
    text = (
        "CREATE STREAM s (id BIGINT, `it's` STRING, ts TIMESTAMP, p INT, o BIGINT, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) "
        "USING kafka OPTIONS (subscribe 'topic') PARTITIONED BY p POSITION o;"
    )
    values = ['{"id": 1, "it\'s": "text", "ts": "2026-01-01T00:00:01Z"}', '{"id": 2, "ts": null}', "no JSON", '{"id": "two"}']
    sent = [*map(str.encode, values), b'{"id": 3, "it\'s": "\xff"}', b"\xfe"]
    topic = spark.createDataFrame(
        [(value, 7, offset) for offset, value in enumerate(sent)], "value BINARY, partition INT, offset BIGINT"
    )
    stream = parse_application(text).streams["s"]
    rows = kafka_rows(topic, stream, from_arrow_schema(stream.schema.arrow)).orderBy("o").toArrow().to_pylist()
    assert [(row["id"], row["it's"], row["p"], row["o"]) for row in rows[:2]] == [(1, "text", 7, 0), (2, None, 7, 1)]
    assert rows[0]["ts"].isoformat() == "2026-01-01T00:00:01+00:00"
    assert [row[BAD] for row in rows[:4]] == [None, None, *values[2:]]
    assert [row[BAD] for row in rows[4:]] == [
        'not UTF-8: {"id": 3, "it\'s": "\N{REPLACEMENT CHARACTER}"}',
        "not UTF-8: \N{REPLACEMENT CHARACTER}",
    ]


def test_messages_that_are_not_one_json_object_are_kept_as_bad_records(spark: SparkSession) -> None:
    """Spark alone would read the first object of several, and nothing from an empty message, without a word."""
    stream = parse_application("CREATE STREAM s (id BIGINT, name STRING) USING kafka OPTIONS (subscribe 'topic');").streams["s"]
    sound = ['{"id": 1}', ' \t\r\n{"id": 1} \t\r\n', '{"name": "}{", "id": 1}', '{"id": 1, "x": {"y": [{}]}, "z": [1, {}]}', "{}"]
    sound += ['{"name": "\\\\ud800"}', '{"name": "\\ud83d\\uDE00\\\\"}']
    damaged = [
        "", " \n", "null", "[]", '[{"id": 1}]', '[{"id": 1}, {"id": 2}]', '{"id": 1}{"id": 2}', '{"id": 1} {"id": 2}', "7", '"{}"',
        '{"id": 1}, {"id": 2}', '{"id": 1}\n{"id": 2}', '{"id": 1} x', '{"id": 1}}', '{"id": 1}]', '{"id": 1}], [{"id": 2}',
        '{"id": 1}, "x": {"id": 2}', '{"id": 1', '{"id": 1}\x00', '{"name": "}"} x', '{"id": 1}, {}, "x": {}',
        '{"name": "\\ud800"}', '{"name": "\\ud800\\ud83d\\uDE00"}', '{"name": "\\\\\\uDe00"}', '{"name": "\\\\ud83d\\uDE00"}',
    ]  # fmt: skip
    values = [*map(str.encode, sound + damaged), None]
    topic = spark.createDataFrame([(value, 0, at) for at, value in enumerate(values)], "value BINARY, partition INT, offset BIGINT")
    rows = kafka_rows(topic, stream, from_arrow_schema(stream.schema.arrow))
    found = [row[BAD] for row in rows.toArrow().to_pylist()]
    assert [text is None for text in found] == [*[True] * len(sound), *[False] * (len(damaged) + 1)], list(
        zip(values, found, strict=True)
    )
    assert all(text in told for text, told in zip(damaged, found[len(sound) :], strict=False))
    assert found[-1] == "no value, as deleted keys have"


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


def test_a_damaged_file_stops_the_query_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    # Names that Spark or a task could decode once too often, and a column that only the directory has.
    folder = tmp_path / "p 100%25" / "day=a%2Fb c"
    write_files(folder, "parquet", [pa.table({"id": [1, 2], "ts": pa.array([1, 2], TIMESTAMP)}), "id,ts"])
    text = (
        "CREATE STREAM s (id BIGINT, day STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING parquet "
        f"OPTIONS (path '{folder.parent}', maxFilesPerTrigger '1'); CREATE CQ q AS SELECT id + 1 AS n, day FROM s WHERE id > 1"
    )
    run = App.from_text(text).start(tmp_path / "checkpoint", spark=spark)
    with pytest.raises(UnreadableFile, match=r"(?s)b c/1\.parquet.*take the file away"):
        run.process_all_available()
    assert answers(run, "q") == [{"n": 3, "day": "a/b c"}]


def test_an_orc_file_with_times_that_the_format_does_not_allow_stops_the_query_with_its_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Arrow writes times before 1970 with negative fractions of seconds; times in whole seconds, and those of Spark, are read."""
    folder = tmp_path / "in"
    folder.mkdir()
    whole = pa.table({"id": [1, 2], "ts": pa.array([1_500_000, -2_000_000], TIMESTAMP)})
    orc.write_table(whole, folder / "0.orc")
    pq.write_table(pa.table({"id": [3], "ts": pa.array([-2_500_000], TIMESTAMP)}), tmp_path / "fraction.parquet")
    spark.read.parquet(str(tmp_path / "fraction.parquet")).write.orc(str(tmp_path / "by_spark"))
    (written,) = (tmp_path / "by_spark").glob("*.orc")
    written.rename(folder / "1.orc")
    text = (
        "CREATE STREAM s (id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 DAY) USING orc "
        f"OPTIONS (path '{folder}'); CREATE CQ q AS SELECT * FROM s"
    )
    run = App.from_text(text).start(tmp_path / "checkpoint", spark=spark)
    run.process_all_available()
    assert {row["id"]: row["ts"].timestamp() for row in answers(run, "q")} == {1: 1.5, 2: -2, 3: -2.5}
    orc.write_table(pa.table({"id": [4], "ts": pa.array([-2_500_000], TIMESTAMP)}), folder / "2.orc")
    with pytest.raises(UnreadableFile, match=r"(?s)2\.orc.*before 1970.*take the file away"):
        run.process_all_available()
    run.stop()


def test_options_say_whether_tasks_can_read_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise Spark reads them, as it always did."""
    columns = "id BIGINT, ts TIMESTAMP"
    ours = ps.parquet(spark, tmp_path, columns, latestFirst=True)
    assert isinstance(ours, ParquetFiles)
    assert ours.options == {"path": str(tmp_path), "latestFirst": "true"}
    assert isinstance(ps.parquet(spark, f"file:{tmp_path}", columns), ParquetFiles)
    assert isinstance(ps.parquet(spark, tmp_path, columns, mergeSchema=True), DataFrame)
    assert ps.filter(ps.stream(ours, time="ts"), ["id > 1"]).columns == ["id", "ts"]


def test_mistakes_in_sources_are_found_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    columns = "(id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)"
    with pytest.raises(InvalidDeclaration, match="needs a directory"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING json")
    with pytest.raises(InvalidDeclaration, match=r"has no column 'id'; it has timestamp, value"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING rate")
    with pytest.raises(UnknownName, match="Did you mean 'pairs'"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING feed OPTIONS (workload 'pears.left')")
    with pytest.raises(InvalidDeclaration, match="there is no reader 'pandas'; choose penstock or spark"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING parquet OPTIONS (path '{tmp_path}', reader 'pandas')")
    with pytest.raises(InvalidDeclaration, match="reader 'penstock' takes files that every worker mounts"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING parquet OPTIONS (path 's3a://a/b', reader 'penstock')")
    with pytest.raises(InvalidDeclaration, match="gone"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING parquet OPTIONS (path '{tmp_path}/gone')")
    with pytest.raises(PenstockError, match=r"(?s)stream 's'.*no_such_format"):
        start(spark, tmp_path, f"CREATE STREAM s {columns} USING no_such_format")


def test_without_the_connector_a_kafka_stream_says_how_to_get_it(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match=r"(?s)stream 's'.*spark\.jars\.packages.*spark-sql-kafka"):
        start(
            spark, tmp_path,
            "CREATE STREAM s (id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) "
            "USING kafka OPTIONS (kafka.bootstrap.servers 'localhost:1', subscribe 'topic')",
        )  # fmt: skip
