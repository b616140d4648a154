"""A star of four streams on Spark: exact answers while orders of probes change, inputs are copied and a run is interrupted."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import answers
from pyspark.sql import SparkSession

from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.counters import count_readers
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.run import Run

pytestmark = pytest.mark.spark

FACTS, FILES = 6_000, 6
RANGE = 600
SIZES = {"a": RANGE, "b": RANGE, "c": RANGE, "d": RANGE}


def application(folder: Path) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (x BIGINT, y BIGINT, z STRING, n BIGINT, ts BIGINT, WATERMARK ts DELAY OF 4) "
        f"USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '1');\n"
        for name in SIZES
    )
    sources = ", ".join(f"{name} [RANGE {size}]" for name, size in SIZES.items())
    hint = "/*+ MJOIN(probability = 0.2, min_fill = 20, chunk_rows = 200, window_rows = 60) */"
    return streams + (
        f"CREATE CQ q AS SELECT {hint} a.n AS an, b.n AS bn, c.n AS cn, d.n AS dn FROM {sources} "
        "WHERE a.x = b.x AND a.y = c.y AND a.z = d.z OUTPUT TO memory;"
    )


def rows_of() -> dict[str, pa.Table]:
    """Rows of `a` seldom find a partner in `b`, later in `d`; the others send few rows, some of them without key."""
    random, at = np.random.default_rng(5), np.arange(FACTS)
    late = at >= FACTS // 2
    x = np.where(late, random.integers(0, 20, FACTS), random.integers(0, 1000, FACTS))
    z = np.where(late, random.integers(0, 1000, FACTS), random.integers(0, 20, FACTS))
    facts = {"x": x, "y": random.integers(0, 20, FACTS), "z": z.astype(str), "n": at, "ts": at}
    few = np.arange(0, FACTS, 20)
    ids = few // 20 % 20
    tables = {"a": pa.table(facts)}
    for name in "bcd":
        x = pa.array(ids, mask=random.random(len(ids)) < 0.1)
        tables[name] = pa.table({"x": x, "y": ids, "z": ids.astype(str), "n": few, "ts": few})
    return tables


def write(folder: Path, tables: dict[str, pa.Table], numbers: range) -> None:
    for name, table in tables.items():
        (folder / name).mkdir(exist_ok=True)
        size = table.num_rows // FILES
        for number in numbers:
            path = folder / name / f"{number}.parquet"
            pq.write_table(table.slice(number * size, size), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def found_by_duckdb(tables: dict[str, pa.Table]) -> list[tuple[int, ...]]:
    newest = "greatest(a.ts, b.ts, c.ts, d.ts)"
    recent = " AND ".join(f"{newest} - {name}.ts <= {size}" for name, size in SIZES.items())
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        text = f"SELECT a.n, b.n, c.n, d.n FROM a, b, c, d WHERE a.x = b.x AND a.y = c.y AND a.z = d.z AND {recent}"
        return sorted(connection.execute(text).fetchall())


def played(text: str, spark: SparkSession, checkpoint: Path, ends: bool) -> Run:
    run = App.from_text(text).start(checkpoint, spark=spark)
    try:
        run.process_all_available()
        if ends:
            run.end()
    finally:
        run.stop()
    return run


def last(run: Run) -> BatchReport:
    report = run.report()
    assert report is not None
    return report


def counted(run: Run) -> dict[str, int]:
    """Counters of the join, in all shards since the beginning."""
    return next(counters for name, counters in last(run).operators.items() if name.startswith("MJoin"))


def test_a_star_is_exact_while_orders_change_and_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    tables, text, checkpoint = rows_of(), application(tmp_path), tmp_path / "checkpoint"
    write(tmp_path, tables, range(FILES // 2))
    first = played(text, spark, checkpoint, ends=False)
    write(tmp_path, tables, range(FILES // 2, FILES))
    second = played(text, spark, checkpoint, ends=True)
    found = [tuple(row.values()) for run in (first, second) for row in answers(run, "q")]
    wanted = found_by_duckdb(tables)
    assert len(wanted) > 1000
    assert sorted(found) == wanted
    # Copies are counted once, so every row that was read was used.
    readers = count_readers(App.from_text(text).job(), last(second))
    assert {reader.stream: reader.read for reader in readers} == {name: table.num_rows for name, table in tables.items()}
    assert all(reader.is_complete for reader in readers)
    before, after = counted(first), counted(second)
    assert after["reorderings"] > before["reorderings"]
    assert after["probes"] < 2 * after["tuples"]
