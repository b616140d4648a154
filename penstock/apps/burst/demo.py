"""`penstock demo burst`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rich.console import Console

from penstock.apps.burst.comparison import Comparison, Load, compare
from penstock.apps.burst.display import ComparisonDisplay, draw, outcome_json, print_outcome
from penstock.apps.early_start import CONF, MASTER, SHARDS, log_in
from penstock.apps.reading import read_text
from penstock.apps.table import Example
from penstock.errors import Interrupted
from penstock.model.service import ChosenPolicy
from penstock.runners.spark.processes.java_process import has_java_ended, kill_java
from penstock.runners.spark.processes.session import create_session
from penstock.runners.spark.terminal.foreground import redirected
from penstock.runners.spark.terminal.interrupts import Interrupt, interruptible

#: A plain one, and the default.
POLICIES = ("round_robin", "auto")


def run_burst(example: Example, seconds: float, folder: Path, as_json: bool, is_plain: bool) -> int:
    """Run it, show it, draw it; returns the exit code."""
    console = Console(quiet=as_json)
    load = Load(seconds=seconds)
    console.print(f"{example.name}: {example.summary}\n{example.story}", highlight=False)
    display = ComparisonDisplay(console, load, is_plain)
    with interruptible(at_once=kill_java) as interrupt:
        try:
            found = _run(example, folder, load, display, console, interrupt)
        except Interrupted as stopped:
            return 128 + stopped.signal
        finally:
            display.close()
    figure = folder / "burst.png"
    draw(found, figure)
    if as_json:
        print(json.dumps(outcome_json(found, figure)))
    else:
        print_outcome(console, found)
        console.print(f"figure: {figure}\nmessages of Spark: {log_in(folder)}", highlight=False, soft_wrap=True)
    return 0 if found.are_equal else 1


def _run(
    example: Example, folder: Path, load: Load, display: ComparisonDisplay, console: Console, interrupt: Interrupt
) -> Comparison:
    def wait(seconds: float) -> None:
        if interrupt.wait(seconds):
            raise Interrupted(interrupt.signal)

    log = log_in(folder)
    console.print("starting Spark, and measuring what the queries cost …", highlight=False)
    with redirected(log, 1, 2):
        spark = create_session(example.name, MASTER, SHARDS, CONF)
    try:
        with redirected(log, 2):
            policies = {name: ChosenPolicy(name) for name in POLICIES}
            text = read_text(example.name)[0]
            return compare(spark, text, folder / "checkpoints", policies, load, display.show, wait, SHARDS)
    finally:
        if not has_java_ended():
            with redirected(log, 1, 2):
                spark.stop()
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
