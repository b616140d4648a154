"""The whole Nexmark application on Spark, against DuckDB over the same events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from nexmark_reference import REFERENCE, application_text, data_of, expected, rows_of, tuples
from pyspark.sql import SparkSession

from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.processes.session import create_session

pytestmark = pytest.mark.spark

EVENTS, BATCHES = 24_000, 3


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    already = SparkSession.getActiveSession()
    folder = tmp_path_factory.mktemp("spark")
    conf = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    session = already or create_session("nexmark tests", "local[2]", conf=conf)
    yield session
    if already is None:
        session.stop()


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("nexmark")
    pace = f"total '{EVENTS}', rows_per_batch '{EVENTS // BATCHES}'"
    text = application_text().replace("max_rows_per_batch '12500'", pace)
    assert text.count(pace) == 3
    run = App.from_text(text, "nexmark").start(folder / "checkpoint", spark=spark, shards=2)
    try:
        run.process_all_available()
        run.end()
    finally:
        run.stop()
    return run


@pytest.fixture(scope="module")
def tables(finished: Run) -> dict[str, pa.Table]:
    streams = finished.catalog.streams.values()
    return {stream.name: data_of(pa.Table.from_batches(rows_of(stream, 0, EVENTS))) for stream in streams}


@pytest.mark.parametrize("query", list(REFERENCE))
def test_a_query_on_spark_answers_what_duckdb_finds(finished: Run, tables: dict[str, pa.Table], query: str) -> None:
    found = expected(query, tables)
    answers = finished.results(query)
    assert found
    assert answers is not None
    if query == "q4":  # averages: DuckDB adds in another order
        found = [(*row[:2], pytest.approx(row[2]), row[3]) for row in found]
    assert tuples(answers) == found


def test_the_joins_on_spark_keep_few_rows(finished: Run) -> None:
    # The last report follows the end, after which nothing is kept.
    kept = [report.operators for report in finished.reports()[:-1]]
    joins = {name for operators in kept for name in operators if "Join" in name}
    assert len(joins) == 4
    assert all(operators[name]["state_rows"] < 400 for operators in kept for name in joins if name in operators)
