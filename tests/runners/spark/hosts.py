"""Helpers of the tests on Spark: run a text to its end, compare answers as bags, write rows as files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run

Row = Mapping[str, Any]


def shown(value: Any) -> str:
    """Nine digits tell answers apart and hide in which order doubles were added; time zones have several names."""
    if isinstance(value, float):
        return format(value + 0.0, ".9g")
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else repr(value)


def bag(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    return sorted(tuple(map(shown, row.values())) for row in rows)


def answers(run: Run, query: str) -> list[Row]:
    table = run.results(query)
    return table.to_pylist() if table else []


def run_to_the_end(text: str, spark: SparkSession, checkpoint: Path, **options: Any) -> Run:
    """Process what the sources have, declare the streams ended, stop."""
    run = App.from_text(text).start(checkpoint, spark=spark, **options)
    try:
        run.process_all_available()
        run.end()
    finally:
        run.stop()
    return run


def write_files(folder: Path, suffix: str, texts: Sequence[str | pa.Table]) -> None:
    """Files that Spark reads in this order: it goes by their times."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(texts):
        path = folder / f"{number}.{suffix}"
        if isinstance(content, str):
            path.write_text(content)
        else:
            pq.write_table(content, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def json_lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows)
