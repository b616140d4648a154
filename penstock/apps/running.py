"""`penstock run`: an application of the user in the foreground."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from rich.console import Console

from penstock.apps.changing import changes_text
from penstock.apps.reading import read_text
from penstock.errors import InvalidOption
from penstock.plan.catalog import Catalog
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.terminal.display import Display, Ending, JsonLines, make_display
from penstock.runners.spark.terminal.foreground import RunOptions, RunOutcome, run_in_foreground


def run_application(name: str, options: RunOptions, as_json: bool = False) -> int:
    """Run a file until its data end, its time is over or somebody stops it; returns the exit code."""
    app = App.from_text(*read_text(name))
    catalog = app.catalog
    console = Console()
    display: Display = JsonLines() if as_json else make_display(console, f"penstock run {catalog.name}", writes_to_console(catalog))
    for warning in catalog.warnings:
        display.say(f"warning: {warning}")
    if (options.checkpoint / "spark" / "commits").exists():
        display.say(f"continuing from checkpoint {options.checkpoint}")
        _say_changes(display, app, options)
    outcome = run_in_foreground(app, options, display)
    if as_json:
        print(json.dumps({"kind": "summary", **outcome.summary.to_json(), **_places(options, outcome)}))
    else:
        Ending(outcome.summary, "stopped" if outcome.signal else "ended").print_to(console)
        _say_places(console, name, options, outcome)
    return 128 + outcome.signal if outcome.signal else 0


def _say_changes(display: Display, app: App, options: RunOptions) -> None:
    """What a changed text means for its queries; nothing if all of them go on."""
    _, changes = app.following(Checkpoint(options.checkpoint), options.reset)
    for line in changes_text(changes).splitlines() if changes else ():
        display.say(line)


def _places(options: RunOptions, outcome: RunOutcome) -> dict[str, str]:
    return {"checkpoint": str(options.checkpoint), "quarantine": str(outcome.quarantine), "log": str(options.log)}


def _say_places(console: Console, name: str, options: RunOptions, outcome: RunOutcome) -> None:
    again = shlex.join(["penstock", "run", name, "--checkpoint", str(options.checkpoint)])
    lines = [f"checkpoint: {options.checkpoint}; to continue: {again}"]
    if outcome.has_refused:
        lines.append(f"quarantined rows: {outcome.quarantine}")
    lines.append(f"messages of Spark: {options.log}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def writes_to_console(catalog: Catalog) -> bool:
    """Whether answers are printed, which a table drawn in place would overwrite."""
    return any(destination.format.lower() == "console" for query in catalog.queries.values() for destination in query.destinations)


def default_checkpoint(name: str) -> Path:
    """Where a run without `--checkpoint` remembers its progress, so that the same command continues.

    Examples
    --------
    >>> default_checkpoint("jobs/fraud.sql").as_posix()
    '.penstock/fraud'
    """
    return Path(".penstock") / Path(name).stem


def parse_conf(items: list[str]) -> dict[str, str]:
    """Spark settings written `key=value`.

    Examples
    --------
    >>> parse_conf(["spark.driver.memory=2g"])
    {'spark.driver.memory': '2g'}
    """
    found = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise InvalidOption(f"'{item}' is no Spark setting; write key=value, such as spark.driver.memory=2g", "--conf")
        found[key.strip()] = value
    return found
