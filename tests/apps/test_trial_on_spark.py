"""A trial from end to end, and what a run leaves in its checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TEXT = """
CREATE STREAM tick (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'stocks.tick', rate '2000');
CREATE CQ pace AS SELECT symbol, window_end() AS until, COUNT(*) AS trades FROM tick [RANGE 1 SECOND]
WHERE volume > 250 GROUP BY symbol
OUTPUT TO parquet OPTIONS (path 'answers');
"""


def penstock(folder: Path, *arguments: str) -> str:
    found = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_trial_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "pace.sql").write_text(TEXT)
    found = json.loads(penstock(tmp_path, "plan", "pace.sql", "--trial", "8 seconds", "--rate", "tick=3000", "--json"))
    assert found["source"] == "measured by a trial run of 8 s"
    assert 1_000 < found["measured_rates"]["tick"] < 4_000
    assert 0.01 < found["queries"][0]["latency_s"] < 10
    assert 0 < found["load"] < 1
    assert found["queries"][0]["rows_in"] == pytest.approx(1_500, rel=0.1)  # half of the rows pass the condition
    assert [path.name for path in tmp_path.iterdir()] == ["pace.sql"]


def test_a_run_remembers_what_a_plan_needs(tmp_path: Path) -> None:
    (tmp_path / "pace.sql").write_text(TEXT)
    penstock(tmp_path, "run", "pace.sql", "--seconds", "12", "--json")
    text = penstock(tmp_path, "plan", "pace.sql")
    assert "as the run of .penstock/pace has measured them" in text
    assert "tick 2,0" in text or "tick 1,9" in text
    found = json.loads(penstock(tmp_path, "plan", "pace.sql", "--checkpoint", ".penstock/pace", "--json"))
    assert found["batch"]["fixed_s"] > 0
    assert found["operators"]
