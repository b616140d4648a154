"""The first thing a demo does: Java starts while Python still imports the operators. Imports little."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock.apps.table import example_named
from penstock.runners.spark.processes.session import SHORT_LIVED, begin_session

MASTER, SHARDS = "local[2]", 2
CONF = {"spark.driver.extraJavaOptions": SHORT_LIVED}


def begin_demo(name: str) -> Path:
    """Let Java start for an example; returns the folder of the run."""
    example = example_named(name)
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    begin_session(example.name, MASTER, SHARDS, CONF, log_in(folder))
    return folder


def log_in(folder: Path) -> Path:
    """Where the messages of Spark go."""
    return folder / "spark.log"
