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

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import penstock
from penstock.runners.spark.java import use_java
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
    local = undisturbed(runpy.run_path(str(APP))["application"]("/nowhere"))
    for query in ("joined", "grouped"):
        files = sorted((tmp_path / "out" / query).glob("epoch=*/*.parquet"))
        found = pa.concat_tables(pq.ParquetFile(file).read() for file in files)
        assert bag(found) == sorted(tuple(row.values()) for row in local.collected.rows(query)), query
