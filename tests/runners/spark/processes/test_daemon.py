"""What Spark's workers are forked from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.runners.spark.processes.daemon import WITHOUT_THREADS
from penstock.runners.spark.processes.spark_home import home_without_archive

_PROGRAM = """
import os
from penstock.runners.spark.processes.daemon import load
load()
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are counted as Linux shows them")
def test_nothing_that_is_loaded_before_the_fork_starts_a_thread() -> None:
    found = subprocess.run([sys.executable, "-c", _PROGRAM], env={**os.environ, **WITHOUT_THREADS}, capture_output=True, check=True)
    assert found.stdout.split() == [b"1"]


def test_a_home_without_the_archive_is_lent_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for _ in range(2):  # the second finds what the first has made
        with home_without_archive():
            home = Path(os.environ["SPARK_HOME"])
            assert (home / "jars").is_dir()
            assert not (home / "python").exists()
    assert "SPARK_HOME" not in os.environ


def test_a_home_that_a_user_has_chosen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/their/spark")
    with home_without_archive():
        assert os.environ["SPARK_HOME"] == "/their/spark"


def test_workers_of_another_interpreter_get_sparks_own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    with home_without_archive():
        assert "SPARK_HOME" not in os.environ
