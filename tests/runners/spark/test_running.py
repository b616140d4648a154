"""Starting, stopping, draining, ending and restarting an application on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hosts import Row, answers, bag
from pyspark.sql import SparkSession

from penstock.errors import InvalidDeclaration, StateFormat, UserError
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.testing.undisturbed import undisturbed

pytestmark = pytest.mark.spark

FEED = "workload 'pairs', stream '{side}', rows_per_batch '200', total '{total}', partitions '2', keys '20', rows_per_step '5'"
STREAM = """
CREATE STREAM {side}s (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS ({feed}) PARTITIONED BY part POSITION off;
"""
QUERIES = """
CREATE CQ grouped AS SELECT key, count(*) AS n, sum(id) AS total FROM lefts [RANGE 30 MILLISECONDS] GROUP BY key;
CREATE CQ joined AS SELECT a.id AS a, b.id AS b FROM lefts a [RANGE 10 MILLISECONDS], rights b [RANGE 10 MILLISECONDS]
  WHERE a.key = b.key;
"""


def application(total: int = 1200, queries: str = QUERIES) -> str:
    return "".join(STREAM.format(side=side, feed=FEED.format(side=side, total=total)) for side in ("left", "right")) + queries


class Kept:
    """Answers by query and micro-batch: one that a stop interrupts is repeated under its number and counts once."""

    def __init__(self) -> None:
        self.batches: dict[str, dict[int, list[Row]]] = {"grouped": {}, "joined": {}}

    @property
    def functions(self) -> dict[str, Callable[[int, pa.Table], None]]:
        return {query: partial(self._keep, query) for query in self.batches}

    def _keep(self, query: str, epoch: int, rows: pa.Table) -> None:
        self.batches[query][epoch] = rows.to_pylist()

    def rows(self, query: str) -> list[Row]:
        return [row for rows in self.batches[query].values() for row in rows]


def wait_for(run: Run, holds: str) -> None:
    deadline = time.monotonic() + 300
    while not any(getattr(report, holds) for report in run.reports()):
        assert run.is_active, run.wait()
        assert time.monotonic() < deadline, f"no report has {holds}"
        time.sleep(0.05)


def test_a_budget_puts_work_off_and_changes_no_answer_even_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Budget and drain with three shards, then available-now under a budget; the end in a run that asks for five and gets three."""
    checkpoint, kept = tmp_path / "checkpoint", Kept()
    text = application(queries=QUERIES.replace(";", " OUTPUT TO callable;"))
    first = App.from_text(text, functions=kept.functions).start(checkpoint, spark=spark, shards=3, budget="1 us")
    wait_for(first, "backlog")
    first.drain(timeout=300)
    assert first.reports()[-1].backlog == 0
    assert not first.is_active
    # What is available now is worked off, in as many micro-batches as the budget makes of it.
    second = App.from_text(text, functions=kept.functions).start(
        checkpoint, spark=spark, available_now=True, budget="500 us", learn_prices=False
    )
    assert second.wait(300)
    assert second.reports()[-1].backlog == 0
    third = App.from_text(text, functions=kept.functions).start(checkpoint, spark=spark, shards=5)
    assert third.job.shards == 3
    third.process_all_available()
    third.end()
    local = undisturbed(text)
    for query in ("grouped", "joined"):
        assert bag(kept.rows(query)) == bag(local.collected.rows(query)), query
    decided = third.control.read(0, len(third.control))
    budgets = [(kind, detail) for kind, detail in decided if kind != "statistics"]
    assert [detail.get("ns") is not None for kind, detail in budgets if kind == "budget"] == [True, False, True, False]
    assert {kind for kind, _ in budgets} == {"budget", "end"}, "waiting rows need no decision to go on"
    assert decided[-1][0] == "end"
    with pytest.raises(UserError, match=r"were ended by an earlier run.*use a new checkpoint"):
        App.from_text(text, functions=kept.functions).start(checkpoint, spark=spark)


#: Another application, and what the refusal says about it.
CHANGED = {
    "a window": (application(queries=QUERIES.replace("RANGE 30", "RANGE 40")), "query 'grouped': .*30 milli.*, now .*40 milli"),
    "a key": (
        application(queries=QUERIES.replace("SELECT key, count", "SELECT key % 7 AS k, count").replace("BY key", "BY key % 7")),
        "query 'grouped': .*now .*key % 7",
    ),
    "an aggregate": (application(queries=QUERIES.replace("sum(id)", "max(id)")), "query 'grouped': .*now .*max"),
    "a column's type": (application().replace("key BIGINT", "key STRING"), "column 'key' of stream 'lefts' is BIGINT, now STRING"),
}


def test_a_checkpoint_refuses_what_means_something_else_and_goes_on_with_its_own(spark: SparkSession, tmp_path: Path) -> None:
    text = application(
        total=400, queries=QUERIES + "CREATE CQ since BEGIN NOW AS SELECT key, count(*) FROM lefts [RANGE 1 DAY] GROUP BY key;"
    )
    checkpoint = tmp_path / "checkpoint"
    first = App.from_text(text).start(checkpoint, spark=spark)
    first.process_all_available()
    first.stop()
    for changed, told in CHANGED.values():
        with pytest.raises(StateFormat, match=rf"(?s)means something else.*{told}.*begin anew with --reset"):
            App.from_text(changed).start(checkpoint, spark=spark)
    # BEGIN NOW was read at the first start; a restart at another time is still the same application.
    second = App.from_text(text.replace("total '400'", "total '800'")).start(checkpoint, spark=spark)
    second.process_all_available()
    second.end()
    local = undisturbed(application(total=800))
    for query in ("grouped", "joined"):
        assert bag([*answers(first, query), *answers(second, query)]) == bag(local.collected.rows(query)), query


def test_an_end_that_a_crash_interrupted_is_carried_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    text = application(total=200)
    first = App.from_text(text).start(tmp_path, spark=spark)
    first.process_all_available()
    first.stop()
    first.control.append("end")  # decided, but no micro-batch has carried it
    second = App.from_text(text).start(tmp_path, spark=spark)
    second.end()
    local = undisturbed(text)
    assert bag([*answers(first, "grouped"), *answers(second, "grouped")]) == bag(local.collected.rows("grouped"))


def test_an_idle_stream_gives_no_answers_and_no_trouble(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rights").mkdir()
    text = (
        STREAM.format(side="left", feed=FEED.format(side="left", total=400))
        + f"""
    CREATE STREAM rights (id BIGINT, key BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
      USING json OPTIONS (path '{tmp_path}/rights');"""
        + QUERIES
    )
    run = App.from_text(text).start(tmp_path / "checkpoint", spark=spark)
    run.process_all_available()
    assert answers(run, "joined") == []
    assert answers(run, "grouped")
    run.end()
    assert answers(run, "joined") == []


def test_an_application_without_queries_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match="nothing to run"):
        App.from_text(application(queries="")).start(tmp_path)


def test_available_now_keeps_the_source_s_micro_batches_and_stops_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Each source has to support it, the control stream too; otherwise Spark would take everything at once."""
    query = "CREATE CQ copied AS SELECT id FROM lefts;"
    run = App.from_text(application(600, query)).start(tmp_path / "checkpoint", spark=spark, shards=2, available_now=True)
    run.wait(300)
    assert not run.is_active
    assert len(answers(run, "copied")) == 600
    assert [report.input_rows for report in run.reports()][:3] == [200, 200, 200]
