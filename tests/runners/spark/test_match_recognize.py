"""`MATCH_RECOGNIZE` on Spark: the answers of the same text in process, also after a restart in mid-match."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hosts import bag, json_lines, write_files
from pyspark.sql import SparkSession

from penstock.model.schema import TIMESTAMP
from penstock.runners.spark.driver.app import App
from penstock.testing.undisturbed import undisturbed

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema({"symbol": pa.string(), "price": pa.float64(), "volume": pa.int64(), "ts": TIMESTAMP})
STREAM = """
CREATE STREAM tick (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 3 SECONDS)
  USING json OPTIONS (path '{folder}/tick', maxFilesPerTrigger '1');
"""
QUERIES = {
    "valleys": """SELECT * FROM tick MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts
        MEASURES FIRST(s.ts) AS began, LAST(down.price) AS bottom, LAST(up.price) AS top, COUNT(*) AS n, MATCH_NUMBER() AS number
        AFTER MATCH SKIP TO LAST up PATTERN (s down+ up+) WITHIN INTERVAL 30 SECONDS
        DEFINE down AS price < PREV(price), up AS price > PREV(price))""",
    "batches": """SELECT * FROM tick MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts
        MEASURES CLASSIFIER() AS part, SUM(volume) AS so_far, FINAL SUM(volume) AS total ALL ROWS PER MATCH
        PATTERN (a+ b) WITHIN INTERVAL 1 MINUTE DEFINE a AS SUM(a.volume) < 12, b AS price >= FIRST(a.price))""",
    "whole": """SELECT n, last FROM tick MATCH_RECOGNIZE (
        ORDER BY ts MEASURES COUNT(*) AS n, LAST(other.symbol) AS last
        AFTER MATCH SKIP TO NEXT ROW PATTERN (one other{2}) DEFINE one AS price > PREV(price, 2))""",
}
FILES = 4


def ticks(seed: int, rows: int = 240) -> list[dict[str, Any]]:
    """Times run back by less than the bound and are all different: hosts count positions differently."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(90_000), rows), key=lambda time: time + rng.randrange(2_900))
    return [
        {
            "symbol": rng.choice("ABCDE"),
            "price": rng.choice([1.0, 2.5, 3.0, 4.0, None]),
            "volume": rng.randrange(9),
            "ts": START + timedelta(milliseconds=time),
        }
        for time in times
    ]


class Kept:
    """Answers by query and micro-batch: one that is repeated after a restart has its number and counts once."""

    def __init__(self) -> None:
        self.batches: dict[str, dict[int, list[Any]]] = {name: {} for name in QUERIES}

    @property
    def functions(self) -> dict[str, Callable[[int, pa.Table], None]]:
        return {query: partial(self._keep, query) for query in self.batches}

    def _keep(self, query: str, epoch: int, rows: pa.Table) -> None:
        before = self.batches[query].setdefault(epoch, rows.to_pylist())
        assert bag(before) == bag(rows.to_pylist()), f"the repetition of micro-batch {epoch} has other answers"

    def rows(self, query: str) -> list[Any]:
        return [row for rows in self.batches[query].values() for row in rows]


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died between the sinks and the commit log."""
    commits = checkpoint / "spark" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def test_a_restart_in_mid_match_changes_no_answer(spark: SparkSession, tmp_path: Path) -> None:
    kept, rows, size = Kept(), ticks(1), 240 // FILES
    write_files(tmp_path / "tick", "json", [json_lines(rows[at * size : (at + 1) * size]) for at in range(FILES)])
    text = STREAM.format(folder=tmp_path)
    text += "".join(f"CREATE CQ {name} AS {query} OUTPUT TO callable;\n" for name, query in QUERIES.items())
    app, checkpoint, later = App.from_text(text, functions=kept.functions), tmp_path / "checkpoint", tmp_path / "later"
    later.mkdir()
    held = [f"{number}.json" for number in range(FILES // 2, FILES)]
    for name in held:  # half of the files come after the restart
        (tmp_path / "tick" / name).rename(later / name)
    first = app.start(checkpoint, spark=spark, shards=3)
    first.process_all_available()
    first.stop()
    assert first.reports()[-1].state_rows > 10, "too little is half complete to prove anything"
    forget_last_commit(checkpoint)
    for name in held:
        (later / name).rename(tmp_path / "tick" / name)
    second = app.start(checkpoint, spark=spark)
    second.process_all_available()
    second.end()
    local = undisturbed(text, {"tick": pa.RecordBatch.from_pylist(rows, SCHEMA)}).collected
    for name in QUERIES:
        assert local.rows(name), f"{name} has no answers, so it proves nothing"
        assert bag(kept.rows(name)) == bag(local.rows(name)), name
