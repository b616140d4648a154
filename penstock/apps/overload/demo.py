"""`penstock demo overload`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rich.console import Console

from penstock.apps.early_start import CONF, MASTER, SHARDS, log_in
from penstock.apps.overload.comparison import CONTRACTS, Outcome, Stage, compare
from penstock.apps.overload.display import OverloadDisplay
from penstock.apps.overload.figure import draw
from penstock.apps.overload.results import capacity_text, outcome_json, print_outcome
from penstock.apps.overload.timeline import Timeline
from penstock.apps.reading import read_text
from penstock.apps.table import Example
from penstock.errors import Interrupted
from penstock.runners.spark.processes.java_process import has_java_ended, kill_java
from penstock.runners.spark.processes.session import create_session
from penstock.runners.spark.terminal.foreground import redirected
from penstock.runners.spark.terminal.interrupts import Interrupt, interruptible


def run_overload(example: Example, seconds: float, folder: Path, as_json: bool, is_plain: bool) -> int:
    """Run it, show it, draw it; returns the exit code."""
    console = Console(quiet=as_json)
    console.print(f"{example.name}: {example.summary}\n{example.story}", highlight=False)
    display = OverloadDisplay(console, is_plain)
    with interruptible(at_once=kill_java) as interrupt:
        try:
            found = _run(example, folder, seconds, display, console, interrupt)
        except Interrupted as stopped:
            return 128 + stopped.signal
        finally:
            display.close()
        signal = interrupt.signal
    figure = folder / "overload.png"
    draw(found, figure)
    if as_json:
        print(json.dumps(outcome_json(found, figure)))
    else:
        print_outcome(console, found)
        console.print(f"figure: {figure}\nmessages of Spark: {log_in(folder)}", highlight=False, soft_wrap=True)
    if signal:
        return 128 + signal
    return 0 if all(run.balance.is_complete for run in found.runs) else 1


def _run(
    example: Example, folder: Path, seconds: float, display: OverloadDisplay, console: Console, interrupt: Interrupt
) -> Outcome:
    def wait(pause: float) -> None:
        if interrupt.wait(pause):
            raise Interrupted(interrupt.signal)

    def begin(outcome: Outcome) -> None:
        display.begin(outcome)
        console.print(f"{capacity_text(outcome)}\nwith contracts:", highlight=False, soft_wrap=True)

    def done(run: Timeline) -> None:
        display.close()
        text = f"{run.name}: promises broken for {run.all_broken_s:.0f} s in all queries together"
        more = "; the same load now under single strategies, with nothing left out" if run.name == CONTRACTS else ""
        console.print(text + more, highlight=False, soft_wrap=True)

    log = log_in(folder)
    console.print("starting Spark, and measuring what this machine can process: half a minute …", highlight=False)
    with redirected(log, 1, 2):
        spark = create_session(example.name, MASTER, SHARDS, CONF)
    try:
        with redirected(log, 2):
            stage = Stage(spark, read_text(example.name)[0], folder / "checkpoints", SHARDS, wait)
            return compare(stage, seconds, begin, display.show, done)
    finally:
        if not has_java_ended():
            with redirected(log, 1, 2):
                spark.stop()
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
