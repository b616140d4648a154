"""Run the experiments of one operator and write what they have shown."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.experiments.contracts import Reproduction, Settings
from penstock.experiments.figures import draw
from penstock.experiments.report import Report, Result
from penstock.experiments.table import reproduction_named


def reproduce(reproduction: Reproduction, settings: Settings, folder: Path, progress: Progress | None = None) -> Report:
    """Run the experiments; figures, `claims.md` and `claims.json` are written to `folder`.

    Parameters
    ----------
    progress
        Told which experiment runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    task = progress.add_task(reproduction.title, total=len(reproduction.experiments)) if progress else None
    results = []
    for experiment in reproduction.experiments:
        if progress and task is not None:
            progress.update(task, description=f"{experiment.id} {experiment.title}")
        began = time.perf_counter()
        outcome = experiment.run(settings)
        results.append(Result(experiment, outcome, time.perf_counter() - began))
        draw(outcome.drawing, folder / experiment.id)
        if progress and task is not None:
            progress.advance(task)
    for name, text in reproduction.files.items():
        (folder / name).write_text(text(), encoding="utf-8")
    report = Report(reproduction, settings, tuple(results), _load())
    (folder / "claims.md").write_text(report.to_markdown(), encoding="utf-8")
    (folder / "claims.json").write_text(json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def _load() -> float:
    """Processes that wanted to run in the last quarter of an hour, per processor."""
    return os.getloadavg()[2] / (os.cpu_count() or 1)


def run_reproduction(name: str, seeds: int | None, is_quick: bool, out: Path, as_json: bool) -> None:
    """Run a reproduction with progress on the standard error output, and print the claims.

    Parameters
    ----------
    seeds
        None: as many as the reproduction says.
    """
    reproduction = reproduction_named(name)
    settings = Settings(seeds or reproduction.seeds, is_quick)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        report = reproduce(reproduction, settings, out / name, progress)
    if as_json:
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
        return
    console = Console()
    report.print_to(console)
    console.print(f"figures and claims: {out / name}", highlight=False, soft_wrap=True)
