"""Run an example application for a while on Spark in local mode, with nothing to prepare and nothing left running."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from penstock.apps.early_start import CONF, MASTER, SHARDS, log_in
from penstock.apps.reading import read_text
from penstock.apps.table import Example, example_named
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run_history import BatchStatus
from penstock.runners.spark.terminal.display import Display, Ending, Samples, Silence, make_display
from penstock.runners.spark.terminal.foreground import RunOptions, RunOutcome, run_in_foreground
from penstock.runners.spark.terminal.state_comparison import MeteredDisplay, StateComparison, StateMeter

#: Python workers and the operators' queues are fed twice a second: answers come within one, and two cores have time left.
_TRIGGER = "500 milliseconds"


#: Answers of one look at most; more than a person reads.
_MOST = 500


class SentenceDisplay:
    """Passes a run on to a display and says what is new; the rows of other queries are not shown.

    Parameters
    ----------
    query, column, time
        Whose answers are said, which of their columns is the sentence, and by which they are put in order: those of one
        micro-batch come from several shards.

    Examples
    --------
    >>> from rich.console import Console
    >>> from penstock.runners.spark.terminal.display import PlainLines
    >>> display = SentenceDisplay(PlainLines(Console()), "alerts", "alert", "noticed")
    >>> alerts = [{"alert": "Order 9 was lost", "noticed": 8}, {"alert": "Order 7 was paid twice", "noticed": 5}]
    >>> answers = {"alerts": alerts, "others": [{"alert": "unheard"}]}
    >>> for _ in range(2):
    ...     display.show([], 1.0, lambda most: answers)
    Order 7 was paid twice
    Order 9 was lost
    the first batch is under way: Python workers start and operators are compiled
    """

    def __init__(self, display: Display, query: str, column: str, time: str) -> None:
        self.display, self.query, self.column, self.time = display, query, column, time
        self.said: set[str] = set()

    def say(self, text: str) -> None:
        self.display.say(text)

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        for row in sorted(samples(_MOST).get(self.query, ()), key=lambda row: row[self.time]):
            sentence = str(row[self.column])
            if sentence not in self.said:
                self.said.add(sentence)
                self.display.say(sentence)
        self.display.show(news, seconds, _nothing)

    def close(self) -> None:
        self.display.close()


def _nothing(most: int) -> dict[str, Sequence[dict[str, object]]]:
    return {}


@dataclass(frozen=True, slots=True)
class Demo:
    """An example and the folder of one run: the checkpoint goes, messages and quarantined rows stay."""

    name: str
    seconds: float
    folder: Path

    def options(self) -> RunOptions:
        return RunOptions(
            self.folder / "checkpoint", seconds=self.seconds, ends=True, trigger=_TRIGGER, shards=SHARDS, master=MASTER,
            quarantine=self.folder / "quarantine", log=log_in(self.folder), conf=CONF,
        )  # fmt: skip

    def run(self, display: Display) -> RunOutcome:
        options = self.options()
        try:
            return run_in_foreground(App.from_text(*read_text(self.name)), options, display)
        finally:
            shutil.rmtree(options.checkpoint, ignore_errors=True)


def run_demo(name: str, seconds: float | None, folder: Path, as_json: bool = False, is_plain: bool = False) -> int:
    """Run it, show it, print the summary; returns the exit code.

    Parameters
    ----------
    folder
        As `begin_demo` has made it.
    seconds
        How long rows flow, None: as long as the example says; starting Spark and closing what is open come on top.
    as_json
        Print the summary as JSON and nothing else.
    is_plain
        Lines instead of a live table.
    """
    example = example_named(name)
    seconds = example.seconds if seconds is None else seconds
    if example.is_contrast:
        return _run_contrast(example, seconds, folder, as_json, is_plain)
    console = Console()
    meter = StateMeter(*example.twins) if example.twins else None
    title = f"penstock demo {example.name}"
    display: Display = Silence() if as_json else make_display(console, title, is_plain, meter.remark if meter else None)
    display.say(f"{example.name}: {example.summary}")
    if example.story:
        display.say(example.story)
    display = SentenceDisplay(display, *example.sentences) if example.sentences else display
    demo = Demo(example.name, seconds, folder)
    outcome = demo.run(MeteredDisplay(display, meter) if meter else display)
    comparison = meter.most if meter else None
    if as_json:
        print(json.dumps(summary_json(demo, outcome, comparison)))
    else:
        print_ending(console, demo, outcome, comparison)
    if outcome.signal:
        return 128 + outcome.signal
    return 0 if outcome.summary.is_complete else 1


def _run_contrast(example: Example, seconds: float, folder: Path, as_json: bool, is_plain: bool) -> int:
    """No other demo needs what is imported here."""
    if example.name == "overload":
        from penstock.apps.overload.demo import run_overload

        return run_overload(example, seconds, folder, as_json, is_plain)
    from penstock.apps.burst.demo import run_burst

    return run_burst(example, seconds, folder, as_json, is_plain)


def _places(demo: Demo, outcome: RunOutcome) -> dict[str, str]:
    return {"log": str(demo.options().log), "quarantine": str(outcome.quarantine)}


def summary_json(demo: Demo, outcome: RunOutcome, comparison: StateComparison | None) -> dict[str, Any]:
    """The run in figures, what punctuations saved if the example shows that, and where to look for more."""
    compared = {"contrast": comparison.to_json()} if comparison else {}
    return {**outcome.summary.to_json(), **compared, **_places(demo, outcome)}


def print_ending(console: Console, demo: Demo, outcome: RunOutcome, comparison: StateComparison | None) -> None:
    """The same for people."""
    Ending(outcome.summary, "interrupted" if outcome.signal else "ended").print_to(console)
    if comparison and comparison.rows:
        console.print(f"\n{comparison.sentence('kept at most')}", highlight=False, style="bold")
        console.print(comparison.lesson, highlight=False)
    places = _places(demo, outcome)
    lines = [f"quarantined rows: {places['quarantine']}"] if outcome.has_refused else []
    console.print("\n".join([*lines, f"messages of Spark: {places['log']}"]), highlight=False, markup=False, soft_wrap=True)
