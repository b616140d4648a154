"""Start Spark once so that later starts are quick: ``python -m penstock.apps.first_start`` writes the archive of classes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.runners.spark.processes.class_archive import archive_file, writing_archive

_DEMO = "auction"
_BATCHES, _SECONDS = 3, 120.0


def write_archive() -> Path:
    """Run a few micro-batches of an example, and keep the classes that they needed; returns the file."""
    file = archive_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        subprocess.run([sys.executable, "-m", "penstock.apps.first_start", str(draft)], check=True, stderr=subprocess.DEVNULL)
        if draft.is_file():
            draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def _run(draft: str) -> None:
    from pyspark import SparkContext

    from penstock.apps.reading import read_text
    from penstock.runners.spark.driver.app import App
    from penstock.runners.spark.processes.session import create_session

    spark = create_session("penstock", "local[2]", 2, {"spark.driver.extraJavaOptions": writing_archive(Path(draft))})
    with tempfile.TemporaryDirectory() as folder:
        run = App.from_text(*read_text(_DEMO)).start(folder, spark=spark, shards=2)
        while len(run.query.recentProgress) < _BATCHES and not run.wait(0.2):
            pass
        run.end(_SECONDS)
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    gateway.shutdown()
    java.stdin.close()
    java.wait(_SECONDS)  # it writes the file when it ends


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _run(sys.argv[1])
    else:
        write_archive()
