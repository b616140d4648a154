"""Answers reach every kind of destination, and a repeated micro-batch leaves no trace."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import answers, bag, run_to_the_end
from pyspark.sql import SparkSession

from penstock.errors import CheckpointInUse, ForeignDirectory, InvalidDeclaration, UserError
from penstock.model.declarations import Destination
from penstock.runners.spark.data_path.failures import QueryFailed
from penstock.runners.spark.data_path.sinks import make_sink, messages
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.ownership.folders import HadoopFolder, LocalFolder
from penstock.testing.undisturbed import undisturbed

pytestmark = pytest.mark.spark

FILES = ("parquet", "json", "csv")
STREAM = """
CREATE STREAM s (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'pairs', stream 'left', rows_per_batch '100', total '300', partitions '2')
  PARTITIONED BY part POSITION off;
"""


def application(folder: Path) -> str:
    queries = [f"CREATE CQ to_{kind} AS SELECT id, key FROM s OUTPUT TO {kind} OPTIONS (path '{folder}/{kind}');" for kind in FILES]
    return STREAM + "\n".join(
        [
            *queries,
            "CREATE CQ received AS SELECT id, key FROM s OUTPUT TO callable;",
            "CREATE CQ seen AS SELECT id, key FROM s WHERE id < 3 OUTPUT TO console;",
            "CREATE CQ nowhere AS SELECT id FROM s OUTPUT TO noop;",
            f"CREATE CQ twice AS SELECT id, key FROM s OUTPUT TO memory, parquet OPTIONS (path '{folder}/twice');",
        ]
    )


def written(folder: Path, kind: str) -> list[dict[str, int]]:
    """What a reader of the directory finds; directories that begin with _ are hidden from readers."""
    rows: list[dict[str, int]] = []
    for file in sorted(folder.glob(f"epoch=*/part-*.{kind}")):
        if kind == "parquet":
            rows += pq.ParquetFile(file).read().to_pylist()
        elif kind == "json":
            rows += map(json.loads, file.read_text().splitlines())
        else:
            rows += [{"id": int(a), "key": int(b)} for a, b in csv.reader(file.read_text().splitlines())]
    return rows


def inodes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_ino for path in folder.glob("*/epoch=*/part-*")}


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died between the sinks and the commit log."""
    commits = checkpoint / "spark" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    return last


def test_all_destinations_get_all_answers_and_a_repeated_batch_changes_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    received: list[tuple[int, pa.Table]] = []
    app = App.from_text(application(tmp_path), functions={"received": lambda epoch, rows: received.append((epoch, rows))})
    first = app.start(tmp_path / "checkpoint", spark=spark)
    first.process_all_available()
    first.stop()
    first.stop()  # stopping twice is fine
    with pytest.raises(UserError, match="has stopped"):
        first.end()
    before, calls = inodes(tmp_path), len(received)
    last = forget_last_commit(tmp_path / "checkpoint")
    second = app.start(tmp_path / "checkpoint", spark=spark)
    second.process_all_available()
    second.end()

    expected = bag(undisturbed(STREAM + "CREATE CQ every AS SELECT id, key FROM s;").collected.rows("every"))
    for kind in FILES:
        assert bag(written(tmp_path / kind, kind)) == expected
    assert bag(written(tmp_path / "twice", "parquet")) == expected
    assert inodes(tmp_path) == before
    again = dict(received[calls:])
    assert again[last].num_rows
    assert bag(again[last].to_pylist()) == bag(dict(received[:calls])[last].to_pylist())
    epochs = dict(received)
    assert bag(row for rows in epochs.values() for row in rows.to_pylist()) == expected
    # The replay gives the last batch again; what memory held before is the first run's.
    assert bag([*answers(first, "twice"), *answers(second, "twice")]) == sorted(expected + bag(again[last].to_pylist()))
    assert "seen, batch 0: 3 rows" in capsys.readouterr().out


def test_a_new_checkpoint_is_refused_by_the_answers_of_the_old_one_and_loses_none_beside_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both count micro-batches from 0: the second would find all its directories there and write nothing."""
    text = STREAM + f"CREATE CQ only AS SELECT id, key FROM s WHERE key > 5 OUTPUT TO parquet OPTIONS (path '{tmp_path}/out');"
    expected = bag(undisturbed(text).collected.rows("only"))
    with pytest.raises(InvalidDeclaration, match="does not go to memory"):
        run_to_the_end(text, spark, tmp_path / "old").results("only")
    with pytest.raises(ForeignDirectory, match=rf"checkpoint '{tmp_path}/old'.*--append"):
        App.from_text(text).start(tmp_path / "new", spark=spark)
    assert bag(written(tmp_path / "out", "parquet")) == expected
    first = App.from_text(text).start(tmp_path / "new", spark=spark, append=True)
    with pytest.raises(CheckpointInUse, match="a run is using the checkpoint"):
        App.from_text(text).start(tmp_path / "new", spark=spark)
    first.process_all_available()
    first.stop()
    forget_last_commit(tmp_path / "new")
    second = App.from_text(text).start(tmp_path / "new", spark=spark)  # its names are known there by now
    second.process_all_available()
    second.end()
    assert bag(written(tmp_path / "out", "parquet")) == sorted(expected + expected)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2 * len(expected)
    claims = HadoopFolder(spark, f"{tmp_path}/out").claims()
    assert claims == LocalFolder(tmp_path / "out").claims()
    elsewhere = HadoopFolder(spark, f"{tmp_path}/elsewhere")
    assert [elsewhere.create_claim("owner", {"id": word}) for word in ("first", "second")] == [True, False]
    assert elsewhere.claims() == {"owner": {"id": "first"}}


def test_no_column_of_an_answer_is_missing_in_its_message(spark: SparkSession) -> None:
    """Spark would write a column called value alone, or refuse a number in it."""

    def written(row: str) -> list[dict[str, object]]:
        return messages(spark.sql(f"SELECT {row}")).toArrow().to_pylist()

    assert written("1L AS id, 'a' AS name") == [{"value": '{"id":1,"name":"a"}'}]
    assert written("1L AS id, 'a' AS value") == [{"value": '{"id":1,"value":"a"}'}]
    assert written("1.5D AS value") == [{"value": '{"value":1.5}'}]
    assert written("'k' AS key, 'a' AS value, 't' AS topic") == [{"key": "k", "value": "a", "topic": "t"}]


def test_mistakes_in_destinations_say_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match="add OPTIONS"):
        make_sink("q", Destination("parquet", {}), {})
    with pytest.raises(InvalidDeclaration, match=r"no function 'recieve'.*Did you mean 'receive'"):
        make_sink("q", Destination("callable", {"function": "recieve"}), {"receive": print})
    run = App.from_text(STREAM + "CREATE CQ q AS SELECT id FROM s OUTPUT TO kafka OPTIONS (topic 't');").start(
        tmp_path, spark=spark
    )
    with pytest.raises(QueryFailed, match=r"(?i)kafka"):
        run.process_all_available()
