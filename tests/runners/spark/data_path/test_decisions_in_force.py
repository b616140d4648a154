"""What is decided reaches the tasks of the micro-batch it belongs to, also of a repetition; filters run before the shuffle."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sql_functions
import witness
from hosts import answers, run_to_the_end
from pyspark.sql import SparkSession

from penstock.runners.decisions import Decisions
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint, decisions_planned
from penstock.runners.spark.driver.app import App, Run
from penstock.runners.spark.driver.counters import count_readers

pytestmark = pytest.mark.spark

TEXT = """
CREATE FUNCTION noted(v BIGINT, place STRING, file STRING) RETURNS BIGINT
  USING python OPTIONS (callable 'witness:noted', kind 'arrow', cost '1e-6');
CREATE FUNCTION mix(v BIGINT, salt BIGINT) RETURNS BIGINT
  USING python OPTIONS (callable 'sql_functions:hashed', kind 'arrow', cost '1e-6');
CREATE STREAM s (k BIGINT, a BIGINT, b BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0)
  USING parquet OPTIONS (path '{folder}/s', maxFilesPerTrigger '1');
CREATE CQ q AS SELECT /*+ ORDER(probability = 1.0, min_fill = 20, window_rows = 100) */ noted(k, 'shard', '{folder}/notes') AS k
FROM s WHERE mix(k, 1) < a AND mix(k, 2) < b AND noted(k, 'packing', '{folder}/notes') >= 0 OUTPUT TO memory;
"""
ROWS = 400


def rows(number: int, a: int, b: int) -> pa.Table:
    """Of 128 rows about so many meet each condition."""
    k = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.table({"k": k, "a": np.full(ROWS, a), "b": np.full(ROWS, b), "ts": k})


def write(folder: Path, number: int, table: pa.Table) -> None:
    (folder / "s").mkdir(exist_ok=True)
    path = folder / "s" / f"{number}.parquet"
    pq.write_table(table, path.with_suffix(".draft"))
    os.utime(path.with_suffix(".draft"), (1_700_000_000 + number, 1_700_000_000 + number))
    path.with_suffix(".draft").rename(path)


def expected(tables: list[pa.Table]) -> list[int]:
    def mixed(k: int, salt: int) -> int:
        return ((k * 7919 + salt) * 104729 >> 7) & 127

    listed = [row for table in tables for row in table.to_pylist()]
    return [row["k"] for row in listed if mixed(row["k"], 1) < row["a"] and mixed(row["k"], 2) < row["b"]]


def notes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "notes").read_text().splitlines()]


def planned(checkpoint: Checkpoint, batch: int) -> str:
    """What the offset log says was decided when a micro-batch was planned."""
    found = checkpoint.control.read(0, decisions_planned(checkpoint.directory, batch))
    return Decisions().followed_by(found).text


def await_orders(run: Run, count: int) -> None:
    """The driver hears reports in a thread of its own."""
    until = time.monotonic() + 60
    while time.monotonic() < until and sum(kind == "filter_order" for kind, _ in run.control.read(0, len(run.control))) < count:
        time.sleep(0.05)


@pytest.fixture
def functions(spark: SparkSession) -> None:
    for module in (witness, sql_functions):
        spark.sparkContext.addPyFile(str(module.__file__))


def test_tasks_know_what_was_decided_when_their_micro_batch_was_planned(
    spark: SparkSession, tmp_path: Path, functions: None
) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    tables = [rows(number, 100, 20) for number in range(3)]
    for number, table in enumerate(tables):
        write(tmp_path, number, table)
    run = App.from_text(TEXT.format(folder=tmp_path)).start(checkpoint.directory, spark=spark)
    try:
        run.process_all_available()
        await_orders(run, 1)
        tables.append(rows(3, 20, 100))
        write(tmp_path, 3, tables[-1])
        run.process_all_available()
        run.add("CREATE CQ even AS SELECT k FROM s WHERE k % 2 = 0 OUTPUT TO memory;")
        tables.append(rows(4, 20, 100))
        write(tmp_path, 4, tables[-1])
        run.process_all_available()
        assert sorted(row["k"] for row in answers(run, "q")) == expected(tables)
        assert sorted(row["k"] for row in answers(run, "even")) == list(range(4 * ROWS, 5 * ROWS, 2))
        (status,) = run.filters()
        assert status.operator == "AdaptiveFilter1"
        assert status.reorderings
        (reader, _) = count_readers(run.job, run.reports()[-1])
        assert reader.is_complete
        assert (reader.read, reader.used) == (5 * ROWS, len(expected(tables)))
    finally:
        run.stop()
    told = notes(tmp_path)
    by_batch = {batch: [note for note in told if note["batch"] == batch] for batch in sorted({note["batch"] for note in told})}
    for batch, found in by_batch.items():
        assert {note["where"] for note in found} == {"packing", "shard"}
        assert {note["decisions"] for note in found} == {planned(checkpoint, batch)}
    assert not by_batch[0][0]["decisions"]
    last = max(by_batch)
    assert by_batch[last][0]["decisions"]
    assert all(note["edition"] for note in by_batch[last])
    assert not any(note["edition"] for note in by_batch[0])
    _repeat(spark, tmp_path, checkpoint, last, tables)


def _repeat(spark: SparkSession, folder: Path, checkpoint: Checkpoint, last: int, tables: list[pa.Table]) -> None:
    """A crash before the last commit, and a decision after it: the repetition knows nothing of that, the next one does."""
    (newest,) = sorted(entry for entry in (checkpoint.directory / "spark" / "commits").glob("[0-9]*"))[-1:]
    assert int(newest.name) == last
    for file in (newest, newest.with_name(f".{newest.name}.crc")):
        file.unlink(missing_ok=True)
    before = planned(checkpoint, last)
    names = ["noted(k, 'packing', '{0}/notes') >= 0", "mix(k, 2) < b", "mix(k, 1) < a"]
    order = [name.format(folder) for name in names]
    checkpoint.control.append("filter_order", {"operator": "AdaptiveFilter1", "order": order})
    (folder / "notes").rename(folder / "notes before")
    more = rows(5, 20, 100)
    write(folder, 5, more)
    run = App.from_text(TEXT.format(folder=folder)).start(checkpoint.directory, spark=spark)
    try:
        run.process_all_available()
        assert sorted(row["k"] for row in answers(run, "q")) == expected([tables[-1], more])
    finally:
        run.stop()
    told = notes(folder)
    assert {note["decisions"] for note in told if note["batch"] == last} == {before}
    after = {note["decisions"] for note in told if note["batch"] == last + 1}
    assert after == {planned(checkpoint, last + 1)} != {before}
    assert Decisions.from_text(after.pop()).of("AdaptiveFilter1")[0].detail["order"] == order


def test_rows_that_no_filter_can_judge_are_refused_before_the_shuffle_and_counted(
    spark: SparkSession, tmp_path: Path, functions: None
) -> None:
    text = f"""
    CREATE FUNCTION fussy(v BIGINT) RETURNS DOUBLE USING python OPTIONS (callable 'sql_functions:fussy');
    CREATE FUNCTION mix(v BIGINT, salt BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'sql_functions:hashed', kind 'arrow');
    CREATE STREAM s (k BIGINT, a BIGINT, b BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0) USING parquet OPTIONS (path '{tmp_path}/s');
    CREATE CQ q AS SELECT /*+ ORDER(on_error = 'dead_letter', policy = 'fixed') */ k FROM s WHERE fussy(k) < 1 AND mix(k, 1) < a
    OUTPUT TO memory;
    """
    write(tmp_path, 0, rows(0, 128, 0))
    run = run_to_the_end(text, spark, tmp_path / "checkpoint", quarantine=str(tmp_path / "refused"))
    assert sorted(row["k"] for row in answers(run, "q")) == list(range(101, ROWS))
    (reader,) = count_readers(run.job, run.reports()[-1])
    assert reader.is_complete
    assert (reader.used, reader.bad, reader.filtered) == (ROWS - 101, 1, 100)
    (refused,) = pq.ParquetDataset(tmp_path / "refused").read().to_pylist()
    assert refused["reason"] == "filter-failed"
    assert refused["text"] == "filter 'fussy(k) < 1' raised ZeroDivisionError: division by zero"
    assert json.loads(refused["row"]) == {"k": 0, "a": 128}
