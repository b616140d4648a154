"""A short run that only measures: answers stay in memory, and nothing is left behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import UserError
from penstock.language.outputs import without_outputs
from penstock.runners.costs import RECORD
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.processes.session import create_session
from penstock.runners.spark.terminal.foreground import redirected

#: Parts of the time, each with its trigger: micro-batches of few and of many rows tell what a row costs and what a micro-batch.
_PHASES = ((0.5, None), (0.5, "2500 milliseconds"))
_LOOK_SECONDS = 0.2
#: Micro-batches that each part needs, those included that are not counted, and how long it may take at most.
_LEAST_BATCHES, _PATIENCE_SECONDS = 8, 120.0


def measure(text: str, name: str, seconds: float, cores: int) -> Mapping[str, Any]:
    """What micro-batches of an application cost on this machine, as a checkpoint keeps it.

    Parameters
    ----------
    seconds
        How long rows are processed; starting Spark comes on top.
    """
    app = App.from_text(without_outputs(text), name)
    with tempfile.TemporaryDirectory(prefix="penstock-trial-", ignore_cleanup_errors=True) as folder:
        place, log = Path(folder), Path(folder) / "spark.log"
        with redirected(log, 1, 2):
            spark = create_session(name, f"local[{cores}]", cores)
        try:
            with redirected(log, 2):
                for share, trigger in _PHASES:
                    run = app.start(
                        place / "checkpoint", spark=spark, shards=cores, trigger=trigger, quarantine=place / "quarantine"
                    )
                    _process(run, seconds * share)
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


def _process(run: Run, seconds: float) -> None:
    """Let it run for a time from its first micro-batch on, longer if too few come, then stop it."""
    began, first = time.monotonic(), 0.0
    try:
        while time.monotonic() < began + _PATIENCE_SECONDS:
            batches = len(run.reports())
            first = first or (time.monotonic() if batches else 0.0)
            is_over = first and time.monotonic() >= first + seconds and batches >= _LEAST_BATCHES
            if is_over or run.wait(_LOOK_SECONDS):
                return
    finally:
        run.stop()
