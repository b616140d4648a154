"""A short run that only measures: answers stay in memory, and nothing is left behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from penstock.errors import UserError
from penstock.language.outputs import without_outputs, without_promises
from penstock.runners.costs import RECORD
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.processes.session import create_session
from penstock.runners.spark.terminal.foreground import redirected

#: Each part takes a third of the time. In the first one Java compiles and nothing is measured: it is slower by a multiple. In the
#: third one micro-batches come at least so far apart, and so many times as far as those of the second: only micro-batches of few
#: and of many rows tell what a micro-batch costs from what a row costs.
_LEAST_TRIGGER_S, _TIMES = 2.5, 5.0
_LOOK_SECONDS = 0.2
#: Micro-batches that each part needs, those included that are not counted, and how long it may take at most.
_LEAST_BATCHES, _PATIENCE_SECONDS = 7, 120.0


def measure(text: str, name: str, seconds: float, cores: int) -> Mapping[str, Any]:
    """What micro-batches of an application cost on this machine, as a checkpoint keeps it.

    Promises do not count: they are what the costs are wanted for, and rows that are left out would cost nothing.

    Parameters
    ----------
    seconds
        How long rows are processed; starting Spark comes on top.
    """
    app = App.from_text(without_promises(without_outputs(text)), name)
    with tempfile.TemporaryDirectory(prefix="penstock-trial-", ignore_cleanup_errors=True) as folder:
        place, log = Path(folder), Path(folder) / "spark.log"
        with redirected(log, 1, 2):
            spark = create_session(name, f"local[{cores}]", cores)
        try:
            with redirected(log, 2):
                _process(_start(app, place / "warm-up", spark, cores), seconds / 3)
                length = _process(_start(app, place, spark, cores), seconds / 3)
                trigger = f"{round(1000 * max(_LEAST_TRIGGER_S, _TIMES * length))} milliseconds"
                _process(_start(app, place, spark, cores, trigger), seconds / 3)
        finally:
            with redirected(log, 1, 2):
                spark.stop()
        found: Mapping[str, Any] | None = Checkpoint(place / "checkpoint").recall(RECORD)
    if found is None:
        raise UserError(
            f"too few micro-batches ran within {seconds:g} s to measure anything; give the trial more time, such as "
            "--trial '60 seconds', or look whether the sources have rows"
        )
    return found


def _start(app: App, place: Path, spark: SparkSession, cores: int, trigger: str | None = None) -> Run:
    return app.start(place / "checkpoint", spark=spark, shards=cores, trigger=trigger, quarantine=place / "quarantine")


def _process(run: Run, seconds: float) -> float:
    """Let it run for a time from its first micro-batch on, longer if too few come, then stop it.

    Returns
    -------
    float
        Seconds that a micro-batch took, the median.
    """
    began, first = time.monotonic(), 0.0
    reports = run.reports()
    try:
        while time.monotonic() < began + _PATIENCE_SECONDS:
            reports = run.reports()
            first = first or (time.monotonic() if reports else 0.0)
            is_over = first and time.monotonic() >= first + seconds and len(reports) >= _LEAST_BATCHES
            if is_over or run.wait(_LOOK_SECONDS):
                break
    finally:
        run.stop()
    return median(report.duration_ms for report in reports) / 1000 if reports else 0.0
