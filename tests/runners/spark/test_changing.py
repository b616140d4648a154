"""Queries that come and go while an application runs on Spark, and between its runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.apps.changing import add_queries, drop_query, listing
from penstock.errors import InvalidDeclaration, OutOfMemory, UnknownQuery, UserError
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.checkpoints.editions import Editions
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.workloads.playback import Playback

pytestmark = pytest.mark.spark

STREAM = """
CREATE STREAM {name} (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'pairs', stream 'left', keys '20', rows_per_step '5',
  rows_per_batch '100', partitions '2'{total}) PARTITIONED BY part POSITION off;
"""
TOTAL = "CREATE CQ total AS SELECT key, count(*) AS n, max(id) AS last FROM lefts [RANGE 40 MILLISECONDS] GROUP BY key;\n"
KEYS = "CREATE CQ keys AS SELECT key, count(*) AS n, max(id) AS last FROM lefts [RANGE 40 MILLISECONDS] GROUP BY key;\n"
COUNTS = "CREATE CQ counts AS SELECT n, count(*) AS keys FROM keys [RANGE 80 MILLISECONDS] GROUP BY n;\n"
PAIRS = "CREATE CQ pairs AS SELECT l.id FROM lefts [RANGE 5 MILLISECONDS] l, lefts [RANGE 5 MILLISECONDS] r WHERE l.key = r.key;\n"
OTHER = STREAM.format(name="others", total="") + "CREATE CQ other AS SELECT id FROM others WHERE id % 100 = 7;\n"
TEXT = STREAM.format(name="lefts", total="") + TOTAL


def wait_for(run: Run, query: str, rows: int = 1) -> None:
    deadline = time.monotonic() + 120
    while (found := run.results(query)) is None or found.num_rows < rows:
        assert run.is_active, run.wait()
        assert time.monotonic() < deadline, f"no answers of {query}"
        time.sleep(0.05)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def first_tick(checkpoint: Path, query: str) -> int:
    """How far the feed had come before the micro-batch that a query began with."""
    editions, epoch = Editions(Checkpoint(checkpoint)), 0
    while query not in editions.at(epoch).edition.catalog.queries:
        epoch += 1
    if not epoch:
        return 0
    lines = (checkpoint / "spark" / "offsets" / str(epoch - 1)).read_text().splitlines()
    (offset,) = [line.partition(":")[2] for line in lines if line.startswith("stream_lefts:")]
    return int(json.loads(offset)["tick"])


def answers_since(text: str, query: str, tick: int, last_id: int) -> list[dict[str, object]]:
    """What a query must answer to the rows from a tick on, as far as groups are complete."""
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, 2, [query]))
    stream = catalog.streams["lefts"]
    feed = Playback.from_text(stream.source.options)
    runner.run({"lefts": [batch for part in feed.ranges(tick, last_id + 1) for batch in feed.batches(part, stream.schema.arrow)]})
    return runner.collected.rows(query)


def shares(run: Run) -> list[tuple[str, int]]:
    """What joins have been told of the limit of memory, for each shard."""
    decided = run.control.read(0, len(run.control))
    return [(*detail["to"], detail["bytes"]) for kind, detail in decided if kind == "memory"]


def bag(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in rows)  # type: ignore[type-var]


def test_queries_come_and_go_while_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(InvalidDeclaration, match="'3' is no size of memory"):
        App.from_text(TEXT, "app").start(checkpoint, spark=spark, shards=2, memory="3")
    run = App.from_text(TEXT, "app").start(checkpoint, spark=spark, shards=2, memory="3 MB")
    wait_for(run, "total")
    started = run.query.runId

    changes = run.add(KEYS + COUNTS)  # the same grouping as that of `total`, and one that needs another round
    assert (changes.kept, changes.fresh) == (("total",), ("keys", "counts"))
    wait_for(run, "keys", 30)
    wait_for(run, "counts")
    tick = first_tick(checkpoint, "keys")
    assert tick > 0
    assert set(bag(run.results("keys").to_pylist())) <= set(bag(answers_since(TEXT + KEYS, "keys", tick, tick + 40_000)))
    assert run.results("keys").column("last").to_numpy().min() >= tick

    with pytest.raises(InvalidDeclaration, match="read by query 'counts'; drop that one first"):
        run.drop("keys")
    with pytest.raises(UnknownQuery, match="no query 'nothing'"):
        run.drop("nothing")
    with pytest.raises(UserError, match="declared twice"):
        run.add(TOTAL.replace("40", "50"))
    assert run.drop("counts").dropped == ("counts",)
    assert run.query.runId == started, "nothing was restarted"

    # From another terminal, through the checkpoint.
    assert add_queries("CREATE CQ sevens AS SELECT id FROM lefts WHERE id % 100 = 7", checkpoint).fresh == ("sevens",)
    wait_for(run, "sevens")
    with pytest.raises(UserError, match="there is no stream or query 'nowhere'"):
        add_queries("CREATE CQ wrong AS SELECT id FROM nowhere", checkpoint)
    assert [line["name"] for line in listing(checkpoint).to_json()["queries"]] == ["total", "keys", "sevens"]
    assert listing(checkpoint).is_running

    # A join shares the limit of memory from then on; one more than it holds is refused, and leaves nothing behind.
    run.add(PAIRS)
    wait_for(run, "pairs")
    ((pairs, share),) = shares(run)
    assert 1_400_000 < share <= 1_500_000  # groupings have a little
    with pytest.raises(OutOfMemory, match="give more memory, or run fewer queries"):
        run.add("".join(PAIRS.replace("pairs", f"pairs{number}").replace("5", str(number)) for number in (1, 2, 3)))
    assert "pairs1" not in run.sinks

    # A stream that nobody has read.
    before = run.results("total").num_rows
    assert run.add(OTHER + PAIRS.replace("pairs", "more")).fresh == ("other", "more")
    assert run.query.runId != started
    (more,) = {name for name, _ in shares(run)} - {pairs}
    run.drop("pairs")
    name, share = shares(run)[-1]
    assert name == more
    assert share > 1_400_000
    wait_for(run, "other")
    wait_for(run, "total", before + 1)
    assert run.is_active
    run.stop()

    # Answers of the query that was there all the time are those of an undisturbed run.
    rows = bag(run.results("total").to_pylist())
    assert rows == [row for row in bag(answers_since(TEXT, "total", 0, 10**5)) if row in set(rows)]
    assert len(rows) == len(set(rows))

    # What came while it ran is there after a restart; what is dropped while nothing runs does not come back.
    drop_query("sevens", checkpoint)
    again = App.from_text(TEXT, "app").start(checkpoint, spark=spark)
    try:
        assert sorted(again.sinks) == ["keys", "more", "other", "total"]
        wait_for(again, "keys")
        wait_for(again, "other")
    finally:
        again.stop()


def test_a_changed_text_keeps_the_state_of_what_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, text = tmp_path / "checkpoint", STREAM.format(name="lefts", total=", total '2000'") + TOTAL + KEYS
    run = App.from_text(text, "app").start(checkpoint, spark=spark, shards=2)
    wait_for(run, "total")
    run.stop()
    found = run.results("total").to_pylist()
    changed = text.replace(KEYS, "").replace("max(id) AS last", "max(id) + 0 AS last") + COUNTS.replace("FROM keys", "FROM total")
    run = App.from_text(changed, "app").start(checkpoint, spark=spark)
    run.process_all_available()
    run.end()
    found += run.results("total").to_pylist()
    runner = LocalRunner(build_job(parse_application(text), 2, ["total"]))
    stream = parse_application(text).streams["lefts"]
    feed = Playback.from_text(stream.source.options)
    runner.run({"lefts": [batch for part in feed.ranges(0, feed.total) for batch in feed.batches(part, stream.schema.arrow)]})
    runner.end()
    assert set(bag(found)) == set(bag(runner.collected.rows("total")))


def test_the_only_query_of_spark_s_own_format_gets_company_and_is_alone_again(spark: SparkSession, tmp_path: Path) -> None:
    """Alone its answers leave as plain columns, beside others as packets; no answer may be lost where that changes."""
    checkpoint, text = tmp_path / "checkpoint", STREAM.format(name="lefts", total=", total '3000'")
    text += TOTAL.replace(";", f" OUTPUT TO json OPTIONS (path '{tmp_path}/out');")
    run = App.from_text(text, "app").start(checkpoint, spark=spark, shards=2, trigger="200 milliseconds")
    wait_until(lambda: list((tmp_path / "out").glob("epoch=*")))
    run.add(KEYS)
    wait_for(run, "keys")
    run.drop("keys")
    run.stop()
    again = App.from_text(text, "app").start(checkpoint, spark=spark)
    again.process_all_available()
    again.end()
    found = [json.loads(line) for file in (tmp_path / "out").glob("epoch=*/*.json") for line in file.read_text().splitlines()]
    runner = LocalRunner(build_job(parse_application(text), 2))
    stream = parse_application(text).streams["lefts"]
    feed = Playback.from_text(stream.source.options)
    runner.run({"lefts": [batch for part in feed.ranges(0, feed.total) for batch in feed.batches(part, stream.schema.arrow)]})
    runner.end()
    assert bag(found) == bag(runner.collected.rows("total"))
