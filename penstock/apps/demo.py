"""Run an example application for a while on Spark in local mode, with nothing to prepare and nothing left running."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from penstock.apps.reading import read_text
from penstock.apps.table import example_named
from penstock.runners.spark.app import App
from penstock.runners.spark.attended import Outcome, Wishes, attend
from penstock.runners.spark.live import Display, Ending, Silence, make_display

_MASTER = "local[2]"
#: Python workers and the operators' queues are fed once a second: often enough to watch, seldom enough for two cores.
_TRIGGER = "1 second"


@dataclass(frozen=True, slots=True)
class Demo:
    """An example and the folder of one run: the checkpoint goes, messages and quarantined rows stay."""

    name: str
    seconds: float
    folder: Path

    def wishes(self) -> Wishes:
        return Wishes(
            self.folder / "checkpoint", seconds=self.seconds, ends=True, trigger=_TRIGGER, shards=2, master=_MASTER,
            quarantine=self.folder / "quarantine", log=self.folder / "spark.log",
        )  # fmt: skip

    def run(self, display: Display) -> Outcome:
        wishes = self.wishes()
        try:
            return attend(App.from_text(*read_text(self.name)), wishes, display)
        finally:
            shutil.rmtree(wishes.checkpoint, ignore_errors=True)


def run_demo(name: str, seconds: float, as_json: bool = False, is_plain: bool = False) -> int:
    """Run it, show it, print the summary; returns the exit code.

    Parameters
    ----------
    seconds
        How long rows flow; starting Spark and closing what is open come on top.
    as_json
        Print the summary as JSON and nothing else.
    is_plain
        Lines instead of a live table.
    """
    example = example_named(name)
    console = Console()
    display: Display = Silence() if as_json else make_display(console, f"penstock demo {example.name}", is_plain)
    display.say(f"{example.name}: {example.summary}")
    demo = Demo(example.name, seconds, Path(tempfile.mkdtemp(prefix="penstock-demo-")))
    outcome = demo.run(display)
    summary = outcome.summary
    places = {"log": str(demo.wishes().log), "quarantine": str(outcome.quarantine)}
    if as_json:
        print(json.dumps({**summary.to_json(), **places}))
    else:
        Ending(summary, "interrupted" if outcome.signal else "ended").print_to(console)
        console.print(
            f"quarantined rows: {places['quarantine']}\nmessages of Spark: {places['log']}", highlight=False, soft_wrap=True
        )
    if outcome.signal:
        return 128 + outcome.signal
    return 0 if summary.is_complete else 1
