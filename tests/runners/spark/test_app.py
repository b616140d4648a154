"""The same text over the same rows has the same answers in process and on Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.schema import TIMESTAMP
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.app import App, Run
from penstock.workloads.playback import Playback

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = pa.schema({"ts": TIMESTAMP, "k": pa.int64(), "i": pa.int64(), "s": pa.string(), "v": pa.float64()})
STREAMS = ("l", "r", "q")
BATCHES = 3

STREAM = """
CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, i BIGINT, s STRING, v DOUBLE, WATERMARK ts DELAY OF INTERVAL 4 SECONDS)
USING json OPTIONS (path '{path}', maxFilesPerTrigger '1');
"""

QUERIES = {
    "projected": "SELECT ts, k, i + 1 AS j, upper(s) AS u FROM l",
    "selected": "SELECT k, v FROM l WHERE v > 0.25 AND s IS NOT NULL",
    "tumbling": (
        "SELECT k, count(*) AS n, sum(v) AS total, min(i) AS low, max(s) AS high, avg(v) AS mean, stddev(v) AS spread, "
        "count(DISTINCT i) AS kinds, window_start(), window_end() FROM l [RANGE 10 SECONDS] GROUP BY k"
    ),
    "sliding": "SELECT s, sum(i) AS total, window_start() FROM r [RANGE 20 SECONDS, ADVANCE 5 SECONDS] GROUP BY s",
    "hopping": "SELECT k, count(*) AS n, window_end() FROM r [RANGE 5 SECONDS, ADVANCE 10 SECONDS] GROUP BY k",
    "landmark": "SELECT k, max(v) AS top, window_end() FROM q [LANDMARK RANGE 10 SECONDS, ADVANCE 20 SECONDS] GROUP BY k",
    "last_rows": "SELECT k, sum(i) AS total FROM l [PARTITION BY k ROW 3, ADVANCE 1] GROUP BY k",
    "all_rows": "SELECT count(*) AS n, avg(v) AS mean FROM q [ROW 7]",
    "different": "SELECT DISTINCT k, i FROM l [RANGE 10 SECONDS]",
    "united": "SELECT k, s FROM l WHERE i = 1 UNION ALL SELECT k, s FROM r WHERE i = 2",
    "many": "SELECT k, count(*) AS n FROM q [RANGE 10 SECONDS] GROUP BY k HAVING count(*) > 2 AND max(v) > 0",
    "pairs": "SELECT l.k, l.i AS li, r.i AS ri, r.s FROM l [RANGE 6 SECONDS], r [RANGE 3 SECONDS] WHERE l.k = r.k AND l.i < r.i",
    "by_text": "SELECT l.s, l.v, r.ts FROM l [RANGE 2 SECONDS], r [RANGE 2 SECONDS] WHERE l.s = r.s AND l.k = r.k",
    "triples": (
        "SELECT l.i AS a, r.i AS b, q.i AS c, q.ts FROM l [RANGE 4 SECONDS], r [RANGE 4 SECONDS], q [RANGE 4 SECONDS] "
        "WHERE l.k = r.k AND r.k = q.k"
    ),
    "again": "SELECT ri, count(*) AS n, window_start() FROM pairs [RANGE 20 SECONDS] GROUP BY ri",
    "thrice": "SELECT max(n) AS most, window_start() FROM again [RANGE 40 SECONDS]",
}


def random_rows(seed: int, rows: int = 150) -> pa.RecordBatch:
    """Times run back by at most 4 s; keys and texts are sometimes NULL; doubles are quarters, so that sums are exact."""
    rng = random.Random(seed)
    times = sorted(rng.uniform(0, 90) for _ in range(rows))
    late = sorted(times, key=lambda time: time + rng.uniform(0, 3.9))
    columns = {
        "ts": [START + timedelta(milliseconds=int(time * 1000)) for time in late],
        "k": [rng.choice([1, 2, 3, 4, 5, None]) for _ in late],
        "i": [rng.randrange(4) for _ in late],
        "s": [rng.choice(["", "a", "ä€", "long text", None]) for _ in late],
        "v": [rng.choice([-0.5, 0.0, 0.25, 3.75, None]) for _ in late],
    }
    return pa.RecordBatch.from_pydict(columns, ROWS)


def write_json(folder: Path, rows: pa.RecordBatch, files: int = BATCHES) -> None:
    """One file per micro-batch: Spark reads files in the order of their times."""
    import os

    folder.mkdir(parents=True)
    size = -(-rows.num_rows // files)
    for number in range(files):
        lines = [json.dumps(row, default=datetime.isoformat) for row in rows.slice(number * size, size).to_pylist()]
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def shown(value: Any) -> str:
    """Nine digits tell answers apart and hide in which order doubles were added; time zones have several names."""
    if isinstance(value, float):
        return format(value + 0.0, ".9g")
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else repr(value)


def bag(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return sorted(tuple(map(shown, row.values())) for row in rows)


def in_process(text: str, inputs: Mapping[str, pa.RecordBatch]) -> LocalRunner:
    runner = LocalRunner(build_job(parse_application(text), 3))
    runner.run(inputs)
    runner.end()
    return runner


def on_spark(text: str, spark: SparkSession, folder: Path, **options: Any) -> Run:
    run = App.from_text(text).start(folder / "checkpoint", spark=spark, **options)
    try:
        run.process_all_available()
        run.end()
    finally:
        run.stop()
    return run


def assert_same(run: Run, local: LocalRunner, queries: Sequence[str]) -> None:
    for query in queries:
        found = run.results(query)
        expected = bag(local.collected.rows(query))
        assert expected, f"{query} has no answers, so it proves nothing"
        assert bag(found.to_pylist() if found else []) == expected, query


def test_every_kind_of_query_has_the_same_answers_on_both_hosts(spark: SparkSession, tmp_path: Path) -> None:
    tables = {name: random_rows(seed) for seed, name in enumerate(STREAMS)}
    for name, rows in tables.items():
        write_json(tmp_path / name, rows)
    text = "".join(STREAM.format(name=name, path=tmp_path / name) for name in STREAMS)
    text += "".join(f"CREATE CQ {name} AS {query};\n" for name, query in QUERIES.items())
    local = in_process(text, tables)
    assert local.collected.refused == []
    run = on_spark(text, spark, tmp_path)
    assert_same(run, local, list(QUERIES))
    assert len(run.reports()) == BATCHES + 1
