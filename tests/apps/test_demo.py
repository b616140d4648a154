"""The demo as a user runs it: one command, a summary, exit code 0."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.apps.reading import read_catalog

pytestmark = pytest.mark.spark


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    # A short life: what the JVM's second compiler would gain it would not earn back.
    environment = {**os.environ, "TMPDIR": str(folder), "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder, start_new_session=True
    )


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []


def is_spark(process: psutil.Process) -> bool:
    """Spark's Java, and not one that is only asked for its version."""
    try:
        return "java" in process.name() and any("spark" in word for word in process.cmdline())
    except psutil.Error:
        return False


def wait_for(process: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)


def working_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            found += [process] if process.cwd() == str(folder) else []
        except psutil.Error:
            continue
    return found


def stop_group(process: subprocess.Popen[str], number: signal.Signals, folder: Path) -> tuple[str, str]:
    """As `timeout`, supervisors and terminals do; nothing that the process has started may outlive it for long."""
    assert len(working_in(folder)) > 1
    os.killpg(process.pid, number)
    told, complaints = process.communicate(timeout=120)
    assert process.returncode == 128 + number, told + complaints
    assert "defect" not in complaints
    assert psutil.wait_procs(working_in(folder), timeout=30)[1] == []
    return told, complaints


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    process = start(tmp_path_factory.mktemp("demo"), "demo", "auction", "--seconds", "8", "--json")
    told, complaints = process.communicate(timeout=500)
    assert process.returncode == 0, complaints
    assert complaints == ""
    found: dict[str, Any] = json.loads(told)
    return found


def test_every_row_of_the_demo_is_accounted_for(summary: dict[str, Any]) -> None:
    assert summary["is_complete"]
    assert summary["rows"] > 10_000
    assert len(summary["readers"]) >= 5
    for reader in summary["readers"]:
        assert reader["read"] == reader["used"] + reader["filtered"] + reader["quarantined"]


def test_every_query_of_the_demo_answers(summary: dict[str, Any]) -> None:
    answers = {query["query"]: query["rows_out"] for query in summary["queries"]}
    assert answers.keys() == set(read_catalog("auction").queries)
    # Few people bid so much.
    assert all(rows > 0 for query, rows in answers.items() if query != "big_spenders")


def test_the_demo_shows_the_state_with_and_without_punctuations(summary: dict[str, Any]) -> None:
    contrast = summary["contrast"]
    lean, full = contrast["with"], contrast["without"]
    assert (lean["query"], full["query"]) == ("bids_within_a_day", "bids_by_window_only")
    assert 0 < lean["state_rows"] < 500
    # The window is longer than the run, so that every row is still there.
    assert full["state_rows"] == contrast["rows"] > 10 * lean["state_rows"]
    assert f"{lean['state_rows']:,} rows" in contrast["text"]
    assert f"{full['state_rows']:,} rows" in contrast["text"]


def test_the_messages_of_spark_are_in_a_file(summary: dict[str, Any]) -> None:
    log = Path(summary["log"])
    assert log.exists()
    # The checkpoint of a demo is of no use to anybody.
    assert not (log.parent / "checkpoint").exists()


APPLICATION = """
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)
  USING feed OPTIONS (workload 'auction.bid', rate '500');
CREATE CQ busy AS SELECT item_id, COUNT(*) AS bids FROM bid [RANGE 2 SECONDS] GROUP BY item_id;
"""


def committed(checkpoint: Path) -> int:
    folder = checkpoint / "spark" / "commits"
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0


def test_an_interrupted_run_says_how_to_continue_and_then_does(tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_text(APPLICATION)
    process = start(tmp_path, "run", "app.sql", "--master", "local[2]", "--trigger", "1 second")
    checkpoint = tmp_path / ".penstock" / "app"
    wait_for(process, lambda: committed(checkpoint) >= 2)
    told, complaints = stop_group(process, signal.SIGTERM, tmp_path)
    assert complaints == ""
    assert "to continue: penstock run app.sql --checkpoint .penstock/app" in told

    before = committed(checkpoint)
    again = start(tmp_path, "run", "app.sql", "--checkpoint", ".penstock/app", "--seconds", "1", "--json")
    told, complaints = again.communicate(timeout=400)
    assert again.returncode == 0, complaints
    lines = [json.loads(line) for line in told.splitlines()]
    assert lines[-1]["kind"] == "summary"
    assert lines[-1]["is_complete"]
    assert committed(checkpoint) > before


def test_a_start_that_is_interrupted_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_text(APPLICATION)
    process = start(tmp_path, "run", "app.sql", "--master", "local[2]")
    wait_for(process, lambda: any(map(is_spark, family(process))))
    _, complaints = stop_group(process, signal.SIGINT, tmp_path)
    assert complaints.startswith("run.interrupted  stopped as asked for")
