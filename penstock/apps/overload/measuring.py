"""What the machine can take, measured by the queries themselves for some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.apps.overload.load import Capacity, MeasuredSize, to_measure
from penstock.runners.prices import figures
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.counters import rows_arrived
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.run import Run

TRIGGER = "500 milliseconds"
#: Rows of small and of large micro-batches, seconds of the small ones, and how many large ones are looked at. The first of each
#: are left out: workers start, loops are compiled, and what the start took has to be caught up with.
_SMALL, _LARGE, _SMALL_S, _MANY = 500, 20_000, 12.0, 8
_LEFT_OUT, _AT_MOST = 3, 2 * _SMALL
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Measured:
    """What a micro-batch takes, and what operators cost, as a decision says it."""

    capacity: Capacity
    prices: dict[str, Any]


def measured(spark: SparkSession, text: str, folder: Path, wait: Callable[[float], None], shards: int) -> Measured:
    """Run the queries for some seconds with nothing left out.

    Parameters
    ----------
    wait
        Sleeps between two looks; raises what shall end it all.
    """
    with ExitStack() as stack:
        run = App.from_text(to_measure(text, _SMALL, _LARGE, _SMALL_S), "overload").start(folder, spark, shards, TRIGGER)
        stack.callback(run.stop)
        small, large = _batches(run, wait, shards)
        prices = {node: [figures(price) for price in each] for node, each in run.prices().items()}
    return Measured(Capacity.between(MeasuredSize.of(small), MeasuredSize.of(large)), prices)


def _batches(run: Run, wait: Callable[[float], None], shards: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Rows, seconds and seconds of work of small and of large micro-batches."""
    while True:
        found = [_figures(run, report, shards) for report in run.reports()]
        large = [each for each in found if each[0] == _LARGE]
        if len(large) >= _MANY:
            small = [each for each in found if 0 < each[0] <= _AT_MOST]
            return small[_LEFT_OUT:] or small or large, large[_LEFT_OUT:]
        if not run.is_active:
            run.wait()  # raises what made it fail
        wait(LOOK_SECONDS)


def _figures(run: Run, report: BatchReport, shards: int) -> tuple[int, float, float]:
    return rows_arrived(run.job, report), report.duration_ms / 1000, report.work_ns / 1e9 / shards
