"""State with and without punctuations as the demo shows it; no Spark session is needed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from auction_run import RATE, catalog, rows_of
from rich.console import Console

from penstock.apps.demo import Demo, print_ending, summary_json
from penstock.apps.reading import read_catalog
from penstock.apps.table import EXAMPLES
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.run_history import BatchStatus, RunHistory, Summary
from penstock.runners.spark.terminal.display import Display, Ending, LiveTable, PlainLines
from penstock.runners.spark.terminal.foreground import RunOutcome
from penstock.runners.spark.terminal.state_comparison import JoinState, MeteredDisplay, StateComparison, StateMeter

SECONDS_PER_BATCH, BATCHES = 10, 4


def compared() -> tuple[list[BatchStatus], Summary]:
    """Reports like Spark's, from a local run of the same stages; after the last one the streams have ended."""
    app = catalog()
    runner = LocalRunner(build_job(app, 2))
    history = RunHistory("auction", runner.job)
    statuses: list[BatchStatus] = []
    for batch in range(BATCHES + 1):
        start = batch * SECONDS_PER_BATCH
        if batch < BATCHES:
            runner.run({stream.name: rows_of(stream, start, start + SECONDS_PER_BATCH) for stream in app.streams.values()})
        else:
            runner.end()
        counted = runner.report()
        entries = {name: found for name, found in counted.items() if "read" in found}
        operators = {name: found for name, found in counted.items() if name not in entries}
        progress = {"timestamp": f"2026-01-01T00:00:{2 * batch:02d}.000Z"}
        statuses += history.hear([BatchReport(batch, 500, 0, operators, entries, spark=progress)])
    return statuses, history.summary()


@pytest.fixture(scope="module")
def run() -> tuple[list[BatchStatus], Summary]:
    return compared()


def no_samples(most: int) -> dict[str, list[dict[str, Any]]]:
    return {}


def twins() -> tuple[str, str]:
    found = EXAMPLES["auction"].twins
    assert found is not None
    return found


@pytest.mark.parametrize("example", [example for example in EXAMPLES.values() if example.twins])
def test_twins_are_queries_of_their_application(example: Any) -> None:
    assert set(example.twins) <= read_catalog(example.name).queries.keys()


def test_the_meter_sees_the_join_that_forgets_and_the_one_that_does_not(run: tuple[list[BatchStatus], Summary]) -> None:
    meter = StateMeter(*twins())
    meter.hear(run[0][:BATCHES])
    bids = RATE * SECONDS_PER_BATCH * BATCHES
    assert meter.now.full.state_rows == meter.now.rows > 0.95 * bids
    assert 0 < meter.now.lean.state_rows <= 150
    assert meter.now.ratio > 100
    assert meter.now.full.state_bytes > 10 * meter.now.lean.state_bytes


def test_when_the_streams_have_ended_the_meter_remembers_the_most(run: tuple[list[BatchStatus], Summary]) -> None:
    meter = StateMeter(*twins())
    meter.hear(run[0])
    assert meter.now.full.state_rows == meter.now.lean.state_rows == 0
    assert meter.most.full.state_rows == meter.most.rows > 100 * meter.most.lean.state_rows > 0
    assert meter.remark() == meter.most.sentence("kept at most")


@pytest.mark.parametrize("is_live", [True, False])
def test_lines_and_the_live_table_show_both_states_next_to_each_other(
    run: tuple[list[BatchStatus], Summary], is_live: bool
) -> None:
    meter, out = StateMeter(*twins()), io.StringIO()
    console = Console(file=out, force_terminal=is_live, width=200, height=60)
    display: Display = LiveTable(console, "demo", meter.remark) if is_live else PlainLines(console, meter.remark)
    metered = MeteredDisplay(display, meter)
    metered.show(run[0][:BATCHES], 8, no_samples)
    metered.close()
    assert meter.now.sentence("keeps") in out.getvalue()
    assert f"{meter.now.full.state_rows:,} rows" in out.getvalue()


def test_the_end_of_the_demo_says_what_punctuations_saved(run: tuple[list[BatchStatus], Summary]) -> None:
    statuses, summary = run
    meter, out = StateMeter(*twins()), io.StringIO()
    meter.hear(statuses)
    finished, outcome = Demo("auction", 1, Path("folder")), RunOutcome(summary, 0, Path("quarantine"))
    print_ending(Console(file=out, width=250), finished, outcome, meter.most)
    assert meter.most.sentence("kept at most") in out.getvalue()
    assert "Both find the same pairs." in out.getvalue()
    found = json.loads(json.dumps(summary_json(finished, outcome, meter.most)))
    assert found["contrast"]["without"]["state_rows"] > 100 * found["contrast"]["with"]["state_rows"]
    assert (found["application"], found["quarantine"]) == ("auction", "quarantine")


def test_numbers_are_whole_on_a_narrow_terminal(run: tuple[list[BatchStatus], Summary]) -> None:
    statuses, summary = run
    out = io.StringIO()
    console = Console(file=out, width=80, height=60, force_terminal=True)
    Ending(summary, "ended").print_to(console)
    table = LiveTable(console, "demo")
    table.show(statuses[:BATCHES], 8, no_samples)
    table.close()
    assert summary.readers[1].read > 10_000
    for reader in summary.readers:
        assert f"{reader.read:,}" in out.getvalue()
        assert reader.stream in out.getvalue()
    for operator in statuses[BATCHES - 1].operators:
        assert f"{operator.purged:,}" in out.getvalue()


def test_an_example_without_twins_ends_as_before(run: tuple[list[BatchStatus], Summary]) -> None:
    out = io.StringIO()
    finished, outcome = Demo("nexmark", 1, Path("folder")), RunOutcome(run[1], 0, Path("quarantine"))
    print_ending(Console(file=out, width=250), finished, outcome, None)
    assert "with punctuations" not in out.getvalue()
    assert "contrast" not in summary_json(finished, outcome, None)


def test_a_join_that_keeps_nothing_is_compared_as_if_it_kept_a_row() -> None:
    assert StateComparison(JoinState("lean"), JoinState("full", 7)).ratio == 7
