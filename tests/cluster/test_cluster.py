"""One application on two executor processes that know Penstock only from the archive the driver ships."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
import sql_functions
import witness

import penstock
from penstock.runners.decisions import Decisions
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint, decisions_planned
from penstock.runners.spark.processes.java import use_java
from penstock.testing.undisturbed import undisturbed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = Path(__file__).with_name("app.py")


def archive(path: Path) -> Path:
    """What a user makes with `zip -r penstock.zip penstock`."""
    package = Path(penstock.__file__).parent
    with zipfile.ZipFile(path, "w") as target:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                target.write(file, file.relative_to(package.parent))
    return path


def spark_home(folder: Path) -> Path:
    """Spark's own files, and room beside them for the working directories of the executors."""
    folder.mkdir()
    for item in Path(pyspark.__file__).parent.iterdir():
        (folder / item.name).symlink_to(item)
    return folder


def bag(rows: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_two_executors_run_an_application_from_the_shipped_archive(tmp_path: Path) -> None:
    use_java()
    shipped = archive(tmp_path / "penstock.zip")
    program = shutil.copy(APP, tmp_path / "app.py")
    for module in (witness, sql_functions):
        shutil.copy(str(module.__file__), tmp_path)
    environment = {**os.environ, "SPARK_HOME": str(spark_home(tmp_path / "spark")), "PYSPARK_PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, str(program), str(shipped), str(tmp_path / "checkpoint"), str(tmp_path / "out")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["driver"].startswith(str(shipped))
    # Each executor has its own copy of the archive in its working directory.
    copies = {Path(file).parent.parent for file in said["tasks"]}
    assert {copy.name for copy in copies} == {"penstock.zip"}
    assert len(copies) == 2
    assert shipped not in copies
    _check_what_tasks_knew(tmp_path)
    local = undisturbed(runpy.run_path(str(APP))["application"]("/nowhere"))
    for query in ("joined", "grouped"):
        files = sorted((tmp_path / "out" / query).glob("epoch=*/*.parquet"))
        found = pa.concat_tables(pq.ParquetFile(file).read() for file in files)
        assert bag(found) == sorted(tuple(row.values()) for row in local.collected.rows(query)), query


def _check_what_tasks_knew(folder: Path) -> None:
    """Tasks of both executors, before and behind the shuffle, know what is in force in their micro-batch."""
    notes = [json.loads(line) for line in (folder / "out" / "notes").read_text().splitlines()]
    for place in ("packing", "shard"):
        assert len({note["folder"] for note in notes if note["where"] == place}) == 2, place
    checkpoint = Checkpoint(folder / "checkpoint")
    for note in notes:
        found = checkpoint.control.read(0, decisions_planned(checkpoint.directory, note["batch"]))
        assert note["decisions"] == Decisions().followed_by(found).text
    last = max(note["batch"] for note in notes)
    for place in ("packing", "shard"):
        mine = [note for note in notes if note["where"] == place]
        assert [bool(note["decisions"]) for note in mine if note["batch"] in (0, last)] == [
            note["batch"] == last for note in mine if note["batch"] in (0, last)
        ], place
        assert {bool(note["edition"]) for note in mine if note["batch"] == last} == {True}
        assert {bool(note["edition"]) for note in mine if note["batch"] == 0} == {False}
    found = [table["k"].to_pylist() for table in map(pq.read_table, sorted((folder / "out" / "few").glob("epoch=*/*.parquet")))]
    mixed = {salt: (np.arange(2400) * 7919 + salt) * 104729 >> 7 & 127 for salt in (1, 2)}
    assert sorted(k for part in found for k in part) == np.flatnonzero((mixed[1] < 120) & (mixed[2] < 20)).tolist()
